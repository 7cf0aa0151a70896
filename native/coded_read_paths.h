// Blocks of levels on paths of a trellis, as a reader takes them.
#pragma once

#include "coded_parts.h"
#include "phases.h"
#include "trellis.h"

namespace fewbits {
namespace { // internal linkage: see random.h

// Levels of a block of paths, whose escapes are read and whose signs are set.
fewbits_status finish_path(const CodedShape &shape, ConstBytes &data, const uint8_t *symbols,
                           const uint8_t *tops, uint32_t escape, std::span<int32_t> levels,
                           const CodesOut &codes) {
    uint16_t escaped[kCodedBlock], marks[kCodedBlock];
    const auto escapes = static_cast<size_t>(std::count_if(
        symbols, symbols + levels.size(), [&](uint8_t symbol) { return symbol >= escape; }));
    const size_t size = packed_size(escapes, shape.width());
    if (data.size() < size) {
        return FEWBITS_CODED_SHORT;
    }
    auto status =
        kernels().common.unpack(data.first(size), shape.width(), shape.bound, {escaped, escapes});
    data = data.subspan(size);
    if (status == FEWBITS_OK) {
        status = read_plain(data, 1, {marks, escapes});
    }
    if (status != FEWBITS_OK) {
        return status;
    }
    bool needless = false;
    bool large = false;
    std::memset(codes.signs, 0, packed_size(levels.size(), 1));
    for (size_t i = 0, next = 0; i < levels.size(); ++i) {
        int32_t level = levels[i];
        if (symbols[i] >= escape) {
            const int32_t code = escaped[next];
            const int32_t own = marks[next++] != 0 ? -code : code;
            needless |= (own & 3) != (level & 3) || path_symbol(own, tops[i]).symbol < escape;
            needless |= own == 0 && marks[next - 1] != 0;
            level = own;
        }
        const auto magnitude = static_cast<uint32_t>(std::abs(level));
        large |= magnitude >= shape.bound;
        codes.bytes[i] = static_cast<uint8_t>(std::min(magnitude, kEscape));
        if (shape.wide()) {
            codes.words[i] = static_cast<uint16_t>(magnitude);
        }
        codes.signs[i / 8] = static_cast<uint8_t>(codes.signs[i / 8] | (level < 0) << (i % 8));
    }
    return needless ? FEWBITS_CODED_ESCAPE : large ? FEWBITS_BAD_CODE : FEWBITS_OK;
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
    if (number != 2 && !(number == 4 && path.dithered)) {
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
    }
    uint8_t tops[kCodedBlock] = {}, symbols[kCodedBlock];
    int32_t levels[kCodedBlock];
    if (path.dithered) {
        uint32_t words[1024];
        for (size_t start = 0; start < codes.count; start += 1024) {
            const size_t size = std::min<size_t>(1024, codes.count - start);
            kernels().common.words(path.dither.from(start), {words, size});
            for (size_t i = 0; i < size; ++i) {
                tops[start + i] = static_cast<uint8_t>(words[i] >> 28);
            }
        }
    }
    const PathTables known = {tables, number == 4 ? 0 : 1, each - 2};
    auto status =
        read_lanes(data, size_t{1} << lanes, [&](ConstBytes words, std::span<uint32_t> states) {
            return kernels().trellis.decode(words, known, states, path.states, tops,
                                            {levels, codes.count}, symbols);
        });
    if (status == FEWBITS_OK) {
        status = finish_path(shape, data, symbols, tops, each - 2, {levels, codes.count}, codes);
    }
    return status != FEWBITS_OK || data.empty() ? status : FEWBITS_CODED_LONG;
}

} // namespace
} // namespace fewbits
