// Paths of a trellis with AVX2: the 32 lanes of a block are the bytes of a vector.
//
// The length of a path is kept modulo 256. Of two states before one, the lengths of whose paths are
// compared, those differ by at most 120 with any of the codes: both come from one state a few steps
// before. So the sign of a difference tells which is shorter.
#if defined(__AVX2__)

#include "trellis.h"

#include <array>

#include "avx2/lanes.h"
#include "portable/portable.h"

namespace fewbits {
namespace {

constexpr size_t kPaths = 32;
constexpr size_t kMostValues = size_t{1} << 16;

Vector bytes(int x) { return _mm256_set1_epi8(static_cast<char>(x)); }

// What the nearest level of each label costs.
struct Lengths {
    Vector each[4];

    explicit Lengths(Vector p) {
        const Vector q = _mm256_and_si256(_mm256_add_epi8(p, bytes(48)), bytes(63));
        const Vector to_even = _mm256_min_epu8(p, _mm256_sub_epi8(bytes(64), p));
        const Vector to_odd = _mm256_min_epu8(q, _mm256_sub_epi8(bytes(64), q));
        const Vector even = _mm256_sub_epi8(bytes(16), to_even);
        const Vector odd = _mm256_sub_epi8(bytes(16), to_odd);
        const Vector middle = _mm256_sub_epi8(bytes(8), _mm256_abs_epi8(even));
        each[0] = _mm256_sub_epi8(_mm256_setzero_si256(), even);
        each[1] = _mm256_sub_epi8(middle, odd);
        each[2] = even;
        each[3] = _mm256_add_epi8(middle, odd);
    }
};

template <int states> struct Search {
    static constexpr TrellisCode code = TrellisCode(states);
    static constexpr TrellisEdges edges = TrellisEdges(code);
    static constexpr size_t planes = (states + 7) / 8; // a bit for each state: the second way

    Vector total[states];

    // One step of all lanes.
    template <bool first_way> [[gnu::always_inline]] void step(Vector places, uint8_t *choices) {
        const Lengths lengths(places);
        Vector now[states];
        Vector later[planes];
        std::fill_n(later, planes, _mm256_setzero_si256());
#pragma GCC unroll 16
        for (size_t to = 0; to < states; ++to) {
            const Vector first =
                _mm256_add_epi8(total[edges.before[to][0]], lengths.each[edges.label[to][0]]);
            if constexpr (first_way) {
                now[to] = first;
            } else {
                const Vector second =
                    _mm256_add_epi8(total[edges.before[to][1]], lengths.each[edges.label[to][1]]);
                const Vector apart = _mm256_sub_epi8(second, first);
                now[to] = _mm256_blendv_epi8(first, second, apart);
                const Vector other = _mm256_cmpgt_epi8(_mm256_setzero_si256(), apart);
                later[to / 8] =
                    _mm256_or_si256(later[to / 8], _mm256_and_si256(other, bytes(1 << (to % 8))));
            }
        }
#pragma GCC unroll 16
        for (size_t to = 0; to < states; ++to) {
            total[to] = now[to];
        }
        for (size_t plane = 0; plane < planes; ++plane) {
            store(choices + plane * kMostValues, later[plane]);
        }
    }

    // Where the shortest paths end, the lowest state of equals.
    Vector ends() const {
        Vector least = total[0];
        Vector state = _mm256_setzero_si256();
        for (int each = 1; each < states; ++each) {
            const Vector apart = _mm256_sub_epi8(total[each], least);
            least = _mm256_blendv_epi8(least, total[each], apart);
            state = _mm256_blendv_epi8(state, bytes(each), apart);
        }
        return state;
    }
};

// For each state, as bytes to shuffle.
template <int states> struct Back {
    alignas(16) uint8_t bit[16] = {};
    alignas(16) uint8_t ways[2][16] = {}; // the state before, and the label above it

    constexpr Back() {
        for (size_t state = 0; state < states; ++state) {
            bit[state] = static_cast<uint8_t>(1u << (state % 8));
            for (size_t way = 0; way < 2; ++way) {
                const auto &edges = Search<states>::edges;
                ways[way][state] =
                    static_cast<uint8_t>(edges.before[state][way] | edges.label[state][way] << 4);
            }
        }
    }
};

Vector twice(const uint8_t *table) {
    return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i *>(table)));
}

// Bytes of ones for the first lanes.
Vector first_lanes(size_t lanes) {
    uint8_t mask[kPaths] = {};
    std::fill_n(mask, lanes, uint8_t{0xFF});
    return load(mask);
}

template <int states> void search_paths(ConstBytes places, Bytes labels) {
    constexpr size_t forced = std::bit_width(static_cast<unsigned>(states)) - 1;
    static constexpr Back<states> kBack;
    uint8_t choices[Search<states>::planes * kMostValues];
    Search<states> search;
    std::fill_n(search.total, states, _mm256_setzero_si256());
    const size_t whole = places.size() / kPaths * kPaths;
    const size_t rest = places.size() - whole;
    size_t at = 0;
    for (; at < forced * kPaths; at += kPaths) { // only the first way comes from state 0
        search.template step<true>(load(places.data() + at), choices + at);
    }
    for (; at < whole; at += kPaths) {
        search.template step<false>(load(places.data() + at), choices + at);
    }
    const Vector there = first_lanes(rest);
    uint8_t last[kPaths] = {};
    if (rest > 0) {
        const Search<states> before = search;
        std::copy(places.begin() + static_cast<ptrdiff_t>(whole), places.end(), last);
        search.template step<false>(load(last), choices + whole);
        for (size_t state = 0; state < states; ++state) {
            search.total[state] =
                _mm256_blendv_epi8(before.total[state], search.total[state], there);
        }
    }
    Vector state = search.ends();
    const Vector bit = twice(kBack.bit);
    const Vector first = twice(kBack.ways[0]);
    const Vector second = twice(kBack.ways[1]);
    const auto back = [&](size_t row) {
        Vector chosen = load(choices + row);
        if constexpr (states > 8) {
            chosen = _mm256_blendv_epi8(chosen, load(choices + kMostValues + row),
                                        _mm256_slli_epi16(state, 4)); // bit 3 of the state
        }
        const Vector unset = _mm256_cmpeq_epi8(
            _mm256_and_si256(chosen, _mm256_shuffle_epi8(bit, state)), _mm256_setzero_si256());
        return _mm256_blendv_epi8(_mm256_shuffle_epi8(second, state),
                                  _mm256_shuffle_epi8(first, state), unset);
    };
    const auto label_of = [&](Vector way) {
        return _mm256_and_si256(_mm256_srli_epi16(way, 4), bytes(3));
    };
    if (rest > 0) {
        const Vector way = back(whole);
        store(last, label_of(way));
        std::copy_n(last, rest, labels.begin() + static_cast<ptrdiff_t>(whole));
        state = _mm256_blendv_epi8(state, _mm256_and_si256(way, bytes(15)), there);
    }
    for (size_t row = whole; row > 0; row -= kPaths) {
        const Vector way = back(row - kPaths);
        store(labels.data() + row - kPaths, label_of(way));
        state = _mm256_and_si256(way, bytes(15));
    }
}

void search(ConstBytes places, size_t lanes, int states, Bytes labels) {
    if (lanes != kPaths) {
        return portable_trellis.search(places, lanes, states, labels);
    }
    switch (states) {
    case 4:
        return search_paths<4>(places, labels);
    case 8:
        return search_paths<8>(places, labels);
    default:
        return search_paths<16>(places, labels);
    }
}

// ---- decoding ----

struct Steps {
    Vector odd, free, escape;
    __m128i shift;
};

// One level of eight paths; `state` and `x` go on.
[[gnu::always_inline]] inline Vector next_levels(const Steps &steps, const uint32_t *slots,
                                                 Vector top, Vector &x, Vector &state,
                                                 Vector &symbols, const uint8_t *&from) {
    const Vector one = all(1);
    const Vector parity = _mm256_and_si256(state, one);
    const Vector upper = _mm256_and_si256(_mm256_srli_epi32(top, 2), one);
    const Vector positive =
        _mm256_cmpeq_epi32(_mm256_xor_si256(parity, upper), one); // ones where phi is
    const Vector quarter =
        _mm256_and_si256(_mm256_xor_si256(top, positive), all(3)); // 3 - b where phi is
    const Vector table = _mm256_slli_epi32(_mm256_srl_epi32(quarter, steps.shift), kRansBits);
    const Vector found = slots_among(x, table, slots);
    x = left_slots(x, found, from);
    symbols = _mm256_srli_epi32(found, 24);
    const Vector low = _mm256_and_si256(symbols, one);
    const Vector j = _mm256_xor_si256(_mm256_srli_epi32(symbols, 1),
                                      _mm256_sub_epi32(_mm256_setzero_si256(), low));
    const Vector negative = _mm256_xor_si256(positive, all(0xFFFFFFFFu));
    Vector half = _mm256_sub_epi32(_mm256_xor_si256(j, negative), negative);
    half = _mm256_add_epi32(half, _mm256_srli_epi32(top, 3));
    half = _mm256_add_epi32(half, _mm256_andnot_si256(parity, upper));
    half = _mm256_blendv_epi8(half, low, _mm256_cmpgt_epi32(symbols, steps.escape));
    const Vector is_odd = _mm256_sub_epi32(_mm256_setzero_si256(), parity);
    const Vector is_free = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_and_si256(half, one));
    state = _mm256_xor_si256(_mm256_srli_epi32(state, 1),
                             _mm256_xor_si256(_mm256_and_si256(is_odd, steps.odd),
                                              _mm256_and_si256(is_free, steps.free)));
    return _mm256_add_epi32(_mm256_add_epi32(half, half), parity);
}

const uint8_t *decode(ConstBytes data, const PathTables &tables, std::span<uint32_t> states,
                      int trellis, const uint8_t *tops, std::span<int32_t> levels,
                      uint8_t *symbols) {
    if (states.size() != kPaths) {
        return portable_trellis.decode(data, tables, states, trellis, tops, levels, symbols);
    }
    const TrellisCode code(trellis);
    const Steps steps = {all(static_cast<uint32_t>(code.odd)),
                         all(static_cast<uint32_t>(code.free)), all(tables.escape - 1),
                         _mm_cvtsi32_si128(tables.shift)};
    const uint8_t *from = data.data();
    const uint8_t *const end = from + data.size();
    Vector x[4], state[4];
    for (size_t j = 0; j < 4; ++j) {
        x[j] = load(&states[8 * j]);
        state[j] = _mm256_setzero_si256();
    }
    size_t i = 0;
    // A turn uses up to a word for each lane, and looks no further.
    for (; levels.size() - i >= kPaths && static_cast<size_t>(end - from) >= 2 * kPaths;
         i += kPaths) {
        Vector found[4];
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; ++j) {
            const Vector level =
                next_levels(steps, tables.tables->slots, eight_bytes(tops + i + 8 * j), x[j],
                            state[j], found[j], from);
            store(levels.data() + i + 8 * j, level);
        }
        store(symbols + i, narrowed(found[0], found[1], found[2], found[3]));
    }
    uint8_t at[kPaths];
    for (size_t j = 0; j < 4; ++j) {
        store(&states[8 * j], x[j]);
    }
    store(at, narrowed(state[0], state[1], state[2], state[3]));
    return rans_decode_paths(from, end, tables, states, at, code, tops, levels, symbols, i);
}

} // namespace

constinit const TrellisKernels avx2_trellis = {
    .search = search,
    .decode = decode,
};

} // namespace fewbits

#endif
