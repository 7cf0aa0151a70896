// Values of any format as float32 numbers, and sums in the reference's order.
#pragma once

#include "avx2/avx2.h"

namespace fewbits {
namespace { // internal linkage: see random.h

// Eight values as the bits of float32 numbers.
template <class F> Vector load_float32(const Unaligned<typename F::Bits> *from) {
    if constexpr (std::is_same_v<F, Float16>) {
        return _mm256_castps_si256(
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from))));
    } else {
        return load_values<F>(from);
    }
}

// The sums of all lanes, in halves.
[[maybe_unused]] inline double folded(__m256d (&lanes)[8]) {
    for (size_t half = 4; half > 0; half /= 2) {
        for (size_t i = 0; i < half; ++i) {
            lanes[i] = _mm256_add_pd(lanes[i], lanes[i + half]);
        }
    }
    const __m128d pair =
        _mm_add_pd(_mm256_castpd256_pd128(lanes[0]), _mm256_extractf128_pd(lanes[0], 1));
    return _mm_cvtsd_f64(_mm_add_sd(pair, _mm_unpackhi_pd(pair, pair)));
}

} // namespace
} // namespace fewbits
