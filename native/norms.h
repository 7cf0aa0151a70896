// Sums over whole blocks of a vector, in the reference's order.
#pragma once

#include <algorithm>
#include <cmath>

#include "formats.h"

namespace fewbits {
namespace { // internal linkage: see random.h

constexpr size_t kSummationBlock = 1 << 16; // elements whose sum is finished first

// Calls `use(start, count, number)` for each block of `size` elements; the last may be shorter.
template <class Use> void each_block(size_t total, size_t size, Use use) {
    for (size_t start = 0, block = 0; start < total; start += size, ++block) {
        use(start, std::min(size, total - start), block);
    }
}

// The sum of a block's terms, and its largest magnitude. Sums of float64 are of values divided by
// 2^shift.
template <class F>
double block_sum(In<typename F::Bits> values, fewbits_norm norm, typename F::Bits &largest,
                 int &shift) {
    const auto &kernel = kernels().dithering<F>();
    constexpr bool apart = std::is_same_v<F, Float64>;
    double total = 0;
    largest = 0;
    shift = 0;
    each_block(values.size(), kSummationBlock, [&](size_t start, size_t count, size_t) {
        double sum = 0;
        typename F::Bits own = 0;
        kernel.norm_terms(values.subspan(start, count), apart ? FEWBITS_NORM_MAX : norm, sum, own);
        total += sum;
        largest = std::max(largest, own);
    });
    if (apart && norm != FEWBITS_NORM_MAX && largest != 0) {
        total = 0;
        std::frexp(widened<F>(largest), &shift);
        each_block(values.size(), kSummationBlock, [&](size_t start, size_t count, size_t) {
            total += kernel.scaled_terms(values.subspan(start, count), norm, shift);
        });
    }
    return total;
}

} // namespace
} // namespace fewbits
