// The shortest paths through a trellis in byte lanes, for tables whose vectors are given: a block's
// 32 paths are the bytes of one `Lanes`.
//
// The length of a path is kept modulo 256. Of two states before one, the lengths of whose paths are
// compared, those differ by at most 120 with any of the codes: both come from one state a few steps
// before. So the sign of a difference tells which is shorter.
//
// Lanes has +, -, &, | of bytes, `all(byte)`, `at(bytes)`, `put(bytes)`, `least` (unsigned),
// `magnitude` and `negative` of signed bytes, `zero` (ones or zeros as `negative`), `chosen(sign,
// a, b)`: a where the sign is set, else b, `looked_up` in a table of 16, and `up` and `down` by
// four bits.
#pragma once

#include <algorithm>
#include <bit>

#include "trellis.h"

namespace fewbits {
namespace { // internal linkage: see random.h

constexpr size_t kPaths = 32;
constexpr size_t kMostPathValues = size_t{1} << 16;

// What the nearest level of each label costs.
template <class Lanes> struct LaneLengths {
    Lanes each[4];

    explicit LaneLengths(Lanes p) {
        const Lanes sixteen = Lanes::all(16), period = Lanes::all(64);
        const Lanes q = (p + Lanes::all(48)) & Lanes::all(63);
        const Lanes even = sixteen - least(p, period - p);
        const Lanes odd = sixteen - least(q, period - q);
        const Lanes middle = Lanes::all(8) - magnitude(even);
        each[0] = Lanes::all(0) - even;
        each[1] = middle - odd;
        each[2] = even;
        each[3] = middle + odd;
    }
};

template <class Lanes, int states> struct LaneSearch {
    static constexpr TrellisCode code = TrellisCode(states);
    static constexpr TrellisEdges edges = TrellisEdges(code);
    static constexpr size_t planes = (states + 7) / 8; // a bit for each state: the second way

    Lanes total[states];

    // One step of all lanes.
    template <bool first_way> [[gnu::always_inline]] void step(Lanes places, uint8_t *choices) {
        const LaneLengths<Lanes> lengths(places);
        Lanes now[states];
        Lanes later[planes];
        std::fill_n(later, planes, Lanes::all(0));
#pragma GCC unroll 16
        for (size_t to = 0; to < states; ++to) {
            const Lanes first = total[edges.before[to][0]] + lengths.each[edges.label[to][0]];
            if constexpr (first_way) {
                now[to] = first;
            } else {
                const Lanes second = total[edges.before[to][1]] + lengths.each[edges.label[to][1]];
                const Lanes apart = second - first;
                now[to] = chosen(apart, second, first);
                later[to / 8] = later[to / 8] | (negative(apart) & Lanes::all(1 << (to % 8)));
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

template <class Lanes, int states> void search_lanes(ConstBytes places, Bytes labels) {
    using Search = LaneSearch<Lanes, states>;
    constexpr size_t forced = std::bit_width(static_cast<unsigned>(states)) - 1;
    static constexpr LanesBack<states> kBack;
    uint8_t choices[Search::planes * kMostPathValues];
    Search search;
    std::fill_n(search.total, states, Lanes::all(0));
    const size_t whole = places.size() / kPaths * kPaths;
    const size_t rest = places.size() - whole;
    size_t at = 0;
    for (; at < forced * kPaths; at += kPaths) { // only the first way comes from state 0
        search.template step<true>(Lanes::at(places.data() + at), choices + at);
    }
    for (; at < whole; at += kPaths) {
        search.template step<false>(Lanes::at(places.data() + at), choices + at);
    }
    uint8_t mask[kPaths] = {}, last[kPaths] = {}; // the paths that have the last step
    std::fill_n(mask, rest, uint8_t{0xFF});
    const Lanes there = Lanes::at(mask);
    if (rest > 0) {
        const Search before = search;
        std::copy(places.begin() + static_cast<ptrdiff_t>(whole), places.end(), last);
        search.template step<false>(Lanes::at(last), choices + whole);
        for (size_t state = 0; state < states; ++state) {
            search.total[state] = chosen(there, search.total[state], before.total[state]);
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
        std::copy_n(last, rest, labels.begin() + static_cast<ptrdiff_t>(whole));
        state = chosen(there, way & Lanes::all(15), state);
    }
    for (size_t row = whole; row > 0; row -= kPaths) {
        const Lanes way = back(row - kPaths);
        (down(way) & Lanes::all(3)).put(labels.data() + row - kPaths);
        state = way & Lanes::all(15);
    }
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
