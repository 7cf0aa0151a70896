// The entropy coder with AVX-512: sixteen lanes a vector. Few symbols have their entries in
// registers, and words move in and out of the states by expanding and compressing vectors.
#if defined(__AVX512VBMI2__)

#include <bit>

#include "avx512/encoding.h"

namespace fewbits {
namespace {

// ---- counting ----

// Nearly all symbols of a block are zeros or lie in a few neighbouring values. A neighbour's place
// among those has few bits. Each bit of many symbols is a mask; and-ing the masks of every set of
// bits and counting ones gives, for each set, how many places have all of its bits. From these the
// counts of single places follow.
constexpr size_t kPlaceBits = 5;
constexpr size_t kPlaces = size_t{1} << kPlaceBits;
constexpr size_t kCountGroup = 4096; // symbols: eight vectors of masks
constexpr size_t kSample = 2048;     // symbols that tell where the neighbours are

// The first of the neighbouring values that hold most of the counts, zeros apart, if nearly all are
// there; else 0.
size_t neighbours(const Histogram &counts, size_t total) {
    uint32_t held = counts[0];
    for (size_t symbol = 1; symbol < 1 + kPlaces; ++symbol) {
        held += counts[symbol];
    }
    uint32_t most = held;
    size_t best = 1;
    for (size_t start = 2; start + kPlaces <= 256; ++start) {
        held = held + counts[start + kPlaces - 1] - counts[start - 1];
        if (held > most) {
            most = held;
            best = start;
        }
    }
    return total - most <= total / 64 ? best : 0;
}

// The masks of a group, one bit a symbol.
struct PlaceMasks {
    alignas(64) uint64_t inside[kCountGroup / 64];
    alignas(64) uint64_t bits[kPlaceBits][kCountGroup / 64];
};

struct PlaceCounts {
    Wide with[kPlaces] = {}; // how many places have all these bits, in eight sums
    size_t zeros = 0;
    size_t strays = 0;

    // Strays are counted at once. Masks are all written before the first is read: a vector of words
    // just written would have to wait for them.
    void take(const uint8_t *from, uint8_t first, Histogram &counts) {
        PlaceMasks masks;
        const Wide base = _mm512_set1_epi8(static_cast<char>(first));
        for (size_t i = 0; i < kCountGroup / 64; ++i) {
            const Wide symbols = load_wide(from + 64 * i);
            const Wide places = _mm512_sub_epi8(symbols, base);
            const uint64_t zero = _mm512_testn_epi8_mask(symbols, symbols);
            masks.inside[i] = _mm512_cmplt_epu8_mask(places, _mm512_set1_epi8(kPlaces));
            for (size_t bit = 0; bit < kPlaceBits; ++bit) {
                masks.bits[bit][i] =
                    _mm512_movepi8_mask(_mm512_slli_epi16(places, static_cast<unsigned>(7 - bit)));
            }
            zeros += static_cast<size_t>(std::popcount(zero));
            for (uint64_t left = ~(masks.inside[i] | zero); left != 0; left &= left - 1) {
                ++counts[from[64 * i + static_cast<size_t>(std::countr_zero(left))]];
                ++strays;
            }
        }
        for (size_t i = 0; i < kCountGroup / 64; i += 8) {
            add<0, 0>(load_wide(masks.inside + i), masks, i);
        }
    }

    // All sets that have the bits of `set`, which are below `bit`, and perhaps others.
    template <size_t bit, size_t set>
    FEWBITS_INLINE void add(Wide mask, const PlaceMasks &masks, size_t i) {
        if constexpr (bit == kPlaceBits) {
            with[set] = _mm512_add_epi64(with[set], _mm512_popcnt_epi64(mask));
        } else {
            const Wide other = load_wide(masks.bits[bit] + i);
            add<bit + 1, set>(mask, masks, i);
            add<bit + 1, (set | size_t{1} << bit)>(_mm512_and_si512(mask, other), masks, i);
        }
    }

    void add_to(Histogram &counts, size_t first) const {
        uint32_t each[kPlaces];
        for (size_t set = 0; set < kPlaces; ++set) {
            each[set] = static_cast<uint32_t>(_mm512_reduce_add_epi64(with[set]));
        }
        for (size_t bit = 1; bit < kPlaces;
             bit *= 2) { // those with a bit are no longer among those
            for (size_t set = 0; set < kPlaces; ++set) { // without it
                each[set] -= (set & bit) == 0 ? each[set | bit] : 0;
            }
        }
        for (size_t place = 0; place < kPlaces; ++place) {
            counts[first + place] += each[place];
        }
        counts[0] += static_cast<uint32_t>(zeros);
    }
};

void count_symbols(ConstBytes symbols, Histogram &counts) {
    if (symbols.size() < 2 * kSample) {
        return avx2_coder.count_symbols(symbols, counts);
    }
    Histogram sampled = {};
    portable_coder.count_symbols(symbols.first(kSample), sampled);
    const size_t first = neighbours(sampled, kSample);
    size_t at = 0;
    if (first > 0) {
        PlaceCounts found;
        // As long as few stray: one by one they are slower.
        for (; symbols.size() - at >= kCountGroup && found.strays <= (at + kSample) / 32;
             at += kCountGroup) {
            found.take(symbols.data() + at, static_cast<uint8_t>(first), counts);
        }
        found.add_to(counts, first);
    }
    avx2_coder.count_symbols(symbols.subspan(at), counts);
}

// ---- encoding ----

uint8_t *encode(ConstBytes symbols, const RansEncodeTable &table, std::span<uint32_t> states,
                Bytes room, Ahead ahead) {
    const RankedEntries ranked(table);
    if (ranked.fits() && states.size() == 16) {
        return encode_lanes<1>(symbols, table, ranked, states, room, ahead);
    }
    if (ranked.fits() && states.size() == 32) {
        return encode_pairs(symbols, table, ranked, states, room, ahead);
    }
    if (ranked.fits() && states.size() == 64) {
        return encode_lanes<4>(symbols, table, ranked, states, room, ahead);
    }
    return avx2_coder.encode(symbols, table, states, room, ahead);
}

// ---- decoding ----

FEWBITS_INLINE Vector slots_of(Vector places, const RansDecodeTable &table) {
    const auto slot = [&](uint64_t at) { return static_cast<int>(table.slots[at]); };
    const auto four = [&](__m128i place) {
        const auto low = static_cast<uint64_t>(_mm_cvtsi128_si64(place));
        const auto high = static_cast<uint64_t>(_mm_extract_epi64(place, 1));
        __m128i slots = _mm_cvtsi32_si128(slot(static_cast<uint32_t>(low)));
        slots = _mm_insert_epi32(slots, slot(low >> 32), 1);
        slots = _mm_insert_epi32(slots, slot(static_cast<uint32_t>(high)), 2);
        return _mm_insert_epi32(slots, slot(high >> 32), 3);
    };
    return _mm256_inserti128_si256(_mm256_castsi128_si256(four(_mm256_castsi256_si128(places))),
                                   four(_mm256_extracti128_si256(places, 1)), 1);
}

// Eight lanes give a symbol each, in the top bytes; words come from `from`, which moves. Reads 16
// bytes.
FEWBITS_INLINE Vector decode_eight(Vector &x, const RansDecodeTable &table, const uint8_t *&from) {
    const Vector low = all(kRansTotal - 1);
    const Vector slots = slots_of(_mm256_and_si256(x, low), table);
    const Vector frequency = _mm256_and_si256(slots, low);
    const Vector place = _mm256_and_si256(_mm256_srli_epi32(slots, 12), low);
    const Vector next =
        _mm256_add_epi32(_mm256_mullo_epi32(frequency, _mm256_srli_epi32(x, kRansBits)), place);
    const __mmask8 set = _mm256_cmplt_epu32_mask(next, all(kRansLow));
    const Vector words = _mm256_maskz_expand_epi32(
        set, _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from))));
    from += 2 * std::popcount(static_cast<uint32_t>(set));
    x = _mm256_mask_or_epi32(next, set, _mm256_slli_epi32(next, 16), words);
    return slots;
}

template <size_t vectors>
const uint8_t *decode_lanes(ConstBytes data, const RansDecodeTable &table,
                            std::span<uint32_t> states, Bytes symbols, Ahead ahead) {
    constexpr size_t lanes = 8 * vectors;
    const uint8_t *from = data.data();
    const uint8_t *const end = from + data.size();
    Vector x[vectors];
    for (size_t j = 0; j < vectors; ++j) {
        x[j] = load(&states[8 * j]);
    }
    const Vector tops = _mm256_castsi128_si256( // the symbols' bytes
        _mm_setr_epi8(3, 7, 11, 15, 19, 23, 27, 31, 35, 39, 43, 47, 51, 55, 59, 63));
    size_t i = 0;
    // A turn uses up to a word for each lane, and looks no further.
    for (; symbols.size() - i >= lanes && static_cast<size_t>(end - from) >= 2 * lanes;
         i += lanes) {
        fetch_turn(ahead, i, lanes);
#pragma GCC unroll 4
        for (size_t j = 0; j < vectors; j += 2) {
            const Vector first = decode_eight(x[j], table, from);
            const Vector second = decode_eight(x[j + 1], table, from);
            const Vector found = _mm256_permutex2var_epi8(first, tops, second);
            _mm_storeu_si128(reinterpret_cast<__m128i *>(symbols.data() + i + 8 * j),
                             _mm256_castsi256_si128(found));
        }
    }
    for (size_t j = 0; j < vectors; ++j) {
        store(&states[8 * j], x[j]);
    }
    return rans_decode_lanes(from, end, table, states, symbols, i);
}

const uint8_t *decode(ConstBytes data, const RansDecodeTable &table, std::span<uint32_t> states,
                      Bytes symbols, Ahead ahead) {
    switch (states.size()) {
    case 16:
        return decode_lanes<2>(data, table, states, symbols, ahead);
    case 32:
        return decode_lanes<4>(data, table, states, symbols, ahead);
    case 64:
        return decode_lanes<8>(data, table, states, symbols, ahead);
    default:
        return avx2_coder.decode(data, table, states, symbols, ahead);
    }
}

// ---- zeros ----

size_t nonzero(ConstBytes symbols, Bytes mask) {
    const size_t whole = symbols.size() / 64 * 64;
    size_t total = 0;
    for (size_t i = 0; i < whole; i += 64) {
        const Wide each = load_wide(symbols.data() + i);
        const uint64_t bits = _mm512_test_epi8_mask(each, each);
        std::memcpy(mask.data() + i / 8, &bits, 8);
        total += static_cast<size_t>(std::popcount(bits));
    }
    return total + portable_coder.nonzero(symbols.subspan(whole), mask.subspan(whole / 8));
}

// Bytes [0, count) of a vector.
uint64_t first_bytes(int count) { return _bzhi_u64(UINT64_MAX, static_cast<uint32_t>(count)); }

void join_bytes(ConstBytes codes, ConstBytes mask, Bytes joined) {
    const size_t whole = codes.size() / 64;
    uint8_t *to = joined.data();
    for (size_t i = 0; i < whole; ++i) {
        const auto chosen = load_as<uint64_t>(mask.data() + 8 * i);
        const int count = std::popcount(chosen);
        _mm512_mask_storeu_epi8(
            to, first_bytes(count),
            _mm512_maskz_compress_epi8(chosen, load_wide(codes.data() + 64 * i)));
        to += count;
    }
    const auto done = static_cast<size_t>(to - joined.data());
    portable_coder.join_bytes(codes.subspan(64 * whole), mask.subspan(8 * whole),
                              joined.subspan(done));
}

void spread_bytes(ConstBytes joined, ConstBytes mask, Bytes codes) {
    const size_t whole = codes.size() / 64;
    const uint8_t *from = joined.data();
    for (size_t i = 0; i < whole; ++i) {
        const auto chosen = load_as<uint64_t>(mask.data() + 8 * i);
        const int count = std::popcount(chosen);
        const Wide next = _mm512_maskz_loadu_epi8(first_bytes(count), from);
        store_wide(codes.data() + 64 * i, _mm512_maskz_expand_epi8(chosen, next));
        from += count;
    }
    const auto done = static_cast<size_t>(from - joined.data());
    portable_coder.spread_bytes(joined.subspan(done), mask.subspan(8 * whole),
                                codes.subspan(64 * whole));
}

} // namespace

constinit const CoderKernels avx512_coder = {
    .count_symbols = count_symbols,
    .encode = encode,
    .decode = decode,
    .decode_abreast = avx512_decode_abreast,
    .nonzero = nonzero,
    .join_bits = nullptr,
    .spread_bits = nullptr,
    .join_bytes = join_bytes,
    .spread_bytes = spread_bytes,
};

} // namespace fewbits

#endif
