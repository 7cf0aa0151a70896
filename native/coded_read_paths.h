// Blocks of levels on paths of a trellis, as a reader takes them.
#pragma once

#include <optional>

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

// The tables of a block of levels, behind its head, and what is known of all their symbols.
struct LevelTables {
    RansDecodeTable each[kPhaseTables];
    int32_t largest = 0;  // of j
    bool escapes = false; // some symbol

    fewbits_status read(ConstBytes &data, const TablesHead &head) {
        const uint32_t symbols = symbols_of(head);
        return read_tables(data, symbols, 256, head.coarse, {each, head.number},
                           [&](uint32_t symbol) {
                               const int32_t j = path_slot(symbol, symbols - 2);
                               escapes |= symbol >= symbols - 2;
                               largest = std::max(largest, std::abs(j));
                               return j;
                           });
    }
    static uint32_t symbols_of(const TablesHead &head) {
        return static_cast<uint32_t>(256 / head.number);
    }
};

fewbits_status read_levels_head(ConstBytes &data, size_t count, bool dithered, TablesHead &head) {
    const auto status = read_tables_head(data, head);
    if (status != FEWBITS_OK) {
        return status;
    }
    const bool allowed = head.number == 1 || head.number == 2 || (head.number == 4 && dithered);
    return allowed && head.lanes == path_lanes_log2(count) ? FEWBITS_OK : FEWBITS_CODED_TABLE;
}

// A block of levels on paths of a trellis.
[[gnu::noinline]] fewbits_status read_path(const CodedShape &shape, ConstBytes data,
                                           const CodesOut &codes) {
    const Path &path = *codes.path;
    TablesHead head;
    auto status = read_levels_head(data, codes.count, path.words != nullptr, head);
    if (status != FEWBITS_OK) {
        return status;
    }
    LevelTables tables;
    status = tables.read(data, head);
    if (status != FEWBITS_OK) {
        return status;
    }
    const uint32_t each = LevelTables::symbols_of(head);
    uint8_t found[kCodedBlock];
    const std::span<int32_t> levels = {path.levels, codes.count};
    const PathTables known = {tables.each, path_shift(head.number)};
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

// The same to values at once, if all levels are small and the kernels can do that.
[[gnu::noinline]] std::optional<fewbits_status>
read_path_values(const CodedShape &shape, ConstBytes data, int trellis, const PathValues &to) {
    TablesHead head;
    const auto decode = kernels().trellis.decode_values;
    const bool likely = decode != nullptr && data.size() > 1 && data[0] == kRans &&
                        (data[1] & kPhased) != 0 && to.scale < kLargestPathScale;
    if (!likely ||
        read_levels_head(data, to.values.size(), to.dither != nullptr, head) != FEWBITS_OK ||
        head.lanes != kMostPathLanes) {
        return std::nullopt;
    }
    LevelTables tables;
    if (tables.read(data, head) != FEWBITS_OK || tables.escapes || tables.largest > kLargestSoon) {
        return std::nullopt;
    }
    const PathTables known = {tables.each, path_shift(head.number)};
    uint32_t largest = 0;
    const auto status = read_lanes(data, size_t{1} << head.lanes,
                                   [&](ConstBytes words, std::span<uint32_t> states) {
                                       return decode(words, known, states, trellis, to, largest);
                                   });
    if (status == FEWBITS_OK && largest >= shape.bound) {
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
