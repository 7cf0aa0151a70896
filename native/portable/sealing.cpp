// BLAKE2s, one block of one leaf at a time. Compiled without floating-point registers, like the
// arithmetic of a switch.
#include <bit>

#include "portable/portable.h"

namespace fewbits {
namespace {

struct Scalar {
    static uint32_t add(uint32_t a, uint32_t b) { return a + b; }
    static uint32_t mix(uint32_t a, uint32_t b) { return a ^ b; }
    template <int bits> static uint32_t turn(uint32_t x) { return std::rotr(x, bits); }
};

void compress(uint32_t *h, size_t step, const uint8_t *data, uint32_t count, uint32_t last,
              uint32_t last_node) {
    uint32_t message[16];
    std::memcpy(message, data, sizeof(message));
    uint32_t v[16];
    for (size_t i = 0; i < kHashWords; ++i) {
        v[i] = h[i * step];
        v[8 + i] = kHashStart[i];
    }
    v[12] ^= count;
    v[14] ^= last;
    v[15] ^= last_node;
    hash_rounds<Scalar>(v, message);
    for (size_t i = 0; i < kHashWords; ++i) {
        h[i * step] ^= v[i] ^ v[8 + i];
    }
}

void strides(uint32_t *words, const uint8_t *data, size_t count, uint32_t done) {
    for (size_t i = 0; i < count; ++i) {
        done += kHashBlock;
        for (size_t leaf = 0; leaf < kHashLeaves; ++leaf) {
            compress(words + leaf, kHashLeaves, data + i * kHashStride + leaf * kHashBlock, done, 0,
                     0);
        }
    }
}

void marked(uint32_t *words, const uint8_t *data, const LeafMarks &marks) {
    for (size_t leaf = 0; leaf < kHashLeaves; ++leaf) {
        if (marks.live[leaf] != 0) {
            compress(words + leaf, kHashLeaves, data + leaf * kHashBlock, marks.count[leaf],
                     marks.last[leaf], leaf == kHashLeaves - 1 ? marks.last[leaf] : 0);
        }
    }
}

void block(uint32_t *words, const uint8_t *data, uint32_t count, bool last, bool last_node) {
    compress(words, 1, data, count, last ? UINT32_MAX : 0, last_node ? UINT32_MAX : 0);
}

// One after the other, with the kernels in use: a table may have vectors, but none that wide.
void two_strides(uint32_t *words, const uint8_t *const *data, size_t count, uint32_t done) {
    for (size_t i = 0; i < 2; ++i) {
        kernels().sealing.strides(words + i * kHashWords * kHashLeaves, data[i], count, done);
    }
}

void two_marked(uint32_t *words, const uint8_t *const *data, const LeafMarks &marks) {
    for (size_t i = 0; i < 2; ++i) {
        kernels().sealing.marked(words + i * kHashWords * kHashLeaves, data[i], marks);
    }
}

void roots(uint32_t *words, const uint8_t *data, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        const uint8_t *const own = data + i * kHashBlock;
        compress(words + i, kHashLeaves, own, 2 * kHashBlock, 0, 0);
        compress(words + i, kHashLeaves, own + kHashStride, 3 * kHashBlock, UINT32_MAX, UINT32_MAX);
    }
}

} // namespace

constinit const HashKernels portable_sealing = {strides,     marked,     block,
                                                two_strides, two_marked, roots};

} // namespace fewbits
