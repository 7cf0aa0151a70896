// The entropy coder with NEON: eight lanes in two vectors. Symbols are counted by the portable
// table.
#if defined(__aarch64__)

#include <bit>

#include "neon/neon.h"
#include "rans.h"
#include "shuffles.h"

namespace fewbits {
namespace {

// The loops below call these a few times each: left alone, a compiler may make calls of them.
#define FEWBITS_INLINE [[gnu::always_inline]] inline

// Eight lanes.
struct Lanes {
    uint32x4_t low, high;
};

FEWBITS_INLINE uint16x8_t shuffle(uint16x8_t words, const Shuffles &shuffles, uint32_t set) {
    const uint8x16_t order = vld1q_u8(shuffles.bytes[set]);
    return vreinterpretq_u16_u8(vqtbl1q_u8(vreinterpretq_u8_u16(words), order));
}

// The low halves of eight lanes.
FEWBITS_INLINE uint16x8_t low_halves(const Lanes &x) {
    return vmovn_high_u32(vmovn_u32(x.low), x.high);
}

// Bit i where lane i of the masks is all ones.
FEWBITS_INLINE uint32_t lanes_of(const Lanes &mask) {
    const uint16x8_t places = {1, 2, 4, 8, 16, 32, 64, 128};
    return vaddvq_u16(vandq_u16(low_halves(mask), places));
}

// ---- encoding ----

struct Entries {
    uint32x4_t reciprocal, rest; // the halves of four entries
};

FEWBITS_INLINE Entries entries_of(const uint8_t *symbols, const RansEncodeTable &table) {
    const uint64x2_t first = {table.entries[symbols[0]], table.entries[symbols[1]]};
    const uint64x2_t second = {table.entries[symbols[2]], table.entries[symbols[3]]};
    const uint32x4_t low = vreinterpretq_u32_u64(first);
    const uint32x4_t high = vreinterpretq_u32_u64(second);
    return {vuzp1q_u32(low, high), vuzp2q_u32(low, high)};
}

FEWBITS_INLINE uint32x4_t frequencies(const Entries &entries) {
    return vandq_u32(entries.rest, vdupq_n_u32(kRansTotal - 1));
}

// Which of four lanes must give up a word before they take a symbol.
FEWBITS_INLINE uint32x4_t leaving(uint32x4_t x, const Entries &entries) {
    return vcgeq_u32(x, vshlq_n_u32(frequencies(entries), 19));
}

FEWBITS_INLINE uint32x4_t encode_four(uint32x4_t x, const Entries &entries, uint32x4_t leaves) {
    x = vbslq_u32(leaves, vshrq_n_u32(x, 16), x);
    // The upper halves of the products x * reciprocal.
    const uint64x2_t low = vmull_u32(vget_low_u32(x), vget_low_u32(entries.reciprocal));
    const uint64x2_t high = vmull_high_u32(x, entries.reciprocal);
    const uint32x4_t upper = vuzp2q_u32(vreinterpretq_u32_u64(low), vreinterpretq_u32_u64(high));
    const uint32x4_t shift = vandq_u32(vshrq_n_u32(entries.rest, 12), vdupq_n_u32(15));
    const uint32x4_t quotient = vshlq_u32(upper, vnegq_s32(vreinterpretq_s32_u32(shift)));
    const uint32x4_t factor = vsubq_u32(vdupq_n_u32(kRansTotal), frequencies(entries));
    const uint32x4_t biased = vsraq_n_u32(x, entries.rest, 16);
    return vmlaq_u32(biased, quotient, factor);
}

// Eight lanes take a symbol each; their words go below `end`, which moves. Writes 16 bytes.
FEWBITS_INLINE void encode_eight(Lanes &x, const uint8_t *symbols, const RansEncodeTable &table,
                                 uint8_t *&end) {
    const Entries low = entries_of(symbols, table);
    const Entries high = entries_of(symbols + 4, table);
    const Lanes leaves = {leaving(x.low, low), leaving(x.high, high)};
    const uint32_t set = lanes_of(leaves);
    store16(end - 16, shuffle(low_halves(x), kCompress, set));
    end -= 2 * std::popcount(set);
    x.low = encode_four(x.low, low, leaves.low);
    x.high = encode_four(x.high, high, leaves.high);
}

template <int vectors>
uint8_t *encode_lanes(ConstBytes symbols, const RansEncodeTable &table, std::span<uint32_t> states,
                      Bytes room) {
    constexpr size_t lanes = 8 * vectors;
    uint8_t *const limit = room.data();
    size_t left = symbols.size() / lanes * lanes;
    uint8_t *end = rans_encode_lanes(symbols.data() + left, symbols.size() - left, table, states,
                                     limit, room.data() + room.size());
    if (end == nullptr) {
        return nullptr;
    }
    Lanes x[vectors];
    for (size_t j = 0; j < vectors; ++j) {
        x[j] = {load32(&states[8 * j]), load32(&states[8 * j + 4])};
    }
    for (; left > 0 && static_cast<size_t>(end - limit) >= 2 * lanes; left -= lanes) {
        const uint8_t *const from = symbols.data() + left - lanes;
#pragma GCC unroll 8
        for (size_t turn = 0; turn < vectors; ++turn) {
            const size_t j = vectors - 1 - turn;
            encode_eight(x[j], from + 8 * j, table, end);
        }
    }
    for (size_t j = 0; j < vectors; ++j) {
        store32(&states[8 * j], x[j].low);
        store32(&states[8 * j + 4], x[j].high);
    }
    return rans_encode_lanes(symbols.data(), left, table, states, limit, end);
}

// ---- decoding ----

FEWBITS_INLINE uint32x4_t slots_of(uint32x4_t x, const RansDecodeTable &table) {
    const uint64x2_t places = vreinterpretq_u64_u32(vandq_u32(x, vdupq_n_u32(kRansTotal - 1)));
    const uint64_t low = vgetq_lane_u64(places, 0);
    const uint64_t high = vgetq_lane_u64(places, 1);
    return uint32x4_t{table.slots[static_cast<uint32_t>(low)], table.slots[low >> 32],
                      table.slots[static_cast<uint32_t>(high)], table.slots[high >> 32]};
}

// States without the symbols of these slots, before words come in.
FEWBITS_INLINE uint32x4_t shrunk(uint32x4_t x, uint32x4_t slots) {
    const uint32x4_t low = vdupq_n_u32(kRansTotal - 1);
    const uint32x4_t place = vandq_u32(vshrq_n_u32(slots, 12), low);
    return vmlaq_u32(place, vandq_u32(slots, low), vshrq_n_u32(x, kRansBits));
}

// Eight lanes give a symbol each, in 16-bit fields; words come from `from`, which moves. Reads 16
// bytes.
FEWBITS_INLINE uint16x8_t decode_eight(Lanes &x, const RansDecodeTable &table,
                                       const uint8_t *&from) {
    const Lanes slots = {slots_of(x.low, table), slots_of(x.high, table)};
    const Lanes next = {shrunk(x.low, slots.low), shrunk(x.high, slots.high)};
    const uint32x4_t least = vdupq_n_u32(kRansLow);
    const Lanes takes = {vcltq_u32(next.low, least), vcltq_u32(next.high, least)};
    const uint32_t set = lanes_of(takes);
    const uint16x8_t words = shuffle(load16(from), kExpand, set);
    from += 2 * std::popcount(set);
    // A state that takes a word is below 2^15, and so moves up to make room for it.
    const uint32x4_t low = vsliq_n_u32(vmovl_u16(vget_low_u16(words)), next.low, 16);
    const uint32x4_t high = vsliq_n_u32(vmovl_high_u16(words), next.high, 16);
    x = {vbslq_u32(takes.low, low, next.low), vbslq_u32(takes.high, high, next.high)};
    return vshrn_high_n_u32(vshrn_n_u32(slots.low, 16), slots.high, 16);
}

template <int vectors>
const uint8_t *decode_lanes(ConstBytes data, const RansDecodeTable &table,
                            std::span<uint32_t> states, Bytes symbols) {
    constexpr size_t lanes = 8 * vectors;
    const uint8_t *from = data.data();
    const uint8_t *const end = from + data.size();
    Lanes x[vectors];
    for (size_t j = 0; j < vectors; ++j) {
        x[j] = {load32(&states[8 * j]), load32(&states[8 * j + 4])};
    }
    size_t i = 0;
    // A turn uses up to a word for each lane, and looks no further.
    for (; symbols.size() - i >= lanes && static_cast<size_t>(end - from) >= 2 * lanes;
         i += lanes) {
#pragma GCC unroll 8
        for (size_t j = 0; j < vectors; ++j) {
            const uint16x8_t found = decode_eight(x[j], table, from);
            vst1_u8(symbols.data() + i + 8 * j, vshrn_n_u16(found, 8));
        }
    }
    for (size_t j = 0; j < vectors; ++j) {
        store32(&states[8 * j], x[j].low);
        store32(&states[8 * j + 4], x[j].high);
    }
    return rans_decode_lanes(from, end, table, states, symbols, i);
}

uint8_t *encode(ConstBytes symbols, const RansEncodeTable &table, std::span<uint32_t> states,
                Bytes room, Ahead ahead) {
    switch (states.size()) {
    case 8:
        return encode_lanes<1>(symbols, table, states, room);
    case 16:
        return encode_lanes<2>(symbols, table, states, room);
    case 32:
        return encode_lanes<4>(symbols, table, states, room);
    case 64:
        return encode_lanes<8>(symbols, table, states, room);
    default:
        return portable_coder.encode(symbols, table, states, room, ahead);
    }
}

const uint8_t *decode(ConstBytes data, const RansDecodeTable &table, std::span<uint32_t> states,
                      Bytes symbols, Ahead ahead) {
    switch (states.size()) {
    case 8:
        return decode_lanes<1>(data, table, states, symbols);
    case 16:
        return decode_lanes<2>(data, table, states, symbols);
    case 32:
        return decode_lanes<4>(data, table, states, symbols);
    case 64:
        return decode_lanes<8>(data, table, states, symbols);
    default:
        return portable_coder.decode(data, table, states, symbols, ahead);
    }
}

// ---- masks ----

size_t nonzero(ConstBytes symbols, Bytes mask) {
    const size_t whole = symbols.size() / kGroup * kGroup;
    size_t total = 0;
    for (size_t i = 0; i < whole; i += kGroup) {
        const uint8x16_t set = vmvnq_u8(vceqzq_u8(load(symbols.data() + i)));
        const auto bits = static_cast<uint16_t>(bits_of(set));
        std::memcpy(mask.data() + i / 8, &bits, 2);
        total += static_cast<size_t>(std::popcount(bits));
    }
    return total + portable_coder.nonzero(symbols.subspan(whole), mask.subspan(whole / 8));
}

// Where eight bytes go, by a mask of eight bits: those that it chooses to the front, and back. A
// place above 15 gives 0.
struct BytePlaces {
    alignas(8) uint8_t joined[256][8];
    alignas(8) uint8_t spread[256][8];
};
constexpr BytePlaces kPlaces = [] {
    BytePlaces places{};
    for (unsigned set = 0; set < 256; ++set) {
        unsigned count = 0;
        for (unsigned bit = 0; bit < 8; ++bit) {
            places.joined[set][bit] = 255;
            places.spread[set][bit] = 255;
            if ((set >> bit & 1) != 0) {
                places.joined[set][count] = static_cast<uint8_t>(bit);
                places.spread[set][bit] = static_cast<uint8_t>(count++);
            }
        }
    }
    return places;
}();

FEWBITS_INLINE uint8x8_t moved(uint8x8_t bytes, const uint8_t (&places)[8]) {
    return vtbl1_u8(bytes, vld1_u8(places));
}

// The bits of a byte, moved as if they were bytes.
FEWBITS_INLINE uint64_t moved_bits(uint8_t bits, const uint8_t (&places)[8]) {
    const uint8x8_t each = {1, 2, 4, 8, 16, 32, 64, 128};
    return vaddv_u8(vand_u8(moved(vtst_u8(vdup_n_u8(bits), each), places), each));
}

uint64_t extract(uint64_t word, uint64_t mask) {
    uint64_t result = 0;
    for (int bit = 0; mask != 0; mask >>= 8, word >>= 8) {
        const auto chosen = static_cast<uint8_t>(mask);
        result |= moved_bits(static_cast<uint8_t>(word), kPlaces.joined[chosen]) << bit;
        bit += std::popcount(chosen);
    }
    return result;
}

uint64_t deposit(uint64_t word, uint64_t mask) {
    uint64_t result = 0;
    for (int bit = 0; mask != 0; mask >>= 8, bit += 8) {
        const auto chosen = static_cast<uint8_t>(mask);
        result |= moved_bits(static_cast<uint8_t>(word), kPlaces.spread[chosen]) << bit;
        word >>= std::popcount(chosen);
    }
    return result;
}

void join_plane(ConstBytes plane, ConstBytes mask, Bytes joined) {
    join_bits(plane, mask, joined, extract);
}
void spread_plane(ConstBytes joined, ConstBytes mask, Bytes plane) {
    spread_bits(joined, mask, plane, deposit);
}

void join_bytes(ConstBytes codes, ConstBytes mask, Bytes joined) {
    const size_t whole = codes.size() / 8;
    uint8_t *to = joined.data();
    for (size_t i = 0; i < whole; ++i) {
        vst1_u8(to, moved(vld1_u8(codes.data() + 8 * i), kPlaces.joined[mask[i]]));
        to += std::popcount(mask[i]);
    }
    const auto done = static_cast<size_t>(to - joined.data());
    portable_coder.join_bytes(codes.subspan(8 * whole), mask.subspan(whole), joined.subspan(done));
}

void spread_bytes(ConstBytes joined, ConstBytes mask, Bytes codes) {
    const size_t whole = codes.size() / 8;
    const uint8_t *from = joined.data();
    for (size_t i = 0; i < whole; ++i) {
        vst1_u8(codes.data() + 8 * i, moved(vld1_u8(from), kPlaces.spread[mask[i]]));
        from += std::popcount(mask[i]);
    }
    const auto done = static_cast<size_t>(from - joined.data());
    portable_coder.spread_bytes(joined.subspan(done), mask.subspan(whole),
                                codes.subspan(8 * whole));
}

} // namespace

constinit const CoderKernels neon_coder = {
    .count_symbols = nullptr,
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

#endif
