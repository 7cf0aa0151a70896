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

// In spherical.cpp.
struct SphereScalar {
    static void fill(const int16_t *table, const Stream &stream, SphereTile &tile);
    static size_t next(const SphereTile &tile, const int32_t *block, size_t from);
};

// In avx2_spherical.cpp.
struct SphereAvx2 {
    static void fill(const int16_t *table, const Stream &stream, SphereTile &tile);
    static size_t next(const SphereTile &tile, const int32_t *block, size_t from);
};

} // namespace fewbits
