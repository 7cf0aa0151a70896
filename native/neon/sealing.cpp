// BLAKE2sp with NEON: a vector holds one word of four leaves; their states fill half of the
// registers, so the eight leaves take turns by fours.
#if defined(__aarch64__)

#include "neon/neon.h"

namespace fewbits {
namespace {

struct Four {
    static uint32x4_t add(uint32x4_t a, uint32x4_t b) { return vaddq_u32(a, b); }
    static uint32x4_t mix(uint32x4_t a, uint32x4_t b) { return veorq_u32(a, b); }
    template <int bits> static uint32x4_t turn(uint32x4_t x) {
        if constexpr (bits == 16) {
            return vreinterpretq_u32_u16(vrev32q_u16(vreinterpretq_u16_u32(x)));
        } else {
            return vsriq_n_u32(vshlq_n_u32(x, 32 - bits), x, bits);
        }
    }
};

// Four words of each of four leaves to vectors of one word.
inline void transposed(const uint8_t *data, uint32x4_t *words) {
    uint32x4_t own[4];
    for (size_t i = 0; i < 4; ++i) {
        own[i] = load32(data + i * kHashBlock);
    }
    const auto pairs = [](uint32x4_t x) { return vreinterpretq_u64_u32(x); };
    const auto whole = [](uint64x2_t x) { return vreinterpretq_u32_u64(x); };
    const uint64x2_t a = pairs(vtrn1q_u32(own[0], own[1])); // words 0 and 2 of two leaves
    const uint64x2_t b = pairs(vtrn2q_u32(own[0], own[1])); // words 1 and 3
    const uint64x2_t c = pairs(vtrn1q_u32(own[2], own[3]));
    const uint64x2_t d = pairs(vtrn2q_u32(own[2], own[3]));
    words[0] = whole(vtrn1q_u64(a, c));
    words[1] = whole(vtrn1q_u64(b, d));
    words[2] = whole(vtrn2q_u64(a, c));
    words[3] = whole(vtrn2q_u64(b, d));
}

// What one block of four leaves is to them.
struct FourMarks {
    uint32x4_t count, last, last_node;
};

// What a block of each of four leaves adds to their words, by exclusive or.
inline void compressed(const uint32x4_t *h, const uint8_t *data, const FourMarks &marks,
                       uint32x4_t *change) {
    uint32x4_t message[16];
    for (size_t i = 0; i < 16; i += 4) {
        transposed(data + 4 * i, message + i);
    }
    uint32x4_t v[16];
    for (size_t i = 0; i < kHashWords; ++i) {
        v[i] = h[i];
        v[8 + i] = vdupq_n_u32(kHashStart[i]);
    }
    v[12] = veorq_u32(v[12], marks.count);
    v[14] = veorq_u32(v[14], marks.last);
    v[15] = veorq_u32(v[15], marks.last_node);
    hash_rounds<Four>(v, message);
    for (size_t i = 0; i < kHashWords; ++i) {
        change[i] = veorq_u32(v[i], v[8 + i]);
    }
}

// Takes one block of the leaves from `leaf` on.
void take(uint32_t *words, size_t leaf, const uint8_t *data, const FourMarks &marks,
          uint32x4_t live) {
    uint32x4_t h[kHashWords];
    uint32x4_t change[kHashWords];
    for (size_t i = 0; i < kHashWords; ++i) {
        h[i] = vld1q_u32(words + i * kHashLeaves + leaf);
    }
    compressed(h, data + leaf * kHashBlock, marks, change);
    for (size_t i = 0; i < kHashWords; ++i) {
        vst1q_u32(words + i * kHashLeaves + leaf, veorq_u32(h[i], vandq_u32(change[i], live)));
    }
}

void strides(uint32_t *words, const uint8_t *data, size_t count, uint32_t done) {
    const uint32x4_t none = vdupq_n_u32(0);
    for (size_t stride = 0; stride < count; ++stride) {
        done += kHashBlock;
        for (size_t leaf = 0; leaf < kHashLeaves; leaf += 4) {
            take(words, leaf, data + stride * kHashStride, {vdupq_n_u32(done), none, none},
                 vdupq_n_u32(UINT32_MAX));
        }
    }
}

void marked(uint32_t *words, const uint8_t *data, const LeafMarks &marks) {
    const uint32x4_t nodes[2] = {{0, 0, 0, 0}, {0, 0, 0, UINT32_MAX}};
    for (size_t leaf = 0; leaf < kHashLeaves; leaf += 4) {
        const uint32x4_t last = vld1q_u32(marks.last + leaf);
        const FourMarks own = {vld1q_u32(marks.count + leaf), last,
                               vandq_u32(last, nodes[leaf / 4])};
        take(words, leaf, data, own, vld1q_u32(marks.live + leaf));
    }
}

} // namespace

// A single block has no use for four lanes.
constinit const HashKernels neon_sealing = {
    .strides = strides,
    .marked = marked,
    .block = nullptr,
};

} // namespace fewbits

#endif
