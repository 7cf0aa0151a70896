// Blocks of dithered codes with a table for each phase, as a reader takes them.
#pragma once

#include "coded_parts.h"
#include "phases.h"

namespace fewbits {
namespace { // internal linkage: see random.h

// Puts escaped codes where they belong: magnitudes, then signs.
fewbits_status read_phase_escapes(const CodedShape &shape, ConstBytes &data, ConstBytes symbols,
                                  const CodesOut &codes) {
    uint16_t escaped[kCodedBlock], marks[kCodedBlock];
    const auto escapes =
        static_cast<size_t>(std::count(symbols.begin(), symbols.end(), uint8_t{kPhaseEscape}));
    const auto status = read_escaped(shape, data, {escaped, escapes}, {marks, escapes});
    if (status != FEWBITS_OK) {
        return status;
    }
    bool needless = false;
    for (size_t i = 0, next = 0; next < escapes; ++i) {
        if (symbols[i] == kPhaseEscape) {
            const uint16_t code = escaped[next];
            needless |= code <= kPhaseLargest;
            codes.bytes[i] = static_cast<uint8_t>(std::min<uint16_t>(code, kEscape));
            if (shape.wide()) {
                codes.words[i] = code;
            }
            const auto others = static_cast<uint8_t>(codes.signs[i / 8] & ~(1u << i % 8));
            codes.signs[i / 8] = static_cast<uint8_t>(others | marks[next] << (i % 8));
            ++next;
        }
    }
    return needless ? FEWBITS_CODED_ESCAPE : FEWBITS_OK;
}

// A block with a table for each phase of the dither, and its signs.
[[gnu::noinline]] fewbits_status read_phased(const CodedShape &shape, ConstBytes data,
                                             const CodesOut &codes) {
    const uint8_t head = data[1];
    if ((head & kReservedHead) != 0 || (head & 7) > kMostLanes) {
        return FEWBITS_CODED_KIND;
    }
    if (data.size() < 3) {
        return FEWBITS_CODED_SHORT;
    }
    if (data[2] != kPhaseTables) {
        return FEWBITS_CODED_TABLE;
    }
    data = data.subspan(3);
    const uint32_t escape = shape.bound - 1 > kPhaseLargest ? kPhaseEscape : 256;
    const uint32_t allowed = std::min(2 * shape.bound - 1, kPhaseEscape);
    RansDecodeTable tables[kPhaseTables];
    for (RansDecodeTable &table : tables) {
        size_t used = 0;
        const auto status = read_table(data, allowed, escape, head >> 3 & 7, table, used);
        if (status != FEWBITS_OK) {
            return status;
        }
        data = data.subspan(used);
    }
    uint8_t phases[kCodedBlock], symbols[kCodedBlock];
    kernels().phases.find(*codes.dither, {phases, codes.count});
    auto status = read_phase_symbols(data, tables, size_t{1} << (head & 7), {phases, codes.count},
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
