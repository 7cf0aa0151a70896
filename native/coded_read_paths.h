// Blocks of levels on paths of a trellis, as a reader takes them.
#pragma once

#include "coded_parts.h"
#include "phases.h"
#include "trellis.h"

namespace fewbits {
namespace { // internal linkage: see random.h

// Puts escaped levels where they belong: magnitudes, then signs.
[[gnu::noinline]] fewbits_status read_path_escapes(const CodedShape &shape, ConstBytes &data,
                                                   const uint8_t *found, uint32_t escape,
                                                   const Path &path, size_t count) {
    uint16_t escaped[kCodedBlock], marks[kCodedBlock];
    const auto escapes = static_cast<size_t>(std::count_if(found, found + count, is_escaped));
    const auto status = read_escaped(shape, data, {escaped, escapes}, {marks, escapes});
    bool needless = false;
    for (size_t i = 0, next = 0; status == FEWBITS_OK && next < escapes; ++i) {
        if (is_escaped(found[i])) {
            const int32_t code = escaped[next];
            const int32_t level = marks[next] != 0 ? -code : code;
            const uint32_t top = path.words != nullptr ? path.words[i] >> 28 : 0;
            needless |= (level & 3) != (path.levels[i] & 3) || (code == 0 && marks[next] != 0) ||
                        path_symbol(level, top).symbol < escape;
            path.levels[i] = level;
            ++next;
        }
    }
    return needless ? FEWBITS_CODED_ESCAPE : status;
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
    const uint8_t head = data[1];
    if ((head & kReservedHead) != 0 || (head & 7) > kMostLanes) {
        return FEWBITS_CODED_KIND;
    }
    if (data.size() < 3) {
        return FEWBITS_CODED_SHORT;
    }
    const size_t number = data[2];
    if (number != 1 && number != 2 && !(number == 4 && path.words != nullptr)) {
        return FEWBITS_CODED_TABLE;
    }
    const int lanes = path_lanes_log2(codes.count);
    if ((head & 7) != lanes) {
        return FEWBITS_CODED_TABLE;
    }
    data = data.subspan(3);
    const auto each = static_cast<uint32_t>(256 / number);
    RansDecodeTable tables[kPhaseTables];
    for (size_t i = 0; i < number; ++i) {
        size_t used = 0;
        const auto status = read_table(data, each, 256, head >> 3 & 7, tables[i], used);
        if (status != FEWBITS_OK) {
            return status;
        }
        data = data.subspan(used);
        set_path_slots(tables[i], each - 2);
    }
    uint8_t found[kCodedBlock];
    const std::span<int32_t> levels = {path.levels, codes.count};
    const PathTables known = {tables, path_shift(number)};
    auto status =
        read_lanes(data, size_t{1} << lanes, [&](ConstBytes words, std::span<uint32_t> states) {
            return kernels().trellis.decode(words, known, states, path.states, path.words, levels,
                                            found);
        });
    if (status == FEWBITS_OK && any_escaped({found, codes.count})) {
        status = read_path_escapes(shape, data, found, each - 2, path, codes.count);
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

} // namespace
} // namespace fewbits
