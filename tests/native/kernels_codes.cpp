// Calls of the kernels that work on bytes, codes and keys: what they make of one case.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "abreast.h"
#include "compared.h"
#include "draws.h"
#include "phases.h"
#include "rans.h"
#include "trellis_levels.h"

namespace compared {
namespace {

template <class T> T *aligned(uint8_t *memory) { return reinterpret_cast<T *>(memory); }

// ---- checksum, words, packing ----

void crc32c(Case &own) {
    const auto start = static_cast<uint32_t>(own.random.chance(2) ? 0 : own.random.bits());
    const size_t size = own.count * (own.count > 300 ? 1 : 8) + own.random.below(8);
    const uint8_t *const data = own.bytes(size, own.random.below(16));
    own.put(own.kernels.common.crc32c(start, {data, size}));
}

void words(Case &own) {
    auto *const out = aligned<uint32_t>(own.memory(4 * own.count));
    own.kernels.common.words(own.stream(), {out, own.count});
    own.put(own.count);
    own.put_memory(out);
}

void pack(Case &own) {
    const auto width = static_cast<int>(1 + own.random.below(16));
    auto *const codes = aligned<uint16_t>(own.memory(2 * own.count));
    for (size_t i = 0; i < own.count; ++i) {
        codes[i] = static_cast<uint16_t>(own.random.below(size_t{1} << width));
    }
    const size_t size = packed_size(own.count, width);
    uint8_t *const packed = own.memory(size);
    own.kernels.common.pack({codes, own.count}, width, {packed, size});
    own.put(width);
    own.put_memory(packed);
}

// Bits behind the last code are set at times, and codes reach the bound.
void unpack(Case &own) {
    const auto width = static_cast<int>(1 + own.random.below(own.random.chance(3) ? 16 : 8));
    const size_t size = packed_size(own.count, width);
    uint8_t *const packed = own.bytes(size, own.random.below(16));
    const size_t used = own.count * static_cast<size_t>(width) % 8;
    if (used != 0 && !own.random.chance(4)) {
        packed[size - 1] = static_cast<uint8_t>(packed[size - 1] & ((1u << used) - 1));
    }
    const uint32_t whole = uint32_t{1} << width;
    const uint32_t bound = own.random.chance(3) ? whole - 1 : whole;
    auto *const codes = aligned<uint16_t>(own.memory(2 * own.count));
    own.put(own.kernels.common.unpack({packed, size}, width, bound, {codes, own.count}));
    own.put_memory(codes);
}

// ---- the entropy coder ----

// Symbols of which some are frequent, and frequencies that fit them: 4096 in all, each at least 1.
struct Model {
    RansEncodeTable encode;
    RansDecodeTable decode;
    size_t used;

    explicit Model(Random &random) : used(2 + random.below(random.chance(2) ? 15 : 254)) {
        std::vector<uint32_t> frequencies(used, 1);
        size_t left = kRansTotal - used;
        const size_t crowd = 1 + random.below(used);
        for (; left > 0; --left) {
            ++frequencies[random.chance(3) ? random.below(used) : random.below(crowd)];
        }
        uint32_t first = 0;
        for (size_t i = 0; i < used; ++i) {
            encode.set(static_cast<uint8_t>(i), frequencies[i], first);
            decode.set(static_cast<uint8_t>(i), frequencies[i], first);
            first += frequencies[i];
        }
    }
    uint8_t symbol(Random &random) const {
        return static_cast<uint8_t>(decode.slots[random.below(kRansTotal)] >> 24);
    }
};

struct Lanes {
    uint32_t states[kMaxLanes];
    size_t count;

    explicit Lanes(Random &random) : count(size_t{1} << random.below(7)) {
        std::fill_n(states, kMaxLanes, kRansLow);
    }
    std::span<uint32_t> all() { return {states, count}; }
};

void coder_encode(Case &own) {
    const Model model(own.random);
    Lanes lanes(own.random);
    uint8_t *const symbols = own.memory(own.count);
    for (size_t i = 0; i < own.count; ++i) {
        symbols[i] = model.symbol(own.random);
    }
    for (size_t i = 0; i < own.count && own.random.chance(2);
         ++i) { // just enough for a word to leave
        const uint64_t entry = model.encode.entries[symbols[own.count - 1 - i]];
        uint32_t &state = lanes.states[(own.count - 1 - i) % lanes.count];
        const auto least = static_cast<uint32_t>((entry >> 32 & (kRansTotal - 1)) << 19);
        state = state == kRansLow ? least - static_cast<uint32_t>(own.random.below(2)) : state;
    }
    const size_t size = own.random.chance(5) ? own.random.below(2 * own.count + 2) : 2 * own.count;
    uint8_t *const room = own.memory(size);
    const uint8_t *const begin =
        own.kernels.coder.encode({symbols, own.count}, model.encode, lanes.all(), {room, size}, {});
    own.put(begin == nullptr ? SIZE_MAX : static_cast<size_t>(begin - room));
    if (begin != nullptr) { // what is below the words means nothing
        own.put(begin, static_cast<size_t>(room + size - begin));
        own.put(lanes.states);
    }
}

void set_states(std::span<uint32_t> states, const Model &model, Random &random) {
    for (uint32_t &state : states) {
        const uint32_t at = static_cast<uint32_t>(random.below(kRansTotal));
        const uint32_t slot = model.decode.slots[at];
        const uint32_t frequency = slot & (kRansTotal - 1);
        const uint32_t left = kRansLow - (slot >> 12 & (kRansTotal - 1));
        if (left % frequency == 0 && left / frequency >= 8) { // just enough to take no word
            state = left / frequency << kRansBits | at;
            continue;
        }
        state = kRansLow + static_cast<uint32_t>(random.below(kRansHigh - kRansLow));
    }
}

// Any words from any states: whatever they decode to, and the same refusal if there are too few.
void coder_decode(Case &own) {
    const Model model(own.random);
    Lanes lanes(own.random);
    set_states(lanes.all(), model, own.random);
    const size_t size = own.random.chance(5) ? own.random.below(own.count + 2) : 2 * own.count;
    const uint8_t *const data = own.bytes(size);
    uint8_t *const symbols = own.memory(own.count);
    const uint8_t *const end =
        own.kernels.coder.decode({data, size}, model.decode, lanes.all(), {symbols, own.count}, {});
    own.put(end == nullptr ? SIZE_MAX : static_cast<size_t>(end - data));
    if (end != nullptr) {
        own.put_memory(symbols);
        own.put(lanes.states);
    }
}

// The same of blocks side by side; one by one where a table does not decode them so.
void coder_decode_abreast(Case &own) {
    constexpr size_t lanes = size_t{1} << kAbreastLanes;
    const size_t number = 2 + own.random.below(kAbreast - 1);
    const size_t count = own.count / lanes * lanes;
    std::vector<Model> models;
    std::vector<std::array<uint32_t, lanes>> states(number);
    std::vector<RansBlock> blocks(number);
    for (size_t i = 0; i < number; ++i) {
        models.emplace_back(own.random);
        set_states(states[i], models[i], own.random);
        const size_t size = own.random.chance(5) ? own.random.below(count + 2) : 2 * count;
        blocks[i] = {{own.bytes(size), size},    nullptr, states[i],
                     {own.memory(count), count}, {},      nullptr};
    }
    for (size_t i = 0; i < number; ++i) {
        blocks[i].table = &models[i].decode;
    }
    const auto &coder = own.kernels.coder;
    if (coder.decode_abreast == nullptr || !coder.decode_abreast(blocks)) {
        for (RansBlock &block : blocks) {
            block.end =
                coder.decode(block.data, *block.table, block.states, block.symbols, block.ahead);
        }
    }
    for (const RansBlock &block : blocks) {
        own.put(block.end == nullptr ? SIZE_MAX
                                     : static_cast<size_t>(block.end - block.data.data()));
        if (block.end != nullptr) {
            own.put(block.symbols.data(), count);
            own.put(block.states.data(), lanes);
        }
    }
}

void count_symbols(Case &own) {
    const size_t crowd = own.random.chance(2) ? 6 : 20;
    const size_t first = own.random.below(200);
    const bool wild = own.random.chance(4);
    uint8_t *const symbols = own.memory(own.count);
    for (size_t i = 0; i < own.count; ++i) {
        const bool stray = wild || own.random.chance(200);
        symbols[i] =
            static_cast<uint8_t>(stray ? own.random.bits() : first + own.random.below(crowd));
    }
    Histogram counts;
    std::iota(counts, counts + 256, 7u);
    own.kernels.coder.count_symbols({symbols, own.count}, counts);
    own.put(counts);
}

void nonzero(Case &own) {
    uint8_t *const symbols = own.bytes(own.count, own.random.below(16));
    const size_t one_in = 1 + own.random.below(9);
    for (size_t i = 0; i < own.count; ++i) {
        symbols[i] = own.random.chance(one_in) ? symbols[i] : uint8_t{0};
    }
    const size_t size = packed_size(own.count, 1);
    uint8_t *const mask = own.memory(size);
    own.put(own.kernels.coder.nonzero({symbols, own.count}, {mask, size}));
    own.put_memory(mask);
}

size_t ones(ConstBytes mask) {
    return std::accumulate(mask.begin(), mask.end(), size_t{0}, [](size_t sum, uint8_t byte) {
        return sum + static_cast<size_t>(std::popcount(byte));
    });
}

template <bool Join> void move_bits(Case &own) {
    const size_t size = packed_size(own.count, 1);
    const ConstBytes mask{own.mask(own.count), size};
    const size_t short_size = packed_size(ones(mask), 1);
    const size_t given = Join ? size : short_size;
    const size_t wanted = Join ? short_size : size;
    const uint8_t *const from = own.bytes(given);
    uint8_t *const to = own.memory(wanted);
    const auto kernel = Join ? own.kernels.coder.join_bits : own.kernels.coder.spread_bits;
    kernel({from, given}, mask, {to, wanted});
    own.put(wanted);
    own.put_memory(to);
}

// Bytes without gaps have room behind them, which means nothing.
template <bool Join> void move_bytes(Case &own) {
    const ConstBytes mask{own.mask(own.count), packed_size(own.count, 1)};
    const size_t kept = ones(mask);
    uint8_t *const joined = own.bytes(kept + kSlack);
    uint8_t *const codes = own.bytes(own.count);
    if constexpr (Join) {
        own.kernels.coder.join_bytes({codes, own.count}, mask, {joined, kept + kSlack});
        own.put(joined, kept);
    } else {
        own.kernels.coder.spread_bytes({joined, kept + kSlack}, mask, {codes, own.count});
        own.put_memory(codes);
    }
    own.put(kept);
}

// ---- phases of a dither ----

uint8_t *some_phases(Case &own) {
    uint8_t *const phases = own.bytes(own.count);
    for (size_t i = 0; i < own.count; ++i) {
        phases[i] = phase_of(uint32_t{phases[i]} << 24);
    }
    return phases;
}

void find_phases(Case &own) {
    uint8_t *const phases = own.memory(own.count);
    own.kernels.phases.find(own.stream(), {phases, own.count});
    own.put_memory(phases);
}

void fold_phases(Case &own) {
    const uint8_t *const phases = some_phases(own);
    const uint8_t *const signs = own.mask(own.count);
    uint8_t *const codes = own.bytes(own.count);
    for (size_t i = 0; i < own.count; ++i) {
        codes[i] = own.random.chance(9) ? codes[i] : static_cast<uint8_t>(codes[i] % 35);
    }
    uint8_t *const symbols = own.memory(own.count);
    own.kernels.phases.fold({codes, own.count}, signs, {phases, own.count}, {symbols, own.count});
    own.put_memory(symbols);
}

void unfold_phases(Case &own) {
    const uint8_t *const phases = some_phases(own);
    uint8_t *const symbols = own.bytes(own.count);
    for (size_t i = 0; i < own.count; ++i) {
        symbols[i] %= 64;
    }
    uint8_t *const codes = own.memory(own.count);
    uint8_t *const signs = own.memory(packed_size(own.count, 1));
    own.kernels.phases.unfold({symbols, own.count}, {phases, own.count}, codes, signs);
    own.put_memory(codes);
    own.put_memory(signs);
}

void decode_phases(Case &own) {
    const uint8_t *const phases = some_phases(own);
    const Model models[kPhaseTables] = {Model(own.random), Model(own.random), Model(own.random),
                                        Model(own.random)};
    std::vector<RansDecodeTable> tables;
    for (const Model &model : models) {
        tables.push_back(model.decode);
    }
    Lanes lanes(own.random);
    for (uint32_t &state : lanes.all()) {
        state = kRansLow + static_cast<uint32_t>(own.random.below(kRansHigh - kRansLow));
    }
    const size_t size = own.random.chance(5) ? own.random.below(own.count + 2) : 2 * own.count;
    const uint8_t *const data = own.bytes(size);
    uint8_t *const symbols = own.memory(own.count);
    const uint8_t *const end = own.kernels.phases.decode({data, size}, tables.data(), lanes.all(),
                                                         {phases, own.count}, {symbols, own.count});
    own.put(end == nullptr ? SIZE_MAX : static_cast<size_t>(end - data));
    if (end != nullptr) {
        own.put_memory(symbols);
        own.put(lanes.states);
    }
}

// ---- paths of a trellis ----

constexpr int kStates[] = {4, 8, 16};

void search_paths(Case &own) {
    const size_t count = std::min(own.count, size_t{1} << 16); // a block has no more
    uint8_t *const places = own.bytes(count);
    for (size_t i = 0; i < count; ++i) {
        places[i] %= 64;
    }
    uint8_t *const labels = own.memory(count);
    const size_t lanes = size_t{1} << (own.random.chance(4) ? path_lanes_log2(count) : 5);
    const bool enough = count >= 4 * lanes; // of a lane: a block has 128 or more for each
    own.kernels.trellis.search({places, count}, enough ? lanes : 1, kStates[own.random.below(3)],
                               {labels, count});
    own.put_memory(labels);
}

// Words of a dither, or null where there is none.
const uint32_t *some_words(Case &own, std::vector<uint32_t> &room) {
    room.resize(own.count + 1);
    for (uint32_t &word : room) {
        word = static_cast<uint32_t>(own.random.bits());
    }
    return own.random.chance(2) ? room.data() : nullptr;
}

// Levels, few of them large.
std::vector<int32_t> some_levels(Case &own) {
    std::vector<int32_t> levels(own.count);
    for (int32_t &level : levels) {
        const uint32_t most = own.random.chance(8) ? 65536 : own.random.chance(2) ? 200 : 6;
        const auto magnitude = static_cast<int32_t>(own.random.below(most));
        level = own.random.chance(2) ? -magnitude : magnitude;
    }
    return levels;
}

void fix_values_of_paths(Case &own) {
    const auto values = own.numbers<Float32>(own.count);
    std::vector<uint32_t> room;
    const uint32_t *const words = some_words(own, room);
    std::vector<int32_t> fixed(own.count);
    uint8_t *const places = own.memory(own.count);
    // NaN is never handed over.
    std::vector<uint32_t> finite(values.begin(), values.end());
    for (uint32_t &bits : finite) {
        bits = (bits & ~Float32::sign) < Float32::infinity ? bits : 0;
    }
    const float step = std::ldexp(1.0f + static_cast<float>(own.random.below(100)) / 128,
                                  static_cast<int>(own.random.below(60)) - 30);
    own.kernels.trellis.fix(input<uint32_t>(finite.data(), own.count), step, words, fixed.data(),
                            places);
    own.put(fixed.data(), fixed.size() * sizeof(int32_t));
    own.put_memory(places);
}

void settle_paths(Case &own) {
    uint8_t *const labels = own.bytes(own.count);
    for (size_t i = 0; i < own.count; ++i) {
        labels[i] %= 4;
    }
    std::vector<int32_t> levels = some_levels(own);
    const LevelStats stats = own.kernels.trellis.settle({labels, own.count}, levels.data());
    own.put(levels.data(), levels.size() * sizeof(int32_t));
    own.put(stats.least);
    own.put(stats.largest);
    own.put(stats.zeros);
    own.put(stats.large);
}

void sum_paths(Case &own) {
    const auto values = own.numbers<Float32>(own.count);
    std::vector<uint32_t> finite(values.begin(), values.end());
    for (uint32_t &bits : finite) {
        bits = (bits & ~Float32::sign) < Float32::infinity ? bits : 0;
    }
    const std::vector<int32_t> levels = some_levels(own);
    const StepSums sums =
        own.kernels.trellis.sums(input<uint32_t>(finite.data(), own.count), levels.data());
    own.put(std::bit_cast<uint64_t>(sums.products));
    own.put(std::bit_cast<uint64_t>(sums.squares));
}

void fold_paths(Case &own) {
    std::vector<uint32_t> room;
    const uint32_t *const words = some_words(own, room);
    const int shift = static_cast<int>(own.random.below(3));
    const std::vector<int32_t> levels = some_levels(own);
    uint8_t *const symbols = own.memory(own.count);
    own.kernels.trellis.fold(levels, words, shift, (64u << shift) - 2, symbols);
    own.put_memory(symbols);
}

void decode_paths(Case &own) {
    std::vector<RansDecodeTable> tables;
    for (size_t i = 0; i < kPhaseTables; ++i) {
        tables.push_back(Model(own.random).decode); // j of all eight bits, escapes too
    }
    std::vector<uint32_t> room;
    const uint32_t *const dither = some_words(own, room);
    Lanes lanes(own.random);
    for (uint32_t &state : lanes.all()) {
        state = kRansLow + static_cast<uint32_t>(own.random.below(kRansHigh - kRansLow));
    }
    const size_t size = own.random.chance(5) ? own.random.below(own.count + 2) : 2 * own.count;
    const uint8_t *const data = own.bytes(size);
    const int shift = static_cast<int>(own.random.below(3));
    const PathTables known = {tables.data(), shift};
    std::vector<int32_t> levels(own.count);
    uint8_t *const symbols = own.memory(own.count);
    const uint8_t *const end = own.kernels.trellis.decode(
        {data, size}, known, lanes.all(), kStates[own.random.below(3)], dither, levels, symbols);
    own.put(end == nullptr ? SIZE_MAX : static_cast<size_t>(end - data));
    if (end != nullptr) {
        own.put_memory(symbols);
        own.put(levels.data(), levels.size() * sizeof(int32_t));
        own.put(lanes.states);
    }
}

void values_of_paths(Case &own) {
    std::vector<uint32_t> room;
    const uint32_t *const words = some_words(own, room);
    const std::vector<int32_t> levels = some_levels(own);
    const float scale = own.random.chance(8)
                            ? 0.0f
                            : std::ldexp(1.0f + static_cast<float>(own.random.below(100)) / 128,
                                         static_cast<int>(own.random.below(250)) - 125);
    std::vector<uint32_t> values(own.count);
    own.kernels.trellis.values(levels, words, scale, output<uint32_t>(values.data(), own.count));
    own.put(values.data(), values.size() * sizeof(uint32_t));
}

// Levels of values in one turn, or in the turns of a table that cannot do it.
void find_near_levels(Case &own) {
    const size_t count = std::min(own.count, size_t{1} << 16);
    const auto values = own.numbers<Float32>(count);
    std::vector<uint32_t> finite(values.begin(), values.end());
    for (uint32_t &bits : finite) {
        bits = (bits & ~Float32::sign) < Float32::infinity ? bits : 0;
        if (!own.random.chance(own.random.chance(2) ? 1u << 20 : 64)) { // most are near
            bits =
                std::bit_cast<uint32_t>(static_cast<float>(own.random.below(1 << 16)) / 4096 - 8);
        }
    }
    const float step = std::ldexp(1.0f + static_cast<float>(own.random.below(100)) / 128,
                                  static_cast<int>(own.random.below(10)) - 7);
    const Stream stream = own.stream();
    const Stream *const dither = own.random.chance(2) ? nullptr : &stream;
    const int states = kStates[own.random.below(3)];
    const auto &trellis = own.kernels.trellis;
    const In<uint32_t> in = input<uint32_t>(finite.data(), count);
    std::vector<int16_t> narrow(count + 1);
    std::vector<uint8_t> tops(count + 1);
    std::vector<int32_t> levels(count + 1);
    NearLevels near = {narrow.data(), tops.data()};
    if (trellis.find != nullptr && trellis.find(in, step, dither, states, near)) {
        std::copy(narrow.begin(), narrow.end(), levels.begin());
    } else {
        std::vector<uint32_t> words(count + 1);
        if (dither != nullptr) {
            own.kernels.common.words(stream, {words.data(), count});
        }
        for (size_t i = 0; i < count; ++i) {
            tops[i] = static_cast<uint8_t>(words[i] >> 28);
        }
        std::vector<uint8_t> places(count + 1), labels(count + 1);
        trellis.fix(in, step, dither != nullptr ? words.data() : nullptr, levels.data(),
                    places.data());
        trellis.search({places.data(), count}, size_t{1} << path_lanes_log2(count), states,
                       {labels.data(), count});
        near.stats = trellis.settle({labels.data(), count}, levels.data());
    }
    own.put(levels.data(), count * sizeof(int32_t));
    if (dither != nullptr) {
        own.put(tops.data(), count);
    }
    own.put(near.stats.least);
    own.put(near.stats.largest);
    own.put(near.stats.zeros);
    own.put(near.stats.large);
}

// Levels that are near.
std::vector<int16_t> some_near_levels(Case &own) {
    std::vector<int16_t> near;
    for (const int32_t level : some_levels(own)) {
        near.push_back(static_cast<int16_t>(level % 2000));
    }
    return near;
}

void sum_near_levels(Case &own) {
    const auto values = own.numbers<Float32>(own.count);
    std::vector<uint32_t> finite(values.begin(), values.end());
    for (uint32_t &bits : finite) {
        bits = (bits & ~Float32::sign) < Float32::infinity ? bits : 0;
    }
    const std::vector<int16_t> near = some_near_levels(own);
    const std::vector<int32_t> levels(near.begin(), near.end());
    const auto &trellis = own.kernels.trellis;
    const In<uint32_t> in = input<uint32_t>(finite.data(), own.count);
    const StepSums sums = trellis.near_sums != nullptr ? trellis.near_sums(in, near.data())
                                                       : trellis.sums(in, levels.data());
    own.put(std::bit_cast<uint64_t>(sums.products));
    own.put(std::bit_cast<uint64_t>(sums.squares));
}

void fold_near_levels(Case &own) {
    std::vector<uint32_t> room;
    const uint32_t *const words = some_words(own, room);
    const int shift = static_cast<int>(own.random.below(3));
    const std::vector<int16_t> near = some_near_levels(own);
    const uint32_t escape = (64u << shift) - 2;
    uint8_t *const symbols = own.memory(own.count);
    if (own.kernels.trellis.near_fold != nullptr) {
        std::vector<uint8_t> tops(own.count + 1);
        for (size_t i = 0; i < own.count; ++i) {
            tops[i] = static_cast<uint8_t>(room[i] >> 28);
        }
        own.kernels.trellis.near_fold(near, words != nullptr ? tops.data() : nullptr, shift, escape,
                                      symbols);
    } else {
        const std::vector<int32_t> levels(near.begin(), near.end());
        own.kernels.trellis.fold(levels, words, shift, escape, symbols);
    }
    own.put_memory(symbols);
}

void decode_path_values(Case &own) {
    std::vector<RansDecodeTable> tables;
    for (size_t i = 0; i < kPhaseTables; ++i) {
        tables.push_back(Model(own.random).decode);
        for (uint32_t &slot : tables.back().slots) {
            const int32_t j = static_cast<int32_t>(slot >> 24) % (2 * kLargestSoon + 1);
            slot = (slot & 0xFFFFFF) | static_cast<uint32_t>(j - kLargestSoon) << 24;
        }
    }
    std::array<uint32_t, size_t{1} << kMostPathLanes> states;
    for (uint32_t &state : states) {
        state = kRansLow + static_cast<uint32_t>(own.random.below(kRansHigh - kRansLow));
    }
    const size_t size = own.random.chance(3) ? own.random.below(own.count + 2) : 2 * own.count;
    const uint8_t *const data = own.bytes(size);
    const int shift = static_cast<int>(own.random.below(3));
    const PathTables known = {tables.data(), shift};
    const Stream stream = own.stream();
    const bool within = stream.first >> 32 == (stream.first + own.count) >> 32;
    const Stream *const dither = within && own.random.chance(2) ? &stream : nullptr;
    const int trellis = kStates[own.random.below(3)];
    const float scale = std::ldexp(1.0f + static_cast<float>(own.random.below(100)) / 128,
                                   static_cast<int>(own.random.below(260)) - 145);
    std::vector<uint32_t> values(own.count + 1);
    const Out<uint32_t> out = output<uint32_t>(values.data(), own.count);
    const auto &kernels = own.kernels.trellis;
    uint32_t largest = 0;
    const uint8_t *end;
    if (kernels.decode_values != nullptr) {
        end = kernels.decode_values({data, size}, known, states, trellis, {out, scale, dither},
                                    largest);
    } else {
        std::vector<uint32_t> words(own.count + 1);
        std::vector<int32_t> levels(own.count);
        std::vector<uint8_t> found(own.count + 1);
        if (dither != nullptr) {
            own.kernels.common.words(stream, {words.data(), own.count});
        }
        const uint32_t *const drawn = dither != nullptr ? words.data() : nullptr;
        end = kernels.decode({data, size}, known, states, trellis, drawn, levels, found.data());
        if (end != nullptr) {
            kernels.values(levels, drawn, scale, out);
        }
        for (const int32_t level : levels) {
            largest = std::max(largest, static_cast<uint32_t>(std::abs(level)));
        }
    }
    own.put(end == nullptr ? SIZE_MAX : static_cast<size_t>(end - data));
    if (end != nullptr) {
        own.put(values.data(), own.count * sizeof(uint32_t));
        own.put(states.data(), states.size());
        own.put(largest);
    }
}

void count_nonfinite(Case &own) {
    const auto values = own.numbers<Float32>(own.count);
    const auto nonfinite = own.kernels.trellis.nonfinite;
    const std::vector<uint32_t> bits(values.begin(), values.end());
    size_t count = 0;
    for (const uint32_t each : bits) {
        count += (each & ~Float32::sign) >= Float32::infinity;
    }
    own.put(nonfinite != nullptr ? nonfinite(input<uint32_t>(bits.data(), own.count)) : count);
}

// ---- selection and rotation ----

void count_keys(Case &own) {
    const auto values = own.numbers<Float32>(own.count);
    const uint32_t mask = own.random.chance(4) ? UINT32_MAX : ~Float32::sign;
    const int shift = static_cast<int>(own.random.below(3)) * 8 + 4;
    const uint32_t like = own.count == 0 ? 0 : values[own.random.below(own.count)] & mask;
    const int above = shift + kKeyBits;
    const uint32_t prefix = above >= 32 ? 0 : like >> above;
    static KeyCounts counts;
    std::fill(std::begin(counts), std::end(counts), 3);
    own.kernels.stages.count_keys(values, mask, {shift, prefix}, counts);
    own.put(counts);
}

void gather_keys(Case &own) {
    const auto values = own.numbers<Float32>(own.count);
    const uint32_t mask = own.random.chance(4) ? UINT32_MAX : ~Float32::sign;
    const uint32_t threshold = own.count == 0 ? 5 : values[own.random.below(own.count)] & mask;
    const size_t room = own.random.chance(2) ? own.count : own.random.below(own.count + 1);
    auto *const places = aligned<uint32_t>(own.memory(4 * room));
    const size_t found = own.kernels.stages.gather_keys(values, mask, threshold,
                                                        own.random.below(4), {places, room});
    own.put(found);
    own.put(places, 4 * found);
}

// Some keys in a band, and how many are above it. Room behind the last one means nothing.
void near_keys(Case &own) {
    const auto values = own.numbers<Float32>(own.count);
    const uint32_t mask = own.random.chance(4) ? UINT32_MAX : ~Float32::sign;
    const auto any = [&] {
        return own.count == 0 ? 5u : values[own.random.below(own.count)] & mask;
    };
    const uint32_t one = any();
    const uint32_t other = own.random.chance(3) ? one : any();
    auto *const near = aligned<uint32_t>(own.memory(4 * (own.count + kSlack)));
    uint64_t above = 7;
    const size_t found = own.kernels.stages.near_keys(
        values, mask, {std::min(one, other), std::max(one, other)}, near, above);
    own.put(found);
    own.put(near, 4 * found);
    own.put(above);
}

void take_keys(Case &own) {
    const auto values = own.numbers<Float32>(own.count);
    const uint32_t mask = own.random.chance(4) ? UINT32_MAX : ~Float32::sign;
    const uint32_t threshold = own.count == 0 ? 5 : values[own.random.below(own.count)] & mask;
    uint64_t ties = own.random.chance(3) ? 1000000 : own.random.below(4);
    auto *const places = aligned<uint32_t>(own.memory(4 * (own.count + kSlack)));
    auto *const taken = aligned<uint32_t>(own.memory(4 * (own.count + kSlack)));
    const size_t found = own.kernels.stages.take_keys(values, mask, threshold, ties, places, taken);
    own.put(found);
    own.put(places, 4 * found);
    own.put(taken, 4 * found);
    own.put(ties);
}

template <class F, class Bits, Bits (*StageKernels::*kernel)(In<Bits>, const Stream *, Out<Bits>)>
void copy_signed(Case &own) {
    const auto values = own.numbers<F>(own.count);
    const auto out = output<Bits>(own.odd_memory(own.count * sizeof(Bits)), own.count);
    const Stream stream = own.stream();
    own.put((own.kernels.stages.*kernel)(values, own.random.chance(3) ? nullptr : &stream, out));
    own.put_memory(out.data());
}

// Words of one segment.
Stream one_segment(Case &own) {
    Stream stream = own.stream();
    stream.first = own.random.below(uint64_t{1} << 20) << own.random.below(12);
    return stream;
}

void draws_near(Case &own) {
    const Stream stream = one_segment(own);
    const auto low = static_cast<uint32_t>(own.random.bits());
    const auto wide = static_cast<uint32_t>(own.random.bits() >> (32 + own.random.below(30)));
    const uint32_t high = UINT32_MAX - low < wide ? UINT32_MAX : low + wide;
    const size_t room = own.random.chance(2) ? own.count : own.random.below(own.count + 1);
    auto *const near = aligned<uint32_t>(own.memory(4 * room));
    const DrawCounts found =
        own.kernels.stages.draws_near(stream, own.count, {low, high}, {near, room});
    own.put(found);
    own.put(near, 4 * std::min<uint64_t>(found.within, room));
}

void draws_mask(Case &own) {
    const size_t words = own.count / kMaskBits;
    auto *const masks = aligned<uint32_t>(own.memory(4 * words));
    const auto low = static_cast<uint32_t>(own.random.bits());
    own.kernels.stages.draws_mask(one_segment(own), low, {masks, words});
    own.put(words);
    own.put_memory(masks);
}

template <class F, class T, void (*StageKernels::*kernel)(std::span<T>, T)>
void hadamard(Case &own) {
    const size_t size = std::bit_ceil(std::max<size_t>(own.count, 1));
    auto *const values = aligned<T>(own.memory(size * sizeof(T)));
    for (size_t i = 0; i < size; ++i) { // the caller leaves room for sums that grow
        const auto bits = own.random.number<F>();
        const bool small = (bits & ~F::sign) < F::infinity - (typename F::Bits{20} << F::mantissa);
        values[i] = small ? std::bit_cast<T>(bits) : T{0};
    }
    (own.kernels.stages.*kernel)({values, size}, static_cast<T>(0.3));
    own.put_memory(values);
}

// ---- in-network aggregation ----

void switch_encode(Case &own) {
    const auto numbers = own.numbers<Float32>(own.count);
    auto *const values = aligned<uint32_t>(own.memory(4 * own.count));
    std::copy(numbers.begin(), numbers.end(), values);
    const auto most = static_cast<uint32_t>(1 + own.random.below(63));
    const SwitchSpan span = {static_cast<uint32_t>(1 + own.random.below(254 - most)), most};
    const SwitchSpan usual = {100, 60};
    uint8_t *const codes = own.memory(own.count);
    fewbits_switch_tally tally = {};
    own.kernels.switching.encode({values, own.count}, own.stream(),
                                 own.random.chance(3) ? span : usual, codes, tally);
    own.put_memory(codes);
    own.put(tally);
}

// Codes of a worker.
uint8_t *switch_codes(Case &own) {
    uint8_t *const codes = own.memory(own.count);
    for (size_t i = 0; i < own.count; ++i) {
        const size_t code = own.random.below(64);
        codes[i] =
            static_cast<uint8_t>(code | (own.random.chance(2) && code > 0 ? kSwitchSign : 0));
    }
    return codes;
}

void switch_check(Case &own) {
    uint8_t *const codes = switch_codes(own);
    if (own.count > 0 && own.random.chance(2)) {
        const auto any = static_cast<uint8_t>(own.random.bits());
        codes[own.random.below(own.count)] = own.random.chance(2) ? kSwitchSign : any;
    }
    const auto most = static_cast<uint32_t>(62 + own.random.below(3));
    own.put(own.kernels.switching.check({codes, own.count}, most));
}

template <bool Add> void switch_sums(Case &own) {
    const uint8_t *const codes = switch_codes(own);
    auto *const sums = aligned<int64_t>(own.bytes(8 * own.count));
    for (size_t i = 0; i < own.count; ++i) {
        sums[i] >>= 2;
    }
    const auto kernel = Add ? own.kernels.switching.add : own.kernels.switching.set;
    kernel({codes, own.count}, sums);
    own.put(own.count);
    own.put_memory(sums);
}

void switch_round(Case &own) {
    auto *const sums = aligned<int64_t>(own.bytes(8 * own.count));
    for (size_t i = 0; i < own.count; ++i) {
        sums[i] >>= own.random.below(64);
        sums[i] = own.random.chance(9) ? 0 : sums[i] == INT64_MIN ? 1 : sums[i];
    }
    uint8_t *const codes = own.memory(own.count);
    Stream stream = own.stream();
    stream.first /= 1 + own.random.below(2);
    own.kernels.switching.round({sums, own.count}, stream, codes);
    own.put(own.count);
    own.put_memory(codes);
}

void switch_decode(Case &own) {
    const uint8_t *const codes = own.bytes(own.count);
    const auto *const table = aligned<uint32_t>(own.bytes(4 * 256));
    auto *const values = aligned<uint32_t>(own.memory(4 * own.count));
    own.kernels.switching.decode({codes, own.count}, table, values);
    own.put(own.count);
    own.put_memory(values);
}

// ---- tags of packets ----

void seal_strides(Case &own) {
    const size_t count = own.count % 9;
    auto *const words = aligned<uint32_t>(own.bytes(sizeof(LeafWords)));
    const uint8_t *const data = own.bytes(count * kHashStride, own.random.below(16));
    own.kernels.sealing.strides(words, data, count, static_cast<uint32_t>(64 * own.count));
    own.put_memory(words);
}

LeafMarks any_marks(Random &random) {
    LeafMarks marks;
    for (size_t i = 0; i < kHashLeaves; ++i) {
        marks.count[i] = static_cast<uint32_t>(random.bits());
        marks.last[i] = random.chance(2) ? UINT32_MAX : 0;
        marks.live[i] = random.chance(3) ? 0 : UINT32_MAX;
    }
    return marks;
}

void seal_marked(Case &own) {
    auto *const words = aligned<uint32_t>(own.bytes(sizeof(LeafWords)));
    const uint8_t *const data = own.bytes(kHashStride, own.random.below(16));
    own.kernels.sealing.marked(words, data, any_marks(own.random));
    own.put_memory(words);
}

template <bool Marked> void seal_two(Case &own) {
    const size_t count = Marked ? 1 : own.count % 9;
    auto *const words = aligned<uint32_t>(own.bytes(2 * sizeof(LeafWords)));
    const uint8_t *const data[2] = {own.bytes(count * kHashStride, own.random.below(16)),
                                    own.bytes(count * kHashStride, own.random.below(16))};
    if constexpr (Marked) {
        own.kernels.sealing.two_marked(words, data, any_marks(own.random));
    } else {
        own.kernels.sealing.two_strides(words, data, count, static_cast<uint32_t>(64 * own.count));
    }
    own.put_memory(words);
}

// The words of the roots that there are; those behind them mean nothing.
void seal_roots(Case &own) {
    const size_t count = 1 + own.count % kHashLeaves;
    auto *const words = aligned<uint32_t>(own.bytes(sizeof(LeafWords)));
    const uint8_t *const data = own.bytes(2 * kHashStride, own.random.below(16));
    own.kernels.sealing.roots(words, data, count);
    for (size_t word = 0; word < kHashWords; ++word) {
        own.put(words + word * kHashLeaves, count * sizeof(uint32_t));
    }
}

void seal_block(Case &own) {
    auto *const words = aligned<uint32_t>(own.bytes(4 * kHashWords));
    const uint8_t *const data = own.bytes(kHashBlock, own.random.below(16));
    const bool last = own.random.chance(2);
    own.kernels.sealing.block(words, data, static_cast<uint32_t>(own.count), last,
                              last && own.random.chance(2));
    own.put_memory(words);
}

} // namespace

std::vector<Check> code_checks() {
    return {
        CHECK(common.crc32c, crc32c),
        CHECK(common.words, words),
        CHECK(common.pack, pack),
        CHECK(common.unpack, unpack),
        CHECK(coder.count_symbols, count_symbols),
        CHECK(coder.encode, coder_encode),
        CHECK(coder.decode, coder_decode),
        CHECK(coder.decode_abreast, coder_decode_abreast),
        CHECK(coder.nonzero, nonzero),
        CHECK(coder.join_bits, move_bits<true>),
        CHECK(coder.spread_bits, move_bits<false>),
        CHECK(coder.join_bytes, move_bytes<true>),
        CHECK(coder.spread_bytes, move_bytes<false>),
        CHECK(phases.find, find_phases),
        CHECK(phases.fold, fold_phases),
        CHECK(phases.unfold, unfold_phases),
        CHECK(phases.decode, decode_phases),
        CHECK(trellis.fix, fix_values_of_paths),
        CHECK(trellis.search, search_paths),
        CHECK(trellis.settle, settle_paths),
        CHECK(trellis.sums, sum_paths),
        CHECK(trellis.fold, fold_paths),
        CHECK(trellis.decode, decode_paths),
        CHECK(trellis.values, values_of_paths),
        CHECK(trellis.find, find_near_levels),
        CHECK(trellis.near_sums, sum_near_levels),
        CHECK(trellis.near_fold, fold_near_levels),
        CHECK(trellis.decode_values, decode_path_values),
        CHECK(trellis.nonfinite, count_nonfinite),
        CHECK(stages.count_keys, count_keys),
        CHECK(stages.gather_keys, gather_keys),
        CHECK(stages.near_keys, near_keys),
        CHECK(stages.take_keys, take_keys),
        CHECK(stages.signed32, (copy_signed<Float32, uint32_t, &StageKernels::signed32>)),
        CHECK(stages.signed64, (copy_signed<Float64, uint64_t, &StageKernels::signed64>)),
        CHECK(stages.draws_near, draws_near),
        CHECK(stages.draws_mask, draws_mask),
        CHECK(stages.hadamard32, (hadamard<Float32, float, &StageKernels::hadamard32>)),
        CHECK(stages.hadamard64, (hadamard<Float64, double, &StageKernels::hadamard64>)),
        CHECK(switching.encode, switch_encode),
        CHECK(switching.check, switch_check),
        CHECK(switching.set, switch_sums<false>),
        CHECK(switching.add, switch_sums<true>),
        CHECK(switching.round, switch_round),
        CHECK(switching.decode, switch_decode),
        CHECK(sealing.strides, seal_strides),
        CHECK(sealing.marked, seal_marked),
        CHECK(sealing.block, seal_block),
        CHECK(sealing.two_strides, seal_two<false>),
        CHECK(sealing.two_marked, seal_two<true>),
        CHECK(sealing.roots, seal_roots),
    };
}

} // namespace compared
