// Parts of coded blocks that a reader takes: tables of frequencies, symbols, plain numbers, places.
#pragma once

#include <algorithm>
#include <cstring>

#include "coded_blocks.h"
#include "coded_gaps.h"

namespace fewbits {
namespace { // internal linkage: see random.h

// Bits, the least significant one first.
class BitReader {
  public:
    explicit BitReader(ConstBytes from) : from_(from) {}
    // Zero bits beyond the end: `short_of_bits` then says so.
    uint32_t take(int width) {
        for (; bits_ < width; bits_ += 8) {
            const bool there = at_ < from_.size();
            pending_ |= uint64_t{there ? from_[at_] : uint8_t{0}} << bits_;
            ++at_;
        }
        const auto value = static_cast<uint32_t>(pending_ & ((uint64_t{1} << width) - 1));
        pending_ >>= width;
        bits_ -= width;
        return value;
    }
    bool short_of_bits() const { return at_ > from_.size(); }
    bool padding_is_zero() const { return pending_ == 0; }
    size_t used() const { return at_; }

  private:
    ConstBytes from_;
    uint64_t pending_ = 0;
    int bits_ = 0;
    size_t at_ = 0;
};

// Reads a table whose symbols are all below `symbols`, of wire version 2, which ends where its
// frequencies add up; `used` is its size. Slots have what `named` says of their symbol.
template <class Named>
fewbits_status read_named_table(ConstBytes data, uint32_t symbols, uint32_t escape, int coarse,
                                RansDecodeTable &table, size_t &used, Named named) {
    BitReader bits(data);
    const uint32_t first = bits.take(8);
    uint32_t symbol = first;
    uint32_t sum = 0;
    while (sum < kRansTotal) {
        const uint32_t number = bits.take(4);
        if (bits.short_of_bits()) {
            return FEWBITS_CODED_SHORT;
        }
        const bool unused = number == 0 || number == kSkip;
        if (number > kSkip || symbol > 255 || (unused && symbol == first)) {
            return FEWBITS_CODED_TABLE;
        }
        if (unused) {
            symbol += number == 0 ? 1 : bits.take(8) + static_cast<uint32_t>(kShortestRun);
            continue; // a short run is seen at the next number
        }
        const int further = static_cast<int>(number) - 1;
        const uint32_t frequency = ((1u << further) + bits.take(further)) << coarse;
        if (bits.short_of_bits()) {
            return FEWBITS_CODED_SHORT;
        }
        if (frequency > kRansTotal - sum || frequency == kRansTotal ||
            (symbol >= symbols && symbol != escape)) {
            return FEWBITS_CODED_TABLE;
        }
        table.set(static_cast<uint8_t>(named(symbol++)), frequency, sum);
        sum += frequency;
    }
    used = bits.used();
    return bits.padding_is_zero() ? FEWBITS_OK : FEWBITS_CODED_TABLE;
}

[[maybe_unused]] fewbits_status read_table(ConstBytes data, uint32_t symbols, uint32_t escape,
                                           int coarse, RansDecodeTable &table, size_t &used) {
    return read_named_table(data, symbols, escape, coarse, table, used,
                            [](uint32_t symbol) { return symbol; });
}

// The same for a table of wire version 1, which names its last symbol.
[[maybe_unused]] fewbits_status read_first_table(ConstBytes data, uint32_t symbols, uint32_t escape,
                                                 RansDecodeTable &table, size_t &used) {
    BitReader bits(data);
    const uint32_t first = bits.take(8);
    const uint32_t last = bits.take(8);
    uint32_t sum = 0;
    for (uint32_t symbol = first; symbol <= last; ++symbol) {
        const int number = static_cast<int>(bits.take(4));
        if (bits.short_of_bits()) {
            return FEWBITS_CODED_SHORT;
        }
        if (number > kLargestClass) {
            return FEWBITS_CODED_TABLE;
        }
        if (number == 0) {
            if (symbol == first || symbol == last) {
                return FEWBITS_CODED_TABLE;
            }
            continue;
        }
        const uint32_t frequency = (1u << (number - 1)) + bits.take(number - 1);
        if (bits.short_of_bits()) {
            return FEWBITS_CODED_SHORT;
        }
        if (sum + frequency > kRansTotal || (symbol >= symbols && symbol != escape)) {
            return FEWBITS_CODED_TABLE;
        }
        table.set(static_cast<uint8_t>(symbol), frequency, sum);
        sum += frequency;
    }
    if (bits.short_of_bits()) {
        return FEWBITS_CODED_SHORT;
    }
    if (sum != kRansTotal || !bits.padding_is_zero()) {
        return FEWBITS_CODED_TABLE;
    }
    used = bits.used();
    return FEWBITS_OK;
}

// Each reader below takes its part off the front of `data`.

// States and words; `decode` takes the words and the states to symbols.
template <class Decode> fewbits_status read_lanes(ConstBytes &data, size_t lanes, Decode decode) {
    if (data.size() < 4 * lanes) {
        return FEWBITS_CODED_SHORT;
    }
    uint32_t states[kMaxLanes];
    std::memcpy(states, data.data(), 4 * lanes);
    data = data.subspan(4 * lanes);
    if (!std::all_of(states, states + lanes,
                     [](uint32_t state) { return state >= kRansLow && state < kRansHigh; })) {
        return FEWBITS_CODED_STATE;
    }
    const uint8_t *const end = decode(data, std::span<uint32_t>(states, lanes));
    if (end == nullptr) {
        return FEWBITS_CODED_SHORT;
    }
    if (!std::all_of(states, states + lanes, [](uint32_t state) { return state == kRansLow; })) {
        return FEWBITS_CODED_STATE;
    }
    data = data.subspan(static_cast<size_t>(end - data.data()));
    return FEWBITS_OK;
}

fewbits_status read_symbols(ConstBytes &data, const RansDecodeTable &table, size_t lanes,
                            Bytes symbols, Ahead ahead = {}) {
    return read_lanes(data, lanes, [&](ConstBytes words, std::span<uint32_t> states) {
        return kernels().coder.decode(words, table, states, symbols, ahead);
    });
}

// The same with a table for each phase.
[[maybe_unused]] fewbits_status read_phase_symbols(ConstBytes &data, const RansDecodeTable *tables,
                                                   size_t lanes, ConstBytes phases, Bytes symbols) {
    return read_lanes(data, lanes, [&](ConstBytes words, std::span<uint32_t> states) {
        return kernels().phases.decode(words, tables, states, phases, symbols);
    });
}

// Numbers of `width` bits, 0 to 16, with zeros to the end of the last byte.
fewbits_status read_plain(ConstBytes &data, int width, std::span<uint16_t> numbers) {
    const size_t size = packed_size(numbers.size(), width);
    if (data.size() < size) {
        return FEWBITS_CODED_SHORT;
    }
    const ConstBytes packed = data.first(size);
    data = data.subspan(size);
    const uint32_t mask = (1u << width) - 1;
    size_t bit = 0;
    for (uint16_t &number : numbers) { // 16 bits and an offset below 8 are within a word
        const uint64_t word = width == 0 ? 0 : load_word(packed, bit / 8);
        number = static_cast<uint16_t>(word >> (bit % 8) & mask);
        bit += static_cast<size_t>(width);
    }
    const bool padded = bit % 8 != 0 && packed.back() >> (bit % 8) != 0;
    return padded ? FEWBITS_BAD_PADDING : FEWBITS_OK;
}

// The places of the codes that are not 0, `places.size()` of `count`.
[[maybe_unused]] fewbits_status read_places(ConstBytes &data, size_t count,
                                            std::span<uint32_t> places) {
    const GapModel model(count, places.size());
    RansDecodeTable table;
    for (uint32_t symbol = 0, first = 0; symbol < model.symbols; ++symbol) {
        table.set(static_cast<uint8_t>(symbol), model.frequencies[symbol], first);
        first += model.frequencies[symbol];
    }
    uint8_t steps[kMostGaps];
    uint16_t lows[kMostGaps], escaped[kMostGaps];
    auto status = read_symbols(data, table, gap_lanes(places.size()), {steps, places.size()});
    if (status == FEWBITS_OK) {
        status = read_plain(data, model.low, {lows, places.size()});
    }
    const auto escape = static_cast<uint8_t>(model.escape());
    const auto escapes = status == FEWBITS_OK
                             ? static_cast<size_t>(std::count(steps, steps + places.size(), escape))
                             : 0;
    if (status == FEWBITS_OK) {
        status = read_plain(data, kStepWidth, {escaped, escapes});
    }
    if (status != FEWBITS_OK) {
        return status;
    }
    const uint16_t *next_escaped = escaped;
    uint64_t next = 0; // steps have 16 bits, low bits 14, gaps are 8192 at most
    bool small = false;
    for (size_t i = 0; i < places.size(); ++i) {
        uint64_t step = steps[i];
        if (step == escape) {
            step = *next_escaped++;
            small |= step < escape;
        }
        next += (step << model.low) + lows[i];
        places[i] = static_cast<uint32_t>(next++);
    }
    return small || next > count ? FEWBITS_CODED_GAPS : FEWBITS_OK;
}

} // namespace
} // namespace fewbits
