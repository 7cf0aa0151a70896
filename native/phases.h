// Phases of a dither, and the symbols of codes that were rounded with it. The specification is
// src/fewbits/coding/phases.py.
//
// A code q that was rounded with the dither u stands for q - u. The reader knows u, hence |u|, by
// which it chooses among four tables, and the sign of u, by which codes are turned so that small
// symbols stand for small numbers. Folding makes symbols of codes, those above 254 as 255, and a
// plane of signs; they count through the tables. Those that are read and unfolded do not.
#pragma once

#include <algorithm>

#include "random.h"
#include "rans.h"

namespace fewbits {

constexpr size_t kPhaseTables = 4;
constexpr int kPhaseSymbolBits = 6; // a byte has the symbol below the number of its table
constexpr uint32_t kPhaseEscape = (1u << kPhaseSymbolBits) - 1;
constexpr uint32_t kPhaseLargest = kPhaseEscape / 2; // the last magnitude that has symbols
constexpr uint8_t kPhaseTurned = 4;                  // in a phase, above the number of its table

namespace { // internal linkage: see random.h

// The phase of the dither that a random word gives.
[[maybe_unused]] uint8_t phase_of(uint32_t word) {
    const uint32_t top = word >> 29;
    return static_cast<uint8_t>((top & kPhaseTurned) != 0 ? top : top ^ 3);
}

[[maybe_unused]] uint8_t folded_symbol(uint32_t code, bool negative, uint8_t phase) {
    const bool below = negative != ((phase & kPhaseTurned) != 0) && code != 0;
    const uint32_t symbol = code > kPhaseLargest ? kPhaseEscape : 2 * code - below;
    return static_cast<uint8_t>(symbol | uint32_t{phase} << kPhaseSymbolBits);
}

[[maybe_unused]] bool unfolded_sign(uint8_t symbol, uint8_t phase) {
    return symbol != 0 && (symbol % 2 != 0) != ((phase & kPhaseTurned) != 0);
}

// Decodes symbols from `start` on, each with the table of its phase.
[[maybe_unused]] const uint8_t *rans_decode_phases(const uint8_t *from, const uint8_t *end,
                                                   const RansDecodeTable *tables,
                                                   std::span<uint32_t> states, ConstBytes phases,
                                                   Bytes symbols, size_t start) {
    return rans_decode_each(
        from, end, states, start, symbols.size(),
        [&](size_t i) -> const RansDecodeTable & { return tables[phases[i] % kPhaseTables]; },
        [&](size_t i, uint32_t slot) { symbols[i] = static_cast<uint8_t>(slot >> 24); });
}

} // namespace
} // namespace fewbits
