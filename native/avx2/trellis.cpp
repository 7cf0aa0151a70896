// Paths of a trellis with AVX2: the 32 lanes of a block are the bytes of a vector.
#if defined(__AVX2__)

#include "trellis_levels.h"

#include <limits>

#include "avx2/trellis_find.h"
#include "avx2/trellis_values.h"

namespace fewbits {
namespace {

void search(ConstBytes places, size_t lanes, int states, Bytes labels) {
    if (lanes != kPaths) {
        return portable_trellis.search(places, lanes, states, labels);
    }
    search_all_lanes<Lanes>(places, states, labels);
}

// ---- values and levels ----

size_t count_nonfinite(In<uint32_t> values) {
    const size_t whole = values.size() / 16 * 16;
    const Vector infinity = all(Float32::infinity);
    Vector found = _mm256_setzero_si256();
    for (size_t i = 0; i < whole; i += 16) {
        const Vector first = _mm256_and_si256(load(values.data() + i), infinity);
        const Vector second = _mm256_and_si256(load(values.data() + i + 8), infinity);
        found = _mm256_sub_epi32(found, _mm256_cmpeq_epi32(first, infinity));
        found = _mm256_sub_epi32(found, _mm256_cmpeq_epi32(second, infinity));
    }
    uint32_t each[8];
    store(each, found);
    size_t total = 0;
    for (const uint32_t own : each) {
        total += own;
    }
    for (size_t i = whole; i < values.size(); ++i) {
        total += (values[i] & Float32::infinity) == Float32::infinity;
    }
    return total;
}

// A top for each of eight paths.
template <bool dithered> Vector eight_tops(const uint32_t *words) {
    if constexpr (dithered) {
        return _mm256_srli_epi32(load(words), 28);
    }
    return _mm256_setzero_si256();
}

// Eight values in sixteenths of the step, with their dither; a word's lowest bit turns the sign.
template <bool dithered>
[[gnu::always_inline]] inline Vector fixed_of(__m256 x, Vector word, __m256 step) {
    if constexpr (dithered) {
        x = _mm256_xor_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(word, 31)));
    }
    __m256 t = _mm256_mul_ps(_mm256_div_ps(x, step), _mm256_set1_ps(16));
    if constexpr (dithered) {
        const __m256 u = _mm256_cvtepi32_ps(_mm256_srli_epi32(word, 1));
        t = _mm256_add_ps(t, _mm256_mul_ps(u, _mm256_set1_ps(0x1p-25f)));
    }
    t = _mm256_min_ps(_mm256_max_ps(t, _mm256_set1_ps(-0x1p24f)), _mm256_set1_ps(0x1p24f));
    return _mm256_cvtps_epi32(t);
}

template <bool dithered>
void fix_paths(In<uint32_t> values, float step, const uint32_t *words, int32_t *fixed,
               uint8_t *places) {
    const __m256 steps = _mm256_set1_ps(step);
    const size_t whole = values.size() / kPaths * kPaths;
    for (size_t i = 0; i < whole; i += kPaths) {
        Vector low[4];
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; ++j) {
            const size_t at = i + 8 * j;
            const __m256 x = _mm256_castsi256_ps(load(values.data() + at));
            const Vector word = dithered ? load(words + at) : _mm256_setzero_si256();
            const Vector found = fixed_of<dithered>(x, word, steps);
            store(fixed + at, found);
            low[j] = _mm256_and_si256(found, all(63));
        }
        store(places + i, narrowed(low[0], low[1], low[2], low[3]));
    }
    fix_values<Float32>(values.subspan(whole), step, dithered ? words + whole : nullptr,
                        fixed + whole, places + whole);
}

void fix(In<uint32_t> values, float step, const uint32_t *words, int32_t *fixed, uint8_t *places) {
    const auto run = words != nullptr ? fix_paths<true> : fix_paths<false>;
    run(values, step, words, fixed, places);
}

// Adds up eight counts.
size_t total_of(Vector counts) {
    uint32_t each[8];
    store(each, counts);
    size_t total = 0;
    for (const uint32_t own : each) {
        total += own;
    }
    return total;
}

LevelStats settle(ConstBytes labels, int32_t *levels) {
    const size_t whole = labels.size() / 8 * 8;
    Vector least = all(INT32_MAX), largest = _mm256_setzero_si256();
    Vector zeros = _mm256_setzero_si256(), large = _mm256_setzero_si256();
    for (size_t i = 0; i < whole; i += 8) {
        const Vector label = eight_bytes(labels.data() + i);
        Vector level = _mm256_sub_epi32(load(levels + i), _mm256_slli_epi32(label, 4));
        level = _mm256_srai_epi32(_mm256_add_epi32(level, all(32)), 6);
        level = _mm256_add_epi32(_mm256_slli_epi32(level, 2), label);
        store(levels + i, level);
        const Vector magnitude = _mm256_abs_epi32(level);
        least = _mm256_min_epu32(least, magnitude);
        largest = _mm256_max_epu32(largest, magnitude);
        zeros = _mm256_sub_epi32(zeros, _mm256_cmpeq_epi32(level, _mm256_setzero_si256()));
        large = _mm256_sub_epi32(large, _mm256_cmpgt_epi32(magnitude, all(LevelStats::kLarge - 1)));
    }
    LevelStats stats;
    settle_levels(labels.subspan(whole), levels + whole, stats);
    uint32_t low[8], high[8];
    store(low, least);
    store(high, largest);
    if (whole > 0) {
        stats.least = std::min(stats.least, *std::min_element(low, low + 8));
        stats.largest = std::max(stats.largest, *std::max_element(high, high + 8));
    }
    stats.zeros += total_of(zeros);
    stats.large += total_of(large);
    return stats;
}

__m128i four_levels(const int32_t *from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
}
__m128i four_levels(const int16_t *from) {
    return _mm_cvtepi16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(from)));
}

template <class Level> StepSums sums(In<uint32_t> values, const Level *levels) {
    const size_t whole = values.size() / kSumLanes * kSumLanes;
    __m256d products[8], squares = _mm256_setzero_pd();
    std::fill_n(products, 8, _mm256_setzero_pd());
    for (size_t i = 0; i < whole; i += kSumLanes) {
#pragma GCC unroll 8
        for (size_t j = 0; j < 8; ++j) {
            const size_t at = i + 4 * j;
            const auto x = _mm_loadu_ps(reinterpret_cast<const float *>(values.data() + at));
            const __m256d level = _mm256_cvtepi32_pd(four_levels(levels + at));
            products[j] = _mm256_add_pd(products[j], _mm256_mul_pd(_mm256_cvtps_pd(x), level));
            squares = _mm256_add_pd(squares, _mm256_mul_pd(level, level)); // exact
        }
    }
    double lanes[kSumLanes], four[4];
    for (size_t j = 0; j < 8; ++j) {
        _mm256_storeu_pd(lanes + 4 * j, products[j]);
    }
    _mm256_storeu_pd(four, squares);
    const auto rest = add_products<Float32>(values.subspan(whole), levels + whole, 0, lanes);
    const double own = four[0] + four[1] + four[2] + four[3];
    return {sum_of_lanes(lanes), own + static_cast<double>(rest)};
}

// What eight dithers and parities say: a PathPhase for each, with ones where it is positive.
template <bool dithered> struct EightPhases {
    Vector positive, negative, quarter, whole;

    [[gnu::always_inline]] EightPhases(Vector parity, Vector top) {
        const Vector upper = _mm256_and_si256(_mm256_srli_epi32(top, 2), all(1));
        const Vector apart = dithered ? _mm256_xor_si256(parity, upper) : parity;
        positive = _mm256_sub_epi32(_mm256_setzero_si256(), apart);
        negative = _mm256_sub_epi32(apart, all(1));
        quarter = _mm256_and_si256(dithered ? _mm256_xor_si256(top, positive) : positive, all(3));
        whole = _mm256_add_epi32(_mm256_srli_epi32(top, 3), _mm256_andnot_si256(parity, upper));
    }

    Vector turned(Vector j) const { // -j where phi is negative
        return _mm256_sub_epi32(_mm256_xor_si256(j, negative), negative);
    }
};

// The symbol of each of eight levels, and above it its table's number times the symbols of one.
template <bool dithered>
Vector symbols_of(Vector level, const uint32_t *words, __m128i shift, __m128i table,
                  Vector escape) {
    const Vector one = all(1), zero = _mm256_setzero_si256();
    const Vector half = _mm256_srai_epi32(level, 1);
    const EightPhases<dithered> phases(_mm256_and_si256(level, one), eight_tops<dithered>(words));
    const Vector j = phases.turned(dithered ? _mm256_sub_epi32(half, phases.whole) : half);
    // 2 j, or -2 j - 1 below 0.
    const Vector symbol = _mm256_xor_si256(_mm256_add_epi32(j, j), _mm256_cmpgt_epi32(zero, j));
    const Vector far = _mm256_add_epi32(escape, _mm256_and_si256(half, one));
    const Vector own = _mm256_blendv_epi8(far, symbol, _mm256_cmpgt_epi32(escape, symbol));
    return _mm256_or_si256(own, _mm256_sll_epi32(_mm256_srl_epi32(phases.quarter, shift), table));
}

template <bool dithered>
void fold_paths(std::span<const int32_t> levels, const uint32_t *words, int shift, uint32_t escape,
                uint8_t *symbols) {
    const __m128i by = _mm_cvtsi32_si128(shift);
    const __m128i table = _mm_cvtsi32_si128(static_cast<int>(std::bit_width(escape + 1)));
    const Vector escapes = all(escape);
    const size_t whole = levels.size() / kPaths * kPaths;
    for (size_t i = 0; i < whole; i += kPaths) {
        Vector found[4];
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; ++j) {
            const size_t at = i + 8 * j;
            found[j] = symbols_of<dithered>(load(levels.data() + at), words + (dithered ? at : 0),
                                            by, table, escapes);
        }
        store(symbols + i, narrowed(found[0], found[1], found[2], found[3]));
    }
    fold_levels(levels.subspan(whole), dithered ? words + whole : nullptr, shift, escape,
                symbols + whole);
}

void fold(std::span<const int32_t> levels, const uint32_t *words, int shift, uint32_t escape,
          uint8_t *symbols) {
    const auto run = words != nullptr ? fold_paths<true> : fold_paths<false>;
    run(levels, words, shift, escape, symbols);
}

// Four levels less their dither, times the scale, in float64.
__m128 dithered_values(__m128i level, __m128i word, __m256d scale) {
    const __m256d half = _mm256_cvtepi32_pd(_mm_srli_epi32(word, 1));
    const __m256d u =
        _mm256_mul_pd(_mm256_add_pd(half, _mm256_set1_pd(0.5)), _mm256_set1_pd(0x1p-29));
    __m256d y = _mm256_sub_pd(_mm256_cvtepi32_pd(level), u);
    const __m256i turned = _mm256_slli_epi64(_mm256_cvtepu32_epi64(word), 63);
    y = _mm256_mul_pd(_mm256_xor_pd(y, _mm256_castsi256_pd(turned)), scale);
    y = _mm256_add_pd(y, _mm256_setzero_pd()); // no -0
    const __m256d most = _mm256_set1_pd(std::numeric_limits<float>::max());
    y = _mm256_max_pd(_mm256_min_pd(y, most), _mm256_sub_pd(_mm256_setzero_pd(), most));
    return _mm256_cvtpd_ps(y);
}

void values(std::span<const int32_t> levels, const uint32_t *words, float scale,
            Out<uint32_t> values) {
    const size_t whole = levels.size() / 8 * 8;
    const __m256 most = _mm256_set1_ps(std::numeric_limits<float>::max());
    const __m256d wide = _mm256_set1_pd(scale);
    for (size_t i = 0; i < whole; i += 8) {
        const Vector level = load(levels.data() + i);
        __m256 y;
        if (words != nullptr) {
            const Vector word = load(words + i);
            y = _mm256_set_m128(
                dithered_values(_mm256_extracti128_si256(level, 1),
                                _mm256_extracti128_si256(word, 1), wide),
                dithered_values(_mm256_castsi256_si128(level), _mm256_castsi256_si128(word), wide));
        } else { // a level has less than 24 bits: one rounding
            y = _mm256_mul_ps(_mm256_cvtepi32_ps(level), _mm256_set1_ps(scale));
            y = _mm256_add_ps(y, _mm256_setzero_ps()); // no -0
            y = _mm256_max_ps(_mm256_min_ps(y, most), _mm256_sub_ps(_mm256_setzero_ps(), most));
        }
        store(values.data() + i, _mm256_castps_si256(y));
    }
    level_values<Float32>(levels.subspan(whole), words != nullptr ? words + whole : nullptr, scale,
                          values.subspan(whole));
}

// ---- decoding ----

struct Steps {
    Vector odd, free;
    __m128i shift;
};

// One level of eight paths; `state` and `x` go on. `found` is what their slots have.
template <bool dithered>
[[gnu::always_inline]] inline Vector next_levels(const Steps &steps, const uint32_t *slots,
                                                 Vector top, Vector &x, Vector &state,
                                                 Vector &found, const uint8_t *&from) {
    const Vector one = all(1), zero = _mm256_setzero_si256();
    const Vector parity = _mm256_and_si256(state, one);
    const EightPhases<dithered> phases(parity, top);
    const Vector number = _mm256_srl_epi32(phases.quarter, steps.shift);
    found = slots_among(x, _mm256_slli_epi32(number, kRansBits), slots);
    x = left_slots(x, found, from);
    const Vector j = _mm256_srai_epi32(found, 24);
    Vector half = phases.turned(j);
    if constexpr (dithered) {
        half = _mm256_add_epi32(half, phases.whole);
        const Vector escaped =
            _mm256_or_si256(_mm256_cmpeq_epi32(j, all(static_cast<uint32_t>(kEscapedOdd))),
                            _mm256_cmpeq_epi32(j, all(static_cast<uint32_t>(kEscapedEven))));
        half = _mm256_blendv_epi8(half, _mm256_and_si256(j, one), escaped);
    }
    // Without a dither the lowest bit of an escape is that of its half, whatever the sign.
    const Vector is_odd = _mm256_sub_epi32(zero, parity);
    const Vector is_free = _mm256_sub_epi32(zero, _mm256_and_si256(half, one));
    state = _mm256_xor_si256(_mm256_srli_epi32(state, 1),
                             _mm256_xor_si256(_mm256_and_si256(is_odd, steps.odd),
                                              _mm256_and_si256(is_free, steps.free)));
    return _mm256_add_epi32(_mm256_add_epi32(half, half), parity);
}

template <bool dithered>
const uint8_t *decode_paths(ConstBytes data, const PathTables &tables, std::span<uint32_t> states,
                            const TrellisCode &code, const uint32_t *words,
                            std::span<int32_t> levels, uint8_t *found) {
    const Steps steps = {all(static_cast<uint32_t>(code.odd)),
                         all(static_cast<uint32_t>(code.free)), _mm_cvtsi32_si128(tables.shift)};
    const uint8_t *from = data.data();
    const uint8_t *const end = from + data.size();
    Vector state[4];
    std::fill_n(state, 4, _mm256_setzero_si256());
    const auto turn = [&](size_t i, Vector(&x)[4]) {
        Vector own[4];
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; ++j) {
            const Vector top = eight_tops<dithered>(words + (dithered ? i + 8 * j : 0));
            const Vector level = next_levels<dithered>(steps, tables.tables->slots, top, x[j],
                                                       state[j], own[j], from);
            store(levels.data() + i + 8 * j, level);
        }
        store_symbols<4>(own, found + i);
    };
    const size_t i = decode_turns<4>(from, end, states, levels.size(), turn);
    if (from == nullptr) {
        return nullptr;
    }
    uint8_t at[kPaths];
    store(at, narrowed(state[0], state[1], state[2], state[3]));
    return rans_decode_paths(from, end, tables, states, at, code, words, levels, found, i);
}

const uint8_t *decode(ConstBytes data, const PathTables &tables, std::span<uint32_t> states,
                      int trellis, const uint32_t *words, std::span<int32_t> levels,
                      uint8_t *found) {
    if (states.size() != kPaths) {
        return portable_trellis.decode(data, tables, states, trellis, words, levels, found);
    }
    const auto run = words != nullptr ? decode_paths<true> : decode_paths<false>;
    return run(data, tables, states, TrellisCode(trellis), words, levels, found);
}

} // namespace

constinit const TrellisKernels avx2_trellis = {
    .fix = fix,
    .search = search,
    .settle = settle,
    .sums = sums<int32_t>,
    .fold = fold,
    .decode = decode,
    .values = values,
    .find = find_near,
    .near_sums = sums<int16_t>,
    .near_fold = fold_near,
    .decode_values = decode_path_values,
    .nonfinite = count_nonfinite,
};

} // namespace fewbits

#endif
