// Plain parts of coded blocks: codes of a fixed width, constants, escapes, symbols of wide codes.
#pragma once

#include <algorithm>
#include <numeric>

#include "coded_tables.h"

namespace fewbits {
namespace { // internal linkage: see random.h

// The smallest base whose window [base, base + 253] holds most of the codes that are not 0, of
// which there is one at least.
uint32_t choose_base(std::span<const uint16_t> codes, uint32_t bound) {
    uint32_t lowest = bound;
    uint32_t highest = 0;
    for (const uint32_t code : codes) {
        lowest = code == 0 ? lowest : std::min(lowest, code);
        highest = std::max(highest, code);
    }
    // Windows that end below the lowest code or begin above the highest hold nothing.
    const uint32_t first_base = lowest < kWindow ? 1 : lowest - kWindow + 1;
    const uint32_t last_base = std::min(highest, bound - kWindow);
    uint16_t counts[65536]; // enough for a count of 65,535: the codes are not all equal
    std::fill(counts + first_base, counts + last_base + kWindow, uint16_t{0});
    counts[0] = 0;
    for (const uint16_t code : codes) {
        ++counts[code];
    }
    uint32_t held = std::accumulate(counts + first_base, counts + first_base + kWindow, 0u);
    uint32_t most = held;
    uint32_t best = first_base;
    for (uint32_t base = first_base + 1; base <= last_base; ++base) {
        held = held + counts[base + kWindow - 1] - counts[base - 1];
        if (held > most) {
            most = held;
            best = base;
        }
    }
    return best;
}

// Codes of a wide section may come as bytes if none is above 254: they are the symbols then, and
// the base is 1, which is what choose_base would find.
bool in_words(const CodedShape &shape, const CodesIn &codes) {
    return shape.wide() && codes.words != nullptr;
}

uint32_t code_at(const CodedShape &shape, const CodesIn &codes, size_t i) {
    return in_words(shape, codes) ? codes.words[i] : codes.bytes[i];
}

uint8_t *write_raw(const CodedShape &shape, const CodesIn &codes, uint8_t *to) {
    if (shape.width() == 8) {
        std::memcpy(to, codes.bytes, codes.count);
        return to + codes.count;
    }
    BitWriter bits(to);
    for (size_t i = 0; i < codes.count; ++i) {
        bits.put(code_at(shape, codes, i), shape.width());
    }
    return bits.end();
}

uint8_t *write_constant(uint32_t code, uint8_t *to) {
    to[0] = kConstant;
    to[1] = static_cast<uint8_t>(code);
    to[2] = static_cast<uint8_t>(code >> 8);
    return to + 3;
}

// The codes that have no symbol of their own.
uint8_t *write_escapes(const CodedShape &shape, const CodesIn &codes, ConstBytes symbols,
                       uint8_t *to) {
    BitWriter bits(to);
    for (size_t i = 0; i < codes.count; ++i) {
        if (symbols[i] == kEscape) {
            bits.put(codes.words[i], shape.width());
        }
    }
    return bits.end();
}

// The symbols of wide codes; returns the base that they are relative to.
uint32_t write_symbols(const CodedShape &shape, const CodesIn &codes, uint8_t *symbols) {
    const uint16_t *const words = codes.words;
    if (std::memcmp(words, words + 1, 2 * (codes.count - 1)) == 0) { // all equal: 0, or the base
        std::memset(symbols, words[0] != 0, codes.count);
        return words[0];
    }
    const uint32_t base = choose_base({codes.words, codes.count}, shape.bound);
    for (size_t i = 0; i < codes.count; ++i) {
        const uint32_t code = codes.words[i];
        const uint32_t symbol = in_window(code, base) ? code - base + 1 : kEscape;
        symbols[i] = static_cast<uint8_t>(code == 0 ? 0 : symbol);
    }
    return base;
}

} // namespace
} // namespace fewbits
