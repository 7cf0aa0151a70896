// A row of levels on paths of a trellis: what its numbers mean.
#pragma once

#include <limits>

#include "fewbits.h"
#include "scales.h"
#include "steps_runs.h"
#include "trellis_levels.h"
#include "trellis_rate.h"

namespace fewbits {
namespace { // internal linkage: see random.h

template <class F> struct TrellisRow {
    using Bits = typename F::Bits;
    using Scale = typename ScaleOf<F>::Bits;
    static constexpr int kPlaceZero = 1 << 15; // the place of 1

    fewbits_unit &unit;
    int states;
    bool dithered;
    bool fitted;
    uint32_t bound;
    size_t capacity; // of the coded section

    static bool valid(const fewbits_unit &unit) {
        const int code = unit.option >> 2;
        const bool places = unit.block >> 32 == 0 && (unit.block & 0xFFFF) <= unit.block >> 16;
        return code >= 1 && code <= 3 && unit.levels >= 1 && (unit.option & 3) != 3 && places;
    }
    explicit TrellisRow(fewbits_unit &own)
        : unit(own), states(2 << (own.option >> 2)), dithered((own.option & 1) != 0),
          fitted((own.option & 2) != 0), bound(uint32_t{own.levels} + 1), capacity(own.sizes[1]) {}

    // Whether a rate is given, and between which places nu is then.
    bool rated() const { return unit.block != 0; }
    int least_place() const { return static_cast<int>(unit.block & 0xFFFF) - kPlaceZero; }
    int most_place() const { return static_cast<int>(unit.block >> 16) - kPlaceZero; }

    In<Bits> values() const { return input<Bits>(unit.values, unit.count); }
    Out<Scale> scales() const { return output<Scale>(unit.sections[0], unit.count > 0); }
    Wide<F> step() const { return std::bit_cast<Wide<F>>(static_cast<Scale>(scales()[0])); }
    void set_step(Wide<F> step) const { scales()[0] = std::bit_cast<Scale>(step); }
    CodedShape shape() const { return {unit.count, bound, true}; }
    // The share of the squares that levels must keep, rounding of results included.
    double least_kept() const { return 1.0 / 16 + std::ldexp(1.0, -(F::mantissa + 1)) + 0x1p-20; }
    // From which magnitude on results may exceed the largest number.
    double high() const {
        const double largest = widened<F>(static_cast<Bits>(F::infinity - 1));
        const double nu = rated() ? rate_number(most_place()) : unit.factors[0];
        return dithered ? largest / (1 + 2 * std::sqrt(nu))
                        : std::numeric_limits<double>::infinity();
    }
};

} // namespace
} // namespace fewbits
