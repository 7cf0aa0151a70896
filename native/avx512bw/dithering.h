// Dithering of float32 and of the 16-bit formats with AVX-512, in groups of 64 elements. Quotients
// are products with an inverse here, so that a level may be wrong where a value lies within a few
// units of its draw: such a group goes to the AVX2 kernels, which divide, and so do tails, groups
// with a value above the scale or that is not finite, and levels and scales that do not suit.
// Included by one file of each table for AVX-512.
#pragma once

#include <algorithm>
#include <array>
#include <bit>

#include "avx2/levels.h"
#include "avx512bw/words.h"

namespace fewbits {
namespace {

constexpr size_t kWideGroup = 64;
constexpr int kFraction = 23; // bits of a level's fraction
constexpr uint32_t kFractions = (1u << kFraction) - 1;

template <class F> const DitherKernels<F> &exact() {
    return of_format<F>(avx2_dithering_float32, avx2_dithering_float64, avx2_dithering_float16,
                        avx2_dithering_bfloat16);
}

__m512 wide_constant(float x) {
    return _mm512_castsi512_ps(wide_pinned(std::bit_cast<uint32_t>(x)));
}

// Sixteen values as the bits of float32 numbers.
template <class F> Wide load_wide_float32(const Unaligned<typename F::Bits> *from) {
    if constexpr (std::is_same_v<F, Float32>) {
        return load_wide(from);
    } else if constexpr (std::is_same_v<F, Float16>) {
        return _mm512_castps_si512(_mm512_cvtph_ps(load(from)));
    } else {
        return _mm512_slli_epi32(_mm512_cvtepu16_epi32(load(from)), 16);
    }
}

// The upper halves of 32 words.
struct UpperHalves {
    const Wide places = _mm512_add_epi16(
        _mm512_set1_epi32(0x0003'0001), // then 4 more in each pair
        _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                           all_wide(0x0004'0004)));

    Wide of(Wide low, Wide high) const { return _mm512_permutex2var_epi16(low, places, high); }

    // Levels of 64 sums, a byte each in order; those above 255 become 255.
    Wide levels(const Wide (&four)[4]) const {
        constexpr int shift = kFraction - 16;
        const Wide mixed = _mm512_packus_epi16(_mm512_srli_epi16(of(four[0], four[1]), shift),
                                               _mm512_srli_epi16(of(four[2], four[3]), shift));
        return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), mixed);
    }

    // The signs of 64 values.
    template <class F> __mmask64 signs(const Unaligned<typename F::Bits> *from) const {
        Wide low = load_wide(from);
        Wide high = load_wide(from + 32);
        if constexpr (std::is_same_v<F, Float32>) {
            low = of(low, load_wide(from + 16));
            high = of(high, load_wide(from + 48));
        }
        return _mm512_kunpackd(_mm512_movepi16_mask(high), _mm512_movepi16_mask(low));
    }
};

// ---- rounding ----

// A rounder makes levels with kFraction bits behind the point of sixteen magnitudes, which are
// float32 numbers. The results are less than `error`, a power of two, from the exact ones, and then
// `error` is added. They stand above the number of levels where a magnitude is above the scale or
// not finite.

// Scales whose inverses have all bits.
bool suits_inverse(float scale) {
    return scale == 0.0f || (scale >= 0x1p-100f && scale <= 0x1p100f);
}

float divided(float x, float scale) { return scale > 0.0f ? x / scale : 0.0f; }

// Two roundings instead of one move a quotient by at most two units; truncating a level below the
// lowest and a draw takes less than one each.
struct WideNaturalRounder {
    static constexpr uint32_t error = 8;
    const __m512 inverse, below, more = wide_constant(float{error});
    const Wide offset, lowest = wide_pinned((1u << kFraction) + error);

    WideNaturalRounder(float scale, const DitherShape &shape)
        : inverse(wide_constant(divided(1.0f, scale))),
          below(wide_constant(shape.inverse_lowest() * 0x1p23f)),
          offset(wide_pinned(((127 - shape.levels) << kFraction) - error)) {}

    static bool suits(float scale, const DitherShape &shape) {
        return suits_inverse(scale) && shape.levels <= 64;
    }

    Wide levels(__m512 magnitude) const {
        const __m512 y = _mm512_mul_ps(magnitude, inverse);
        const Wide level = _mm512_sub_epi32(_mm512_castps_si512(y), offset);
        return _mm512_mask_cvttps_epi32(level, _mm512_cmplt_epi32_mask(level, lowest),
                                        _mm512_fmadd_ps(y, below, more));
    }
};

// Four roundings at most, some of them in the exact result, each of the last of 24 bits: twice the
// number of levels. Truncating takes less than one, here and of a draw.
uint32_t inexact(const DitherShape &shape) { return std::bit_ceil(2 * shape.levels + 4); }

struct WideUniformRounder {
    const uint32_t error;
    const __m512 factor, more;

    WideUniformRounder(float scale, const DitherShape &shape)
        : error(inexact(shape)),
          factor(wide_constant(divided(static_cast<float>(shape.levels), scale) * 0x1p23f)),
          more(wide_constant(static_cast<float>(error))) {}

    static bool suits(float scale, const DitherShape &) { return suits_inverse(scale); }

    Wide levels(__m512 magnitude) const {
        return _mm512_cvttps_epi32(_mm512_fmadd_ps(magnitude, factor, more));
    }
};

// Between the values that decoding gives, for formats of 16 bits: a line for every interval. A
// value on which a level's place falls is that level's value. So it does not matter in which of two
// intervals a product puts it, as long as all values differ: see suits.
template <class F, size_t Size> struct WideValuesRounder {
    const uint32_t error;
    const __m512 factor;
    const Wide top = wide_pinned(Size - 1);
    float start[Size], slope[Size] = {}; // of lines, whose last is above all levels

    WideValuesRounder(float scale, const DitherShape &shape)
        : error(inexact(shape)), factor(wide_constant(static_cast<float>(shape.levels) / scale)) {
        std::fill(std::begin(start), std::end(start), 0x1p31f);
        const auto value = [&](uint32_t level) -> double {
            return widened<F>(nearest_bits<F>(double{scale} * shape.ratio(level)));
        };
        for (uint32_t level = 0; level <= shape.levels; ++level) {
            const double below = value(level);
            const double rise = level < shape.levels ? 0x1p23 / (value(level + 1) - below) : 0;
            slope[level] = static_cast<float>(rise);
            start[level] = static_cast<float>(level * 0x1p23 - below * rise + error);
        }
    }

    static bool suits(float scale, const DitherShape &shape) {
        constexpr float smallest = std::is_same_v<F, Float16> ? 0x1p-16f : 0x1p-100f;
        return scale >= smallest && scale <= 0x1p100f && shape.levels < Size - 1;
    }

    static __m512 at(const float (&table)[Size], Wide place) {
        const __m512 low = _mm512_loadu_ps(table);
        if constexpr (Size == 16) {
            return _mm512_permutexvar_ps(place, low);
        } else {
            return _mm512_permutex2var_ps(low, place, _mm512_loadu_ps(table + 16));
        }
    }

    Wide levels(__m512 x) const {
        const Wide place = _mm512_min_epu32(_mm512_cvttps_epi32(_mm512_mul_ps(x, factor)), top);
        return _mm512_cvttps_epi32(_mm512_fmadd_ps(x, at(slope, place), at(start, place)));
    }
};

// ---- where codes go ----

#if defined(__AVX512VBMI__)

constexpr auto kFieldBytes = [] { // [width][i]: where byte i of 64 codes stands in their fields
    std::array<std::array<uint8_t, 64>, 9> at{};
    for (size_t width = 1; width <= 8; ++width) {
        for (size_t i = 0; i < 8 * width; ++i) {
            at[width][i] = static_cast<uint8_t>(i / width * 8 + i % width);
        }
    }
    return at;
}();

// Eight fields of 64 bits, of which the low `width` bytes are used, side by side.
struct FieldStore {
    const Wide order;

    explicit FieldStore(int width)
        : order(load_wide(kFieldBytes[static_cast<size_t>(width)].data())) {}
    void put(uint8_t *to, Wide fields) const {
        store_wide(to, _mm512_permutexvar_epi8(order, fields));
    }
};

#else

constexpr auto kPairBytes = [] { // [width][i]: where byte i of two fields stands
    std::array<std::array<uint8_t, 16>, 9> at{};
    for (size_t width = 1; width <= 8; ++width) {
        for (size_t i = 0; i < 2 * width; ++i) {
            at[width][i] = static_cast<uint8_t>(i / width * 8 + i % width);
        }
    }
    return at;
}();

// The same, without an instruction that moves bytes across all of a vector: two fields at a time.
struct FieldStore {
    const size_t each;
    const Wide order;

    explicit FieldStore(int width)
        : each(2 * static_cast<size_t>(width)),
          order(_mm512_broadcast_i32x4(_mm_loadu_si128(
              reinterpret_cast<const __m128i *>(kPairBytes[static_cast<size_t>(width)].data())))) {}
    void put(uint8_t *to, Wide fields) const {
        const Wide pairs = _mm512_shuffle_epi8(fields, order);
        const auto store = [&](size_t i, __m128i pair) {
            _mm_storeu_si128(reinterpret_cast<__m128i *>(to + i * each), pair);
        };
        store(0, _mm512_castsi512_si128(pairs));
        store(1, _mm512_extracti32x4_epi32(pairs, 1));
        store(2, _mm512_extracti32x4_epi32(pairs, 2));
        store(3, _mm512_extracti32x4_epi32(pairs, 3));
    }
};

#endif

template <class F> struct WidePackedCodes {
    const DitherShape &shape;
    Bytes packed;
    const int width = std::min(shape.width(), 8); // wider codes are not put, see takes
    const Wide levels = _mm512_set1_epi8(static_cast<char>(shape.levels));
    const Wide pairs = _mm512_set1_epi16(static_cast<short>(1 << width << 8 | 1)),
               fours = all_wide(1u << 16 << (2 * width) | 1u),
               kept = _mm512_set1_epi64(static_cast<long long>((uint64_t{1} << 4 * width) - 1));
    const FieldStore fields{width};
    const __m128i gap = _mm_cvtsi32_si128(32 - 4 * width);

    bool takes() const { return shape.width() <= 8; }

    // Codes of at most 7 bits side by side: two of them, four, eight, in fields of 64 bits.
    Wide joined(Wide codes) const {
        const Wide four = _mm512_madd_epi16(_mm512_maddubs_epi16(pairs, codes), fours);
        return _mm512_ternarylogic_epi64(kept, four, _mm512_srl_epi64(four, gap),
                                         0xCA); // a ? b : c
    }

    void put(size_t at, Wide each, __mmask64 negative) const {
        const Wide codes = _mm512_mask_add_epi8(each, negative, each, levels);
        const auto size = static_cast<size_t>(8 * width);
        const Bytes to = packed.subspan(at / kWideGroup * size);
        const Wide eights = width == 8 ? codes : joined(codes);
        if (to.size() >= 64) [[likely]] {
            fields.put(to.data(), eights);
        } else {
            uint8_t last[64];
            fields.put(last, eights);
            std::memcpy(to.data(), last, size);
        }
    }

    void put_exactly(size_t at, In<typename F::Bits> values, const Stream &stream, float scale,
                     fewbits_tally &tally) const {
        exact<F>().dither(values, stream, scale, shape,
                          packed.subspan(packed_size(at, shape.width()),
                                         packed_size(values.size(), shape.width())),
                          tally);
    }
};

template <class F> struct WideLevelCodes {
    const DitherShape &shape;
    uint8_t *levels;
    uint8_t *signs;

    bool takes() const { return true; }

    void put(size_t at, Wide each, __mmask64 negative) const {
        store_wide(levels + at, each);
        std::memcpy(signs + at / 8, &negative, 8);
    }

    void put_exactly(size_t at, In<typename F::Bits> values, const Stream &stream, float scale,
                     fewbits_tally &tally) const {
        exact<F>().dither_levels(values, stream, scale, shape, levels + at, signs + at / 8, tally);
    }
};

// ---- groups ----

// Groups from `first` on, within one segment of the stream.
template <class F, class Rounder, class Codes>
void dither_groups(In<typename F::Bits> values, const Stream &stream, float scale,
                   const Rounder &rounder, const Codes &codes, size_t first, fewbits_tally &tally) {
    const UpperHalves halves;
    const Wide mask = wide_pinned(0x7FFFFFFFu),
               apart = wide_pinned(kFractions & ~(2 * rounder.error - 1));
    const Wide last = _mm512_set1_epi8(static_cast<char>(codes.shape.levels));
    WideWords source(stream);
    for (size_t i = 0; i < values.size(); i += kWideGroup) {
        const auto *const from = values.data() + i;
        fetch_ahead<kWideGroup * sizeof(*from)>(from);
        Wide four[4];
        __mmask16 sure = 0xFFFF;
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; ++j) {
            const Wide magnitude = _mm512_and_si512(load_wide_float32<F>(from + 16 * j), mask);
            const Wide draw = _mm512_srli_epi32(source.next_inverted(), 32 - kFraction);
            four[j] = _mm512_add_epi32(rounder.levels(_mm512_castsi512_ps(magnitude)), draw);
            sure = _mm512_mask_test_epi32_mask(sure, four[j], apart);
        }
        const Wide levels = halves.levels(four);
        if (sure != 0xFFFF || _mm512_cmpgt_epu8_mask(levels, last) != 0) [[unlikely]] {
            codes.put_exactly(first + i, values.subspan(i, kWideGroup), stream.from(i), scale,
                              tally);
        } else {
            codes.put(first + i, levels,
                      _mm512_mask_test_epi8_mask(halves.signs<F>(from), levels, levels));
        }
    }
}

template <class F, class Rounder, class Codes>
void dither_with(In<typename F::Bits> values, const Stream &stream, float scale, const Codes &codes,
                 fewbits_tally &tally) {
    if (!Rounder::suits(scale, codes.shape) || !codes.takes() || values.size() < kWideGroup) {
        return codes.put_exactly(0, values, stream, scale, tally);
    }
    const Rounder rounder(scale, codes.shape);
    each_stretch<1, kWideGroup>(
        values.size(), stream, [&](size_t start, size_t whole, size_t count) {
            if (whole > 0) {
                dither_groups<F>(values.subspan(start, whole), stream.from(start), scale, rounder,
                                 codes, start, tally);
            }
            if (whole < count) {
                codes.put_exactly(start + whole, values.subspan(start + whole, count - whole),
                                  stream.from(start + whole), scale, tally);
            }
        });
}

template <class F, class Codes>
void dither_blocks(In<typename F::Bits> values, const Stream &stream, float scale,
                   const Codes &codes, fewbits_tally &tally) {
    if (codes.shape.natural) {
        dither_with<F, WideNaturalRounder>(values, stream, scale, codes, tally);
    } else if constexpr (std::is_same_v<F, Float32>) {
        dither_with<F, WideUniformRounder>(values, stream, scale, codes, tally);
    } else if (codes.shape.levels < 15) {
        dither_with<F, WideValuesRounder<F, 16>>(values, stream, scale, codes, tally);
    } else {
        dither_with<F, WideValuesRounder<F, 32>>(values, stream, scale, codes, tally);
    }
}

template <class F>
void dither(In<typename F::Bits> values, const Stream &stream, float scale,
            const DitherShape &shape, Bytes packed, fewbits_tally &tally) {
    dither_blocks<F>(values, stream, scale, WidePackedCodes<F>{shape, packed}, tally);
}

template <class F>
void dither_levels(In<typename F::Bits> values, const Stream &stream, float scale,
                   const DitherShape &shape, uint8_t *levels, uint8_t *signs,
                   fewbits_tally &tally) {
    dither_blocks<F>(values, stream, scale, WideLevelCodes<F>{shape, levels, signs}, tally);
}

template <class F> constexpr DitherKernels<F> kernels_of() {
    return {
        .norm_terms = nullptr,
        .dither = dither<F>,
        .undither = nullptr,
        .dither_levels = dither_levels<F>,
        .undither_levels = nullptr,
        .dither_codes = nullptr,
        .scaled_terms = nullptr,
    };
}

} // namespace
} // namespace fewbits
