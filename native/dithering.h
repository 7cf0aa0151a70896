// What the kernels of the dithering operators share.
#pragma once

#include <bit>

#include "kernels.h"

namespace fewbits {

constexpr size_t kNormLanes = 32; // sums that grow side by side

// Levels above 0, and whether they are powers of two.
struct DitherShape {
    uint32_t levels;
    bool natural;

    // Bits of a code. Libraries differ in the type of a width.
    int width() const { return static_cast<int>(std::bit_width(2 * levels + 1)); }
    // The lowest level and its inverse, powers of two.
    float lowest() const { return std::bit_cast<float>((128 - levels) << 23); }
    float inverse_lowest() const { return std::bit_cast<float>((126 + levels) << 23); }
};

// What every code stands for in units of the scale; 0 beyond the last one, which is NaN.
struct DitherRatios {
    static constexpr uint32_t most_levels = 127; // of codes in a byte

    size_t count; // of codes
    double of[2 * most_levels + 2] = {};

    explicit DitherRatios(const DitherShape &shape);
};

} // namespace fewbits
