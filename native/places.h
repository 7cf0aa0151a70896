// Which places of a vector a stage keeps, and how they are written down.
#pragma once

#include "kernels.h"

namespace fewbits {

constexpr uint64_t kMostPlaces = uint64_t{1} << 32; // that 32 bits can number

// The places of the largest keys, ascending, of equal ones the first; and how many are at least
// `infinity`, or 0 without one. At least one place, and not more than values.
template <class Bits>
void select(In<Bits> values, Bits mask, Bits infinity, std::span<uint32_t> places,
            uint64_t &nonfinite);

template <class F>
void select_magnitudes(In<typename F::Bits> values, std::span<uint32_t> places,
                       uint64_t &nonfinite) {
    using Bits = typename F::Bits;
    select<Bits>(values, static_cast<Bits>(F::sign - 1), F::infinity, places, nonfinite);
}

// Ascending places below d <= kMostPlaces, at least one and not all. Reading refuses what writing
// does not write.
int write_places(std::span<const uint32_t> places, uint64_t d, Bytes out);
int read_places(ConstBytes data, uint64_t d, std::span<uint32_t> places);

} // namespace fewbits
