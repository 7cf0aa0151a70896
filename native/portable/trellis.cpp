// The shortest paths through a trellis, one lane after the other.
#include "trellis_levels.h"

#include <array>
#include <limits>

#include "portable/portable.h"

namespace fewbits {
namespace {

constexpr auto kLengths = [] {
    std::array<std::array<int8_t, 4>, 64> found = {};
    for (int p = 0; p < 64; ++p) {
        const TrellisLengths own(p);
        std::copy(own.each, own.each + 4, found[static_cast<size_t>(p)].begin());
    }
    return found;
}();

// One path: places [lane], [lane + lanes] and so on.
void search_lane(ConstBytes places, size_t lane, size_t lanes, const TrellisCode &code,
                 uint16_t *choices, Bytes labels) {
    const TrellisEdges edges(code);
    const auto states = static_cast<size_t>(code.states);
    const size_t steps = (places.size() - lane + lanes - 1) / lanes;
    int32_t total[kMostStates] = {};
    for (size_t step = 0; step < steps; ++step) {
        const auto &costs = kLengths[places[lane + step * lanes]];
        int32_t now[kMostStates];
        uint32_t later = 0;
        const bool reached = step >= 4 || states >> step <= 1; // from state 0 all states can be
        for (size_t to = 0; to < states; ++to) {
            const int32_t first = total[edges.before[to][0]] + costs[edges.label[to][0]];
            const int32_t second = total[edges.before[to][1]] + costs[edges.label[to][1]];
            const bool other = reached && second < first;
            now[to] = other ? second : first;
            later |= static_cast<uint32_t>(other) << to;
        }
        choices[step] = static_cast<uint16_t>(later);
        std::copy(now, now + states, total);
    }
    uint32_t possible = 1; // the states in which a short path may end
    for (size_t step = 0; step < steps && states >> step > 1; ++step) {
        uint32_t after = 0;
        for (int state = 0; state < code.states; ++state) {
            if ((possible >> state & 1) != 0) {
                after |= 1u << code.next(state, 0) | 1u << code.next(state, 1);
            }
        }
        possible = after;
    }
    size_t state = 0;
    int32_t least = std::numeric_limits<int32_t>::max();
    for (size_t each = 0; each < states; ++each) {
        if ((possible >> each & 1) != 0 && total[each] < least) {
            least = total[each];
            state = each;
        }
    }
    for (size_t step = steps; step-- > 0;) {
        const size_t way = choices[step] >> state & 1;
        labels[lane + step * lanes] = edges.label[state][way];
        state = edges.before[state][way];
    }
}

void search(ConstBytes places, size_t lanes, int states, Bytes labels) {
    const TrellisCode code(states);
    uint16_t choices[size_t{1} << 16];
    for (size_t lane = 0; lane < std::min(lanes, places.size()); ++lane) {
        search_lane(places, lane, lanes, code, choices, labels);
    }
}

LevelStats settle(ConstBytes labels, int32_t *levels) {
    LevelStats stats;
    settle_levels(labels, levels, stats);
    return stats;
}

StepSums sums(In<uint32_t> values, const int32_t *levels) {
    return level_sums<Float32>(values, levels, 0);
}

const uint8_t *decode(ConstBytes data, const PathTables &tables, std::span<uint32_t> states,
                      int trellis, const uint32_t *words, std::span<int32_t> levels,
                      uint8_t *found) {
    uint8_t at[kMaxLanes] = {};
    return rans_decode_paths(data.data(), data.data() + data.size(), tables, states, at,
                             TrellisCode(trellis), words, levels, found, 0);
}

} // namespace

constinit const TrellisKernels portable_trellis = {
    .fix = fix_values<Float32>,
    .search = search,
    .settle = settle,
    .sums = sums,
    .fold = fold_levels,
    .decode = decode,
    .values = level_values<Float32>,
};

} // namespace fewbits
