// Which of eight 16-bit words go where, for every set of lanes.
#pragma once

#include <bit>
#include <cstdint>

namespace fewbits {
namespace { // internal linkage: see random.h

// Byte shuffles for eight 16-bit words, by the set of lanes (bit i: lane i) that write or read one.
struct Shuffles {
    alignas(16) uint8_t bytes[256][16];
};

// The words of the set's lanes, in order, at the upper end.
constexpr Shuffles kCompress = [] {
    Shuffles shuffles{};
    for (unsigned set = 0; set < 256; ++set) {
        auto place = static_cast<unsigned>(8 - std::popcount(set));
        for (unsigned lane = 0; lane < 8; ++lane) {
            if ((set >> lane & 1) != 0) {
                shuffles.bytes[set][2 * place] = static_cast<uint8_t>(2 * lane);
                shuffles.bytes[set][2 * place + 1] = static_cast<uint8_t>(2 * lane + 1);
                ++place;
            }
        }
    }
    return shuffles;
}();

// The first words, in order, to the set's lanes.
constexpr Shuffles kExpand = [] {
    Shuffles shuffles{};
    for (unsigned set = 0; set < 256; ++set) {
        unsigned place = 0;
        for (unsigned lane = 0; lane < 8; ++lane) {
            shuffles.bytes[set][2 * lane] = static_cast<uint8_t>(2 * place);
            shuffles.bytes[set][2 * lane + 1] = static_cast<uint8_t>(2 * place + 1);
            place += set >> lane & 1;
        }
    }
    return shuffles;
}();

} // namespace
} // namespace fewbits
