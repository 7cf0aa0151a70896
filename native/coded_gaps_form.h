// A block's places as gaps, as a writer makes them.
#pragma once

#include "coded_gaps.h"
#include "coded_tables.h"

namespace fewbits {
namespace { // internal linkage: see random.h

// Where the codes are that are not 0, if they are few.
struct Places {
    size_t count = 0;
    uint32_t each[kMostGaps];

    void find(ConstBytes mask) {
        for (size_t at = 0; at < mask.size(); at += 8) {
            const auto first = static_cast<uint32_t>(8 * at);
            for (uint64_t word = load_word(mask, at); word != 0; word &= word - 1) {
                each[count++] = first + static_cast<uint32_t>(std::countr_zero(word));
            }
        }
    }
};

// The gaps before the codes that are not 0, then these.
struct GapsForm {
    size_t nonzero;
    GapModel model;
    uint8_t steps[kMostGaps]; // as symbols
    uint16_t lows[kMostGaps];
    uint16_t escaped[kMostGaps];
    size_t escapes = 0;

    GapsForm(size_t count, const Places &places)
        : nonzero(places.count), model(count, places.count) {
        const uint32_t low_bits = (1u << model.low) - 1;
        uint32_t next = 0;
        for (size_t i = 0; i < nonzero; ++i) {
            const uint32_t gap = places.each[i] - next;
            const uint32_t step = gap >> model.low;
            next = places.each[i] + 1;
            lows[i] = static_cast<uint16_t>(gap & low_bits);
            steps[i] = static_cast<uint8_t>(std::min(step, model.escape()));
            escaped[escapes] = static_cast<uint16_t>(step);
            escapes += step >= model.escape();
        }
    }

    // In 256ths of a bit.
    uint64_t cost() const {
        uint64_t costs[64];
        for (size_t symbol = 0; symbol < model.symbols; ++symbol) {
            costs[symbol] = symbol_cost(model.frequencies[symbol]);
        }
        uint64_t sum = 24 * gap_lanes(nonzero) + nonzero * static_cast<size_t>(model.low) +
                       escapes * size_t{kStepWidth};
        sum *= 256;
        for (size_t i = 0; i < nonzero; ++i) {
            sum += costs[steps[i]];
        }
        return sum;
    }

    uint8_t *write(uint8_t *to) const {
        to[0] = kGaps;
        to[1] = static_cast<uint8_t>(nonzero);
        to[2] = static_cast<uint8_t>(nonzero >> 8);
        RansEncodeTable table;
        for (uint32_t symbol = 0, first = 0; symbol < model.symbols; ++symbol) {
            table.set(static_cast<uint8_t>(symbol), model.frequencies[symbol], first);
            first += model.frequencies[symbol];
        }
        const size_t lanes = gap_lanes(nonzero);
        uint32_t states[kMaxLanes];
        std::fill_n(states, lanes, kRansLow);
        uint8_t *const at = to + 3 + 4 * lanes;
        const Bytes room = {at, 2 * nonzero}; // a symbol puts out one word at most
        uint8_t *const words =
            kernels().coder.encode({steps, nonzero}, table, {states, lanes}, room, {});
        const auto size = static_cast<size_t>(at + room.size() - words);
        std::memmove(at, words, size);
        std::memcpy(to + 3, states, 4 * lanes);
        BitWriter bits(at + size);
        for (size_t i = 0; i < nonzero; ++i) {
            bits.put(lows[i], model.low);
        }
        uint8_t *const end = bits.end();
        std::memcpy(end, escaped, 2 * escapes);
        return end + 2 * escapes;
    }
};

} // namespace
} // namespace fewbits
