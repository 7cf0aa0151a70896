// The counter-based random words, as src/fewbits/rng.py specifies them.
#pragma once

#include <cstdint>

#include "kernels.h"

namespace fewbits {
// Internal linkage: a folder such as avx2/ is compiled for another instruction set, and the linker
// must not choose its copy of a shared inline function for the portable table.
namespace {

// Odd and near 2^32 / golden ratio: spreads neighbouring indices.
constexpr uint32_t kStep = 0x9E3779B1u;
constexpr uint32_t kMultiply1 = 0x7FEB352Du; // the constants of the lowbias32 finaliser
constexpr uint32_t kMultiply2 = 0x846CA68Bu;

[[maybe_unused]] uint32_t mix(uint32_t x) {
    x = (x ^ (x >> 16)) * kMultiply1;
    x = (x ^ (x >> 15)) * kMultiply2;
    return x ^ (x >> 16);
}

// The two keys in force for the 2^32 words that share the index's high half.
struct Segment {
    uint32_t k0, k1;

    Segment(const uint32_t key[4], uint32_t high)
        : k0(key[0] + mix(high * kStep + key[2])), k1(key[1] + mix(high * kStep + key[3])) {}

    // k1 enters before a shift: two streams that share k0 then differ by more than a constant.
    uint32_t word(uint32_t low) const {
        uint32_t x = low * kStep + k0;
        x = (x ^ (x >> 16)) * kMultiply1 + k1;
        x = (x ^ (x >> 15)) * kMultiply2;
        return x ^ (x >> 16);
    }
};

} // namespace
} // namespace fewbits
