// Levels of a block that are all near, found in one turn: the dither's words, values in sixteenths
// of a step and the search in one loop, the way back and what is known of levels in another.
#pragma once

#include "avx2/lanes.h"
#include "avx2/trellis_bytes.h"
#include "portable/portable.h"
#include "trellis_levels.h"
#include "trellis_search.h"

namespace fewbits {
namespace { // internal linkage: see random.h

// 32 bytes.
struct Lanes {
    Vector own;

    static Lanes all(int x) { return {_mm256_set1_epi8(static_cast<char>(x))}; }
    static Lanes kept(int x) { return {pinned(0x01010101u * static_cast<uint32_t>(x))}; }
    static Lanes at(const uint8_t *from) { return {load(from)}; }
    void put(uint8_t *to) const { store(to, own); }
};
Lanes operator+(Lanes a, Lanes b) { return {_mm256_add_epi8(a.own, b.own)}; }
Lanes operator-(Lanes a, Lanes b) { return {_mm256_sub_epi8(a.own, b.own)}; }
Lanes operator&(Lanes a, Lanes b) { return {_mm256_and_si256(a.own, b.own)}; }
Lanes with_sign(Lanes a, Lanes b) { return {_mm256_sign_epi8(a.own, b.own)}; }
Lanes magnitude(Lanes a) { return {_mm256_abs_epi8(a.own)}; }
Lanes negative(Lanes a) { return {_mm256_cmpgt_epi8(_mm256_setzero_si256(), a.own)}; }
Lanes zero(Lanes a) { return {_mm256_cmpeq_epi8(a.own, _mm256_setzero_si256())}; }
Lanes chosen(Lanes sign, Lanes a, Lanes b) { return {_mm256_blendv_epi8(b.own, a.own, sign.own)}; }
Lanes looked_up(const uint8_t *table, Lanes places) {
    const __m128i half = _mm_load_si128(reinterpret_cast<const __m128i *>(table));
    return {_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(half), places.own)};
}
Lanes up(Lanes a) { return {_mm256_slli_epi16(a.own, 4)}; }   // of what is below 16
Lanes down(Lanes a) { return {_mm256_srli_epi16(a.own, 4)}; } // its low bits

#if defined(__AVX512VBMI2__)
// As Words, sixteen a call.
struct WideWords {
    __m512i counter, k1;
    const __m512i step = _mm512_set1_epi32(static_cast<int>(16 * kStep)),
                  multiply1 = _mm512_set1_epi32(static_cast<int>(kMultiply1)),
                  multiply2 = _mm512_set1_epi32(static_cast<int>(kMultiply2));

    WideWords(const Stream &stream, uint64_t first) {
        const Segment segment(stream.key, static_cast<uint32_t>(first >> 32));
        uint32_t low[16];
        for (uint32_t i = 0; i < 16; ++i) {
            low[i] = (static_cast<uint32_t>(first) + i) * kStep + segment.k0;
        }
        counter = _mm512_loadu_si512(low);
        k1 = _mm512_set1_epi32(static_cast<int>(segment.k1));
    }
    [[gnu::always_inline]] __m512i next() {
        __m512i x = counter;
        counter = _mm512_add_epi32(counter, step);
        x = _mm512_mullo_epi32(_mm512_xor_si512(x, _mm512_srli_epi32(x, 16)), multiply1);
        x = _mm512_add_epi32(x, k1);
        x = _mm512_mullo_epi32(_mm512_xor_si512(x, _mm512_srli_epi32(x, 15)), multiply2);
        return _mm512_xor_si512(x, _mm512_srli_epi32(x, 16));
    }
};
using DitherVector = __m512i;
using OwnWords = WideWords;
#else
using DitherVector = Vector;
using OwnWords = Words;
#endif

// Words of a dither, or none.
template <bool dithered> struct DitherWords {
    explicit DitherWords(const Stream *) {}
    DitherVector next() { return DitherVector{}; }
    uint32_t at(size_t) const { return 0; }
};
template <> struct DitherWords<true> {
    OwnWords words;
    Segment segment;
    uint32_t first;

    explicit DitherWords(const Stream *stream)
        : words(*stream, stream->first),
          segment(stream->key, static_cast<uint32_t>(stream->first >> 32)),
          first(static_cast<uint32_t>(stream->first)) {}
    [[gnu::always_inline]] DitherVector next() { return words.next(); }
    uint32_t at(size_t i) const { return segment.word(first + static_cast<uint32_t>(i)); }
};

// Sixteen numbers of each of two vectors, in their order.
[[gnu::always_inline]] inline Vector in_order(Vector packed) {
    return _mm256_permute4x64_epi64(packed, 0xD8);
}

// Levels are in sixteenths of a step until the way back.
template <bool dithered> struct NearRows {
    In<uint32_t> values;
    float step;
    DitherWords<dithered> words;
    NearLevels &found;
    int16_t *levels = found.levels; // the compiler need not ask for them again
    uint8_t *tops = found.tops;
    const Vector nearest = pinned(32 * 0x10001);
    const Vector from_large = pinned(LevelStats::kLarge * 0x01010101u);
    Vector high = _mm256_set1_epi16(0), low = high; // of sixteenths
    Vector least = _mm256_set1_epi16(INT16_MAX), largest = _mm256_set1_epi16(0);
    uint32_t zeros = 0, large = 0;
    bool near = true; // the rest

#if defined(__AVX512VBMI2__)
    // Sixteen values in sixteenths of the step, with their dither; a word's lowest bit turns the
    // sign. What is too large becomes the least number.
    [[gnu::always_inline]] __m256i fixed(__m512i x, __m512i word) const {
        if constexpr (dithered) {
            x = _mm512_xor_si512(x, _mm512_slli_epi32(word, 31));
        }
        __m512 t = _mm512_div_ps(_mm512_castsi512_ps(x), _mm512_set1_ps(step / 16));
        if constexpr (dithered) { // the product is exact
            const __m512 u = _mm512_cvtepi32_ps(_mm512_srli_epi32(word, 1));
            t = _mm512_fmadd_ps(u, _mm512_set1_ps(0x1p-25f), t);
        }
        return _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(t));
    }

    [[gnu::always_inline]] Lanes places(size_t at) {
        fetch_ahead<4 * kPaths>(values.data() + at);
        __m256i own[2];
        for (size_t j = 0; j < 2; ++j) {
            const __m512i word = words.next();
            own[j] = fixed(_mm512_loadu_si512(values.data() + at + 16 * j), word);
            if constexpr (dithered) {
                _mm_storeu_si128(reinterpret_cast<__m128i *>(tops + at + 16 * j),
                                 _mm512_cvtepi32_epi8(_mm512_srli_epi32(word, 28)));
            }
        }
        store(levels + at, own[0]);
        store(levels + at + kPaths / 2, own[1]);
        high = _mm256_max_epi16(high, _mm256_max_epi16(own[0], own[1]));
        low = _mm256_min_epi16(low, _mm256_min_epi16(own[0], own[1]));
        const __m512i all_of = _mm512_inserti64x4(_mm512_castsi256_si512(own[0]), own[1], 1);
        return {_mm256_and_si256(_mm512_cvtepi16_epi8(all_of), _mm256_set1_epi8(63))};
    }
#else
    // Divided by 16, which is exact.
    const __m256 part = kept_number(step / 16), unit = kept_number(0x1p-25f);
    const Vector period = pinned(63 * 0x10001);

    static __m256 kept_number(float x) {
        return _mm256_castsi256_ps(pinned(std::bit_cast<uint32_t>(x)));
    }

    // Eight values in sixteenths of the step, with their dither; a word's lowest bit turns the
    // sign. What is too large becomes the least number.
    [[gnu::always_inline]] Vector fixed(Vector x, Vector word) const {
        if constexpr (dithered) {
            x = _mm256_xor_si256(x, _mm256_slli_epi32(word, 31));
        }
        __m256 t = _mm256_div_ps(_mm256_castsi256_ps(x), part);
        if constexpr (dithered) {
            const __m256 u = _mm256_cvtepi32_ps(_mm256_srli_epi32(word, 1));
            t = _mm256_add_ps(t, _mm256_mul_ps(u, unit));
        }
        return _mm256_cvtps_epi32(t);
    }

    [[gnu::always_inline]] Lanes places(size_t at) {
        Vector own[4], upper[4];
        fetch_ahead<4 * kPaths>(values.data() + at);
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; ++j) {
            const Vector word = words.next();
            own[j] = fixed(load(values.data() + at + 8 * j), word);
            upper[j] = _mm256_srli_epi32(word, 28);
        }
        if constexpr (dithered) {
            store(tops + at, narrowed(upper[0], upper[1], upper[2], upper[3]));
        }
        const Vector first = in_order(_mm256_packs_epi32(own[0], own[1]));
        const Vector second = in_order(_mm256_packs_epi32(own[2], own[3]));
        store(levels + at, first);
        store(levels + at + kPaths / 2, second);
        high = _mm256_max_epi16(high, _mm256_max_epi16(first, second));
        low = _mm256_min_epi16(low, _mm256_min_epi16(first, second));
        return {in_order(_mm256_packus_epi16(_mm256_and_si256(first, period),
                                             _mm256_and_si256(second, period)))};
    }
#endif

    void rest(size_t at, uint8_t *places) {
        int32_t fixed[kPaths];
        uint32_t own[kPaths];
        const size_t count = values.size() - at;
        for (size_t i = 0; i < count; ++i) {
            own[i] = words.at(at + i);
            if constexpr (dithered) {
                tops[at + i] = static_cast<uint8_t>(own[i] >> 28);
            }
        }
        fix_values<Float32>(values.subspan(at), step, dithered ? own : nullptr, fixed, places);
        for (size_t i = 0; i < count; ++i) {
            near = near && std::abs(fixed[i]) <= kFarthestNear;
            levels[at + i] = static_cast<int16_t>(fixed[i]);
        }
    }

    bool all_near() const {
        const Vector most = _mm256_set1_epi16(static_cast<int16_t>(kFarthestNear));
        const Vector least_of_all = _mm256_set1_epi16(static_cast<int16_t>(-kFarthestNear));
        return near && !any(_mm256_or_si256(_mm256_cmpgt_epi16(high, most),
                                            _mm256_cmpgt_epi16(least_of_all, low)));
    }

    [[gnu::always_inline]] Vector settle(size_t at, __m128i labels) {
        const Vector label = _mm256_cvtepu8_epi16(labels);
        Vector level = _mm256_sub_epi16(load(levels + at), _mm256_slli_epi16(label, 4));
        level = _mm256_srai_epi16(_mm256_add_epi16(level, nearest), 6);
        level = _mm256_add_epi16(_mm256_slli_epi16(level, 2), label);
        store(levels + at, level);
        const Vector magnitude = _mm256_abs_epi16(level);
        least = _mm256_min_epi16(least, magnitude);
        largest = _mm256_max_epi16(largest, magnitude);
        return magnitude;
    }

    [[gnu::always_inline]] void take(size_t at, Lanes labels) {
        const Vector first = settle(at, _mm256_castsi256_si128(labels.own));
        const Vector second = settle(at + kPaths / 2, _mm256_extracti128_si256(labels.own, 1));
        const Vector all_of = _mm256_packus_epi16(first, second);
        const auto ones = [](Vector mask) {
            return static_cast<uint32_t>(
                std::popcount(static_cast<uint32_t>(_mm256_movemask_epi8(mask))));
        };
        zeros += ones(_mm256_cmpeq_epi8(all_of, _mm256_setzero_si256()));
        large += ones(_mm256_cmpeq_epi8(_mm256_max_epu8(all_of, from_large), all_of));
    }

    void take_rest(size_t at, const uint8_t *labels) {
        for (size_t i = 0; at + i < values.size(); ++i) {
            const int32_t label = labels[i];
            const int32_t level = label + 4 * ((levels[at + i] - 16 * label + 32) >> 6);
            levels[at + i] = static_cast<int16_t>(level);
            found.stats.add(static_cast<uint32_t>(std::abs(level)));
        }
    }

    void add_stats() const {
        uint16_t lowest[16], highest[16];
        store(lowest, least);
        store(highest, largest);
        LevelStats &stats = found.stats;
        stats.least = std::min<uint32_t>(stats.least, *std::min_element(lowest, lowest + 16));
        stats.largest = std::max<uint32_t>(stats.largest, *std::max_element(highest, highest + 16));
        stats.zeros += zeros;
        stats.large += large;
    }
};

template <bool dithered, int states>
bool find_paths(In<uint32_t> values, float step, const Stream *dither, NearLevels &found) {
    NearRows<dithered> rows = {values, step, DitherWords<dithered>(dither), found};
    found.stats = {};
    search_rows<Lanes, states>(values.size(), rows);
    rows.add_stats();
    return rows.all_near();
}

template <bool dithered>
bool find_dithered(In<uint32_t> values, float step, const Stream *dither, int states,
                   NearLevels &found) {
    switch (states) {
    case 4:
        return find_paths<dithered, 4>(values, step, dither, found);
    case 8:
        return find_paths<dithered, 8>(values, step, dither, found);
    default:
        return find_paths<dithered, 16>(values, step, dither, found);
    }
}

bool find_near(In<uint32_t> values, float step, const Stream *dither, int states,
               NearLevels &found) {
    constexpr float least = 0x1p-120f; // a part of the step has all its bits
    if (values.size() < kFullPaths || step < least ||
        (dither != nullptr && crosses_segment(dither->first, values.size()))) {
        return false;
    }
    const auto run = dither != nullptr ? find_dithered<true> : find_dithered<false>;
    return run(values, step, dither, states, found);
}

// ---- symbols ----

template <bool dithered>
void fold_near_levels(std::span<const int16_t> levels, const uint8_t *tops, int shift,
                      uint32_t escape, uint8_t *symbols) {
    const PhaseBytes<dithered> phases([&](const PathPhase &phase) {
        const uint32_t table = phase.quarter >> shift << shift << 6;
        return table | (phase.positive ? 0u : 0x20u) | static_cast<uint32_t>(phase.whole);
    });
    const Vector one = _mm256_set1_epi8(1), zero = _mm256_setzero_si256();
    const Vector turned = _mm256_set1_epi8(0x20),
                 escapes = _mm256_set1_epi8(static_cast<char>(escape));
    const Vector last = _mm256_sub_epi8(escapes, one);
    constexpr int32_t most = 100; // of what bytes are enough for
    const size_t whole = levels.size() / kPaths * kPaths;
    for (size_t i = 0; i < whole; i += kPaths) {
        const Vector first = load(levels.data() + i);
        const Vector second = load(levels.data() + i + kPaths / 2);
        const Vector level = in_order(_mm256_packs_epi16(first, second));
        const Vector half =
            in_order(_mm256_packs_epi16(_mm256_srai_epi16(first, 1), _mm256_srai_epi16(second, 1)));
        const Vector phase = phases.at(dithered ? load(tops + i) : zero, level);
        const Vector negative = _mm256_cmpeq_epi8(_mm256_and_si256(phase, turned), turned);
        Vector j = half;
        if constexpr (dithered) {
            j = _mm256_sub_epi8(half, _mm256_and_si256(phase, _mm256_set1_epi8(3)));
        }
        j = _mm256_sub_epi8(_mm256_xor_si256(j, negative), negative);
        // 2 j, or -2 j - 1 below 0.
        const Vector symbol = _mm256_xor_si256(_mm256_add_epi8(j, j), _mm256_cmpgt_epi8(zero, j));
        const Vector far = _mm256_add_epi8(escapes, _mm256_and_si256(half, one));
        const Vector there = _mm256_cmpeq_epi8(_mm256_min_epu8(symbol, last), symbol);
        const Vector table = _mm256_and_si256(phase, _mm256_set1_epi8(static_cast<char>(0xC0)));
        store(symbols + i, _mm256_or_si256(_mm256_blendv_epi8(far, symbol, there), table));
        const Vector bound = _mm256_set1_epi8(most);
        auto wide = static_cast<uint32_t>(
            _mm256_movemask_epi8(_mm256_cmpgt_epi8(_mm256_abs_epi8(level), bound)));
        // -128 is its own magnitude
        wide |= static_cast<uint32_t>(
            _mm256_movemask_epi8(_mm256_cmpeq_epi8(level, _mm256_set1_epi8(INT8_MIN))));
        for (; wide != 0; wide &= wide - 1) {
            const size_t at = i + static_cast<size_t>(std::countr_zero(wide));
            const int32_t own = levels[at];
            symbols[at] = folded_level(own, dithered ? tops[at] : 0u, shift, escape);
        }
    }
    for (size_t i = whole; i < levels.size(); ++i) {
        const int32_t own = levels[i];
        symbols[i] = folded_level(own, dithered ? tops[i] : 0u, shift, escape);
    }
}

void fold_near(std::span<const int16_t> levels, const uint8_t *tops, int shift, uint32_t escape,
               uint8_t *symbols) {
    const auto run = tops != nullptr ? fold_near_levels<true> : fold_near_levels<false>;
    run(levels, tops, shift, escape, symbols);
}

} // namespace
} // namespace fewbits
