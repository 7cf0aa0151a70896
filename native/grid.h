// Rows of sparse dithering: what encoding and decoding share.
#pragma once

#include <limits>

#include "rows.h"
#include "steps_runs.h"

namespace fewbits {

template <class F> struct GridRow {
    using Bits = typename F::Bits;
    using Scale = typename ScaleOf<F>::Bits;
    fewbits_unit &unit;
    fewbits_step_rounding rounding;
    fewbits_step_scale scale;
    uint32_t bound;
    size_t block; // values that share a scale

    In<Bits> values() const { return input<Bits>(unit.values, unit.count); }
    In<Bits> own(size_t number) const {
        const size_t start = number * block;
        return values().subspan(start, std::min(block, unit.count - start));
    }
    bool dithers() const { return rounding == FEWBITS_STEP_SUBTRACTIVE; }
    size_t blocks() const { return pieces_of(unit.count, block); }
    Out<Scale> scales() const { return output<Scale>(unit.sections[0], blocks()); }
    Wide<F> scale_at(size_t number) const {
        return std::bit_cast<Wide<F>>(static_cast<Scale>(scales()[number]));
    }
    void set_scale(size_t number, Wide<F> value) const {
        scales()[number] = std::bit_cast<Scale>(value);
    }
    // Pieces of sums are pieces of coder blocks too.
    bool aligned() const {
        return block >= unit.count || block % kCodedBlock == 0 || kCodedBlock % block == 0;
    }
    // From which magnitude on random results may exceed the largest number.
    double high() const {
        const double largest = widened<F>(static_cast<Bits>(F::infinity - 1));
        const double reach = rounding == FEWBITS_STEP_STOCHASTIC ? 2.0 : 1.0;
        return rounding == FEWBITS_STEP_NEAREST
                   ? std::numeric_limits<double>::infinity()
                   : largest / (1 + reach * std::sqrt(unit.factors[0]));
    }
};

// Finds steps, writes codes, and sends the scales.
template <class F> int encode_grid(const GridRow<F> &row);

} // namespace fewbits
