// The frequencies of a coded block's symbols: how a writer chooses them, what symbols cost with
// them, and their table. In integers only, so that every machine writes the same bytes.
#pragma once

#include <algorithm>
#include <bit>

#include "coded_blocks.h"

namespace fewbits {
namespace { // internal linkage: see random.h

// Bits, the least significant one first.
class BitWriter {
  public:
    explicit BitWriter(uint8_t *to) : to_(to) {}
    void put(uint32_t value, int width) {
        pending_ |= uint64_t{value} << bits_;
        for (bits_ += width; bits_ >= 8; bits_ -= 8, pending_ >>= 8) {
            *to_++ = static_cast<uint8_t>(pending_);
        }
    }
    uint8_t *end() { // with zeros to the end of the byte
        if (bits_ > 0) {
            *to_++ = static_cast<uint8_t>(pending_);
        }
        return to_;
    }

  private:
    uint8_t *to_;
    uint64_t pending_ = 0;
    int bits_ = 0;
};

// More lanes are faster. Each costs about three bytes: one per 512 codes is about one percent, and
// one per 128 symbols that are not the most frequent three to eight percent. Few of them have one
// lane.
[[maybe_unused]] int lanes_log2(size_t count, size_t rare) {
    if (rare < 512) {
        return 0;
    }
    return std::min({static_cast<int>(std::bit_width(rare >> 8)),
                     std::max(static_cast<int>(std::bit_width(count >> 10)), 2), 5});
}

// 256 log2(4096 / frequency), up to 2 more.
[[maybe_unused]] uint64_t symbol_cost(uint32_t frequency) {
    const int whole = static_cast<int>(std::bit_width(frequency)) - 1;
    uint32_t x = frequency << (15 - whole);
    uint32_t fraction = 0;
    for (int i = 0; i < 8; ++i) {
        x = x * x >> 15;
        fraction = 2 * fraction + (x >> 16);
        x >>= x >> 16;
    }
    return static_cast<uint64_t>(256 * (12 - whole)) - fraction;
}

// What rANS needs to know of a block's symbols.
struct RansPlan {
    bool equal = false; // they are: a constant, and the rest is not set
    int coarse = 0;     // zero bits at the end of all frequencies
    int lanes = 0;      // log2
    uint16_t frequencies[256];
    uint8_t table[kLargestTable];
    size_t table_size = 0;

    RansPlan(const Histogram &histogram, size_t count) {
        size_t used = 0;
        for (const uint32_t each : histogram) {
            used += each > 0;
        }
        equal = used == 1;
        if (!equal) {
            coarse = coarseness(count, used);
            normalise(histogram, count);
            write_table();
            const uint32_t largest = *std::max_element(histogram, histogram + 256);
            lanes = lanes_log2(count, count - largest);
        }
    }

    // A table of several, whose coarseness all share. Two symbols or more occur.
    RansPlan(const Histogram &histogram, size_t count, int shared) : coarse(shared) {
        normalise(histogram, count);
        write_table();
    }

    // The coarseness that a table would have alone.
    static int coarseness(size_t count, size_t used) {
        const int wanted = 13 - static_cast<int>(std::bit_width(count));
        const int most = 10 - static_cast<int>(std::bit_width(used - 1));
        return std::min({std::max(wanted, 0), kMostCoarse, most});
    }

    size_t lane_count() const { return size_t{1} << lanes; }

    // In 256ths of a bit, without what escaped codes cost.
    uint64_t cost(const Histogram &histogram) const {
        if (equal) {
            return 24 * 256;
        }
        return 256 * (8 * table_size + (size_t{24} << lanes)) + symbols_cost(histogram);
    }

    uint64_t symbols_cost(const Histogram &histogram) const {
        uint64_t sum = 0;
        for (size_t symbol = 0; symbol < 256; ++symbol) {
            if (histogram[symbol] > 0) {
                sum += histogram[symbol] * symbol_cost(frequencies[symbol]);
            }
        }
        return sum;
    }

    RansEncodeTable encode_table() const {
        RansEncodeTable result;
        for (uint32_t symbol = 0, first = 0; symbol < 256; ++symbol) {
            if (frequencies[symbol] > 0) {
                result.set(static_cast<uint8_t>(symbol), frequencies[symbol], first);
                first += frequencies[symbol];
            }
        }
        return result;
    }

  private:
    // Frequencies that add up to 4096, at least one step for each symbol that occurs, of which
    // there are two or more.
    void normalise(const Histogram &histogram, size_t count) {
        const uint32_t total = kRansTotal >> coarse;
        uint32_t sum = 0;
        for (size_t symbol = 0; symbol < 256; ++symbol) {
            const uint32_t share =
                histogram[symbol] * total / static_cast<uint32_t>(count); // at most 2^28
            const uint32_t frequency = histogram[symbol] == 0 ? 0 : std::max(share, 1u);
            frequencies[symbol] = static_cast<uint16_t>(frequency);
            sum += frequency;
        }
        if (sum < total) {
            const auto most = std::max_element(histogram, histogram + 256) - histogram;
            frequencies[most] = static_cast<uint16_t>(frequencies[most] + total - sum);
        }
        for (; sum > total; --sum) {
            --*std::max_element(frequencies, frequencies + 256);
        }
        for (uint16_t &frequency : frequencies) {
            frequency = static_cast<uint16_t>(frequency << coarse);
        }
    }

    void write_table() {
        size_t next = 0;
        for (; frequencies[next] == 0; ++next) {
        }
        BitWriter bits(table);
        bits.put(static_cast<uint32_t>(next), 8);
        for (size_t symbol = next; symbol < 256; ++symbol) {
            if (frequencies[symbol] == 0) {
                continue;
            }
            const size_t unused = symbol - next;
            if (unused >= kShortestRun) {
                bits.put(kSkip, 4);
                bits.put(static_cast<uint32_t>(unused - kShortestRun), 8);
            } else {
                bits.put(0, static_cast<int>(4 * unused));
            }
            const uint32_t frequency = uint32_t{frequencies[symbol]} >> coarse;
            const auto number = static_cast<int>(std::bit_width(frequency));
            bits.put(static_cast<uint32_t>(number), 4);
            bits.put(frequency - (1u << (number - 1)), number - 1);
            next = symbol + 1;
        }
        table_size = static_cast<size_t>(bits.end() - table);
    }
};

} // namespace
} // namespace fewbits
