// Blocks of dithered codes with a table for each phase, as a reader takes them.
#pragma once

#include "coded_read_tables.h"

namespace fewbits {
namespace { // internal linkage: see random.h

// Puts escaped codes where they belong.
fewbits_status read_phase_escapes(const CodedShape &shape, ConstBytes &data, ConstBytes symbols,
                                  const CodesOut &codes) {
    const auto is_escape = [](uint8_t symbol) { return symbol == kPhaseEscape; };
    const auto put = [&](size_t i, uint16_t code, bool negative) {
        codes.bytes[i] = static_cast<uint8_t>(std::min<uint16_t>(code, kEscape));
        if (shape.wide()) {
            codes.words[i] = code;
        }
        const auto others = static_cast<uint8_t>(codes.signs[i / 8] & ~(1u << i % 8));
        codes.signs[i / 8] = static_cast<uint8_t>(others | negative << (i % 8));
        return code <= kPhaseLargest;
    };
    return read_escaped_codes(shape, data, symbols, is_escape, put);
}

// A block with a table for each phase of the dither, and its signs.
[[gnu::noinline]] fewbits_status read_phased(const CodedShape &shape, ConstBytes data,
                                             const CodesOut &codes) {
    TablesHead head;
    auto status = read_tables_head(data, head);
    if (status == FEWBITS_OK && head.number != kPhaseTables) {
        status = FEWBITS_CODED_TABLE;
    }
    if (status != FEWBITS_OK) {
        return status;
    }
    const uint32_t escape = shape.bound - 1 > kPhaseLargest ? kPhaseEscape : 256;
    const uint32_t allowed = std::min(2 * shape.bound - 1, kPhaseEscape);
    RansDecodeTable tables[kPhaseTables];
    status = read_tables(data, allowed, escape, head.coarse, tables,
                         [](uint32_t symbol) { return symbol; });
    if (status != FEWBITS_OK) {
        return status;
    }
    uint8_t phases[kCodedBlock], symbols[kCodedBlock];
    kernels().phases.find(*codes.dither, {phases, codes.count});
    status = read_phase_symbols(data, tables, size_t{1} << head.lanes, {phases, codes.count},
                                {symbols, codes.count});
    if (status != FEWBITS_OK) {
        return status;
    }
    kernels().phases.unfold({symbols, codes.count}, {phases, codes.count}, codes.bytes,
                            codes.signs);
    const bool escapes =
        std::memchr(symbols, static_cast<int>(kPhaseEscape), codes.count) != nullptr;
    const bool words = shape.wide() && (escapes || codes.small == nullptr);
    if (shape.wide() && !words) {
        *codes.small = true;
    }
    for (size_t i = 0; words && i < codes.count; ++i) {
        codes.words[i] = codes.bytes[i];
    }
    if (escapes) {
        status = read_phase_escapes(shape, data, {symbols, codes.count}, codes);
    }
    return status != FEWBITS_OK || data.empty() ? status : FEWBITS_CODED_LONG;
}

} // namespace
} // namespace fewbits
