// Levels on paths of a trellis. The specifications are src/fewbits/reference/trellis.py, for the
// search, and src/fewbits/coding/paths.py, for symbols.
#pragma once

#include <algorithm>
#include <bit>

#include "random.h"
#include "rans.h"

namespace fewbits {

constexpr int kMostStates = 16;
constexpr int kMostPathLanes = 5; // log2
constexpr size_t kValuesALane = 128;
constexpr size_t kFullPaths = kValuesALane << kMostPathLanes; // values of a block with all lanes

// What a writer's choice of tables looks at, of magnitudes.
struct LevelStats {
    static constexpr uint32_t kLarge = 8;
    uint32_t least = UINT32_MAX;
    uint32_t largest = 0;
    size_t zeros = 0;
    size_t large = 0; // from kLarge on

    constexpr void add(uint32_t magnitude) {
        least = std::min(least, magnitude);
        largest = std::max(largest, magnitude);
        zeros += magnitude == 0;
        large += magnitude >= kLarge;
    }
    bool equal() const { return least == largest; }
};

// Levels of values that are all near, and the tops of their dither, which are there if it is.
struct NearLevels {
    int16_t *levels;
    uint8_t *tops;
    LevelStats stats = {};
};
constexpr int32_t kFarthestNear = 32000; // sixteenths of a step

// Where values of levels go. Their scale is above 0.
struct PathValues {
    Out<uint32_t> values; // float32
    float scale;
    const Stream *dither; // within a segment; null where there is none
};
constexpr float kLargestPathScale = 0x1p119f; // no value of a few levels is too large
constexpr int32_t kLargestSoon = 61;          // of j: levels have eight bits

// A block of levels, and what a reader knows of them: the trellis, and the words of their dither,
// null where there is none.
struct Path {
    int states;
    const uint32_t *words; // their memory may be all there is, with levels that are near
    int32_t *levels;       // room for a block
    LevelStats stats = {}; // of levels that are written
    // May be null. Levels to write that are in place of those above.
    const NearLevels *near = nullptr;

    int32_t level(size_t i) const { return near != nullptr ? near->levels[i] : levels[i]; }
    // All levels where readers of 32 bits look for them.
    const int32_t *spread(size_t count) const {
        if (near != nullptr) {
            std::copy(near->levels, near->levels + count, levels);
        }
        return levels;
    }
};

// A place is a value in sixteenths of a step, modulo 64; a label is a level modulo 4; a top is the
// upper four bits of the word of a dither, or 0. Tables, and how a quarter names one of them:
// In place of a symbol a slot has j, in eight bits, or an escape: its lowest bit is bit 1 of the
// level.
struct PathTables {
    const RansDecodeTable *tables;
    int shift; // of a quarter
};
constexpr int32_t kEscapedEven = -128;
constexpr int32_t kEscapedOdd = 127;

namespace { // internal linkage: see random.h

[[maybe_unused]] int path_lanes_log2(size_t count) {
    const int whole = static_cast<int>(std::bit_width(count / kValuesALane)) - 1;
    return std::clamp(whole, 0, kMostPathLanes);
}

// How far a quarter is shifted to be the number of its table, of 1, 2 or 4.
[[maybe_unused]] int path_shift(size_t tables) {
    return 3 - static_cast<int>(std::bit_width(tables));
}

// The polynomials of Ungerboeck's codes, and with them the next state.
struct TrellisCode {
    int states;
    int odd;   // what is added after a level that is odd
    int free;  // what is added after one whose bit 1 is set
    int apart; // the bit in which the two states before a state differ

    constexpr explicit TrellisCode(int number)
        : states(number), odd(number == 4   ? 05 >> 1
                              : number == 8 ? 013 >> 1
                                            : 023 >> 1),
          free(number == 4 ? 02 >> 1 : 04 >> 1), apart(number == 4 ? 2 : 4) {}

    constexpr int next(int state, int bit) const {
        return (state >> 1) ^ ((state & 1) != 0 ? odd : 0) ^ (bit != 0 ? free : 0);
    }
};

// For each state the two before it, the one without the bit `apart` first, and their labels.
struct TrellisEdges {
    uint8_t before[kMostStates][2] = {};
    uint8_t label[kMostStates][2] = {};

    constexpr explicit TrellisEdges(const TrellisCode &code) {
        for (int state = 0; state < code.states; ++state) {
            for (int bit = 0; bit < 2; ++bit) {
                const int to = code.next(state, bit);
                const int which = (state & code.apart) != 0;
                before[to][which] = static_cast<uint8_t>(state);
                label[to][which] = static_cast<uint8_t>((state & 1) + 2 * bit);
            }
        }
    }
};

// What the nearest level of each label costs at a place of the period of 64 sixteenths.
struct TrellisLengths {
    int8_t each[4];

    constexpr explicit TrellisLengths(int p) : each{} {
        const int q = (p + 48) % 64;
        const int even = 16 - std::min(p, 64 - p);
        const int odd = 16 - std::min(q, 64 - q);
        const int middle = 8 - (even < 0 ? -even : even);
        each[0] = static_cast<int8_t>(-even);
        each[1] = static_cast<int8_t>(middle - odd);
        each[2] = static_cast<int8_t>(even);
        each[3] = static_cast<int8_t>(middle + odd);
    }
};

// The upper four bits of a dither's word: whole numbers above 2 steps, above 1, quarters. What they
// and the parity say of a level, with phi = parity - u modulo 2:
struct PathPhase {
    bool positive;    // phi is
    uint32_t quarter; // where |phi| is
    int32_t whole;    // half a level is that much above j, or above -j

    constexpr PathPhase(uint32_t parity, uint32_t top)
        : positive(parity != (top >> 2 & 1)), quarter(positive ? 3 - (top & 3) : top & 3),
          whole(static_cast<int32_t>(top >> 3) + (parity == 0 && (top >> 2 & 1) == 1)) {}

    constexpr int32_t turned(int32_t j) const { return positive ? j : -j; }
};

struct PathSymbol {
    uint32_t quarter;
    uint32_t symbol;
};
[[maybe_unused]] PathSymbol path_symbol(int32_t level, uint32_t top) {
    const PathPhase phase(static_cast<uint32_t>(level) & 1, top);
    const int32_t j = phase.turned((level >> 1) - phase.whole);
    return {phase.quarter, static_cast<uint32_t>(j >= 0 ? 2 * j : -2 * j - 1)};
}

[[maybe_unused]] bool is_escaped(uint8_t found) {
    return static_cast<uint8_t>(found - kEscapedOdd) < 2; // 127 or 128
}

// What a slot of PathTables has in place of a symbol.
[[maybe_unused]] int32_t path_slot(uint32_t symbol, uint32_t escape) {
    if (symbol >= escape) {
        return kEscapedEven - static_cast<int32_t>(symbol & 1); // as eight bits
    }
    return static_cast<int32_t>((symbol >> 1) ^ (0 - (symbol & 1))); // 0, -1, 1, -2 and so on
}

// Decodes levels of paths from `start` on, a multiple of the lanes, and what their slots have.
// Those that are escaped have the right two lowest bits. `at` are the states of the paths.
[[maybe_unused]] const uint8_t *
rans_decode_paths(const uint8_t *from, const uint8_t *end, const PathTables &known,
                  std::span<uint32_t> states, uint8_t *at, const TrellisCode &code,
                  const uint32_t *words, std::span<int32_t> levels, uint8_t *found, size_t start) {
    const size_t lane_mask = states.size() - 1;
    const auto phase_of = [&](size_t i) {
        return PathPhase(at[i & lane_mask] & 1u, words != nullptr ? words[i] >> 28 : 0);
    };
    const auto table = [&](size_t i) -> const RansDecodeTable & {
        return known.tables[phase_of(i).quarter >> known.shift];
    };
    const auto take = [&](size_t i, uint32_t slot) {
        const PathPhase phase = phase_of(i);
        uint8_t &state = at[i & lane_mask];
        const int32_t j = static_cast<int32_t>(slot) >> 24;
        int32_t half = phase.turned(j) + phase.whole;
        if (words != nullptr && (j == kEscapedEven || j == kEscapedOdd)) {
            half = j & 1; // without a dither it is
        }
        levels[i] = 2 * half + (state & 1);
        found[i] = static_cast<uint8_t>(slot >> 24);
        state = static_cast<uint8_t>(code.next(state, half & 1));
    };
    return rans_decode_each(from, end, states, start, levels.size(), table, take);
}

} // namespace
} // namespace fewbits
