// BLAKE2sp with eight lanes: a vector holds one word of all eight leaves. Compiled for AVX2, and
// once more for AVX-512, which turns words in one instruction and has registers for all of them.
#pragma once

#include "avx2/avx2.h"

namespace fewbits {
namespace { // internal linkage: see random.h

// A sum as it was written: the compiler would else add what comes last first, and a chain waits.
template <class Own> [[gnu::always_inline]] inline Own kept(Own sum) {
#if defined(__AVX512VL__) && defined(__GNUC__)
    asm("" : "+v"(sum));
#endif
    return sum;
}

struct Eight {
    static Vector add(Vector a, Vector b) { return kept(_mm256_add_epi32(a, b)); }
    static Vector mix(Vector a, Vector b) { return _mm256_xor_si256(a, b); }
    template <int bits> static Vector turn(Vector x) {
#if defined(__AVX512VL__)
        return _mm256_ror_epi32(x, bits);
#else
        if constexpr (bits % 8 == 0) {
            constexpr char k = bits / 8;
            const __m128i order = _mm_setr_epi8(
                k % 4, (k + 1) % 4, (k + 2) % 4, (k + 3) % 4, 4 + k % 4, 4 + (k + 1) % 4,
                4 + (k + 2) % 4, 4 + (k + 3) % 4, 8 + k % 4, 8 + (k + 1) % 4, 8 + (k + 2) % 4,
                8 + (k + 3) % 4, 12 + k % 4, 12 + (k + 1) % 4, 12 + (k + 2) % 4, 12 + (k + 3) % 4);
            return _mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(order));
        } else {
            return _mm256_or_si256(_mm256_srli_epi32(x, bits), _mm256_slli_epi32(x, 32 - bits));
        }
#endif
    }
};

// Half a block of each leaf to its eight words of all leaves.
inline void transposed(const uint8_t *data, Vector *words) {
    Vector pairs[8];
    Vector fours[8];
    for (size_t i = 0; i < 8; i += 2) {
        const Vector a = load(data + i * kHashBlock);
        const Vector b = load(data + (i + 1) * kHashBlock);
        pairs[i] = _mm256_unpacklo_epi32(a, b);
        pairs[i + 1] = _mm256_unpackhi_epi32(a, b);
    }
    for (size_t i = 0; i < 8; i += 4) {
        fours[i] = _mm256_unpacklo_epi64(pairs[i], pairs[i + 2]);
        fours[i + 1] = _mm256_unpackhi_epi64(pairs[i], pairs[i + 2]);
        fours[i + 2] = _mm256_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
        fours[i + 3] = _mm256_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
    }
    for (size_t i = 0; i < 4; ++i) {
        words[i] = _mm256_permute2x128_si256(fours[i], fours[i + 4], 0x20);
        words[i + 4] = _mm256_permute2x128_si256(fours[i], fours[i + 4], 0x31);
    }
}

// What one stride adds to the words of all leaves, by exclusive or.
[[gnu::always_inline]] inline void compressed(const Vector *h, const uint8_t *data, Vector count,
                                              Vector last, Vector last_node, Vector *change) {
    Vector message[16];
    transposed(data, message);
    transposed(data + 32, message + 8);
    Vector v[16];
    for (size_t i = 0; i < kHashWords; ++i) {
        v[i] = h[i];
        v[8 + i] = all(kHashStart[i]);
    }
    v[12] = _mm256_xor_si256(v[12], count);
    v[14] = _mm256_xor_si256(v[14], last);
    v[15] = _mm256_xor_si256(v[15], last_node);
    hash_rounds<Eight>(v, message);
    for (size_t i = 0; i < kHashWords; ++i) {
        change[i] = _mm256_xor_si256(v[i], v[8 + i]);
    }
}

void strides(uint32_t *words, const uint8_t *data, size_t count, uint32_t done) {
    Vector h[kHashWords];
    Vector change[kHashWords];
    for (size_t i = 0; i < kHashWords; ++i) {
        h[i] = load(words + i * kHashLeaves);
    }
    const Vector none = _mm256_setzero_si256();
    for (size_t stride = 0; stride < count; ++stride) {
        done += kHashBlock;
        compressed(h, data + stride * kHashStride, all(done), none, none, change);
        for (size_t i = 0; i < kHashWords; ++i) {
            h[i] = _mm256_xor_si256(h[i], change[i]);
        }
    }
    for (size_t i = 0; i < kHashWords; ++i) {
        store(words + i * kHashLeaves, h[i]);
    }
}

void marked(uint32_t *words, const uint8_t *data, const LeafMarks &marks) {
    Vector h[kHashWords];
    Vector change[kHashWords];
    for (size_t i = 0; i < kHashWords; ++i) {
        h[i] = load(words + i * kHashLeaves);
    }
    const Vector last = load(marks.last);
    const Vector live = load(marks.live);
    const Vector last_node = _mm256_and_si256(last, _mm256_setr_epi32(0, 0, 0, 0, 0, 0, 0, -1));
    compressed(h, data, load(marks.count), last, last_node, change);
    for (size_t i = 0; i < kHashWords; ++i) {
        store(words + i * kHashLeaves, _mm256_xor_si256(h[i], _mm256_and_si256(change[i], live)));
    }
}

// Unused lanes are computed too; a single one is quicker alone.
[[maybe_unused]] void roots(uint32_t *words, const uint8_t *data, size_t count) {
    if (count == 1) {
        return portable_sealing.roots(words, data, count);
    }
    Vector h[kHashWords];
    Vector change[kHashWords];
    for (size_t i = 0; i < kHashWords; ++i) {
        h[i] = load(words + i * kHashLeaves);
    }
    const Vector none = _mm256_setzero_si256();
    const Vector last = all(UINT32_MAX);
    compressed(h, data, all(2 * kHashBlock), none, none, change);
    for (size_t i = 0; i < kHashWords; ++i) {
        h[i] = _mm256_xor_si256(h[i], change[i]);
    }
    compressed(h, data + kHashStride, all(3 * kHashBlock), last, last, change);
    for (size_t i = 0; i < kHashWords; ++i) {
        store(words + i * kHashLeaves, _mm256_xor_si256(h[i], change[i]));
    }
}

} // namespace
} // namespace fewbits
