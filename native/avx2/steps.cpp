// Sparse dithering with AVX2, in groups of 32 values; tails go to the portable code.
//
// Codes are found in float32. The reference divides in float64, so a value that lies within 2^-14
// of the place where its code changes is not sure: its group is done again exactly. That is one
// group in some hundreds.
#if defined(__AVX2__)

#include "steps.h"
#include "avx2/avx2.h"

namespace fewbits {
namespace {

constexpr float kSure = 0.5f - 0x1p-14f;

// A step whose inverse is finite. The products' relative error is below 2^-22.9, at most 3.3e-5 for
// codes up to 254, and 4.9e-5 after a dither has been added. Inverses of the largest steps are
// subnormal and less exact, but there the codes are at most 4.
bool ordinary(const StepRun &run) { return run.step >= 0x1p-126f; }

// Constants of a run, kept in registers or on the stack.
struct Rounder {
    const __m256 inverse, magnitude = _mm256_castsi256_ps(pinned(0x7FFFFFFFu)),
                          sure = _mm256_castsi256_ps(pinned(std::bit_cast<uint32_t>(kSure))),
                          most = _mm256_castsi256_ps(pinned(std::bit_cast<uint32_t>(255.0f))),
                          share = _mm256_castsi256_ps(pinned(std::bit_cast<uint32_t>(0x1p-32f)));
    const Vector flip = pinned(0x80000000u);

    explicit Rounder(float step) : inverse(_mm256_set1_ps(static_cast<float>(1.0 / step))) {}

    // The dither of a word, from -1/2 to 1/2.
    __m256 dither(Vector word) const {
        return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_xor_si256(word, flip)), share);
    }
    __m256 size(__m256 x) const { return _mm256_and_ps(x, magnitude); }
};

struct Rounded {
    __m256 codes; // whole numbers, without signs
    __m256 signs;
    __m256 unsure;
};

template <fewbits_step_rounding rounding>
Rounded round_eight(const Unaligned<uint32_t> *from, Words &source, const Rounder &own) {
    const __m256 x = _mm256_castsi256_ps(load(from));
    __m256 t = _mm256_mul_ps(x, own.inverse);
    __m256 signs = x;
    if constexpr (rounding == FEWBITS_STEP_STOCHASTIC) {
        // floor(|t| + u) is the nearest integer to |t| + (u - 1/2), but for ties, which are unsure.
        t = _mm256_add_ps(own.size(t), own.dither(source.next()));
    } else if constexpr (rounding == FEWBITS_STEP_SUBTRACTIVE) {
        t = _mm256_add_ps(t, own.dither(source.next()));
        signs = t;
    }
    const __m256 nearest = _mm256_round_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256 away = own.size(_mm256_sub_ps(t, nearest));
    const __m256 codes = _mm256_min_ps(own.size(nearest), own.most); // 255 for a NaN
    // Not less or equal: true for NaN too.
    return {codes, signs, _mm256_cmp_ps(away, own.sure, _CMP_NLE_UQ)};
}

template <fewbits_step_rounding rounding>
uint32_t quantise_groups(const StepRun &run, uint8_t *codes, uint8_t *signs, fewbits_tally &tally) {
    const Rounder own(run.step);
    Words source(run.stream, run.stream.first);
    Vector most = _mm256_setzero_si256();
    uint32_t largest = 0;
    const size_t whole = run.values.size() / kGroup * kGroup;
    for (size_t i = 0; i < whole; i += kGroup) {
        const auto *const from = run.values.data() + i;
        fetch_ahead<kGroup * 4>(from);
        Vector eight[4];
        uint32_t plane = 0;
        __m256 unsure = _mm256_setzero_ps();
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
            const Rounded found = round_eight<rounding>(from + 8 * j, source, own);
            eight[j] = _mm256_cvtps_epi32(found.codes);
            plane |= static_cast<uint32_t>(_mm256_movemask_ps(found.signs)) << (8 * j);
            unsure = _mm256_or_ps(unsure, found.unsure);
        }
        if (_mm256_movemask_ps(unsure) != 0) [[unlikely]] {
            largest = std::max(largest, quantise_exactly(run, i, i + kGroup, codes, signs, tally));
            continue;
        }
        const Vector mixed = _mm256_packus_epi16(_mm256_packus_epi32(eight[0], eight[1]),
                                                 _mm256_packus_epi32(eight[2], eight[3]));
        const Vector bytes =
            _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        most = _mm256_max_epu8(most, bytes);
        store(codes + i, bytes);
        std::memcpy(signs + i / 8, &plane, 4);
    }
    uint8_t each[kGroup];
    store(each, most);
    largest = std::max<uint32_t>(largest, *std::max_element(std::begin(each), std::end(each)));
    return std::max(largest, quantise_exactly(run, whole, run.values.size(), codes, signs, tally));
}

uint32_t quantise(const StepRun &run, uint8_t *codes, uint8_t *signs, fewbits_tally &tally) {
    const bool draws = run.rounding != FEWBITS_STEP_NEAREST;
    if (!ordinary(run) || (draws && crosses_segment(run.stream.first, run.values.size()))) {
        return portable_steps.quantise(run, codes, signs, tally);
    }
    switch (run.rounding) {
    case FEWBITS_STEP_STOCHASTIC:
        return quantise_groups<FEWBITS_STEP_STOCHASTIC>(run, codes, signs, tally);
    case FEWBITS_STEP_NEAREST:
        return quantise_groups<FEWBITS_STEP_NEAREST>(run, codes, signs, tally);
    default:
        return quantise_groups<FEWBITS_STEP_SUBTRACTIVE>(run, codes, signs, tally);
    }
}

// ---- sums ----

Vector eight_codes(const uint8_t *from) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(from)));
}

// Lane i has values i, i + 32, …; a lane of the squares grows by at most 2 * 254^2 for every 16
// values, so a run of 65,536 fits.
void add_group(const Unaligned<uint32_t> *values, const uint8_t *codes, __m256d (&lanes)[8],
               Vector &squares) {
    for (size_t j = 0; j < 4; ++j) {
        const Vector code = eight_codes(codes + 8 * j);
        const __m256 x =
            _mm256_castsi256_ps(_mm256_and_si256(load(values + 8 * j), all(0x7FFFFFFFu)));
        const __m256d low = _mm256_mul_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(x)),
                                          _mm256_cvtepi32_pd(_mm256_castsi256_si128(code)));
        const __m256d high = _mm256_mul_pd(_mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)),
                                           _mm256_cvtepi32_pd(_mm256_extracti128_si256(code, 1)));
        lanes[2 * j] = _mm256_add_pd(lanes[2 * j], low);
        lanes[2 * j + 1] = _mm256_add_pd(lanes[2 * j + 1], high);
        squares = _mm256_add_epi32(squares, _mm256_madd_epi16(code, code));
    }
}

StepSums sums(In<uint32_t> values, const uint8_t *codes) {
    __m256d lanes[8];
    std::fill(std::begin(lanes), std::end(lanes), _mm256_setzero_pd());
    Vector squares = _mm256_setzero_si256();
    const size_t whole = values.size() / kGroup * kGroup;
    for (size_t i = 0; i < whole; i += kGroup) {
        add_group(values.data() + i, codes + i, lanes, squares);
    }
    if (whole < values.size()) { // zeros behind the end change nothing
        Unaligned<uint32_t> rest[kGroup] = {};
        uint8_t own[kGroup] = {};
        std::copy(values.begin() + static_cast<ptrdiff_t>(whole), values.end(), rest);
        std::copy(codes + whole, codes + values.size(), own);
        add_group(rest, own, lanes, squares);
    }
    for (size_t half = 4; half > 0; half /= 2) {
        for (size_t i = 0; i < half; ++i) {
            lanes[i] = _mm256_add_pd(lanes[i], lanes[i + half]);
        }
    }
    const __m128d pair =
        _mm_add_pd(_mm256_castpd256_pd128(lanes[0]), _mm256_extractf128_pd(lanes[0], 1));
    uint32_t each[8];
    store(each, squares);
    uint64_t total = 0;
    for (const uint32_t lane : each) {
        total += lane;
    }
    return {_mm_cvtsd_f64(_mm_add_sd(pair, _mm_unpackhi_pd(pair, pair))),
            static_cast<double>(total)};
}

// ---- values ----

// A product of a code and a scale has at most 40 bits, so one multiplication in float32 rounds as
// the reference does.
void multiply(const StepRun &run, size_t whole, const uint8_t *codes, const uint8_t *signs,
              Out<uint32_t> values) {
    const __m256 scale = _mm256_set1_ps(run.step);
    const __m256 most = _mm256_set1_ps(0x1.fffffep127f);
    for (size_t i = 0; i < whole; i += 8) {
        const __m256 code = _mm256_cvtepi32_ps(eight_codes(codes + i));
        const __m256 y = _mm256_min_ps(_mm256_mul_ps(code, scale), most);
        store(values.data() + i,
              _mm256_xor_si256(_mm256_castps_si256(y), eight_signs(signs[i / 8])));
    }
}

// Four values of codes less a dither; both have at most 33 bits, and the difference is exact.
__m128 four_values(__m128i codes, __m128i word, __m256d scale) {
    const __m256d middle = _mm256_add_pd(_mm256_cvtepi32_pd(word), _mm256_set1_pd(0.5));
    const __m256d dither = _mm256_mul_pd(middle, _mm256_set1_pd(0x1p-32));
    const __m256d y = _mm256_mul_pd(_mm256_sub_pd(_mm256_cvtepi32_pd(codes), dither), scale);
    const __m256d most = _mm256_set1_pd(0x1.fffffep127);
    const __m256d least = _mm256_set1_pd(-0x1.fffffep127);
    const __m256d plain = _mm256_add_pd(y, _mm256_setzero_pd()); // no -0
    return _mm256_cvtpd_ps(_mm256_max_pd(_mm256_min_pd(plain, most), least));
}

void subtract(const StepRun &run, size_t whole, const uint8_t *codes, const uint8_t *signs,
              Out<uint32_t> values) {
    const __m256d scale = _mm256_set1_pd(run.step);
    const Vector flip = pinned(0x80000000u);
    Words source(run.stream, run.stream.first);
    for (size_t i = 0; i < whole; i += 8) {
        const Vector negative = _mm256_srai_epi32(eight_signs(signs[i / 8]), 31);
        const Vector code =
            _mm256_sub_epi32(_mm256_xor_si256(eight_codes(codes + i), negative), negative);
        const Vector word = _mm256_xor_si256(source.next(), flip);
        const __m128 low =
            four_values(_mm256_castsi256_si128(code), _mm256_castsi256_si128(word), scale);
        const __m128 high = four_values(_mm256_extracti128_si256(code, 1),
                                        _mm256_extracti128_si256(word, 1), scale);
        store(values.data() + i, _mm256_castps_si256(_mm256_set_m128(high, low)));
    }
}

void dequantise(const StepRun &run, const uint8_t *codes, const uint8_t *signs,
                Out<uint32_t> values) {
    const size_t whole = values.size() / 8 * 8;
    size_t done = 0;
    if (run.rounding != FEWBITS_STEP_SUBTRACTIVE) {
        if (run.step > 0.0f) {
            multiply(run, whole, codes, signs, values);
            done = whole;
        }
    } else if (values.size() > 0 && !crosses_segment(run.stream.first, values.size())) {
        subtract(run, whole, codes, signs, values);
        done = whole;
    }
    dequantise_exactly(run, done, values.size(), codes, signs, values);
}

} // namespace

constinit const StepKernels avx2_steps = {quantise, sums, dequantise};

} // namespace fewbits

#endif
