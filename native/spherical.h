// What the kernels of the spherical operator share.
#pragma once

#include "kernels.h"
#include "random.h"

namespace fewbits {

constexpr size_t kSphereWays = 1 << 16;  // entries of the table of normal numbers
constexpr size_t kSphereGroup = 1024;    // blocks that share directions
constexpr size_t kSphereLargest = 1024;  // coordinates of a block
constexpr size_t kSphereTile = 256;      // directions that are made together, at most
constexpr size_t kSpherePairs = 1 << 13; // pairs of coordinates in a tile, at most

// Some directions in a row. A pair is two coordinates as 16-bit halves, the even one low; pair j of
// direction t is pairs[j * count + t], so that a vector holds one pair of neighbouring directions.
struct SphereTile {
    size_t count; // directions, a multiple of 8
    size_t width; // pairs of a direction
    alignas(32) int32_t pairs[kSpherePairs];
    alignas(32) int32_t need[kSphereTile]; // inner products must be above
};

namespace { // internal linkage: see random.h

[[maybe_unused]] int32_t pair(int16_t low, int16_t high) {
    return static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint16_t>(low)) |
                                static_cast<uint32_t>(static_cast<uint16_t>(high)) << 16);
}
[[maybe_unused]] int32_t low(int32_t pair) { return static_cast<int16_t>(pair & 0xFFFF); }
[[maybe_unused]] int32_t high(int32_t pair) { return pair >> 16; }

} // namespace
} // namespace fewbits
