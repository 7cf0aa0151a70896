// Dithering with AVX2, in groups of 32 elements. Tails, groups with a rare value, blocks in which
// the random stream changes its segment, and codes wider than a byte go to the portable kernels.
#if defined(__AVX2__)

#include <algorithm>
#include <bit>

#include "avx2/avx2.h"
#include "dithering.h"

namespace fewbits {
namespace {

// ---- norms ----

// Adds 32 elements to the lanes; lane i has elements i, i + 32, ….
template <fewbits_norm norm>
void add_group(const Unaligned<uint32_t> *from, __m256d (&lanes)[8], Vector &largest) {
    for (size_t j = 0; j < 4; ++j) {
        Vector magnitude = _mm256_and_si256(load(from + 8 * j), all(0x7FFFFFFFu));
        const Vector odd = _mm256_cmpgt_epi32(magnitude, all(Float32::infinity - 1));
        magnitude = _mm256_andnot_si256(odd, magnitude);
        largest = _mm256_max_epi32(largest, magnitude);
        if constexpr (norm != FEWBITS_NORM_MAX) {
            const __m256 values = _mm256_castsi256_ps(magnitude);
            const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(values));
            const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(values, 1));
            constexpr bool squares = norm == FEWBITS_NORM_2;
            lanes[2 * j] = _mm256_add_pd(lanes[2 * j], squares ? _mm256_mul_pd(low, low) : low);
            lanes[2 * j + 1] =
                _mm256_add_pd(lanes[2 * j + 1], squares ? _mm256_mul_pd(high, high) : high);
        }
    }
}

template <fewbits_norm norm> void norm_of(In<uint32_t> values, double &sum, uint32_t &largest) {
    __m256d lanes[8];
    std::fill(std::begin(lanes), std::end(lanes), _mm256_setzero_pd());
    Vector most = _mm256_setzero_si256();
    const size_t whole = values.size() / kGroup * kGroup;
    for (size_t i = 0; i < whole; i += kGroup) {
        fetch_ahead<kGroup * 4>(values.data() + i);
        add_group<norm>(values.data() + i, lanes, most);
    }
    if (whole < values.size()) { // zeros behind the end change nothing
        Unaligned<uint32_t> rest[kGroup] = {};
        std::copy(values.begin() + static_cast<ptrdiff_t>(whole), values.end(), rest);
        add_group<norm>(rest, lanes, most);
    }
    for (size_t half = 4; half > 0; half /= 2) {
        for (size_t i = 0; i < half; ++i) {
            lanes[i] = _mm256_add_pd(lanes[i], lanes[i + half]);
        }
    }
    const __m128d pair =
        _mm_add_pd(_mm256_castpd256_pd128(lanes[0]), _mm256_extractf128_pd(lanes[0], 1));
    sum = _mm_cvtsd_f64(_mm_add_sd(pair, _mm_unpackhi_pd(pair, pair)));
    uint32_t each[8];
    store(each, most);
    largest = *std::max_element(std::begin(each), std::end(each));
}

// ---- rounding ----

// Constants of a call, kept in registers or on the stack.
struct Levels {
    const __m256 divisor, factor;
    const Vector levels, offset, magnitude = pinned(0x7FFFFFFFu), mantissa = pinned(0x7FFFFFu),
                                 largest = pinned(Float32::infinity - 1);
    const __m256 chances = _mm256_castsi256_ps(pinned(0x4F000000u)); // 2^31

    // All magnitudes are 0 where the scale is. The factor is the inverse of the lowest level, or
    // the number of levels.
    Levels(float scale, const DitherShape &shape)
        : divisor(_mm256_set1_ps(scale > 0.0f ? scale : 1.0f)),
          factor(_mm256_set1_ps(shape.natural ? shape.inverse_lowest()
                                              : static_cast<float>(shape.levels))),
          levels(pinned(shape.levels)), offset(pinned(shape.levels - 127)) {}
};

template <bool Natural> Vector rounded(__m256 y, Vector draw, const Levels &own) {
    const __m256 scaled = _mm256_mul_ps(y, own.factor);
    if constexpr (Natural) {
        // From the lowest level up, `low` is beyond 31 bits, which shows as a sign bit, and the
        // exponent is positive; below it, the other way round.
        const Vector low = _mm256_cvttps_epi32(_mm256_mul_ps(scaled, own.chances));
        const Vector bits = _mm256_castps_si256(y);
        const Vector high = _mm256_slli_epi32(_mm256_and_si256(bits, own.mantissa), 8);
        const Vector chance = _mm256_castps_si256(_mm256_blendv_ps(
            _mm256_castsi256_ps(low), _mm256_castsi256_ps(high), _mm256_castsi256_ps(low)));
        const Vector exponent = _mm256_add_epi32(_mm256_srli_epi32(bits, 23), own.offset);
        const Vector lower = _mm256_max_epi32(exponent, _mm256_setzero_si256());
        return _mm256_sub_epi32(lower, _mm256_cmpgt_epi32(chance, draw));
    } else {
        const Vector lower = _mm256_cvttps_epi32(scaled);
        const __m256 share = _mm256_sub_ps(scaled, _mm256_cvtepi32_ps(lower));
        const Vector chance = _mm256_cvttps_epi32(_mm256_mul_ps(share, own.chances));
        return _mm256_sub_epi32(lower, _mm256_cmpgt_epi32(chance, draw));
    }
}

// Levels with the signs of their values.
template <bool Natural>
Vector levels_of_eight(const Unaligned<uint32_t> *from, Words &source, const Levels &own,
                       Vector &rare) {
    const Vector bits = load(from);
    const Vector magnitude = _mm256_and_si256(bits, own.magnitude);
    rare = _mm256_or_si256(rare, _mm256_cmpgt_epi32(magnitude, own.largest));
    const __m256 y = _mm256_div_ps(_mm256_castsi256_ps(magnitude), own.divisor);
    const Vector level = rounded<Natural>(y, _mm256_srli_epi32(source.next(), 1), own);
    return _mm256_sign_epi32(level, bits);
}

// Four vectors of eight signed integers -> 32 signed levels, one a byte.
Vector joined_bytes(const Vector (&four)[4]) {
    const Vector mixed = _mm256_packs_epi16(_mm256_packs_epi32(four[0], four[1]),
                                            _mm256_packs_epi32(four[2], four[3]));
    return _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// Eight bytes of `width` bits each in every 64-bit field move together to its low end.
struct Joiner {
    Vector one, two, four;
    __m128i first, second, third, by_one, by_two, by_four;

    explicit Joiner(int width) {
        const auto ones = [](int bits) { return (uint64_t{1} << bits) - 1; };
        const uint64_t w = ones(width);
        const uint64_t ww = ones(2 * width);
        one = _mm256_set1_epi16(static_cast<short>(w));
        two = _mm256_set1_epi32(static_cast<int>(ww));
        four = _mm256_set1_epi64x(static_cast<long long>(ones(4 * width)));
        first = _mm_cvtsi32_si128(8 - width);
        second = _mm_cvtsi32_si128(16 - 2 * width);
        third = _mm_cvtsi32_si128(32 - 4 * width);
        by_one = _mm_cvtsi32_si128(width);
        by_two = _mm_cvtsi32_si128(2 * width);
        by_four = _mm_cvtsi32_si128(4 * width);
    }

    static Vector step(Vector x, Vector mask, __m128i down, __m128i up) {
        const Vector high = _mm256_and_si256(_mm256_srl_epi64(x, down), _mm256_sll_epi64(mask, up));
        return _mm256_or_si256(_mm256_and_si256(x, mask), high);
    }

    Vector join(Vector bytes) const {
        Vector x = step(bytes, one, first, by_one);
        x = step(x, two, second, by_two);
        return step(x, four, third, by_four);
    }
};

// Each of the four fields to `width` bytes. Stores eight bytes at a time, so there must be room for
// 32 behind `to` in all.
void store_fields(uint8_t *to, Vector fields, size_t width) {
    uint64_t words[4];
    store(words, fields);
    for (size_t i = 0; i < 4; ++i) {
        std::memcpy(to + i * width, &words[i], 8);
    }
}

// Where codes go: packed, or as levels and signs.
struct PackedCodes {
    const DitherShape &shape;
    Bytes packed;
    Joiner joiner{std::min(shape.width(), 8)}; // wider codes are not put, see takes
    Vector levels = _mm256_set1_epi8(static_cast<char>(shape.levels));

    bool takes() const { return shape.width() <= 8; }

    void put(size_t at, Vector each) const {
        const Vector negative = _mm256_cmpgt_epi8(_mm256_setzero_si256(), each);
        const Vector codes =
            _mm256_add_epi8(_mm256_abs_epi8(each), _mm256_and_si256(negative, levels));
        const auto width = static_cast<size_t>(shape.width());
        const Bytes to = packed.subspan(at / 8 * width);
        const Vector fields = joiner.join(codes);
        if (to.size() >= 32) [[likely]] {
            store_fields(to.data(), fields, width);
        } else {
            uint8_t last[32];
            store_fields(last, fields, width);
            std::memcpy(to.data(), last, 4 * width);
        }
    }

    void put_exactly(size_t at, In<uint32_t> values, const Stream &stream, float scale,
                     fewbits_tally &tally) const {
        const int width = shape.width();
        portable_dithering.dither(
            values, stream, scale, shape,
            packed.subspan(packed_size(at, width), packed_size(values.size(), width)), tally);
    }
};

struct LevelCodes {
    const DitherShape &shape;
    uint8_t *levels;
    uint8_t *signs;

    bool takes() const { return true; }

    void put(size_t at, Vector each) const {
        const auto plane = static_cast<uint32_t>(_mm256_movemask_epi8(each));
        store(levels + at, _mm256_abs_epi8(each));
        std::memcpy(signs + at / 8, &plane, 4);
    }

    void put_exactly(size_t at, In<uint32_t> values, const Stream &stream, float scale,
                     fewbits_tally &tally) const {
        portable_dithering.dither_levels(values, stream, scale, shape, levels + at, signs + at / 8,
                                         tally);
    }
};

// Groups from `first` on, within one segment of the stream.
template <bool Natural, class Codes>
void dither_groups(In<uint32_t> values, const Stream &stream, float scale, const Codes &codes,
                   size_t first, fewbits_tally &tally) {
    const Levels own(scale, codes.shape);
    Words source(stream, stream.first);
    for (size_t i = 0; i < values.size(); i += kGroup) {
        const auto *const from = values.data() + i;
        fetch_ahead<kGroup * 4>(from);
        Vector rare = _mm256_setzero_si256();
        Vector four[4];
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; ++j) {
            four[j] = levels_of_eight<Natural>(from + 8 * j, source, own, rare);
        }
        if (any(rare)) [[unlikely]] {
            codes.put_exactly(first + i, values.subspan(i, kGroup), stream.from(i), scale, tally);
        } else {
            codes.put(first + i, joined_bytes(four));
        }
    }
}

template <class Codes>
void dither_blocks(In<uint32_t> values, const Stream &stream, float scale, const Codes &codes,
                   fewbits_tally &tally) {
    const auto run = codes.shape.natural ? dither_groups<true, Codes> : dither_groups<false, Codes>;
    for (size_t start = 0; start < values.size(); start += kBlock) {
        const size_t count = std::min(kBlock, values.size() - start);
        const Stream here = stream.from(start);
        const bool plain = codes.takes() && !crosses_segment(here.first, count);
        const size_t whole = plain ? count / kGroup * kGroup : 0;
        if (whole > 0) {
            run(values.subspan(start, whole), here, scale, codes, start, tally);
        }
        if (whole < count) {
            codes.put_exactly(start + whole, values.subspan(start + whole, count - whole),
                              here.from(whole), scale, tally);
        }
    }
}

// ---- values ----

// Eight codes from 0 on.
__m256 values_of_eight(const double *ratios, __m256d scale) {
    const __m128 low = _mm256_cvtpd_ps(_mm256_mul_pd(scale, _mm256_loadu_pd(ratios)));
    const __m128 high = _mm256_cvtpd_ps(_mm256_mul_pd(scale, _mm256_loadu_pd(ratios + 4)));
    return _mm256_set_m128(high, low);
}

void norm_terms(In<uint32_t> values, fewbits_norm norm, double &sum, uint32_t &largest) {
    switch (norm) {
    case FEWBITS_NORM_1:
        return norm_of<FEWBITS_NORM_1>(values, sum, largest);
    case FEWBITS_NORM_2:
        return norm_of<FEWBITS_NORM_2>(values, sum, largest);
    default:
        return norm_of<FEWBITS_NORM_MAX>(values, sum, largest);
    }
}

void dither(In<uint32_t> values, const Stream &stream, float scale, const DitherShape &shape,
            Bytes packed, fewbits_tally &tally) {
    dither_blocks(values, stream, scale, PackedCodes{shape, packed}, tally);
}

void dither_levels(In<uint32_t> values, const Stream &stream, float scale, const DitherShape &shape,
                   uint8_t *levels, uint8_t *signs, fewbits_tally &tally) {
    dither_blocks(values, stream, scale, LevelCodes{shape, levels, signs}, tally);
}

// A table of sixteen values fits into two registers.
struct Sixteen {
    __m256 lower, upper;

    Sixteen(float scale, const DitherRatios &ratios)
        : lower(values_of_eight(ratios.of, _mm256_set1_pd(scale))),
          upper(values_of_eight(ratios.of + 8, _mm256_set1_pd(scale))) {}

    Vector operator[](Vector code) const {
        const __m256 low = _mm256_permutevar8x32_ps(lower, code);
        const __m256 high = _mm256_permutevar8x32_ps(upper, code);
        const Vector is_high = _mm256_slli_epi32(code, 28); // bit 3, where the choice looks
        return _mm256_castps_si256(_mm256_blendv_ps(low, high, _mm256_castsi256_ps(is_high)));
    }
};

void undither(std::span<const uint16_t> codes, float scale, const DitherRatios &ratios,
              Out<uint32_t> values) {
    const size_t whole = ratios.count > 16 ? 0 : codes.size() / 8 * 8;
    const Sixteen table(scale, ratios);
    for (size_t i = 0; i < whole; i += 8) {
        const Vector code = _mm256_cvtepu16_epi32(
            _mm_loadu_si128(reinterpret_cast<const __m128i *>(codes.data() + i)));
        store(values.data() + i, table[code]);
    }
    if (whole < codes.size()) {
        portable_dithering.undither(codes.subspan(whole), scale, ratios, values.subspan(whole));
    }
}

void undither_levels(const uint8_t *levels, const uint8_t *signs, float scale,
                     const DitherRatios &ratios, Out<uint32_t> values) {
    const size_t whole = ratios.count > 16 ? 0 : values.size() / 8 * 8;
    const Sixteen table(scale, ratios);
    for (size_t i = 0; i < whole; i += 8) {
        const Vector code =
            _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(levels + i)));
        store(values.data() + i, _mm256_or_si256(table[code], eight_signs(signs[i / 8])));
    }
    if (whole < values.size()) {
        portable_dithering.undither_levels(levels + whole, signs + whole / 8, scale, ratios,
                                           values.subspan(whole));
    }
}

} // namespace

constinit const DitherKernels avx2_dithering = {
    .norm_terms = norm_terms,
    .dither = dither,
    .undither = undither,
    .dither_levels = dither_levels,
    .undither_levels = undither_levels,
};

} // namespace fewbits

#endif
