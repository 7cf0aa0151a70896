// The arithmetic of the entropy coder, rANS: tables, and the steps of one lane that every table of
// kernels shares. docs/format.md and src/fewbits/coding/rans.py say what the bytes mean.
//
// A state x in [2^15, 2^31) holds the symbols that were encoded into it. Encoding a symbol of
// frequency f (of 4096) and first slot c takes x to (x / f) * 4096 + c + x % f; decoding takes it
// back. A state that would leave its range first gives up its low 16 bits, a word. Symbol i belongs
// to lane i % lanes. Encoding runs from the last symbol to the first and writes words downwards, so
// that decoding reads everything forwards.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels.h"

namespace fewbits {

constexpr int kRansBits = 12;
constexpr uint32_t kRansTotal = 1u << kRansBits; // frequencies add up to this
constexpr uint32_t kRansLow = 1u << 15;          // where states start, and their smallest value
constexpr uint32_t kRansHigh = 1u << 31;
constexpr size_t kMaxLanes = 64;

// What encoding a symbol needs, in one load: bits 0 to 31 a reciprocal of the frequency, 32 to 43
// the frequency, 44 to 47 a shift, 48 to 63 a bias.
struct RansEncodeTable {
    uint64_t entries[256] = {};
    size_t symbols = 0; // all are below

    // Division by f is a multiplication by the rounded-up 2^(31 + s) / f, 2^s >= f, which is exact
    // for every x < 2^31. Nothing in 32 bits multiplies by 1, so f = 1 multiplies by 1 - 2^-32
    // instead: that gives x - 1, and the bias makes up for it.
    void set(uint8_t symbol, uint32_t frequency, uint32_t first) {
        uint64_t reciprocal = UINT32_MAX;
        uint64_t shift = 0;
        uint64_t bias = first + kRansTotal - 1;
        if (frequency > 1) {
            const auto s = static_cast<int>(std::bit_width(frequency - 1));
            reciprocal = ((uint64_t{1} << (31 + s)) + frequency - 1) / frequency;
            shift = static_cast<uint64_t>(s - 1);
            bias = first;
        }
        symbols = std::max<size_t>(symbols, symbol + size_t{1});
        entries[symbol] = reciprocal | uint64_t{frequency} << 32 | shift << 44 | bias << 48;
    }
};

// For each slot: bits 0 to 11 the frequency of its symbol, 12 to 23 its place among the symbol's
// slots, 24 to 31 the symbol.
struct RansDecodeTable {
    uint32_t slots[kRansTotal];

    void set(uint8_t symbol, uint32_t frequency, uint32_t first) {
        const uint32_t common = frequency | uint32_t{symbol} << 24;
        for (uint32_t place = 0; place < frequency; ++place) {
            slots[first + place] = common | place << 12;
        }
    }
};

namespace { // internal linkage: see random.h

// Encodes symbols [0, count) into states and words that end at `end`; returns where they begin, or
// null if they need bytes below `limit`.
[[maybe_unused]] uint8_t *rans_encode_lanes(const uint8_t *symbols, size_t count,
                                            const RansEncodeTable &table,
                                            std::span<uint32_t> states, uint8_t *limit,
                                            uint8_t *end) {
    const size_t lane_mask = states.size() - 1;
    for (size_t i = count; i-- > 0;) {
        uint32_t &state = states[i & lane_mask];
        const uint64_t entry = table.entries[symbols[i]];
        const auto frequency = static_cast<uint32_t>(entry >> 32) & (kRansTotal - 1);
        uint32_t x = state;
        if (x >= frequency << 19) {
            if (end - limit < 2) {
                return nullptr;
            }
            end -= 2;
            const auto word = static_cast<uint16_t>(x);
            std::memcpy(end, &word, 2);
            x >>= 16;
        }
        const uint64_t product = uint64_t{x} * static_cast<uint32_t>(entry);
        const auto quotient = static_cast<uint32_t>(product >> 32 >> ((entry >> 44) & 15));
        state = x + static_cast<uint32_t>(entry >> 48) + quotient * (kRansTotal - frequency);
    }
    return end;
}

// A lane leaves its slot, with a word from `from`, which moves, if it needs one; false if there is
// none.
[[maybe_unused, gnu::always_inline]] inline bool
rans_leave(uint32_t slot, uint32_t &state, const uint8_t *&from, const uint8_t *end) {
    uint32_t x =
        (slot & (kRansTotal - 1)) * (state >> kRansBits) + ((slot >> 12) & (kRansTotal - 1));
    if (x < kRansLow) {
        if (end - from < 2) {
            return false;
        }
        uint16_t word;
        std::memcpy(&word, from, 2);
        from += 2;
        x = x << 16 | word;
    }
    state = x;
    return true;
}

// Decodes places [start, count), start a multiple of the lanes, from words at `from`: a place has
// the slots of `table(i)`, and `take(i, slot)` has the one that was found. Returns where the words
// end, or null if there are not enough.
template <class Table, class Take>
[[gnu::always_inline]] inline const uint8_t *
rans_decode_each(const uint8_t *from, const uint8_t *end, std::span<uint32_t> states, size_t start,
                 size_t count, Table table, Take take) {
    const size_t lane_mask = states.size() - 1;
    for (size_t i = start; i < count; ++i) {
        uint32_t &x = states[i & lane_mask];
        const uint32_t slot = table(i).slots[x & (kRansTotal - 1)];
        if (!rans_leave(slot, x, from, end)) {
            return nullptr;
        }
        take(i, slot);
    }
    return from;
}

// The same for symbols of one table.
[[maybe_unused]] const uint8_t *rans_decode_lanes(const uint8_t *from, const uint8_t *end,
                                                  const RansDecodeTable &table,
                                                  std::span<uint32_t> states, Bytes symbols,
                                                  size_t start) {
    return rans_decode_each(
        from, end, states, start, symbols.size(),
        [&](size_t) -> const RansDecodeTable & { return table; },
        [&](size_t i, uint32_t slot) { symbols[i] = static_cast<uint8_t>(slot >> 24); });
}

// Up to eight bytes as a number, zero beyond the end.
[[maybe_unused]] uint64_t load_word(ConstBytes bytes, size_t at) {
    uint64_t word = 0;
    if (bytes.size() - at >= 8) {
        std::memcpy(&word, bytes.data() + at, 8);
    } else {
        std::memcpy(&word, bytes.data() + at, bytes.size() - at);
    }
    return word;
}

[[maybe_unused]] void store_word(Bytes bytes, size_t at, uint64_t word) {
    std::memcpy(bytes.data() + at, &word, bytes.size() - at >= 8 ? 8 : bytes.size() - at);
}

// The bits of `plane` where `mask` has a one, side by side in `out`, which has exactly the bytes
// that they take. `extract` is the instruction pext or a function like it.
template <class Extract>
void join_bits(ConstBytes plane, ConstBytes mask, Bytes out, Extract extract) {
    uint64_t pending = 0;
    int bits = 0;
    size_t to = 0;
    for (size_t at = 0; at < mask.size(); at += 8) {
        const uint64_t chosen = load_word(mask, at);
        const uint64_t found = extract(load_word(plane, at), chosen);
        pending |= found << bits;
        bits += std::popcount(chosen);
        if (bits >= 64) {
            store_word(out, to, pending);
            to += 8;
            bits -= 64;
            // What was shifted out above; nothing if the word was filled exactly.
            const int used = std::popcount(chosen) - bits;
            pending = used == 64 ? 0 : found >> used;
        }
    }
    if (bits > 0) {
        store_word(out, to, pending);
    }
}

// The reverse: the bits of `joined` in the places of the ones of `mask`, zeros elsewhere.
template <class Deposit>
void spread_bits(ConstBytes joined, ConstBytes mask, Bytes plane, Deposit deposit) {
    size_t bit = 0;
    for (size_t at = 0; at < mask.size(); at += 8) {
        const uint64_t chosen = load_word(mask, at);
        uint64_t next = 0;
        if (chosen != 0) { // else there may be no byte left to look at
            const int offset = static_cast<int>(bit % 8);
            next = load_word(joined, bit / 8) >> offset;
            if (offset != 0 && joined.size() - bit / 8 > 8) {
                next |= uint64_t{joined[bit / 8 + 8]} << (64 - offset);
            }
        }
        store_word(plane, at, deposit(next, chosen));
        bit += static_cast<size_t>(std::popcount(chosen));
    }
}

} // namespace
} // namespace fewbits
