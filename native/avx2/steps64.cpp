// Sparse dithering of float64 with AVX2, in groups of 32 values; tails, and groups with a value
// that is not finite, go to the portable code.
#if defined(__AVX2__)

#include "avx2/loads.h"
#include "steps.h"

namespace fewbits {
namespace {

using Run = StepRun<Float64>;

__m256d load_pd(const Unaligned<uint64_t> *from) {
    return _mm256_loadu_pd(reinterpret_cast<const double *>(from));
}
__m256d size_of(__m256d x) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), x); }

// Words as the middles of their 2^-32ths of [-1/2, 1/2). Exact.
__m256d dither(__m128i word) {
    const __m128i flipped = _mm_xor_si128(word, _mm_set1_epi32(INT32_MIN));
    const __m256d middle = _mm256_add_pd(_mm256_cvtepi32_pd(flipped), _mm256_set1_pd(0.5));
    return _mm256_mul_pd(middle, _mm256_set1_pd(0x1p-32));
}

struct Rounded {
    __m128i codes; // without signs, at most 255
    int signs;
    __m256d rare; // not finite
};

template <fewbits_step_rounding rounding>
Rounded round_four(const Unaligned<uint64_t> *from, __m128i word, __m256d step) {
    constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    const __m256d x = load_pd(from);
    const __m256d t = _mm256_div_pd(x, step);
    __m256d whole;
    __m256d signs = x;
    if constexpr (rounding == FEWBITS_STEP_STOCHASTIC) {
        const __m256d uniform = _mm256_add_pd(dither(word), _mm256_set1_pd(0.5));
        whole = _mm256_floor_pd(_mm256_add_pd(size_of(t), uniform));
    } else if constexpr (rounding == FEWBITS_STEP_SUBTRACTIVE) {
        const __m256d sum = _mm256_add_pd(t, dither(word));
        whole = _mm256_round_pd(sum, nearest);
        signs = whole;
    } else {
        whole = _mm256_round_pd(t, nearest);
    }
    const __m256d codes = _mm256_min_pd(size_of(whole), _mm256_set1_pd(255.0));
    const __m256d rare = _mm256_cmp_pd(
        size_of(x), _mm256_set1_pd(std::bit_cast<double>(Float64::infinity)), _CMP_NLT_UQ);
    return {_mm256_cvtpd_epi32(codes), _mm256_movemask_pd(signs), rare};
}

template <fewbits_step_rounding rounding>
uint32_t quantise_groups(const Run &run, uint8_t *codes, uint8_t *signs, fewbits_tally &tally) {
    const __m256d step = _mm256_set1_pd(run.step);
    Words source(run.stream, run.stream.first);
    Vector most = _mm256_setzero_si256();
    uint32_t largest = 0;
    const size_t whole = run.values.size() / kGroup * kGroup;
    for (size_t i = 0; i < whole; i += kGroup) {
        const auto *const from = run.values.data() + i;
        fetch_ahead<kGroup * 8>(from);
        Vector eight[4];
        uint32_t plane = 0;
        __m256d rare = _mm256_setzero_pd();
        for (size_t j = 0; j < 4; ++j) {
            const Vector word =
                rounding == FEWBITS_STEP_NEAREST ? _mm256_setzero_si256() : source.next();
            const Rounded low =
                round_four<rounding>(from + 8 * j, _mm256_castsi256_si128(word), step);
            const Rounded high =
                round_four<rounding>(from + 8 * j + 4, _mm256_extracti128_si256(word, 1), step);
            eight[j] = _mm256_set_m128i(high.codes, low.codes);
            plane |= static_cast<uint32_t>(low.signs | high.signs << 4) << (8 * j);
            rare = _mm256_or_pd(rare, _mm256_or_pd(low.rare, high.rare));
        }
        if (_mm256_movemask_pd(rare) != 0) [[unlikely]] {
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

uint32_t quantise(const Run &run, uint8_t *codes, uint8_t *signs, fewbits_tally &tally) {
    const bool draws = run.rounding != FEWBITS_STEP_NEAREST;
    if (run.values.empty() || (draws && crosses_segment(run.stream.first, run.values.size()))) {
        return portable_steps_float64.quantise(run, codes, signs, tally);
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

// Four codes, one a byte, as numbers.
__m256d four_codes(const uint8_t *from) {
    return _mm256_cvtepi32_pd(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(load_as<int>(from))));
}

// Lane i has values i, i + 32, …; squares are whole numbers, exact in any order.
StepSums shifted_sums(In<uint64_t> values, const uint8_t *codes, int shift) {
    const Shrink by(shift);
    const __m256d first = _mm256_set1_pd(by.first);
    const __m256d second = _mm256_set1_pd(by.second);
    __m256d lanes[8];
    __m256d squares[8];
    std::fill(std::begin(lanes), std::end(lanes), _mm256_setzero_pd());
    std::fill(std::begin(squares), std::end(squares), _mm256_setzero_pd());
    const auto add = [&](const Unaligned<uint64_t> *from, const uint8_t *own) {
        for (size_t j = 0; j < 8; ++j) {
            const __m256d x = size_of(load_pd(from + 4 * j));
            const __m256d code = four_codes(own + 4 * j);
            const __m256d scaled = _mm256_mul_pd(_mm256_mul_pd(x, first), second);
            lanes[j] = _mm256_add_pd(lanes[j], _mm256_mul_pd(scaled, code));
            squares[j] = _mm256_add_pd(squares[j], _mm256_mul_pd(code, code));
        }
    };
    const size_t whole = values.size() / kGroup * kGroup;
    for (size_t i = 0; i < whole; i += kGroup) {
        add(values.data() + i, codes + i);
    }
    if (whole < values.size()) { // zeros behind the end change nothing
        Unaligned<uint64_t> rest[kGroup] = {};
        uint8_t own[kGroup] = {};
        std::copy(values.begin() + static_cast<ptrdiff_t>(whole), values.end(), rest);
        std::copy(codes + whole, codes + values.size(), own);
        add(rest, own);
    }
    return {folded(lanes), folded(squares)};
}

template <bool Dithered>
void products(const Run &run, size_t whole, const uint8_t *codes, const uint8_t *signs,
              Out<uint64_t> values) {
    const __m256d scale = _mm256_set1_pd(run.step);
    const __m256d most = _mm256_set1_pd(std::bit_cast<double>(Float64::infinity - 1));
    const __m256d least = _mm256_sub_pd(_mm256_setzero_pd(), most);
    Words source(run.stream, run.stream.first);
    for (size_t i = 0; i < whole; i += 8) {
        const Vector negative = eight_signs(signs[i / 8]);
        const Vector word = Dithered ? source.next() : _mm256_setzero_si256();
        const auto four = [&](size_t at, __m128i sign, __m128i own) {
            const __m256d flip = _mm256_castsi256_pd(
                _mm256_slli_epi64(_mm256_cvtepu32_epi64(sign), 32)); // the top bit of each
            __m256d code = _mm256_xor_pd(four_codes(codes + i + at), flip);
            if constexpr (Dithered) {
                code = _mm256_sub_pd(code, dither(own));
            }
            const __m256d y = _mm256_add_pd(_mm256_mul_pd(code, scale), _mm256_setzero_pd());
            store(values.data() + i + at,
                  _mm256_castpd_si256(_mm256_max_pd(_mm256_min_pd(y, most), least)));
        };
        four(0, _mm256_castsi256_si128(negative), _mm256_castsi256_si128(word));
        four(4, _mm256_extracti128_si256(negative, 1), _mm256_extracti128_si256(word, 1));
    }
}

void dequantise(const Run &run, const uint8_t *codes, const uint8_t *signs, Out<uint64_t> values) {
    const bool dithered = run.rounding == FEWBITS_STEP_SUBTRACTIVE;
    size_t whole = values.size() / 8 * 8;
    if (whole > 0 && dithered && crosses_segment(run.stream.first, values.size())) {
        whole = 0;
    }
    const auto kernel = dithered ? products<true> : products<false>;
    kernel(run, whole, codes, signs, values);
    dequantise_exactly(run, whole, values.size(), codes, signs, values);
}

} // namespace

constinit const StepKernels<Float64> avx2_steps_float64 = {quantise, nullptr, dequantise,
                                                           shifted_sums};

} // namespace fewbits

#endif
