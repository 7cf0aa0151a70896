// What the kernels of the dithering operators share.
#pragma once

#include <algorithm>
#include <bit>

#include "coded.h"
#include "formats.h"

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
    double ratio(uint32_t level) const;
};

// What every code stands for in units of the scale; 0 beyond the last one, which is NaN.
struct DitherRatios {
    static constexpr uint32_t most_levels = 127; // that have a list

    DitherShape shape;
    size_t count; // of codes
    double of[2 * most_levels + 2] = {};

    // Coded levels have their signs apart.
    explicit DitherRatios(const DitherShape &shape, bool coded = false);
    bool listed() const { return shape.levels <= most_levels; }
    // Of any code but the last.
    double at(size_t code) const;
};

// The scales of blocks as a section has them: values, or exponents of powers of two.
template <class F> struct DitherScales {
    using Bits = typename F::Bits;
    ConstBytes section;
    bool natural;
    size_t number;

    Wide<F> operator[](size_t block) const {
        if (!natural) {
            return widened<F>(input<Bits>(section.data(), number)[block]);
        }
        return widened<F>(static_cast<Bits>(uint64_t{exponent(block)} << F::mantissa));
    }
    uint32_t exponent(size_t block) const {
        const size_t bit = block * size_t{F::exponent};
        uint32_t word = 0;
        std::memcpy(&word, section.data() + bit / 8, std::min<size_t>(3, section.size() - bit / 8));
        return word >> (bit % 8) & F::top_code;
    }
};

// Values that share a scale, and what their codes are.
template <class F> struct DitherBlocks {
    DitherShape shape;
    size_t block_size;
    DitherScales<F> scales;

    Wide<F> scale_of(size_t element) const { return scales[element / block_size]; }
};

// Values that are decoded before they are added.
constexpr size_t kTermPiece = 4096;
template <class F>
void add_terms(Out<Wide<F>> totals, In<typename F::Bits> terms) { // at most kTermPiece
    const auto add = [&](In<Wide<F>> own) {
        for (size_t i = 0; i < totals.size(); ++i) {
            totals[i] = totals[i] + own[i];
        }
    };
    if constexpr (sizeof(typename F::Bits) == 2) {
        Unaligned<uint32_t> wide[kTermPiece];
        fewbits_tally ignored = {0, 0};
        const auto cast = of_format<F>(nullptr, nullptr, kernels().casts.float16_to_float32,
                                       kernels().casts.bfloat16_to_float32);
        cast(terms, {wide, terms.size()}, ignored);
        add(input<float>(wide, terms.size()));
    } else {
        add(input<Wide<F>>(terms.data(), terms.size()));
    }
}

CodedShape coded_levels(const DitherShape &shape, uint64_t count);
// Writes at most a coder block of values, whose codes never leave the cache. There is a scale for
// every `block_size` of them.
template <class F>
void dither_coded(In<typename F::Bits> values, const Stream &stream, const DitherShape &shape,
                  size_t block_size, std::span<const typename F::Bits> scales, CodedWriter &writer,
                  fewbits_tally &tally);
// What the coder refuses is refused first. Then the first coded block with a fault counts, and in
// it a sign on a value that is not finite before a level without a scale; where one scale is for
// all, such a sign anywhere comes first.
template <class F>
int undither_coded(ConstBytes section, const DitherBlocks<F> &blocks, size_t count, void *values,
                   bool add, fewbits_tally &tally);

} // namespace fewbits
