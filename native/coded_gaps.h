// The places of a sparse block's codes that are not 0, as gaps between them: a model that follows
// from two numbers, in integers only. src/fewbits/coding/gaps.py says why it is this one.
#pragma once

#include <algorithm>
#include <bit>

#include "coded.h"
#include "rans.h"

namespace fewbits {
namespace { // internal linkage: see random.h

constexpr size_t kGapShare = 8; // at most one code in so many is not 0
constexpr size_t kMostGaps = kCodedBlock / kGapShare;
constexpr int kStepWidth = 16;                      // bits of a step that has no symbol
constexpr uint64_t kLeastRatio = uint64_t{5} << 29; // of 2^32

// A gap's low bits travel as they are; its step, what is above them, has a symbol, or the last one
// if it is too large for one of its own.
struct GapModel {
    int low = 0;
    size_t symbols = 0;
    uint16_t frequencies[64];

    // Of `count` codes, 1 <= nonzero <= count / 8 are not 0: so there are 38 symbols at most.
    GapModel(size_t count, size_t nonzero) {
        uint64_t ratio = (uint64_t{count - nonzero} << 32) / count;
        for (uint64_t next; (next = ratio * ratio >> 32) >= kLeastRatio; ++low) {
            ratio = next;
        }
        constexpr uint64_t slot = (uint64_t{1} << 32) / kRansTotal;
        uint32_t sum = 1;
        for (uint64_t left = uint64_t{1} << 32; left >= slot;) {
            const uint64_t after = left * ratio >> 32;
            const auto frequency =
                static_cast<uint32_t>(std::max<uint64_t>((left - after) / slot, 1));
            frequencies[symbols++] = static_cast<uint16_t>(frequency);
            sum += frequency;
            left = after;
        }
        frequencies[symbols++] = 1;
        frequencies[0] = static_cast<uint16_t>(frequencies[0] + kRansTotal - sum);
    }

    uint32_t escape() const { return static_cast<uint32_t>(symbols - 1); }
};

// A lane costs three bytes; one for 2048 gaps is less than one percent.
[[maybe_unused]] size_t gap_lanes(size_t nonzero) {
    return size_t{1} << std::bit_width(nonzero >> 11);
}

} // namespace
} // namespace fewbits
