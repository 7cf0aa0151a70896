// Encoding few symbols with AVX-512: their entries are in registers, and words leave the states by
// compressing vectors.
#pragma once

#include <bit>

#include "avx512bw/avx512.h"
#include "rans.h"

namespace fewbits {
namespace { // internal linkage: see random.h

// As in avx2/coded.cpp.
#define FEWBITS_INLINE [[gnu::always_inline]] inline

constexpr size_t kLanes = 16; // of a vector

// The entries of up to 32 different symbols. A symbol's rank among those that occur finds them.
struct RankedEntries {
    Wide ranks[4]; // a byte for each symbol
    Wide reciprocal[2], rest[2];
    size_t used = 0;

    explicit RankedEntries(const RansEncodeTable &table) {
        uint8_t rank[256] = {};
        uint32_t low[2 * kLanes] = {};
        uint32_t high[2 * kLanes] = {};
        for (size_t symbol = 0; symbol < table.symbols; ++symbol) {
            const uint64_t entry = table.entries[symbol];
            if (entry != 0 && used < 2 * kLanes) {
                low[used] = static_cast<uint32_t>(entry);
                high[used] = static_cast<uint32_t>(entry >> 32);
                rank[symbol] = static_cast<uint8_t>(used);
            }
            used += entry != 0;
        }
        for (size_t i = 0; i < 4; ++i) {
            ranks[i] = load_wide(rank + 64 * i);
        }
        for (size_t i = 0; i < 2; ++i) {
            reciprocal[i] = load_wide(low + kLanes * i);
            rest[i] = load_wide(high + kLanes * i);
        }
    }
    bool fits() const { return used <= 2 * kLanes; }

    // Of 64 symbols.
    FEWBITS_INLINE Wide ranked(Wide symbols) const {
        const Wide low = _mm512_permutex2var_epi8(ranks[0], symbols, ranks[1]);
        const Wide high = _mm512_permutex2var_epi8(ranks[2], symbols, ranks[3]);
        return _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(symbols), high);
    }
};

// The upper halves of the products x * y, even lanes and odd lanes.
FEWBITS_INLINE Wide upper_product(Wide x, Wide y) {
    const Wide even = _mm512_mul_epu32(x, y);
    const Wide odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), _mm512_srli_epi64(y, 32));
    return _mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_DDBB);
}

// Sixteen lanes take a symbol each, given by their ranks; their words go below `end`, which moves.
FEWBITS_INLINE Wide encode_sixteen(Wide x, __m128i ranks, const RankedEntries &table,
                                   uint8_t *&end) {
    const Wide each = _mm512_cvtepu8_epi32(ranks);
    const Wide reciprocal =
        _mm512_permutex2var_epi32(table.reciprocal[0], each, table.reciprocal[1]);
    const Wide rest = _mm512_permutex2var_epi32(table.rest[0], each, table.rest[1]);
    const Wide frequency = _mm512_and_si512(rest, all_wide(kRansTotal - 1));
    const __mmask16 leaving = _mm512_cmpge_epu32_mask(x, _mm512_slli_epi32(frequency, 19));
    const auto count = static_cast<uint32_t>(std::popcount(static_cast<uint32_t>(leaving)));
    end -= 2 * count;
    const Vector words = _mm256_maskz_compress_epi16(leaving, _mm512_cvtepi32_epi16(x));
    _mm256_mask_storeu_epi16(end, static_cast<__mmask16>(_bzhi_u32(0xFFFF, count)), words);
    x = _mm512_mask_srli_epi32(x, leaving, x, 16);
    const Wide upper = upper_product(x, reciprocal);
    const Wide shift = _mm512_and_si512(_mm512_srli_epi32(rest, 12), all_wide(15));
    const Wide quotient = _mm512_srlv_epi32(upper, shift);
    const Wide product =
        _mm512_mullo_epi32(quotient, _mm512_sub_epi32(all_wide(kRansTotal), frequency));
    return _mm512_add_epi32(_mm512_add_epi32(x, _mm512_srli_epi32(rest, 16)), product);
}

// The ranks of the symbols of all lanes, 16 * vectors bytes.
template <size_t vectors>
FEWBITS_INLINE Wide ranks_of(const uint8_t *symbols, const RankedEntries &table) {
    if constexpr (vectors == 4) {
        return table.ranked(load_wide(symbols));
    } else {
        return table.ranked(
            _mm512_zextsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i *>(symbols))));
    }
}

template <size_t vectors>
uint8_t *encode_lanes(ConstBytes symbols, const RansEncodeTable &table, const RankedEntries &ranked,
                      std::span<uint32_t> states, Bytes room, Ahead ahead) {
    constexpr size_t lanes = kLanes * vectors;
    uint8_t *const limit = room.data();
    size_t left = symbols.size() / lanes * lanes;
    uint8_t *end = rans_encode_lanes(symbols.data() + left, symbols.size() - left, table, states,
                                     limit, room.data() + room.size());
    if (end == nullptr) {
        return nullptr;
    }
    Wide x[vectors];
    for (size_t j = 0; j < vectors; ++j) {
        x[j] = load_wide(&states[kLanes * j]);
    }
    for (; left > 0 && static_cast<size_t>(end - limit) >= 2 * lanes; left -= lanes) {
        fetch_turn(ahead, symbols.size() - left, lanes);
        const Wide ranks = ranks_of<vectors>(symbols.data() + left - lanes, ranked);
        if constexpr (vectors > 2) {
            x[3] = encode_sixteen(x[3], _mm512_extracti32x4_epi32(ranks, 3), ranked, end);
            x[2] = encode_sixteen(x[2], _mm512_extracti32x4_epi32(ranks, 2), ranked, end);
            x[1] = encode_sixteen(x[1], _mm512_extracti32x4_epi32(ranks, 1), ranked, end);
        }
        x[0] = encode_sixteen(x[0], _mm512_castsi512_si128(ranks), ranked, end);
    }
    for (size_t j = 0; j < vectors; ++j) {
        store_wide(&states[kLanes * j], x[j]);
    }
    return rans_encode_lanes(symbols.data(), left, table, states, limit, end);
}

// ---- 32 lanes, which nearly all blocks have: 64 symbols at a time ----

// Entries as above, in parts that need less work.
struct PairEntries {
    const RankedEntries &ranked;
    Wide bound[2]; // bits 0 to 4 the shift, 19 to 30 the frequency: where a state gives up a word
    Wide rest[2];  // bits 0 to 11 what a quotient is multiplied by, 16 to 31 the bias

    explicit PairEntries(const RankedEntries &from) : ranked(from) {
        for (size_t i = 0; i < 2; ++i) {
            const Wide frequency = _mm512_and_si512(from.rest[i], all_wide(kRansTotal - 1));
            const Wide shift = _mm512_and_si512(_mm512_srli_epi32(from.rest[i], 12), all_wide(15));
            const Wide bias = _mm512_andnot_si512(all_wide(0xFFFF), from.rest[i]);
            bound[i] = _mm512_or_si512(_mm512_slli_epi32(frequency, 19), shift);
            rest[i] = _mm512_or_si512(bias, _mm512_sub_epi32(all_wide(kRansTotal), frequency));
        }
    }
    // By the lowest bits of ranks.
    FEWBITS_INLINE static Wide at(const Wide (&table)[2], Wide ranks) {
        return _mm512_permutex2var_epi32(table[0], ranks, table[1]);
    }
};

// Sixteen lanes that have given up their words.
FEWBITS_INLINE Wide taken(Wide x, Wide ranks, Wide bound, const PairEntries &table) {
    const Wide reciprocal = table.at(table.ranked.reciprocal, ranks);
    const Wide rest = table.at(table.rest, ranks);
    const Wide upper = upper_product(x, reciprocal);
    const Wide quotient = _mm512_shrdv_epi32(upper, _mm512_setzero_si512(), bound);
    const Wide product = _mm512_mullo_epi32(quotient, _mm512_and_si512(rest, all_wide(0xFFFF)));
    return _mm512_add_epi32(_mm512_add_epi32(x, _mm512_srli_epi32(rest, 16)), product);
}

// Both vectors of states take a symbol a lane; their words stand side by side.
struct PairStates {
    Wide first, second;
    const Wide halves = _mm512_add_epi16( // the lower ones of both
        _mm512_set1_epi32(0x0002'0000),
        _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                           all_wide(0x0004'0004)));

    FEWBITS_INLINE void take(Wide ranks, Wide other_ranks, const PairEntries &table,
                             uint8_t *&end) {
        const Wide bound = table.at(table.bound, ranks);
        const Wide other_bound = table.at(table.bound, other_ranks);
        const Wide frequencies = all_wide((kRansTotal - 1) << 19);
        const __mmask16 leaving =
            _mm512_cmpge_epu32_mask(first, _mm512_and_si512(bound, frequencies));
        const __mmask16 others =
            _mm512_cmpge_epu32_mask(second, _mm512_and_si512(other_bound, frequencies));
        const __mmask32 all = _mm512_kunpackw(others, leaving);
        const auto count = static_cast<uint32_t>(std::popcount(static_cast<uint32_t>(all)));
        const Wide words = _mm512_permutex2var_epi16(first, halves, second);
        end -= 2 * count;
        _mm512_mask_storeu_epi16(end, static_cast<__mmask32>(_bzhi_u64(UINT32_MAX, count)),
                                 _mm512_maskz_compress_epi16(all, words));
        first = taken(_mm512_mask_srli_epi32(first, leaving, first, 16), ranks, bound, table);
        second = taken(_mm512_mask_srli_epi32(second, others, second, 16), other_ranks, other_bound,
                       table);
    }
};

uint8_t *encode_pairs(ConstBytes symbols, const RansEncodeTable &table, const RankedEntries &ranked,
                      std::span<uint32_t> states, Bytes room, Ahead ahead) {
    constexpr size_t turn = 4 * kLanes;
    const PairEntries entries(ranked);
    const Wide order = _mm512_add_epi8( // byte i of element j: place 16 * i + j
        all_wide(0x30201000),
        _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                           all_wide(0x01010101)));
    uint8_t *const limit = room.data();
    size_t left = symbols.size() / turn * turn;
    uint8_t *end = rans_encode_lanes(symbols.data() + left, symbols.size() - left, table, states,
                                     limit, room.data() + room.size());
    if (end == nullptr) {
        return nullptr;
    }
    PairStates x = {load_wide(states.data()), load_wide(&states[kLanes])};
    for (; left > 0 && static_cast<size_t>(end - limit) >= 2 * turn; left -= turn) {
        fetch_turn(ahead, symbols.size() - left, turn);
        const Wide own = load_wide(symbols.data() + left - turn);
        const Wide ranks = ranked.ranked(_mm512_permutexvar_epi8(order, own));
        x.take(_mm512_srli_epi32(ranks, 16), _mm512_srli_epi32(ranks, 24), entries, end);
        x.take(ranks, _mm512_srli_epi32(ranks, 8), entries, end);
    }
    store_wide(states.data(), x.first);
    store_wide(&states[kLanes], x.second);
    return rans_encode_lanes(symbols.data(), left, table, states, limit, end);
}

} // namespace
} // namespace fewbits
