// The kernels of the spherical operator for NEON.
#if defined(__aarch64__)

#include "spherical.h"

#include <bit>

#include "neon/neon.h"

namespace fewbits {
namespace {

// Inner products of four directions: products of even and odd coordinates side by side, the first
// two directions and the last two.
struct Products {
    int32x4_t low = vdupq_n_s32(0), high = vdupq_n_s32(0);

    void add(const int32_t *pairs, int32_t block) {
        const int16x8_t own = vreinterpretq_s16_s32(vld1q_s32(pairs));
        const int16x8_t other = vreinterpretq_s16_s32(vdupq_n_s32(block));
        low = vmlal_s16(low, vget_low_s16(own), vget_low_s16(other));
        high = vmlal_high_s16(high, own, other);
    }
    uint32x4_t above(const int32_t *need) const {
        return vcgtq_s32(vpaddq_s32(low, high), vld1q_s32(need));
    }
};

size_t next(const SphereTile &tile, const int32_t *block, size_t from) {
    unsigned mask = 0xFFu << (from % 8);
    for (size_t at = from - from % 8; at < tile.count; at += 8, mask = 0xFF) {
        Products first;
        Products second;
        for (size_t j = 0; j < tile.width; ++j) {
            const int32_t *const pairs = tile.pairs + j * tile.count + at;
            first.add(pairs, block[j]);
            second.add(pairs + 4, block[j]);
        }
        const uint16x8_t places = {1, 2, 4, 8, 16, 32, 64, 128};
        const uint16x8_t hits = vmovn_high_u32(vmovn_u32(first.above(tile.need + at)),
                                               second.above(tile.need + at + 4));
        const unsigned set = vaddvq_u16(vandq_u16(hits, places)) & mask;
        if (set != 0) {
            return at + static_cast<size_t>(std::countr_zero(set));
        }
    }
    return tile.count;
}

void fill(const int16_t *table, const Stream &stream, SphereTile &tile) {
    const Segment segment(stream.key, static_cast<uint32_t>(stream.first >> 32));
    const auto width = static_cast<uint32_t>(tile.width);
    const uint32x4_t k0 = vdupq_n_u32(segment.k0);
    const uint32x4_t k1 = vdupq_n_u32(segment.k1);
    const uint32x4_t numbers = {0, 1, 2, 3};
    const uint32x4_t lanes = vmulq_n_u32(numbers, width);
    for (size_t t = 0; t < tile.count; t += 4) {
        const auto first = static_cast<uint32_t>(stream.first) + static_cast<uint32_t>(t) * width;
        for (uint32_t j = 0; j < width; ++j) {
            const uint32x4_t index = vaddq_u32(vdupq_n_u32(first + j), lanes);
            uint32_t words[4];
            vst1q_u32(words, mixed(vmlaq_n_u32(k0, index, kStep), k1));
            int32_t *const pairs = tile.pairs + j * tile.count + t;
            for (size_t lane = 0; lane < 4; ++lane) {
                pairs[lane] = pair(table[words[lane] & 0xFFFF], table[words[lane] >> 16]);
            }
        }
    }
}

} // namespace

constinit const SphereKernels neon_spherical = {fill, next, nullptr};

} // namespace fewbits

#endif
