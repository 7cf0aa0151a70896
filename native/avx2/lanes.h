// rANS with eight lanes a vector, which may each decode with one of several tables.
#pragma once

#include <bit>

#include "avx2/avx2.h"
#include "rans.h"
#include "shuffles.h"

namespace fewbits {
namespace { // internal linkage: see random.h

// Slots of eight lanes from tables that lie one after another; `table` has their numbers above the
// twelve bits of a slot. Gather instructions are slow on many processors.
[[gnu::always_inline]] inline Vector slots_among(Vector x, Vector table, const uint32_t *slots) {
    const Vector places = _mm256_or_si256(_mm256_and_si256(x, all(kRansTotal - 1)), table);
    const auto four = [&](__m128i place) {
        const auto low = static_cast<uint64_t>(_mm_cvtsi128_si64(place));
        const auto high = static_cast<uint64_t>(_mm_extract_epi64(place, 1));
        const auto slot = [&](uint64_t at) { return static_cast<int>(slots[at]); };
        __m128i found = _mm_cvtsi32_si128(slot(static_cast<uint32_t>(low)));
        found = _mm_insert_epi32(found, slot(low >> 32), 1);
        found = _mm_insert_epi32(found, slot(static_cast<uint32_t>(high)), 2);
        return _mm_insert_epi32(found, slot(high >> 32), 3);
    };
    return _mm256_set_m128i(four(_mm256_extracti128_si256(places, 1)),
                            four(_mm256_castsi256_si128(places)));
}

// Eight lanes leave their slots; words come from `from`, which moves. Reads 16 bytes.
[[gnu::always_inline]] inline Vector left_slots(Vector x, Vector slots, const uint8_t *&from) {
    const Vector frequency = _mm256_and_si256(slots, all(kRansTotal - 1));
    const Vector place = _mm256_and_si256(_mm256_srli_epi32(slots, 12), all(kRansTotal - 1));
    const Vector next =
        _mm256_add_epi32(_mm256_mullo_epi32(frequency, _mm256_srli_epi32(x, kRansBits)), place);
#if defined(__AVX512VL__)
    const __mmask8 short_ones = _mm256_cmplt_epu32_mask(next, all(kRansLow));
    const Vector given =
        _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
    from += 2 * std::popcount(static_cast<uint32_t>(short_ones));
    return _mm256_mask_or_epi32(next, short_ones, _mm256_slli_epi32(next, 16),
                                _mm256_maskz_expand_epi32(short_ones, given));
#else
    const Vector low = _mm256_cmpgt_epi32(all(kRansLow), next);
    const auto set = static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(low)));
    const __m128i given = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
    const __m128i words = _mm_shuffle_epi8(
        given, _mm_load_si128(reinterpret_cast<const __m128i *>(kExpand.bytes[set])));
    from += 2 * std::popcount(set);
    const Vector refilled =
        _mm256_or_si256(_mm256_slli_epi32(next, 16), _mm256_cvtepu16_epi32(words));
    return _mm256_blendv_epi8(next, refilled, low);
#endif
}

// Four vectors of eight small numbers -> 32 bytes.
[[gnu::always_inline]] inline Vector narrowed(Vector a, Vector b, Vector c, Vector d) {
    const Vector mixed = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
    return _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// The symbols in the top bytes of slots.
template <size_t vectors>
[[gnu::always_inline]] inline void store_symbols(const Vector (&slots)[vectors], uint8_t *to) {
    Vector each[vectors];
    for (size_t j = 0; j < vectors; ++j) {
        each[j] = _mm256_srli_epi32(slots[j], 24);
    }
    if constexpr (vectors % 4 == 0) {
        for (size_t j = 0; j < vectors; j += 4) {
            store(to + 8 * j, narrowed(each[j], each[j + 1], each[j + 2], each[j + 3]));
        }
    } else {
        for (size_t j = 0; j < vectors; ++j) {
            const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(each[j]),
                                                   _mm256_extracti128_si256(each[j], 1));
            _mm_storel_epi64(reinterpret_cast<__m128i *>(to + 8 * j),
                             _mm_packus_epi16(words, words));
        }
    }
}

// Whole turns of all lanes: `turn(i, x)` decodes what is at place i and after it, and moves `from`.
// Returns where they end; `states` and `from` have moved there. `from` is null where there are not
// enough words.
template <size_t vectors, class Turn>
[[gnu::always_inline]] inline size_t decode_turns(const uint8_t *&from, const uint8_t *end,
                                                  std::span<uint32_t> states, size_t count,
                                                  Turn turn) {
    // A turn uses up to a word for each lane, and looks no further. The last ones look at words
    // with zeros behind them.
    constexpr size_t lanes = 8 * vectors, most = 2 * lanes;
    uint8_t room[3 * most];
    const uint8_t *rest = nullptr, *stop = end; // what is in the room
    Vector x[vectors];
    for (size_t j = 0; j < vectors; ++j) {
        x[j] = load(&states[8 * j]);
    }
    size_t i = 0;
    for (; count - i >= lanes; i += lanes) {
        if (stop - from < static_cast<ptrdiff_t>(most)) [[unlikely]] {
            if (rest != nullptr) {
                break;
            }
            const auto left = static_cast<size_t>(end - from);
            rest = from;
            std::memset(room, 0, sizeof(room));
            std::memcpy(room, from, left);
            from = room;
            asm("" : "+r"(from) : : "memory"); // GCC thinks that the room could be returned
            stop = room + left + most;
        }
        turn(i, x);
    }
    for (size_t j = 0; j < vectors; ++j) {
        store(&states[8 * j], x[j]);
    }
    const bool enough = stop - from >= static_cast<ptrdiff_t>(rest != nullptr ? most : 0);
    if (rest != nullptr) {
        from = enough ? rest + (from - room) : nullptr;
    }
    return i;
}

// Eight bytes as eight numbers.
[[gnu::always_inline]] inline Vector eight_bytes(const uint8_t *from) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(from)));
}

// Bytes of ones where a plane of 32 bits has a one.
[[maybe_unused]] inline Vector bytes_of_plane(const uint8_t *plane) {
    const Vector all_bits = _mm256_set1_epi32(load_as<int>(plane));
    const Vector own = _mm256_shuffle_epi8(
        all_bits, _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2,
                                   2, 2, 3, 3, 3, 3, 3, 3, 3, 3));
    const Vector bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
    return _mm256_cmpeq_epi8(_mm256_and_si256(own, bit), bit);
}

} // namespace
} // namespace fewbits
