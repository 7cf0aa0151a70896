// Selection and the Walsh-Hadamard transform as select.h has them.
#include "portable/portable.h"
#include "select.h"

namespace fewbits {
namespace {

void count_keys(In<uint32_t> values, uint32_t mask, KeyRange<uint32_t> among, KeyCounts &counts) {
    count_any(values, mask, among, counts);
}

size_t gather_keys(In<uint32_t> values, uint32_t mask, uint32_t threshold, size_t ties,
                   std::span<uint32_t> places) {
    return gather_any(values, mask, threshold, ties, places);
}

size_t near_keys(In<uint32_t> values, uint32_t mask, KeyBand<uint32_t> band, uint32_t *near,
                 uint64_t &above) {
    return near_any(values, mask, band, near, above);
}

size_t take_keys(In<uint32_t> values, uint32_t mask, uint32_t threshold, uint64_t &ties,
                 uint32_t *places, uint32_t *taken) {
    return take_any(values, mask, threshold, ties, places, taken);
}

template <class T> void hadamard(std::span<T> values, T scale) {
    levels(values.data(), values.size(), 1);
    multiply(values, scale);
}

} // namespace

constinit const StageKernels portable_stages = {count_keys, gather_keys,     near_keys,
                                                take_keys,  hadamard<float>, hadamard<double>};

} // namespace fewbits
