// Casts with AVX2: groups of 32 elements; a group with a rare value goes to the portable table.
#if defined(__AVX2__)

#include "avx2/avx2.h"

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
    cast_vectors<F, F>(input, output, tally, portable_casts.copy<F>(),
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

void float32_to_float16(In<uint32_t> input, Out<uint16_t> output, fewbits_tally &tally) {
    constexpr uint32_t overflow = 0x477FEFFFu; // above this, 65520 and more round to infinity
    cast_vectors<Float32, Float16>(
        input, output, tally, portable_casts.float32_to_float16,
        [](const Unaligned<uint32_t> *from, Unaligned<uint16_t> *to) {
            Vector rare = _mm256_setzero_si256();
            for (size_t i = 0; i < kGroup; i += 8) {
                const Vector bits = load(from + i);
                rare = _mm256_or_si256(rare, above<uint32_t>(bits, overflow));
                const __m128i half =
                    _mm256_cvtps_ph(_mm256_castsi256_ps(bits), _MM_FROUND_TO_NEAREST_INT);
                _mm_storeu_si128(reinterpret_cast<__m128i *>(to + i), half);
            }
            return !any(rare);
        });
}

void float32_to_bfloat16(In<uint32_t> input, Out<uint16_t> output, fewbits_tally &tally) {
    constexpr uint32_t overflow = 0x7F7F7FFFu; // above this the rounding reaches infinity
    cast_vectors<Float32, Bfloat16>(
        input, output, tally, portable_casts.float32_to_bfloat16,
        [](const Unaligned<uint32_t> *from, Unaligned<uint16_t> *to) {
            Vector rare = _mm256_setzero_si256();
            for (size_t i = 0; i < kGroup; i += 16) {
                Vector rounded[2];
                for (size_t j = 0; j < 2; ++j) {
                    const Vector bits = load(from + i + 8 * j);
                    rare = _mm256_or_si256(rare, above<uint32_t>(bits, overflow));
                    const Vector odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), all(1));
                    const Vector up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, all(0x7FFF)));
                    rounded[j] = _mm256_srli_epi32(up, 16);
                }
                store(to + i,
                      _mm256_permute4x64_epi64(_mm256_packus_epi32(rounded[0], rounded[1]), 0xD8));
            }
            return !any(rare);
        });
}

void float16_to_float32(In<uint16_t> input, Out<uint32_t> output, fewbits_tally &tally) {
    cast_vectors<Float16, Float32>(
        input, output, tally, portable_casts.float16_to_float32,
        [](const Unaligned<uint16_t> *from, Unaligned<uint32_t> *to) {
            Vector rare = _mm256_setzero_si256();
            for (size_t i = 0; i < kGroup; i += 16) {
                const Vector bits = load(from + i);
                rare = _mm256_or_si256(rare, above<uint16_t>(bits, Float16::infinity - 1));
                store(to + i, _mm256_castps_si256(_mm256_cvtph_ps(_mm256_castsi256_si128(bits))));
                store(to + i + 8,
                      _mm256_castps_si256(_mm256_cvtph_ps(_mm256_extracti128_si256(bits, 1))));
            }
            return !any(rare);
        });
}

void bfloat16_to_float32(In<uint16_t> input, Out<uint32_t> output, fewbits_tally &tally) {
    cast_vectors<Bfloat16, Float32>(input, output, tally, portable_casts.bfloat16_to_float32,
                                    [](const Unaligned<uint16_t> *from, Unaligned<uint32_t> *to) {
                                        Vector rare = _mm256_setzero_si256();
                                        for (size_t i = 0; i < kGroup; i += 8) {
                                            const Vector bits = load_values<Bfloat16>(from + i);
                                            rare = _mm256_or_si256(
                                                rare, above<uint32_t>(bits, Float32::infinity - 1));
                                            store(to + i, bits);
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
    .float32_to_float16 = float32_to_float16,
    .float32_to_bfloat16 = float32_to_bfloat16,
    .float16_to_float32 = float16_to_float32,
    .bfloat16_to_float32 = bfloat16_to_float32,
};

} // namespace fewbits

#endif
