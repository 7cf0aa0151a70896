// Parts of blocks with several tables, as a reader takes them.
#pragma once

#include "coded_parts.h"
#include "phases.h"

namespace fewbits {
namespace { // internal linkage: see random.h

// What such a block begins with.
struct TablesHead {
    int lanes; // log2
    int coarse;
    size_t number; // of tables
};

fewbits_status read_tables_head(ConstBytes &data, TablesHead &head) {
    const uint8_t first = data[1];
    head.lanes = first & 7;
    head.coarse = first >> 3 & 7;
    if ((first & kReservedHead) != 0 || head.lanes > kMostLanes) {
        return FEWBITS_CODED_KIND;
    }
    if (data.size() < 3) {
        return FEWBITS_CODED_SHORT;
    }
    head.number = data[2];
    data = data.subspan(3);
    return FEWBITS_OK;
}

// Tables whose symbols are all below `symbols`, or the escape; slots have their names.
template <class Named>
fewbits_status read_tables(ConstBytes &data, uint32_t symbols, uint32_t escape, int coarse,
                           std::span<RansDecodeTable> tables, Named named) {
    for (RansDecodeTable &table : tables) {
        size_t used = 0;
        const auto status = read_named_table(data, symbols, escape, coarse, table, used, named);
        if (status != FEWBITS_OK) {
            return status;
        }
        data = data.subspan(used);
    }
    return FEWBITS_OK;
}

// Codes without a symbol, magnitudes and then signs. `put(i, code, negative)` has each of them, of
// the place i where `found` is escaped; it says whether that had a symbol.
template <class Escaped, class Put>
fewbits_status read_escaped_codes(const CodedShape &shape, ConstBytes &data, ConstBytes found,
                                  Escaped is_escaped, Put put) {
    uint16_t codes[kCodedBlock], signs[kCodedBlock];
    const auto escapes = static_cast<size_t>(std::count_if(found.begin(), found.end(), is_escaped));
    auto status = FEWBITS_CODED_SHORT;
    const size_t size = packed_size(escapes, shape.width());
    if (data.size() >= size) {
        status =
            kernels().common.unpack(data.first(size), shape.width(), shape.bound, {codes, escapes});
        data = data.subspan(size);
    }
    if (status == FEWBITS_OK) {
        status = read_plain(data, 1, {signs, escapes});
    }
    bool needless = false;
    for (size_t i = 0, next = 0; status == FEWBITS_OK && next < escapes; ++i) {
        if (is_escaped(found[i])) {
            needless |= put(i, codes[next], signs[next] != 0);
            ++next;
        }
    }
    return needless ? FEWBITS_CODED_ESCAPE : status;
}

} // namespace
} // namespace fewbits
