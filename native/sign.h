// Signs times the mean magnitude of a block: what the kernels share.
#pragma once

#include <algorithm>
#include <limits>

#include "kernels.h"

namespace fewbits {

constexpr size_t kSignLanes = 32; // sums that grow side by side

// What a run of values that share a scale adds to its mean. Magnitudes are bits of their format.
struct SignTerms {
    double sum = 0;    // of the finite magnitudes, in the order that the reference gives
    uint64_t used = 0; // values that are neither 0 nor not finite
    uint64_t smallest = std::numeric_limits<uint64_t>::max();
    uint64_t largest = 0; // both of the used ones
    uint64_t nonfinite = 0;

    void add(const SignTerms &other) {
        sum += other.sum;
        used += other.used;
        smallest = std::min(smallest, other.smallest);
        largest = std::max(largest, other.largest);
        nonfinite += other.nonfinite;
    }
};

} // namespace fewbits
