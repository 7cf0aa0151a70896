// What the kernels of the dithering operators share.
#pragma once

#include <bit>

#include "coded.h"

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

    // Coded levels have their signs apart.
    explicit DitherRatios(const DitherShape &shape, bool coded = false);
};

// Values that share a scale, one of `scales` for each block, and what their codes are.
struct DitherBlocks {
    DitherShape shape;
    size_t block_size;
    In<uint32_t> scales;

    float scale_of(size_t element) const {
        return std::bit_cast<float>(static_cast<uint32_t>(scales[element / block_size]));
    }
};

// A section of entropy coded levels, block by block; a block's codes never leave the cache. Writes
// to `out`, which has room for the largest section, and returns the size.
inline void add_terms(Out<uint32_t> totals, In<uint32_t> terms) {
    const auto sums = output<float>(totals.data(), totals.size());
    const auto own = input<float>(terms.data(), terms.size());
    for (size_t i = 0; i < sums.size(); ++i) {
        sums[i] = sums[i] + own[i];
    }
}

CodedShape coded_levels(const DitherShape &shape, uint64_t count);
size_t dither_coded(In<uint32_t> values, const Stream &stream, const DitherBlocks &blocks,
                    uint8_t *out, fewbits_tally &tally);
// What the coder refuses is refused first. Then the first coded block with a fault counts, and in
// it a sign on a value that is not finite before a level without a scale; where one scale is for
// all, such a sign anywhere comes first.
int undither_coded(ConstBytes section, const DitherBlocks &blocks, Out<uint32_t> values, bool add,
                   fewbits_tally &tally);

} // namespace fewbits
