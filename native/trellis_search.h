// The shortest paths through a trellis in byte lanes, for tables whose vectors are given: a block's
// 32 paths are the bytes of one `Lanes`.
//
// The length of a path is kept modulo 256. Of two states before one, the lengths of whose paths are
// compared, those differ by at most 120 with any of the codes: both come from one state a few steps
// before. So the sign of a difference tells which is shorter.
//
// Lanes has +, -, & of bytes, `all(byte)`, `kept(byte)`, the same for a loop, `at(bytes)`,
// `put(bytes)`, `magnitude` and `negative` of signed bytes, `with_sign(a, b)`: a times the sign of
// b, anything where b is 0 and a is not, `zero` (ones or zeros as `negative`), `chosen(sign, a,
// b)`: a where the sign is set, else b, `looked_up` in a table of 16, and `up` and `down` by four
// bits.
#pragma once

#include <algorithm>
#include <bit>

#include "trellis.h"

namespace fewbits {
namespace { // internal linkage: see random.h

constexpr size_t kPaths = 32;
constexpr size_t kMostPathValues = size_t{1} << 16;

// What the nearest level of each label costs: two waves, a quarter of a period apart, and their
// sums. Numbers that all steps use are kept.
template <class Lanes> struct LaneLengths {
    const Lanes sixteen = Lanes::kept(16), half = Lanes::kept(32), eight = Lanes::kept(8);

    struct Each {
        Lanes each[4];
    };
    [[gnu::always_inline]] Each at(Lanes p) const {
        const Lanes before = half - p;
        const Lanes away = magnitude(before);
        const Lanes even = away - sixteen;
        const Lanes rest = sixteen - magnitude(even);
        const Lanes odd = with_sign(rest, before), middle = rest - eight;
        return {{sixteen - away, middle - odd, even, middle + odd}};
    }
};

template <class Lanes, int states> struct LaneSearch {
    static constexpr TrellisCode code = TrellisCode(states);
    static constexpr TrellisEdges edges = TrellisEdges(code);
    static constexpr size_t planes = (states + 7) / 8; // a bit for each state: the second way

    Lanes total[states];
    const LaneLengths<Lanes> costs = {};

    // One step of all lanes.
    template <bool first_way> [[gnu::always_inline]] void step(Lanes places, uint8_t *choices) {
        const auto lengths = costs.at(places);
        Lanes now[states];
        Lanes later[planes];
        std::fill_n(later, planes, Lanes::all(0));
#pragma GCC unroll 16
        for (size_t turn = 0; turn < states; ++turn) { // the bits of later ones are shifted up
            const size_t to = states - 1 - turn;
            const Lanes first = total[edges.before[to][0]] + lengths.each[edges.label[to][0]];
            if constexpr (first_way) {
                now[to] = first;
            } else {
                const Lanes second = total[edges.before[to][1]] + lengths.each[edges.label[to][1]];
                const Lanes apart = second - first;
                now[to] = chosen(apart, second, first);
                Lanes &bits = later[to / 8];
                bits = bits + bits - negative(apart);
            }
        }
#pragma GCC unroll 16
        for (size_t to = 0; to < states; ++to) {
            total[to] = now[to];
        }
        for (size_t plane = 0; plane < planes; ++plane) {
            later[plane].put(choices + plane * kMostPathValues);
        }
    }

    // Where the shortest paths end, the lowest state of equals.
    Lanes ends() const {
        Lanes shortest = total[0];
        Lanes state = Lanes::all(0);
        for (int each = 1; each < states; ++each) {
            const Lanes apart = total[each] - shortest;
            shortest = chosen(apart, total[each], shortest);
            state = chosen(apart, Lanes::all(each), state);
        }
        return state;
    }
};

// For each state, as bytes to look up.
template <int states> struct LanesBack {
    alignas(16) uint8_t bit[16] = {};
    alignas(16) uint8_t ways[2][16] = {}; // the state before, and the label above it

    constexpr LanesBack() {
        const TrellisEdges edges{TrellisCode(states)};
        for (size_t state = 0; state < states; ++state) {
            bit[state] = static_cast<uint8_t>(1u << (state % 8));
            for (size_t way = 0; way < 2; ++way) {
                ways[way][state] =
                    static_cast<uint8_t>(edges.before[state][way] | edges.label[state][way] << 4);
            }
        }
    }
};

// Searches `count` places: `rows` has those of whole rows, by `places(at)`, and fills those of the
// last one by `rest(at, places)`; it takes labels, from the last row to the first, by
// `take_rest(at, labels)` and `take(at, labels)`.
template <class Lanes, int states, class Rows>
[[gnu::always_inline]] inline void search_rows(size_t count, Rows &rows) {
    using Search = LaneSearch<Lanes, states>;
    constexpr size_t forced = std::bit_width(static_cast<unsigned>(states)) - 1;
    static constexpr LanesBack<states> kBack;
    uint8_t choices[Search::planes * kMostPathValues];
    Search search;
    std::fill_n(search.total, states, Lanes::all(0));
    const size_t whole = count / kPaths * kPaths;
    const size_t rest = count - whole;
    size_t at = 0;
    for (; at < forced * kPaths; at += kPaths) { // only the first way comes from state 0
        search.template step<true>(rows.places(at), choices + at);
    }
    for (; at < whole; at += kPaths) {
        search.template step<false>(rows.places(at), choices + at);
    }
    uint8_t mask[kPaths] = {}, last[kPaths] = {}; // the paths that have the last step
    std::fill_n(mask, rest, uint8_t{0xFF});
    const Lanes there = Lanes::at(mask);
    if (rest > 0) {
        Lanes before[states];
        std::copy_n(search.total, states, before);
        rows.rest(whole, last);
        search.template step<false>(Lanes::at(last), choices + whole);
        for (size_t state = 0; state < states; ++state) {
            search.total[state] = chosen(there, search.total[state], before[state]);
        }
    }
    Lanes state = search.ends();
    const auto back = [&](size_t row) {
        Lanes own = Lanes::at(choices + row);
        if constexpr (states > 8) { // bit 3 of the state
            own = chosen(up(state), Lanes::at(choices + kMostPathValues + row), own);
        }
        const Lanes first = zero(own & looked_up(kBack.bit, state));
        return chosen(first, looked_up(kBack.ways[0], state), looked_up(kBack.ways[1], state));
    };
    if (rest > 0) {
        const Lanes way = back(whole);
        (down(way) & Lanes::all(3)).put(last);
        rows.take_rest(whole, last);
        state = chosen(there, way & Lanes::all(15), state);
    }
    for (size_t row = whole; row > 0; row -= kPaths) {
        const Lanes way = back(row - kPaths);
        rows.take(row - kPaths, down(way) & Lanes::all(3));
        state = way & Lanes::all(15);
    }
}

// Places in memory.
template <class Lanes> struct PlaceRows {
    ConstBytes each;
    Bytes labels;

    Lanes places(size_t at) const { return Lanes::at(each.data() + at); }
    void take(size_t at, Lanes found) const { found.put(labels.data() + at); }
    void rest(size_t at, uint8_t *places) const {
        std::copy(each.data() + at, each.data() + each.size(), places);
    }
    void take_rest(size_t at, const uint8_t *found) const {
        std::copy_n(found, labels.size() - at, labels.data() + at);
    }
};

template <class Lanes, int states> void search_lanes(ConstBytes places, Bytes labels) {
    PlaceRows<Lanes> rows = {places, labels};
    search_rows<Lanes, states>(places.size(), rows);
}

// All numbers of states.
template <class Lanes> void search_all_lanes(ConstBytes places, int states, Bytes labels) {
    switch (states) {
    case 4:
        return search_lanes<Lanes, 4>(places, labels);
    case 8:
        return search_lanes<Lanes, 8>(places, labels);
    default:
        return search_lanes<Lanes, 16>(places, labels);
    }
}

} // namespace
} // namespace fewbits
