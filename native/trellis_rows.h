// A row of levels on paths of a trellis: what its numbers mean.
#pragma once

#include <limits>

#include "dithering.h"
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

// Levels and what they were made from.
struct LevelBlock {
    union { // near levels need no words
        uint32_t words[kCodedBlock];
        int16_t near[kCodedBlock];
    };
    int32_t levels[kCodedBlock];
    uint8_t places[kCodedBlock]; // or tops
    uint8_t labels[kCodedBlock];
};

template <class F> Stream dither_of(const TrellisRow<F> &row, const uint32_t *key, size_t start) {
    return Stream{{key[0], key[1], key[2], key[3]}, row.unit.first}.from(start);
}

// A path whose words are not there yet.
template <class F> Path empty_path(const TrellisRow<F> &row, LevelBlock &block) {
    return {row.states, row.dithered ? block.words : nullptr, block.levels};
}

template <class F>
Path path_of(const TrellisRow<F> &row, const uint32_t *key, size_t start, size_t count,
             LevelBlock &block) {
    if (row.dithered) {
        kernels().common.words(dither_of(row, key, start), {block.words, count});
    }
    return empty_path(row, block);
}

template <class F> uint64_t nonfinite_values(In<typename F::Bits> values) {
    if constexpr (std::is_same_v<F, Float32>) {
        if (kernels().trellis.nonfinite != nullptr) {
            return kernels().trellis.nonfinite(values);
        }
    }
    return nonfinite<F>(values);
}

// Norm and values that are not finite, block by block: a block stays in the cache.
template <class F> Scanned scanned_values(const TrellisRow<F> &row, uint64_t &bad) {
    if constexpr (std::is_same_v<F, Float64>) {
        bad = nonfinite_values<F>(row.values());
        return scanned<F>(row.values());
    }
    Scanned all = {};
    each_block(row.unit.count, kSummationBlock, [&](size_t start, size_t count, size_t) {
        const auto values = row.values().subspan(start, count);
        const Scanned own = scanned<F>(values);
        all.squares += own.squares;
        all.peak = std::max(all.peak, own.peak);
        bad += nonfinite_values<F>(values);
    });
    return all;
}

} // namespace
} // namespace fewbits
