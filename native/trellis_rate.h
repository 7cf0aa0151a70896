// The step of a trellis that a rate asks for: src/fewbits/reference/trellis_rate.py says how.
#pragma once

#include <cmath>

#include "coded_phases.h"

namespace fewbits {

constexpr size_t kMostSampled = 8192;
constexpr uint32_t kGolden = 2654435769u; // 2^32 divided by the golden ratio
constexpr int kRatePlaces = 64;           // numbers between two powers of two
constexpr int kFirstStride = 16;
constexpr double kBlockHead = 48; // bits before the tables of a block, with its length

namespace { // internal linkage: see random.h

[[maybe_unused]] size_t sample_size(size_t count) { return std::min(count, kMostSampled); }

// The place of a value that is tried, one in each of as many equal parts.
[[maybe_unused]] size_t sample_place(size_t i, size_t size, size_t count) {
    const size_t start = i * count / size, next = (i + 1) * count / size;
    const size_t share = static_cast<uint32_t>(i) * kGolden;
    return start + (share * (next - start) >> 32);
}

[[maybe_unused]] double rate_number(int place) {
    return std::ldexp(kRatePlaces + (place & (kRatePlaces - 1)), (place >> 6) - 6);
}

// The finest place within the rate, from the most on.
template <class Within> int finest_place(int least, int most, Within within) {
    int stride = kFirstStride;
    while (most - stride > least && within(most - stride)) {
        most -= stride;
        stride *= 2;
    }
    int low = std::max(most - stride, least);
    while (most - low > 1) {
        const int middle = (low + most) >> 1;
        if (within(middle)) {
            most = middle;
        } else {
            low = middle;
        }
    }
    return most;
}

// Whether values like those of a sample, as many as the shape has, take at most `bits` each.
[[maybe_unused]] bool rate_fits(const CodedShape &shape, const CodesIn &sample, double bits) {
    const TablesForm form(shape, sample);
    const auto lanes = [](size_t count) { return size_t{24} << path_lanes_log2(count); };
    const size_t tables = 8 * form.tables_size();
    const auto growing = static_cast<double>(form.cost() - 256 * (tables + lanes(sample.count)));
    const auto count = static_cast<double>(shape.count);
    const double fixed =
        static_cast<double>(tables + lanes(std::min<size_t>(shape.count, kCodedBlock))) +
        kBlockHead;
    return growing * (count / static_cast<double>(sample.count)) +
               256 * fixed * static_cast<double>(shape.blocks()) <=
           256 * bits * count;
}

} // namespace
} // namespace fewbits
