// The portable kernels of coded sections.
#include <algorithm>
#include <bit>

#include "portable/portable.h"
#include "rans.h"

namespace fewbits {
namespace {

uint64_t extract(uint64_t word, uint64_t mask) {
    uint64_t result = 0;
    for (int bit = 0; mask != 0; mask &= mask - 1, ++bit) {
        result |= ((word >> std::countr_zero(mask)) & 1) << bit;
    }
    return result;
}

uint64_t deposit(uint64_t word, uint64_t mask) {
    uint64_t result = 0;
    for (; mask != 0; mask &= mask - 1, word >>= 1) {
        result |= (word & 1) << std::countr_zero(mask);
    }
    return result;
}

// Eight tables, since a byte that equals its predecessor would otherwise wait for it; adding them
// up costs as much as a few hundred symbols.
void count_symbols(ConstBytes symbols, Histogram &counts) {
    const size_t whole = symbols.size() < 1024 ? 0 : symbols.size() / 16 * 16;
    if (whole > 0) {
        Histogram own[8] = {};
        for (size_t i = 0; i < whole; i += 16) {
            uint64_t words[2];
            std::memcpy(words, symbols.data() + i, 16);
            for (const uint64_t word : words) {
                for (size_t byte = 0; byte < 8; ++byte) {
                    ++own[byte][(word >> (8 * byte)) & 255];
                }
            }
        }
        for (const Histogram &table : own) {
            for (size_t symbol = 0; symbol < 256; ++symbol) {
                counts[symbol] += table[symbol];
            }
        }
    }
    for (const uint8_t symbol : symbols.subspan(whole)) {
        ++counts[symbol];
    }
}

uint8_t *encode(ConstBytes symbols, const RansEncodeTable &table, std::span<uint32_t> states,
                Bytes room, Ahead) {
    return rans_encode_lanes(symbols.data(), symbols.size(), table, states, room.data(),
                             room.data() + room.size());
}

const uint8_t *decode(ConstBytes data, const RansDecodeTable &table, std::span<uint32_t> states,
                      Bytes symbols, Ahead) {
    return rans_decode_lanes(data.data(), data.data() + data.size(), table, states, symbols, 0);
}

size_t nonzero(ConstBytes symbols, Bytes mask) {
    size_t total = 0;
    for (size_t i = 0; i < symbols.size(); i += 8) {
        uint32_t bits = 0;
        for (size_t j = 0; j < 8 && i + j < symbols.size(); ++j) {
            bits |= static_cast<uint32_t>(symbols[i + j] != 0) << j;
        }
        mask[i / 8] = static_cast<uint8_t>(bits);
        total += static_cast<size_t>(std::popcount(bits));
    }
    return total;
}

void join_plane(ConstBytes plane, ConstBytes mask, Bytes joined) {
    join_bits(plane, mask, joined, extract);
}
void spread_plane(ConstBytes joined, ConstBytes mask, Bytes plane) {
    spread_bits(joined, mask, plane, deposit);
}

void join_bytes(ConstBytes codes, ConstBytes mask, Bytes joined) {
    uint8_t *to = joined.data();
    for (size_t i = 0; i < codes.size(); ++i) {
        *to = codes[i]; // the slack has room for one that is not kept
        to += mask[i / 8] >> (i % 8) & 1;
    }
}

void spread_bytes(ConstBytes joined, ConstBytes mask, Bytes codes) {
    const uint8_t *from = joined.data();
    for (size_t i = 0; i < codes.size(); ++i) {
        const bool there = (mask[i / 8] >> (i % 8) & 1) != 0;
        codes[i] = there ? *from : uint8_t{0};
        from += there;
    }
}

} // namespace

constinit const CoderKernels portable_coder = {
    .count_symbols = count_symbols,
    .encode = encode,
    .decode = decode,
    .decode_abreast = nullptr,
    .nonzero = nonzero,
    .join_bits = join_plane,
    .spread_bits = spread_plane,
    .join_bytes = join_bytes,
    .spread_bytes = spread_bytes,
};

} // namespace fewbits
