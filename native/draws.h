// Places drawn at random: those whose words of a stream are large enough. Words of one segment of
// the stream are all different, because every step from an index to its word can be undone.
#pragma once

#include "fewbits_stages.h"
#include "kernels.h"
#include "random.h"

namespace fewbits {

constexpr size_t kMaskBits = 32;

// Words from `low` to `high`.
struct DrawRange {
    uint32_t low, high;
};

struct DrawCounts {
    uint64_t above;  // words above the range
    uint64_t within; // words in it
};

namespace { // internal linkage: see random.h

[[maybe_unused]] DrawCounts near_exactly(const Stream &stream, size_t begin, size_t end,
                                         DrawRange range, std::span<uint32_t> near,
                                         DrawCounts counts) {
    const Segment segment(stream.key, static_cast<uint32_t>(stream.first >> 32));
    const auto first = static_cast<uint32_t>(stream.first);
    for (size_t i = begin; i < end; ++i) {
        const uint32_t word = segment.word(first + static_cast<uint32_t>(i));
        counts.above += word > range.high;
        if (word >= range.low && word <= range.high) {
            if (counts.within < near.size()) {
                near[counts.within] = word;
            }
            ++counts.within;
        }
    }
    return counts;
}

} // namespace
} // namespace fewbits
