// What a parity and a dither's top say of 32 levels, as bytes.
#pragma once

#include "avx2/avx2.h"
#include "trellis.h"

namespace fewbits {
namespace { // internal linkage: see random.h

[[maybe_unused]] inline Vector sixteen_bytes(const uint8_t *from) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
}

// A byte for each phase; without a dither there are two.
template <bool dithered> struct PhaseBytes {
    Vector each[2]; // of even and odd levels

    template <class Said> explicit PhaseBytes(Said said) {
        for (uint32_t parity = 0; parity < 2; ++parity) {
            uint8_t bytes[16];
            for (uint32_t top = 0; top < 16; ++top) {
                const PathPhase phase(parity, dithered ? top : 0);
                bytes[top] = static_cast<uint8_t>(said(phase));
            }
            each[parity] = sixteen_bytes(bytes);
        }
    }

    // By tops and the lowest bits of levels, or of states.
    [[gnu::always_inline]] Vector at(Vector tops, Vector levels) const {
        const Vector odd = _mm256_slli_epi16(levels, 7); // in the top bit of each byte
        if constexpr (dithered) {
            return _mm256_blendv_epi8(_mm256_shuffle_epi8(each[0], tops),
                                      _mm256_shuffle_epi8(each[1], tops), odd);
        } else {
            return _mm256_blendv_epi8(each[0], each[1], odd);
        }
    }
};

} // namespace
} // namespace fewbits
