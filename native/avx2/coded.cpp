// The entropy coder with AVX2: eight lanes a vector. Gather instructions are slow on many
// processors, so the tables are read by plain loads.
#if defined(__AVX2__)

#include <algorithm>
#include <functional>
#include <numeric>

#include "avx2/lanes.h"

namespace fewbits {
namespace {

using Half = __m128i;

// The loops below call these a few times each; left alone, GCC makes calls of them and passes
// vectors through memory, which halved the speed.
#define FEWBITS_INLINE [[gnu::always_inline]] inline

FEWBITS_INLINE Half shuffle(Half words, const Shuffles &shuffles, uint32_t set) {
    return _mm_shuffle_epi8(words,
                            _mm_load_si128(reinterpret_cast<const Half *>(shuffles.bytes[set])));
}

FEWBITS_INLINE uint32_t lanes_of(Vector mask) {
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(mask)));
}

// ---- counting ----

// Nearly all symbols of a block are a few ones. Those are counted by comparing whole vectors with
// each, which is faster than one by one.
constexpr size_t kCrowd = 32;                // symbols at most, in groups of eight
constexpr size_t kSample = 2048;             // symbols that tell which
constexpr size_t kCountChunk = 255 * kGroup; // at most: counts of a chunk fit into bytes

// Those that occur often enough; `held` is how many they are.
struct Crowd {
    uint8_t each[kCrowd];
    size_t values = 0;
    uint32_t held = 0;
    alignas(16) uint8_t rows[2][16] = {}; // a bit for each symbol, by its lowest four bits

    explicit Crowd(const Histogram &counts) {
        uint32_t least = 1;
        for (; std::count_if(counts, counts + 256, [&](uint32_t own) { return own >= least; }) >
               static_cast<ptrdiff_t>(kCrowd);
             least *= 2) {
        }
        for (size_t symbol = 0; symbol < 256; ++symbol) {
            if (counts[symbol] >= least) {
                each[values++] = static_cast<uint8_t>(symbol);
                held += counts[symbol];
                uint8_t &row = rows[symbol / 128][symbol % 16];
                row = static_cast<uint8_t>(row | 1u << (symbol / 16 % 8));
            }
        }
    }
};

// Up to eight of the crowd's values, from `first` on, in one chunk.
void count_eight(ConstBytes chunk, const Crowd &crowd, size_t first, uint32_t *counts) {
    Vector found[8], wanted[8];
    std::fill_n(found, 8, _mm256_setzero_si256());
    for (size_t value = 0; value < 8; ++value) {
        wanted[value] = _mm256_set1_epi8(
            static_cast<char>(crowd.each[std::min(first + value, crowd.values - 1)]));
    }
    for (size_t i = 0; i < chunk.size(); i += kGroup) {
        const Vector symbols = load(chunk.data() + i);
        for (size_t value = 0; value < 8; ++value) {
            found[value] = _mm256_sub_epi8(found[value], _mm256_cmpeq_epi8(symbols, wanted[value]));
        }
    }
    for (size_t value = 0; first + value < crowd.values && value < 8; ++value) {
        uint64_t sums[4];
        store(sums, _mm256_sad_epu8(found[value], _mm256_setzero_si256()));
        counts[crowd.each[first + value]] +=
            static_cast<uint32_t>(sums[0] + sums[1] + sums[2] + sums[3]);
    }
}

FEWBITS_INLINE Vector sixteen_of(const uint8_t *table) {
    return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const Half *>(table)));
}

// The symbols of a chunk outside the crowd, one by one; returns their number.
size_t count_strays(ConstBytes chunk, const Crowd &crowd, Histogram &counts) {
    alignas(16) static constexpr uint8_t kBits[16] = {1, 2, 4, 8, 16, 32, 64, 128,
                                                      1, 2, 4, 8, 16, 32, 64, 128};
    const Vector low_rows = sixteen_of(crowd.rows[0]), high_rows = sixteen_of(crowd.rows[1]);
    const Vector bits = sixteen_of(kBits), nibble = _mm256_set1_epi8(15);
    size_t total = 0;
    for (size_t i = 0; i < chunk.size(); i += kGroup) {
        const Vector symbols = load(chunk.data() + i);
        const Vector low = _mm256_and_si256(symbols, nibble);
        const Vector row = _mm256_blendv_epi8(_mm256_shuffle_epi8(low_rows, low),
                                              _mm256_shuffle_epi8(high_rows, low), symbols);
        const Vector high = _mm256_and_si256(_mm256_srli_epi16(symbols, 4), nibble);
        const Vector there = _mm256_and_si256(row, _mm256_shuffle_epi8(bits, high));
        const Vector outside = _mm256_cmpeq_epi8(there, _mm256_setzero_si256());
        auto strays = static_cast<uint32_t>(_mm256_movemask_epi8(outside));
        for (; strays != 0; strays &= strays - 1, ++total) {
            ++counts[chunk[i + static_cast<size_t>(std::countr_zero(strays))]];
        }
    }
    return total;
}

// ---- encoding ----

struct Entries {
    Vector reciprocal, rest; // the halves of eight entries
};

FEWBITS_INLINE Entries entries_of(const uint8_t *symbols, const RansEncodeTable &table) {
    const auto word = load_as<uint64_t>(symbols);
    const auto pair = [&](int lane) {
        const auto entry = [&](int i) { return table.entries + ((word >> (8 * i)) & 255); };
        const __m128 low =
            _mm_castsi128_ps(_mm_loadl_epi64(reinterpret_cast<const Half *>(entry(lane))));
        return _mm_loadh_pi(low, reinterpret_cast<const __m64 *>(entry(lane + 1)));
    };
    // Shuffles stay within halves of a vector, so lanes 0, 1, 4, 5 and 2, 3, 6, 7 go together.
    const __m256 even = _mm256_insertf128_ps(_mm256_castps128_ps256(pair(0)), pair(4), 1);
    const __m256 odd = _mm256_insertf128_ps(_mm256_castps128_ps256(pair(2)), pair(6), 1);
    return {_mm256_castps_si256(_mm256_shuffle_ps(even, odd, 0x88)),
            _mm256_castps_si256(_mm256_shuffle_ps(even, odd, 0xDD))};
}

// The entries of few symbols stay in registers.
template <int registers> struct FewEntries {
    Vector reciprocal[registers], rest[registers];

    explicit FewEntries(const RansEncodeTable &table) {
        for (size_t j = 0; j < registers; ++j) {
            uint32_t low[8], high[8];
            for (size_t i = 0; i < 8; ++i) {
                low[i] = static_cast<uint32_t>(table.entries[8 * j + i]);
                high[i] = static_cast<uint32_t>(table.entries[8 * j + i] >> 32);
            }
            reciprocal[j] = load(low);
            rest[j] = load(high);
        }
    }

    FEWBITS_INLINE static Vector pick(const Vector (&from)[registers], Vector symbols) {
        const Vector low = _mm256_permutevar8x32_epi32(from[0], symbols);
        if constexpr (registers == 1) {
            return low;
        } else {
            const Vector high = _mm256_permutevar8x32_epi32(from[1], symbols);
            const Vector is_high = _mm256_slli_epi32(symbols, 28); // bit 3, where the choice looks
            return _mm256_castps_si256(_mm256_blendv_ps(
                _mm256_castsi256_ps(low), _mm256_castsi256_ps(high), _mm256_castsi256_ps(is_high)));
        }
    }
};

template <int registers>
FEWBITS_INLINE Entries entries_of(const uint8_t *symbols, const FewEntries<registers> &table) {
    const Vector each =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const Half *>(symbols)));
    return {table.pick(table.reciprocal, each), table.pick(table.rest, each)};
}

// Eight lanes take a symbol each; their words go below `end`, which moves. Writes 16 bytes.
FEWBITS_INLINE Vector encode_eight(Vector x, const Entries &entries, uint8_t *&end) {
    const Vector frequency = _mm256_and_si256(entries.rest, all(kRansTotal - 1));
    const Vector stays = _mm256_cmpgt_epi32(_mm256_slli_epi32(frequency, 19), x);
    const uint32_t leaving = lanes_of(stays) ^ 255;
    const Vector low = _mm256_and_si256(x, all(0xFFFF));
    const Half words =
        _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    _mm_storeu_si128(reinterpret_cast<Half *>(end - 16), shuffle(words, kCompress, leaving));
    end -= 2 * std::popcount(leaving);
    x = _mm256_blendv_epi8(_mm256_srli_epi32(x, 16), x, stays);
    // The upper halves of the products x * reciprocal, even lanes and odd lanes.
    const Vector even = _mm256_mul_epu32(x, entries.reciprocal);
    const Vector odd =
        _mm256_mul_epu32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(entries.reciprocal, 32));
    const Vector upper = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    const Vector shift = _mm256_and_si256(_mm256_srli_epi32(entries.rest, 12), all(15));
    const Vector quotient = _mm256_srlv_epi32(upper, shift);
    const Vector bias = _mm256_srli_epi32(entries.rest, 16);
    return _mm256_add_epi32(
        _mm256_add_epi32(x, bias),
        _mm256_mullo_epi32(quotient, _mm256_sub_epi32(all(kRansTotal), frequency)));
}

// `Lookup` is the table itself or what a short one has in registers.
template <int vectors, class Lookup>
uint8_t *encode_with(ConstBytes symbols, const RansEncodeTable &table, const Lookup &lookup,
                     std::span<uint32_t> states, Bytes room, Ahead ahead) {
    constexpr size_t lanes = 8 * vectors;
    uint8_t *const limit = room.data();
    size_t left = symbols.size() / lanes * lanes;
    uint8_t *end = rans_encode_lanes(symbols.data() + left, symbols.size() - left, table, states,
                                     limit, room.data() + room.size());
    if (end == nullptr) {
        return nullptr;
    }
    Vector x[vectors];
    for (size_t j = 0; j < vectors; ++j) {
        x[j] = load(&states[8 * j]);
    }
    for (; left > 0 && static_cast<size_t>(end - limit) >= 2 * lanes; left -= lanes) {
        fetch_turn(ahead, symbols.size() - left, lanes);
        const uint8_t *const from = symbols.data() + left - lanes;
#pragma GCC unroll 8
        for (size_t turn = 0; turn < vectors; ++turn) {
            const size_t j = vectors - 1 - turn;
            x[j] = encode_eight(x[j], entries_of(from + 8 * j, lookup), end);
        }
    }
    for (size_t j = 0; j < vectors; ++j) {
        store(&states[8 * j], x[j]);
    }
    return rans_encode_lanes(symbols.data(), left, table, states, limit, end);
}

template <int vectors>
uint8_t *encode_lanes(ConstBytes symbols, const RansEncodeTable &table, std::span<uint32_t> states,
                      Bytes room, Ahead ahead) {
    if (table.symbols <= 8) {
        return encode_with<vectors>(symbols, table, FewEntries<1>(table), states, room, ahead);
    }
    if (table.symbols <= 16) {
        return encode_with<vectors>(symbols, table, FewEntries<2>(table), states, room, ahead);
    }
    return encode_with<vectors>(symbols, table, table, states, room, ahead);
}

// ---- decoding ----

template <size_t vectors>
const uint8_t *decode_lanes(ConstBytes data, const RansDecodeTable &table,
                            std::span<uint32_t> states, Bytes symbols, Ahead ahead) {
    const uint8_t *from = data.data();
    const uint8_t *const end = from + data.size();
    const auto turn = [&](size_t i, Vector(&x)[vectors]) {
        fetch_turn(ahead, i, 8 * vectors);
        Vector slots[vectors];
#pragma GCC unroll 8
        for (size_t j = 0; j < vectors; ++j) {
            slots[j] = slots_among(x[j], _mm256_setzero_si256(), table.slots);
            x[j] = left_slots(x[j], slots[j], from);
        }
        store_symbols<vectors>(slots, symbols.data() + i);
    };
    const size_t i = decode_turns<vectors>(from, end, states, symbols.size(), turn);
    if (from == nullptr) {
        return nullptr;
    }
    return rans_decode_lanes(from, end, table, states, symbols, i);
}

void count_symbols(ConstBytes symbols, Histogram &counts) {
    if (symbols.size() < kSample + kCountChunk) {
        return portable_coder.count_symbols(symbols, counts);
    }
    Histogram sampled = {};
    portable_coder.count_symbols(symbols.first(kSample), sampled);
    std::transform(counts, counts + 256, sampled, counts, std::plus<>());
    const Crowd crowd(sampled);
    size_t at = kSample;
    size_t strays = kSample - crowd.held;
    // As long as few stray: one by one they are slower here than in the portable table.
    for (size_t size = kCountChunk; strays <= kSample / 64 && size > 0; at += size) {
        size = std::min(kCountChunk, (symbols.size() - at) / kGroup * kGroup);
        const ConstBytes chunk = symbols.subspan(at, size);
        for (size_t first = 0; first < crowd.values; first += 8) {
            count_eight(chunk, crowd, first, counts);
        }
        strays = count_strays(chunk, crowd, counts) * kSample / std::max(size, kSample);
    }
    portable_coder.count_symbols(symbols.subspan(at), counts);
}

uint8_t *encode(ConstBytes symbols, const RansEncodeTable &table, std::span<uint32_t> states,
                Bytes room, Ahead ahead) {
    switch (states.size()) {
    case 8:
        return encode_lanes<1>(symbols, table, states, room, ahead);
    case 16:
        return encode_lanes<2>(symbols, table, states, room, ahead);
    case 32:
        return encode_lanes<4>(symbols, table, states, room, ahead);
    case 64:
        return encode_lanes<8>(symbols, table, states, room, ahead);
    default:
        return portable_coder.encode(symbols, table, states, room, ahead);
    }
}

const uint8_t *decode(ConstBytes data, const RansDecodeTable &table, std::span<uint32_t> states,
                      Bytes symbols, Ahead ahead) {
    switch (states.size()) {
    case 8:
        return decode_lanes<1>(data, table, states, symbols, ahead);
    case 16:
        return decode_lanes<2>(data, table, states, symbols, ahead);
    case 32:
        return decode_lanes<4>(data, table, states, symbols, ahead);
    case 64:
        return decode_lanes<8>(data, table, states, symbols, ahead);
    default:
        return portable_coder.decode(data, table, states, symbols, ahead);
    }
}

size_t nonzero(ConstBytes symbols, Bytes mask) {
    const size_t whole = symbols.size() / kGroup * kGroup;
    size_t total = 0;
    for (size_t i = 0; i < whole; i += kGroup) {
        const Vector zeros = _mm256_cmpeq_epi8(load(symbols.data() + i), _mm256_setzero_si256());
        const uint32_t bits = ~static_cast<uint32_t>(_mm256_movemask_epi8(zeros));
        std::memcpy(mask.data() + i / 8, &bits, 4);
        total += static_cast<size_t>(std::popcount(bits));
    }
    return total + portable_coder.nonzero(symbols.subspan(whole), mask.subspan(whole / 8));
}

void join_plane(ConstBytes plane, ConstBytes mask, Bytes joined) {
    join_bits(plane, mask, joined,
              [](uint64_t word, uint64_t chosen) { return _pext_u64(word, chosen); });
}

void spread_plane(ConstBytes joined, ConstBytes mask, Bytes plane) {
    spread_bits(joined, mask, plane,
                [](uint64_t word, uint64_t chosen) { return _pdep_u64(word, chosen); });
}

// A byte of ones for each bit that is set.
uint64_t bytes_of(uint8_t bits) { return _pdep_u64(bits, 0x0101010101010101u) * 0xFF; }

void join_bytes(ConstBytes codes, ConstBytes mask, Bytes joined) {
    const size_t whole = codes.size() / 8;
    uint8_t *to = joined.data();
    for (size_t i = 0; i < whole; ++i) {
        uint64_t word;
        std::memcpy(&word, codes.data() + 8 * i, 8);
        word = _pext_u64(word, bytes_of(mask[i]));
        std::memcpy(to, &word, 8);
        to += std::popcount(mask[i]);
    }
    const auto done = static_cast<size_t>(to - joined.data());
    portable_coder.join_bytes(codes.subspan(8 * whole), mask.subspan(whole), joined.subspan(done));
}

void spread_bytes(ConstBytes joined, ConstBytes mask, Bytes codes) {
    const size_t whole = codes.size() / 8;
    const uint8_t *from = joined.data();
    for (size_t i = 0; i < whole; ++i) {
        uint64_t word;
        std::memcpy(&word, from, 8);
        word = _pdep_u64(word, bytes_of(mask[i]));
        std::memcpy(codes.data() + 8 * i, &word, 8);
        from += std::popcount(mask[i]);
    }
    const auto done = static_cast<size_t>(from - joined.data());
    portable_coder.spread_bytes(joined.subspan(done), mask.subspan(whole),
                                codes.subspan(8 * whole));
}

} // namespace

constinit const CoderKernels avx2_coder = {
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

#endif
