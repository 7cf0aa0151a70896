// Blocks of levels on paths of a trellis, as a reader takes them.
#pragma once

#include "coded_read_tables.h"
#include "trellis.h"

namespace fewbits {
namespace { // internal linkage: see random.h

// Puts escaped levels where they belong.
[[gnu::noinline]] fewbits_status read_path_escapes(const CodedShape &shape, ConstBytes &data,
                                                   ConstBytes found, uint32_t escape,
                                                   const Path &path) {
    return read_escaped_codes(
        shape, data, found, is_escaped, [&](size_t i, uint16_t code, bool negative) {
            const int32_t level = negative ? -code : code;
            const uint32_t top = path.words != nullptr ? path.words[i] >> 28 : 0;
            const bool wrong = (level & 3) != (path.levels[i] & 3);
            path.levels[i] = level;
            return wrong || (code == 0 && negative) || path_symbol(level, top).symbol < escape;
        });
}

// All are looked at: a loop that ends early is not made of vectors.
bool any_escaped(ConstBytes found) {
    uint8_t least = UINT8_MAX; // escapes are 127 and 128
    for (const uint8_t each : found) {
        least = std::min(least, static_cast<uint8_t>(each - kEscapedOdd));
    }
    return least < 2;
}

// A block of levels on paths of a trellis.
[[gnu::noinline]] fewbits_status read_path(const CodedShape &shape, ConstBytes data,
                                           const CodesOut &codes) {
    const Path &path = *codes.path;
    TablesHead head;
    auto status = read_tables_head(data, head);
    if (status != FEWBITS_OK) {
        return status;
    }
    const bool allowed =
        head.number == 1 || head.number == 2 || (head.number == 4 && path.words != nullptr);
    if (!allowed || head.lanes != path_lanes_log2(codes.count)) {
        return FEWBITS_CODED_TABLE;
    }
    const auto each = static_cast<uint32_t>(256 / head.number);
    RansDecodeTable tables[kPhaseTables];
    status = read_tables(data, each, 256, head.coarse, {tables, head.number});
    if (status != FEWBITS_OK) {
        return status;
    }
    for (size_t i = 0; i < head.number; ++i) {
        set_path_slots(tables[i], each - 2);
    }
    uint8_t found[kCodedBlock];
    const std::span<int32_t> levels = {path.levels, codes.count};
    const PathTables known = {tables, path_shift(head.number)};
    status = read_lanes(data, size_t{1} << head.lanes,
                        [&](ConstBytes words, std::span<uint32_t> states) {
                            return kernels().trellis.decode(words, known, states, path.states,
                                                            path.words, levels, found);
                        });
    if (status == FEWBITS_OK && any_escaped({found, codes.count})) {
        status = read_path_escapes(shape, data, {found, codes.count}, each - 2, path);
    }
    // Symbols stand for levels of up to `each` + 5.
    const auto large = [&](int32_t level) {
        return std::abs(level) >= static_cast<int32_t>(shape.bound);
    };
    if (status == FEWBITS_OK && shape.bound <= each + 5 &&
        std::any_of(levels.begin(), levels.end(), large)) {
        return FEWBITS_BAD_CODE;
    }
    return status != FEWBITS_OK || data.empty() ? status : FEWBITS_CODED_LONG;
}

// Halves of levels become levels, each with the parity of its path.
[[gnu::noinline]] fewbits_status double_levels(const CodedShape &shape, size_t count,
                                               const Path &path) {
    const TrellisCode code(path.states);
    const size_t lane_mask = (size_t{1} << path_lanes_log2(count)) - 1;
    int at[1 << kMostPathLanes] = {};
    int32_t largest = 0;
    for (size_t i = 0; i < count; ++i) {
        int &state = at[i & lane_mask];
        const int32_t half = path.levels[i];
        const int32_t level = 2 * half + (state & 1);
        path.levels[i] = level;
        largest = std::max(largest, std::abs(level));
        state = code.next(state, half & 1);
    }
    return largest < static_cast<int32_t>(shape.bound) ? FEWBITS_OK : FEWBITS_BAD_CODE;
}

} // namespace
} // namespace fewbits
