// What the AVX-512 files share. Included only by files that are compiled for AVX-512. Their tails
// and rare values go to the AVX2 groups: a processor that runs these files runs those too.
#pragma once

#include "avx2/avx2.h"

namespace fewbits {
namespace { // internal linkage: see random.h

using Wide = __m512i;

inline Wide all_wide(uint32_t x) { return _mm512_set1_epi32(static_cast<int>(x)); }
inline Wide load_wide(const void *from) { return _mm512_loadu_si512(from); }
inline void store_wide(void *to, Wide x) { _mm512_storeu_si512(to, x); }
inline Wide both(Vector low, Vector high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

} // namespace

extern const NaturalKernels<Float32> avx512bw_natural_float32;
extern const NaturalKernels<Bfloat16> avx512bw_natural_bfloat16;
extern const DitherKernels<Float32> avx512bw_dithering_float32;
extern const DitherKernels<Float16> avx512bw_dithering_float16;
extern const DitherKernels<Bfloat16> avx512bw_dithering_bfloat16;
extern const HashKernels avx512bw_sealing;

extern const CommonKernels avx512_common;
extern const CoderKernels avx512_coder;
extern const TrellisKernels avx512_trellis;
bool avx512_decode_abreast(std::span<RansBlock> blocks);
extern const DitherKernels<Float32> avx512_dithering_float32;
extern const DitherKernels<Float16> avx512_dithering_float16;
extern const DitherKernels<Bfloat16> avx512_dithering_bfloat16;

} // namespace fewbits
