// Values, levels and symbols of a trellis, one by one: what the kernels share. The specifications
// are src/fewbits/reference/trellis.py and src/fewbits/coding/paths.py.
#pragma once

#include "steps.h"
#include "trellis.h"

namespace fewbits {
namespace { // internal linkage: see random.h

template <class F> double signed_value(typename F::Bits bits) {
    const double x = widened<F>(static_cast<typename F::Bits>(bits & (F::sign - 1)));
    return (bits & F::sign) != 0 ? -x : x;
}

// Values in sixteenths of the step, with their dither, and their places in the period. In float32
// unless they are float64.
template <class F>
void fix_values(In<typename F::Bits> values, Wide<F> step, const uint32_t *words, int32_t *fixed,
                uint8_t *places) {
    using Number = Wide<F>;
    for (size_t i = 0; i < values.size(); ++i) {
        auto x = static_cast<Number>(signed_value<F>(values[i]));
        const uint32_t word = words != nullptr ? words[i] : 0;
        x = (word & 1) != 0 ? -x : x;
        Number t = x / step * Number{16};
        if (words != nullptr) {
            t += static_cast<Number>(static_cast<int32_t>(word >> 1)) * Number(0x1p-25);
        }
        // An int32 holds all levels below the largest bound, 2^16, in sixteenths.
        const double near = nearest_integer(std::clamp(double{t}, -0x1p24, 0x1p24));
        fixed[i] = static_cast<int32_t>(near);
        places[i] = static_cast<uint8_t>(fixed[i] & 63);
    }
}

// What are values in sixteenths become levels with the labels.
[[maybe_unused]] void settle_levels(ConstBytes labels, int32_t *levels, LevelStats &stats) {
    for (size_t i = 0; i < labels.size(); ++i) {
        const int32_t label = labels[i];
        levels[i] = label + 4 * ((levels[i] - 16 * label + 32) >> 6);
        stats.add(static_cast<uint32_t>(std::abs(levels[i])));
    }
}

// Symbols that count through the tables, `escape` + 2 in each.
[[maybe_unused]] uint8_t folded_level(int32_t level, uint32_t top, int shift, uint32_t escape) {
    const PathSymbol found = path_symbol(level, top);
    const uint32_t far = escape + (static_cast<uint32_t>(level >> 1) & 1);
    const uint32_t symbol = found.symbol < escape ? found.symbol : far;
    return static_cast<uint8_t>((escape + 2) * (found.quarter >> shift) + symbol);
}

[[maybe_unused]] void fold_levels(std::span<const int32_t> levels, const uint32_t *words, int shift,
                                  uint32_t escape, uint8_t *symbols) {
    for (size_t i = 0; i < levels.size(); ++i) {
        symbols[i] = folded_level(levels[i], words != nullptr ? words[i] >> 28 : 0, shift, escape);
    }
}

// Adds to `lanes` the products of values, times 2^-shift, and levels; returns the sum of squares.
template <class F, class Level>
uint64_t add_products(In<typename F::Bits> values, const Level *levels, int shift,
                      double (&lanes)[kSumLanes]) {
    const Shrink by(shift);
    uint64_t squares = 0;
    for (size_t i = 0; i < values.size(); ++i) {
        const auto level = static_cast<double>(levels[i]);
        lanes[i % kSumLanes] += signed_value<F>(values[i]) * by.first * by.second * level;
        squares += static_cast<uint64_t>(int64_t{levels[i]} * int64_t{levels[i]});
    }
    return squares;
}

[[maybe_unused]] double sum_of_lanes(double (&lanes)[kSumLanes]) {
    for (size_t half = kSumLanes / 2; half > 0; half /= 2) {
        for (size_t i = 0; i < half; ++i) {
            lanes[i] += lanes[i + half];
        }
    }
    return lanes[0];
}

template <class F>
StepSums level_sums(In<typename F::Bits> values, const int32_t *levels, int shift) {
    double lanes[kSumLanes] = {};
    const uint64_t squares = add_products<F>(values, levels, shift, lanes);
    return {sum_of_lanes(lanes), static_cast<double>(squares)};
}

// Values of levels; the scale is finite.
template <class F>
void level_values(std::span<const int32_t> levels, const uint32_t *words, Wide<F> scale,
                  Out<typename F::Bits> values) {
    for (size_t i = 0; i < levels.size(); ++i) {
        double level = levels[i];
        if (words != nullptr) {
            const double u = (static_cast<double>(words[i] >> 1) + 0.5) * 0x1p-29;
            level = (words[i] & 1) != 0 ? u - level : level - u;
        }
        values[i] = step_value<F>(level, scale);
    }
}

} // namespace
} // namespace fewbits
