// BLAKE2sp with AVX-512: eight lanes for one message, sixteen for two of the same length.
#if defined(__AVX512BW__)

#include "avx2/sealing.h"
#include "avx512bw/avx512.h"

namespace fewbits {
namespace {

struct Sixteen {
    static Wide add(Wide a, Wide b) { return kept(_mm512_add_epi32(a, b)); }
    static Wide mix(Wide a, Wide b) { return _mm512_xor_si512(a, b); }
    template <int bits> static Wide turn(Wide x) { return _mm512_ror_epi32(x, bits); }
};

// A block of each of sixteen leaves to its sixteen words of all leaves.
inline void transposed(const uint8_t *const *data, Wide *words) {
    Wide rows[16];
    Wide pairs[16];
    for (size_t i = 0; i < 16; i += 2) {
        const Wide a = load_wide(data[i / 8] + i % 8 * kHashBlock);
        const Wide b = load_wide(data[i / 8] + (i % 8 + 1) * kHashBlock);
        pairs[i] = _mm512_unpacklo_epi32(a, b);
        pairs[i + 1] = _mm512_unpackhi_epi32(a, b);
    }
    for (size_t i = 0; i < 16; i += 4) {
        rows[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
        rows[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
        rows[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
        rows[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
    }
    // Quarter q of rows[4 * g + j] has word 4 * q + j of the leaves from 4 * g on.
    for (size_t j = 0; j < 4; ++j) {
        const Wide low = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0x44);
        const Wide high = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0xEE);
        const Wide low_two = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0x44);
        const Wide high_two = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0xEE);
        words[j] = _mm512_shuffle_i32x4(low, low_two, 0x88);
        words[4 + j] = _mm512_shuffle_i32x4(low, low_two, 0xDD);
        words[8 + j] = _mm512_shuffle_i32x4(high, high_two, 0x88);
        words[12 + j] = _mm512_shuffle_i32x4(high, high_two, 0xDD);
    }
}

// The states of two messages side by side.
struct TwoStates {
    Wide h[kHashWords];

    explicit TwoStates(const uint32_t *words) {
        for (size_t i = 0; i < kHashWords; ++i) {
            h[i] =
                both(load(words + i * kHashLeaves), load(words + (kHashWords + i) * kHashLeaves));
        }
    }
    void store_to(uint32_t *words) const {
        for (size_t i = 0; i < kHashWords; ++i) {
            store(words + i * kHashLeaves, _mm512_castsi512_si256(h[i]));
            store(words + (kHashWords + i) * kHashLeaves, _mm512_extracti64x4_epi64(h[i], 1));
        }
    }
    // One stride; leaves that are not live stay as they are.
    [[gnu::always_inline]] void take(const uint8_t *const *data, Wide count, Wide last,
                                     Wide last_node, __mmask16 live) {
        Wide message[16];
        transposed(data, message);
        Wide v[16];
        for (size_t i = 0; i < kHashWords; ++i) {
            v[i] = h[i];
            v[8 + i] = all_wide(kHashStart[i]);
        }
        v[12] = _mm512_xor_si512(v[12], count);
        v[14] = _mm512_xor_si512(v[14], last);
        v[15] = _mm512_xor_si512(v[15], last_node);
        hash_rounds<Sixteen>(v, message);
        for (size_t i = 0; i < kHashWords; ++i) {
            const Wide change = _mm512_xor_si512(v[i], v[8 + i]);
            h[i] = _mm512_mask_xor_epi32(h[i], live, h[i], change);
        }
    }
};

void two_strides(uint32_t *words, const uint8_t *const *data, size_t count, uint32_t done) {
    TwoStates states(words);
    const Wide none = _mm512_setzero_si512();
    for (size_t stride = 0; stride < count; ++stride) {
        done += kHashBlock;
        const uint8_t *const at[] = {data[0] + stride * kHashStride,
                                     data[1] + stride * kHashStride};
        states.take(at, all_wide(done), none, none, 0xFFFF);
    }
    states.store_to(words);
}

void two_marked(uint32_t *words, const uint8_t *const *data, const LeafMarks &marks) {
    const auto twice = [](const uint32_t *from) { return both(load(from), load(from)); };
    const Wide last = twice(marks.last);
    const Wide last_node = _mm512_maskz_mov_epi32(0x8080, last);
    TwoStates states(words);
    states.take(data, twice(marks.count), last, last_node, _mm512_movepi32_mask(twice(marks.live)));
    states.store_to(words);
}

} // namespace

constinit const HashKernels avx512bw_sealing = {strides,     marked,     nullptr,
                                                two_strides, two_marked, roots};

} // namespace fewbits

#endif
