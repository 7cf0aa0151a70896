// Selection and the Walsh-Hadamard transform as select.h has them.
#include "draws.h"
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

template <class Bits> Bits copy_signed(In<Bits> values, const Stream *stream, Out<Bits> out) {
    constexpr Bits sign = Bits{1} << (8 * sizeof(Bits) - 1);
    constexpr size_t piece = 1024;
    Bits largest = 0;
    for (size_t start = 0; start < values.size(); start += piece) {
        const size_t count = std::min(piece, values.size() - start);
        uint32_t words[piece] = {};
        if (stream != nullptr) {
            portable_common.words(stream->from(start), {words, count});
        }
        for (size_t i = 0; i < count; ++i) {
            const Bits value = values[start + i];
            largest = std::max(largest, static_cast<Bits>(value & (sign - 1)));
            out[start + i] = value ^ static_cast<Bits>(words[i] >> 31) << (8 * sizeof(Bits) - 1);
        }
    }
    return largest;
}

DrawCounts draws_near(const Stream &stream, size_t count, DrawRange range,
                      std::span<uint32_t> near) {
    return near_exactly(stream, 0, count, range, near, {});
}

void draws_mask(const Stream &stream, uint32_t low, std::span<uint32_t> masks) {
    const Segment segment(stream.key, static_cast<uint32_t>(stream.first >> 32));
    auto index = static_cast<uint32_t>(stream.first);
    for (uint32_t &mask : masks) {
        mask = 0;
        for (size_t bit = 0; bit < kMaskBits; ++bit) {
            mask |= static_cast<uint32_t>(segment.word(index++) >= low) << bit;
        }
    }
}

} // namespace

constinit const StageKernels portable_stages = {
    count_keys,
    gather_keys,
    near_keys,
    take_keys,
    hadamard<float>,
    hadamard<double>,
    copy_signed<uint32_t>,
    copy_signed<uint64_t>,
    draws_near,
    draws_mask,
};

} // namespace fewbits
