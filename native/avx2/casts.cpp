// Casts with AVX2: groups of 32 elements; a group with a rare value goes to the portable table.
#if defined(__AVX2__)

#include "avx2/loads.h"

namespace fewbits {
namespace {

// Whole vectors through `convert`, which returns false to decline; the rest through `rare`.
template <class From, class To, class Convert>
void cast_vectors(In<typename From::Bits> input, Out<typename To::Bits> output,
                  fewbits_tally &tally, Cast<From, To> rare, Convert convert) {
    constexpr size_t step = kGroup;
    const size_t whole = input.size() / step * step;
    for (size_t i = 0; i < whole; i += step) {
        if (!convert(input.data() + i, output.data() + i)) {
            rare(input.subspan(i, step), output.subspan(i, step), tally);
        }
    }
    rare(input.subspan(whole), output.subspan(whole), tally);
}

template <class Bits> Vector above(Vector bits, Bits limit) { // lanes whose magnitude is greater
    if constexpr (sizeof(Bits) == 8) {
        const Vector magnitude = _mm256_and_si256(bits, _mm256_set1_epi64x(INT64_MAX));
        return _mm256_cmpgt_epi64(magnitude, _mm256_set1_epi64x(static_cast<long long>(limit)));
    } else if constexpr (sizeof(Bits) == 4) {
        const Vector magnitude = _mm256_and_si256(bits, all(0x7FFFFFFFu));
        return _mm256_cmpgt_epi32(magnitude, all(limit));
    } else {
        const Vector magnitude = _mm256_and_si256(bits, _mm256_set1_epi16(0x7FFF));
        return _mm256_cmpgt_epi16(magnitude, _mm256_set1_epi16(static_cast<short>(limit)));
    }
}

template <class F>
void copy(In<typename F::Bits> input, Out<typename F::Bits> output, fewbits_tally &tally) {
    using Bits = typename F::Bits;
    cast_vectors<F, F>(input, output, tally, portable_casts.between<F, F>(),
                       [](const Unaligned<Bits> *from, Unaligned<Bits> *to) {
                           Vector rare = _mm256_setzero_si256();
                           for (size_t i = 0; i < kGroup; i += 32 / sizeof(Bits)) {
                               const Vector bits = load(from + i);
                               rare = _mm256_or_si256(rare, above<Bits>(bits, F::infinity - 1));
                               store(to + i, bits);
                           }
                           return !any(rare);
                       });
}

// ---- between formats, by way of float32 ----

// Rounded to odd: a second rounding, to fewer bits, then gives what one would have given. Exact
// where float32 has its 24 bits.
__m256d odd_float32(__m256d x) {
    const Vector bits = _mm256_castpd_si256(x);
    const Vector rest = _mm256_set1_epi64x((1 << 29) - 1);
    const Vector sticky = _mm256_add_epi64(_mm256_and_si256(bits, rest), rest); // a carry, unless 0
    return _mm256_castsi256_pd(_mm256_andnot_si256(rest, _mm256_or_si256(bits, sticky)));
}

// Eight values as float32 numbers; those of float64 are rounded, to odd if another rounding
// follows.
template <class From, class To> Vector load_eight(const Unaligned<typename From::Bits> *from) {
    if constexpr (std::is_same_v<From, Float64>) {
        const auto four = [&](size_t at) {
            const __m256d x = _mm256_castsi256_pd(load(from + at));
            return _mm256_cvtpd_ps(std::is_same_v<To, Float32> ? x : odd_float32(x));
        };
        return _mm256_castps_si256(_mm256_set_m128(four(4), four(0)));
    } else {
        return load_float32<From>(from);
    }
}

// The largest magnitude of a float32 number that is finite after the cast.
template <class To> constexpr uint32_t kStays = Float32::infinity - 1;
template <> constexpr uint32_t kStays<Float16> = 0x477FEFFFu; // 65520 and more round to infinity
template <> constexpr uint32_t kStays<Bfloat16> = 0x7F7F7FFFu;

template <class To> void store_eight(Unaligned<typename To::Bits> *to, Vector bits) {
    const __m256 values = _mm256_castsi256_ps(bits);
    const auto put = [&](__m128i eight) {
        _mm_storeu_si128(reinterpret_cast<__m128i *>(to), eight);
    };
    if constexpr (std::is_same_v<To, Float64>) {
        store(to, _mm256_castpd_si256(_mm256_cvtps_pd(_mm256_castps256_ps128(values))));
        store(to + 4, _mm256_castpd_si256(_mm256_cvtps_pd(_mm256_extractf128_ps(values, 1))));
    } else if constexpr (std::is_same_v<To, Float32>) {
        store(to, bits);
    } else if constexpr (std::is_same_v<To, Float16>) {
        put(_mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
    } else {
        const Vector odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), all(1));
        const Vector up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, all(0x7FFF)));
        const Vector words = _mm256_srli_epi32(up, 16);
        put(_mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
    }
}

// What must be cast one by one: results that are not finite, and numbers below float32's normal
// ones, which were rounded to fewer than 24 bits, where the target has some of them.
template <class From, class To> Vector rare_of(Vector bits) {
    const Vector large = above<uint32_t>(bits, kStays<To>);
    if constexpr (std::is_same_v<From, Float64> && std::is_same_v<To, Bfloat16>) {
        const Vector magnitude = _mm256_and_si256(bits, all(0x7FFFFFFFu));
        const Vector small =
            _mm256_and_si256(_mm256_cmpgt_epi32(all(1u << 23), magnitude),
                             _mm256_cmpgt_epi32(magnitude, _mm256_setzero_si256()));
        return _mm256_or_si256(large, small);
    }
    return large;
}

template <class From, class To>
void cast(In<typename From::Bits> input, Out<typename To::Bits> output, fewbits_tally &tally) {
    cast_vectors<From, To>(
        input, output, tally, portable_casts.between<From, To>(),
        [](const Unaligned<typename From::Bits> *from, Unaligned<typename To::Bits> *to) {
            Vector rare = _mm256_setzero_si256();
            for (size_t i = 0; i < kGroup; i += 8) {
                const Vector bits = load_eight<From, To>(from + i);
                rare = _mm256_or_si256(rare, rare_of<From, To>(bits));
                store_eight<To>(to + i, bits);
            }
            return !any(rare);
        });
}

} // namespace

constinit const CastKernels avx2_casts = {
    .float32 = copy<Float32>,
    .float64 = copy<Float64>,
    .float16 = copy<Float16>,
    .bfloat16 = copy<Bfloat16>,
    .float32_to_float64 = cast<Float32, Float64>,
    .float32_to_float16 = cast<Float32, Float16>,
    .float32_to_bfloat16 = cast<Float32, Bfloat16>,
    .float64_to_float32 = cast<Float64, Float32>,
    .float64_to_float16 = cast<Float64, Float16>,
    .float64_to_bfloat16 = cast<Float64, Bfloat16>,
    .float16_to_float32 = cast<Float16, Float32>,
    .float16_to_float64 = cast<Float16, Float64>,
    .float16_to_bfloat16 = cast<Float16, Bfloat16>,
    .bfloat16_to_float32 = cast<Bfloat16, Float32>,
    .bfloat16_to_float64 = cast<Bfloat16, Float64>,
    .bfloat16_to_float16 = cast<Bfloat16, Float16>,
};

} // namespace fewbits

#endif
