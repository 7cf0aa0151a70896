// Sparse dithering of float32 and of the 16-bit formats with AVX2, in groups of 32 values; tails go
// to the portable code.
//
// Codes are found in float32. The reference divides in float64, so a value that lies within 2^-14
// of the place where its code changes is not sure: its group is done again exactly. That is one
// group in some hundreds.
#if defined(__AVX2__)

#include "steps.h"
#include "avx2/loads.h"

namespace fewbits {
namespace {

constexpr float kSure = 0.5f - 0x1p-14f;

// A step whose inverse is finite. The products' relative error is below 2^-22.9, at most 3.3e-5 for
// codes up to 254, and 4.9e-5 after a dither has been added. Inverses of the largest steps are
// subnormal and less exact, but there the codes are at most 4.
bool ordinary(float step) { return step >= 0x1p-126f; }

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

template <class F, fewbits_step_rounding rounding>
Rounded round_eight(const Unaligned<typename F::Bits> *from, Words &source, const Rounder &own) {
    const __m256 x = _mm256_castsi256_ps(load_float32<F>(from));
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

template <class F, fewbits_step_rounding rounding>
uint32_t quantise_groups(const StepRun<F> &run, uint8_t *codes, uint8_t *signs,
                         fewbits_tally &tally) {
    const Rounder own(run.step);
    Words source(run.stream, run.stream.first);
    Vector most = _mm256_setzero_si256();
    uint32_t largest = 0;
    const size_t whole = run.values.size() / kGroup * kGroup;
    for (size_t i = 0; i < whole; i += kGroup) {
        const auto *const from = run.values.data() + i;
        fetch_ahead<kGroup * sizeof(*from)>(from);
        Vector eight[4];
        uint32_t plane = 0;
        __m256 unsure = _mm256_setzero_ps();
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
            const Rounded found = round_eight<F, rounding>(from + 8 * j, source, own);
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

template <class F>
uint32_t quantise(const StepRun<F> &run, uint8_t *codes, uint8_t *signs, fewbits_tally &tally) {
    const bool draws = run.rounding != FEWBITS_STEP_NEAREST;
    if (!ordinary(run.step) || (draws && crosses_segment(run.stream.first, run.values.size()))) {
        return portable_steps<F>().quantise(run, codes, signs, tally);
    }
    switch (run.rounding) {
    case FEWBITS_STEP_STOCHASTIC:
        return quantise_groups<F, FEWBITS_STEP_STOCHASTIC>(run, codes, signs, tally);
    case FEWBITS_STEP_NEAREST:
        return quantise_groups<F, FEWBITS_STEP_NEAREST>(run, codes, signs, tally);
    default:
        return quantise_groups<F, FEWBITS_STEP_SUBTRACTIVE>(run, codes, signs, tally);
    }
}

// ---- sums ----

Vector eight_codes(const uint8_t *from) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(from)));
}

// Lane i has values i, i + 32, …; a lane of the squares grows by at most 2 * 254^2 for every 16
// values, so a run of 65,536 fits.
template <class F>
void add_group(const Unaligned<typename F::Bits> *values, const uint8_t *codes, __m256d (&lanes)[8],
               Vector &squares) {
    for (size_t j = 0; j < 4; ++j) {
        const Vector code = eight_codes(codes + 8 * j);
        const __m256 x = _mm256_castsi256_ps(
            _mm256_and_si256(load_float32<F>(values + 8 * j), all(0x7FFFFFFFu)));
        const __m256d low = _mm256_mul_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(x)),
                                          _mm256_cvtepi32_pd(_mm256_castsi256_si128(code)));
        const __m256d high = _mm256_mul_pd(_mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)),
                                           _mm256_cvtepi32_pd(_mm256_extracti128_si256(code, 1)));
        lanes[2 * j] = _mm256_add_pd(lanes[2 * j], low);
        lanes[2 * j + 1] = _mm256_add_pd(lanes[2 * j + 1], high);
        squares = _mm256_add_epi32(squares, _mm256_madd_epi16(code, code));
    }
}

template <class F> StepSums sums(In<typename F::Bits> values, const uint8_t *codes) {
    __m256d lanes[8];
    std::fill(std::begin(lanes), std::end(lanes), _mm256_setzero_pd());
    Vector squares = _mm256_setzero_si256();
    const size_t whole = values.size() / kGroup * kGroup;
    for (size_t i = 0; i < whole; i += kGroup) {
        add_group<F>(values.data() + i, codes + i, lanes, squares);
    }
    if (whole < values.size()) { // zeros behind the end change nothing
        Unaligned<typename F::Bits> rest[kGroup] = {};
        uint8_t own[kGroup] = {};
        std::copy(values.begin() + static_cast<ptrdiff_t>(whole), values.end(), rest);
        std::copy(codes + whole, codes + values.size(), own);
        add_group<F>(rest, own, lanes, squares);
    }
    uint32_t each[8];
    store(each, squares);
    uint64_t total = 0;
    for (const uint32_t lane : each) {
        total += lane;
    }
    return {folded(lanes), static_cast<double>(total)};
}

// ---- values ----

// A product of a code and a scale has at most 40 bits, so one multiplication in float32 rounds as
// the reference does.
void multiply(const StepRun<Float32> &run, size_t whole, const uint8_t *codes, const uint8_t *signs,
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

// Values of a format. Products come in float64, and are rounded once.
template <class F> struct Narrow {
    const __m256d most = _mm256_set1_pd(widened<F>(static_cast<typename F::Bits>(F::infinity - 1)));
    const __m256d least = _mm256_sub_pd(_mm256_setzero_pd(), most);

    __m256d within(__m256d y) const {
        return _mm256_max_pd(_mm256_min_pd(_mm256_add_pd(y, _mm256_setzero_pd()), most), least);
    }

    // To float32, where an inexact result has an odd last bit and is not the larger of its two
    // neighbours: another rounding to fewer bits is then as if it were the only one.
    static __m128i odd(__m256d y) {
        const __m128 near = _mm256_cvtpd_ps(y);
        const __m256d back = _mm256_cvtps_pd(near);
        const __m256d sign = _mm256_set1_pd(-0.0);
        const __m256d beyond =
            _mm256_cmp_pd(_mm256_andnot_pd(sign, back), _mm256_andnot_pd(sign, y), _CMP_GT_OQ);
        const __m256d inexact = _mm256_cmp_pd(back, y, _CMP_NEQ_OQ);
        const __m128i cut = _mm_add_epi32(_mm_castps_si128(near), halves(beyond)); // -1 or 0
        return _mm_or_si128(cut, _mm_srli_epi32(halves(inexact), 31));
    }
    // Masks of 64 bits to masks of 32.
    static __m128i halves(__m256d mask) {
        const __m256 own = _mm256_castpd_ps(mask);
        return _mm_castps_si128(
            _mm_shuffle_ps(_mm256_castps256_ps128(own), _mm256_extractf128_ps(own, 1), 0x88));
    }

    void store_eight(Unaligned<typename F::Bits> *to, __m256d low, __m256d high) const {
        low = within(low);
        high = within(high);
        if constexpr (sizeof(typename F::Bits) == 4) {
            const __m256 both = _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low));
            store(to, _mm256_castps_si256(both));
        } else {
            const Vector both = _mm256_set_m128i(odd(high), odd(low));
            __m128i result;
            if constexpr (std::is_same_v<F, Float16>) {
                result = _mm256_cvtps_ph(_mm256_castsi256_ps(both),
                                         _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
            } else {
                const Vector even = _mm256_and_si256(_mm256_srli_epi32(both, 16), all(1));
                const Vector up = _mm256_add_epi32(both, _mm256_add_epi32(even, all(0x7FFF)));
                const Vector words = _mm256_srli_epi32(up, 16);
                result = _mm_packus_epi32(_mm256_castsi256_si128(words),
                                          _mm256_extracti128_si256(words, 1));
            }
            _mm_storeu_si128(reinterpret_cast<__m128i *>(to), result);
        }
    }
};

// Four codes less a dither; both have at most 33 bits, and the difference is exact.
template <bool Dithered> __m256d product(__m128i codes, __m128i word, __m256d scale) {
    __m256d code = _mm256_cvtepi32_pd(codes);
    if constexpr (Dithered) {
        const __m256d middle = _mm256_add_pd(_mm256_cvtepi32_pd(word), _mm256_set1_pd(0.5));
        code = _mm256_sub_pd(code, _mm256_mul_pd(middle, _mm256_set1_pd(0x1p-32)));
    }
    return _mm256_mul_pd(code, scale);
}

template <class F, bool Dithered>
void products(const StepRun<F> &run, size_t whole, const uint8_t *codes, const uint8_t *signs,
              Out<typename F::Bits> values) {
    const Narrow<F> narrow;
    const __m256d scale = _mm256_set1_pd(run.step);
    const Vector flip = pinned(0x80000000u);
    Words source(run.stream, run.stream.first);
    for (size_t i = 0; i < whole; i += 8) {
        const Vector negative = _mm256_srai_epi32(eight_signs(signs[i / 8]), 31);
        const Vector code =
            _mm256_sub_epi32(_mm256_xor_si256(eight_codes(codes + i), negative), negative);
        const Vector word = Dithered ? _mm256_xor_si256(source.next(), flip) : flip;
        narrow.store_eight(
            values.data() + i,
            product<Dithered>(_mm256_castsi256_si128(code), _mm256_castsi256_si128(word), scale),
            product<Dithered>(_mm256_extracti128_si256(code, 1), _mm256_extracti128_si256(word, 1),
                              scale));
    }
}

// Eight float32 numbers to a 16-bit format; they are within its range.
template <class F> __m128i to_words(__m256 y) {
    if constexpr (std::is_same_v<F, Float16>) {
        return _mm256_cvtps_ph(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    } else {
        const Vector bits = _mm256_castps_si256(y);
        const Vector even = _mm256_and_si256(_mm256_srli_epi32(bits, 16), all(1));
        const Vector up = _mm256_add_epi32(bits, _mm256_add_epi32(even, all(0x7FFF)));
        const Vector words = _mm256_srli_epi32(up, 16);
        return _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    }
}

// Whether products of all codes in a byte are within the format's range and float32's normal one.
template <class F> bool moderate(float step) {
    return std::is_same_v<F, Float16> ? step >= 0x1p-60f && step <= 250.0f
                                      : step >= 0x1p-60f && step <= 0x1p100f;
}

// Values of a 16-bit format by products in float32, whose relative error is below 2^-22. If a
// number a little smaller and one a little larger have the same neighbour, it is the product's too;
// else eight values are found exactly.
template <class F, bool Dithered>
void quick_products(const StepRun<F> &run, size_t whole, const uint8_t *codes, const uint8_t *signs,
                    Out<typename F::Bits> values) {
    const __m256 scale = _mm256_set1_ps(run.step);
    const __m256 less = _mm256_castsi256_ps(pinned(std::bit_cast<uint32_t>(1 - 0x1p-21f)));
    const __m256 more = _mm256_castsi256_ps(pinned(std::bit_cast<uint32_t>(1 + 0x1p-21f)));
    const __m256 share = _mm256_castsi256_ps(pinned(std::bit_cast<uint32_t>(0x1p-32f)));
    const __m256 half = _mm256_castsi256_ps(pinned(std::bit_cast<uint32_t>(0.5f)));
    const Vector flip = pinned(0x80000000u);
    Words source(run.stream, run.stream.first);
    for (size_t i = 0; i < whole; i += 8) {
        const __m256 size = _mm256_cvtepi32_ps(eight_codes(codes + i));
        __m256 code = _mm256_xor_ps(size, _mm256_castsi256_ps(eight_signs(signs[i / 8])));
        if constexpr (Dithered) {
            const __m256 word = _mm256_cvtepi32_ps(_mm256_xor_si256(source.next(), flip));
            code = _mm256_sub_ps(code, _mm256_mul_ps(_mm256_add_ps(word, half), share));
        }
        const __m256 y = _mm256_mul_ps(code, scale);
        const __m128i low = to_words<F>(_mm256_mul_ps(y, less));
        const __m128i high = to_words<F>(_mm256_mul_ps(y, more));
        _mm_storeu_si128(reinterpret_cast<__m128i *>(values.data() + i), low);
        if (_mm_movemask_epi8(_mm_cmpeq_epi16(low, high)) != 0xFFFF) [[unlikely]] {
            dequantise_exactly(run, i, i + 8, codes, signs, values);
        }
    }
}

template <class F, bool Dithered>
void products_of(const StepRun<F> &run, size_t whole, const uint8_t *codes, const uint8_t *signs,
                 Out<typename F::Bits> values) {
    if constexpr (!std::is_same_v<F, Float32>) {
        if (moderate<F>(run.step)) {
            return quick_products<F, Dithered>(run, whole, codes, signs, values);
        }
    }
    products<F, Dithered>(run, whole, codes, signs, values);
}

template <class F>
void dequantise(const StepRun<F> &run, const uint8_t *codes, const uint8_t *signs,
                Out<typename F::Bits> values) {
    const size_t whole = values.size() / 8 * 8;
    size_t done = 0;
    if (run.rounding != FEWBITS_STEP_SUBTRACTIVE) {
        if (run.step > 0.0f) {
            if constexpr (std::is_same_v<F, Float32>) {
                multiply(run, whole, codes, signs, values);
            } else {
                products_of<F, false>(run, whole, codes, signs, values);
            }
            done = whole;
        }
    } else if (values.size() > 0 && !crosses_segment(run.stream.first, values.size())) {
        products_of<F, true>(run, whole, codes, signs, values);
        done = whole;
    }
    dequantise_exactly(run, done, values.size(), codes, signs, values);
}

template <class F> constexpr StepKernels<F> kernels_of = {quantise<F>, sums<F>, dequantise<F>};

} // namespace

constinit const StepKernels<Float32> avx2_steps_float32 = kernels_of<Float32>;
constinit const StepKernels<Float16> avx2_steps_float16 = kernels_of<Float16>;
constinit const StepKernels<Bfloat16> avx2_steps_bfloat16 = kernels_of<Bfloat16>;

} // namespace fewbits

#endif
