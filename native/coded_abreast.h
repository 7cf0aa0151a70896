// Plain blocks that a reader decodes side by side, ahead of the one that is asked for.
#pragma once

#include <algorithm>
#include <span>

#include "coded_parts.h"

namespace fewbits {
namespace { // internal linkage: see random.h

// A block of kRans whose symbols are its codes, as far as its words: false for others, and for
// blocks that `read` refuses.
bool open_plain(const CodedShape &shape, ConstBytes &data, RansDecodeTable &table,
                uint32_t *states) {
    constexpr size_t head = 2;
    if (data.size() < head || data[0] != kRans || (data[1] & 0xC7) != kAbreastLanes) {
        return false;
    }
    const int coarse = data[1] >> 3 & 7;
    data = data.subspan(head);
    uint32_t symbols = shape.bound;
    if (shape.wide()) {
        if (data.size() < 2 || data[0] != 1 || data[1] != 0) { // another base
            return false;
        }
        data = data.subspan(2);
        symbols = std::min(shape.bound, kEscape);
    }
    size_t used = 0;
    if (read_table(data, symbols, 256, coarse, table, used) != FEWBITS_OK) {
        return false;
    }
    data = data.subspan(used);
    constexpr size_t lanes = size_t{1} << kAbreastLanes;
    if (data.size() < 4 * lanes) {
        return false;
    }
    std::memcpy(states, data.data(), 4 * lanes);
    data = data.subspan(4 * lanes);
    return std::all_of(states, states + lanes,
                       [](uint32_t x) { return x >= kRansLow && x < kRansHigh; });
}

// Decodes whole blocks, `blocks.size()` of them, to `codes` and what follows to `further`; leaves
// in `blocks` what is behind the words. False where one is of another kind or wrong: all are then
// to be read one by one.
bool read_abreast(const CodedShape &shape, std::span<ConstBytes> blocks, const CodesOut &codes,
                  uint8_t (*further)[kCodedBlock]) {
    const auto decode = kernels().coder.decode_abreast;
    RansDecodeTable tables[kAbreast];
    uint32_t states[kAbreast][size_t{1} << kAbreastLanes];
    RansBlock each[kAbreast];
    for (size_t i = 0; i < blocks.size(); ++i) {
        if (!open_plain(shape, blocks[i], tables[i], states[i])) {
            return false;
        }
        uint8_t *const to = i == 0 ? codes.bytes : further[i - 1];
        const auto *const values = static_cast<const uint8_t *>(codes.ahead.at);
        const size_t stride = codes.ahead.each; // values of blocks follow each other
        const Ahead ahead = {stride == 0 ? values : values + i * kCodedBlock * stride, stride};
        each[i] = {blocks[i], &tables[i], states[i], {to, kCodedBlock}, ahead, nullptr};
    }
    if (!decode({each, blocks.size()})) {
        return false;
    }
    for (size_t i = 0; i < blocks.size(); ++i) {
        const auto started = [](uint32_t x) { return x == kRansLow; };
        if (each[i].end == nullptr || !std::ranges::all_of(states[i], started)) {
            return false;
        }
        blocks[i] = blocks[i].subspan(static_cast<size_t>(each[i].end - blocks[i].data()));
    }
    return true;
}

} // namespace
} // namespace fewbits
