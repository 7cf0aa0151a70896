// Dithering of float32 and of the 16-bit formats with AVX2, in groups of 32 elements. Tails, groups
// with a rare value, blocks in which the random stream changes its segment, and codes wider than a
// byte go to the portable kernels.
#if defined(__AVX2__)

#include <algorithm>
#include <bit>
#include <limits>

#include "avx2/avx2.h"
#include "avx2/levels.h"

namespace fewbits {
namespace {

// ---- norms ----

// Adds 32 elements to the lanes; lane i has elements i, i + 32, ….
template <class F, fewbits_norm norm>
void add_group(const Unaligned<typename F::Bits> *from, __m256d (&lanes)[8], Vector &largest) {
    for (size_t j = 0; j < 4; ++j) {
        Vector magnitude = _mm256_and_si256(load_float32<F>(from + 8 * j), all(0x7FFFFFFFu));
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

template <class F, fewbits_norm norm>
void norm_of(In<typename F::Bits> values, double &sum, typename F::Bits &largest) {
    using Bits = typename F::Bits;
    __m256d lanes[8];
    std::fill(std::begin(lanes), std::end(lanes), _mm256_setzero_pd());
    Vector most = _mm256_setzero_si256();
    const size_t whole = values.size() / kGroup * kGroup;
    for (size_t i = 0; i < whole; i += kGroup) {
        fetch_ahead<kGroup * sizeof(Bits)>(values.data() + i);
        add_group<F, norm>(values.data() + i, lanes, most);
    }
    if (whole < values.size()) { // zeros behind the end change nothing
        Unaligned<Bits> rest[kGroup] = {};
        std::copy(values.begin() + static_cast<ptrdiff_t>(whole), values.end(), rest);
        add_group<F, norm>(rest, lanes, most);
    }
    sum = folded(lanes);
    uint32_t each[8];
    store(each, most);
    const uint32_t found = *std::max_element(std::begin(each), std::end(each));
    largest = nearest_bits<F>(std::bit_cast<float>(found)); // it is one of the format's values
}

// The largest magnitude alone of a 16-bit format, sixteen at a time.
template <class F> uint16_t largest_word(In<uint16_t> values) {
    Vector most = _mm256_setzero_si256();
    const auto add = [&](const Unaligned<uint16_t> *from) {
        for (size_t j = 0; j < 2; ++j) {
            const Vector magnitude =
                _mm256_and_si256(load(from + 16 * j), _mm256_set1_epi16(INT16_MAX));
            const Vector odd = _mm256_cmpgt_epi16(
                magnitude, _mm256_set1_epi16(static_cast<short>(F::infinity - 1)));
            most = _mm256_max_epi16(most, _mm256_andnot_si256(odd, magnitude));
        }
    };
    const size_t whole = values.size() / kGroup * kGroup;
    for (size_t i = 0; i < whole; i += kGroup) {
        fetch_ahead<kGroup * 2>(values.data() + i);
        add(values.data() + i);
    }
    if (whole < values.size()) {
        Unaligned<uint16_t> rest[kGroup] = {};
        std::copy(values.begin() + static_cast<ptrdiff_t>(whole), values.end(), rest);
        add(rest);
    }
    uint16_t each[16];
    store(each, most);
    return *std::max_element(std::begin(each), std::end(each));
}

template <class F>
void norm_terms(In<typename F::Bits> values, fewbits_norm norm, double &sum,
                typename F::Bits &largest) {
    if constexpr (sizeof(typename F::Bits) == 2) {
        if (norm == FEWBITS_NORM_MAX) {
            sum = 0;
            largest = largest_word<F>(values);
            return;
        }
    }
    switch (norm) {
    case FEWBITS_NORM_1:
        return norm_of<F, FEWBITS_NORM_1>(values, sum, largest);
    case FEWBITS_NORM_2:
        return norm_of<F, FEWBITS_NORM_2>(values, sum, largest);
    default:
        return norm_of<F, FEWBITS_NORM_MAX>(values, sum, largest);
    }
}

// ---- rounding ----

// A rounder makes levels of eight magnitudes, which are float32 numbers, and draws of 31 bits. It
// marks what it cannot decide as unsure.

__m256 constant(float x) { return _mm256_castsi256_ps(pinned(std::bit_cast<uint32_t>(x))); }

// Quotients are between 0 and 1; they are 0 without a scale.
struct Quotients {
    const __m256 divisor;
    const __m256 one = constant(1.0f);

    explicit Quotients(float scale)
        : divisor(_mm256_set1_ps(scale > 0.0f ? scale : std::numeric_limits<float>::infinity())) {}
    __m256 of(Vector magnitude) const {
        return _mm256_min_ps(_mm256_div_ps(_mm256_castsi256_ps(magnitude), divisor), one);
    }
};

struct NaturalRounder : Quotients {
    const __m256 factor, chances = constant(0x1p31f);
    const Vector offset, mantissa = pinned(0x7FFFFFu);

    NaturalRounder(float scale, const DitherShape &shape)
        : Quotients(scale), factor(_mm256_set1_ps(shape.inverse_lowest())),
          offset(pinned(shape.levels - 127)) {}

    // From the lowest level up, `low` is beyond 31 bits, which shows as a sign bit, and the
    // exponent is positive; below it, the other way round.
    Vector levels(Vector magnitude, Vector draw, Vector &) const {
        const __m256 y = of(magnitude);
        const Vector low = _mm256_cvttps_epi32(_mm256_mul_ps(_mm256_mul_ps(y, factor), chances));
        const Vector bits = _mm256_castps_si256(y);
        const Vector high = _mm256_slli_epi32(_mm256_and_si256(bits, mantissa), 8);
        const Vector chance = _mm256_castps_si256(_mm256_blendv_ps(
            _mm256_castsi256_ps(low), _mm256_castsi256_ps(high), _mm256_castsi256_ps(low)));
        const Vector exponent = _mm256_add_epi32(_mm256_srli_epi32(bits, 23), offset);
        const Vector lower = _mm256_max_epi32(exponent, _mm256_setzero_si256());
        return _mm256_sub_epi32(lower, _mm256_cmpgt_epi32(chance, draw));
    }
};

struct UniformRounder : Quotients {
    const __m256 factor, chances = constant(0x1p31f);

    UniformRounder(float scale, const DitherShape &shape)
        : Quotients(scale), factor(_mm256_set1_ps(static_cast<float>(shape.levels))) {}

    Vector levels(Vector magnitude, Vector draw, Vector &) const {
        const __m256 scaled = _mm256_mul_ps(of(magnitude), factor);
        const Vector lower = _mm256_cvttps_epi32(scaled);
        const __m256 share = _mm256_sub_ps(scaled, _mm256_cvtepi32_ps(lower));
        const Vector chance = _mm256_cvttps_epi32(_mm256_mul_ps(share, chances));
        return _mm256_sub_epi32(lower, _mm256_cmpgt_epi32(chance, draw));
    }
};

// Uniform levels between the values that decoding gives, for formats of 16 bits. With at most 127
// levels, products of levels and values have at most 18 bits, and their differences too: all
// are exact in float32. The share between two values is not; if it is within 2^-22 of the draw, the
// portable kernel decides.
template <class F, int Size> struct ValuesRounder {
    float below[128], inverse[128]; // values of levels, and inverse distances to the next
    const __m256 scale, factor, steps, unit = constant(0x1p-31f), sure = constant(0x1p-22f),
                                       sign = _mm256_castsi256_ps(pinned(0x7FFFFFFFu));
    const Vector last;

    // A number of levels just below the true one shows in the rest, which is then a whole scale.
    ValuesRounder(float given, const DitherShape &shape)
        : scale(_mm256_set1_ps(given)),
          factor(_mm256_set1_ps(static_cast<float>(shape.levels) / given * (1 - 0x1p-20f))),
          steps(_mm256_set1_ps(static_cast<float>(shape.levels))), last(pinned(shape.levels - 1)) {
        std::fill(std::begin(below), std::end(below), 0.0f);
        std::fill(std::begin(inverse), std::end(inverse), 0.0f);
        const auto value = [&](uint32_t level) {
            return widened<F>(nearest_bits<F>(double{given} * shape.ratio(level)));
        };
        float next = 0.0f;
        for (uint32_t level = 0; level < shape.levels; ++level) {
            below[level] = next;
            next = value(level + 1);
            inverse[level] = next > below[level] ? 1.0f / (next - below[level]) : 0.0f;
        }
    }

    static bool suits(float given) { return given >= 0x1p-100f && given <= 0x1p100f; }

    static __m256 at(const float *table, Vector index) {
        if constexpr (Size == 8) {
            return _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), index);
        } else if constexpr (Size == 16) {
            const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), index);
            const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), index);
            return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
        } else {
            return _mm256_i32gather_ps(table, index, 4);
        }
    }

    Vector levels(Vector magnitude, Vector draw, Vector &unsure) const {
        const __m256 x = _mm256_castsi256_ps(magnitude);
        const Vector guess = _mm256_cvttps_epi32(_mm256_mul_ps(x, factor));
        const __m256 rest =
            _mm256_sub_ps(_mm256_mul_ps(x, steps), _mm256_mul_ps(_mm256_cvtepi32_ps(guess), scale));
        const Vector more = _mm256_castps_si256(_mm256_cmp_ps(rest, scale, _CMP_GE_OQ));
        Vector lower = _mm256_sub_epi32(guess, more);
        lower = _mm256_max_epi32(_mm256_min_epi32(lower, last), _mm256_setzero_si256());
        const __m256 share = _mm256_mul_ps(_mm256_sub_ps(x, at(below, lower)), at(inverse, lower));
        const __m256 apart = _mm256_sub_ps(share, _mm256_mul_ps(_mm256_cvtepi32_ps(draw), unit));
        const __m256 near = _mm256_cmp_ps(_mm256_and_ps(apart, sign), sure, _CMP_NGT_UQ);
        unsure = _mm256_or_si256(unsure, _mm256_castps_si256(near));
        // Up where the difference has no sign.
        return _mm256_add_epi32(
            lower, _mm256_add_epi32(_mm256_srai_epi32(_mm256_castps_si256(apart), 31), all(1)));
    }
};

// Groups from `first` on, within one segment of the stream.
template <class F, class Rounder, class Codes>
void dither_groups(In<typename F::Bits> values, const Stream &stream, float scale,
                   const Rounder &rounder, const Codes &codes, size_t first, fewbits_tally &tally) {
    const Vector mask = pinned(0x7FFFFFFFu), largest = pinned(Float32::infinity - 1);
    Words source(stream, stream.first);
    for (size_t i = 0; i < values.size(); i += kGroup) {
        const auto *const from = values.data() + i;
        fetch_ahead<kGroup * sizeof(*from)>(from);
        Vector rare = _mm256_setzero_si256();
        Vector four[4];
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; ++j) {
            const Vector bits = load_float32<F>(from + 8 * j);
            const Vector magnitude = _mm256_and_si256(bits, mask);
            rare = _mm256_or_si256(rare, _mm256_cmpgt_epi32(magnitude, largest));
            const Vector draw = _mm256_srli_epi32(source.next(), 1);
            // Levels with the signs of their values.
            four[j] = _mm256_sign_epi32(rounder.levels(magnitude, draw, rare), bits);
        }
        if (any(rare)) [[unlikely]] {
            codes.put_exactly(first + i, values.subspan(i, kGroup), stream.from(i), scale, tally);
        } else {
            codes.put(first + i, joined_bytes(four));
        }
    }
}

template <class F, class Rounder, class Codes>
void dither_with(const Rounder &rounder, In<typename F::Bits> values, const Stream &stream,
                 float scale, const Codes &codes, fewbits_tally &tally) {
    each_stretch<1>(values.size(), stream, [&](size_t start, size_t whole, size_t count) {
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
    const DitherShape &shape = codes.shape;
    const auto run = [&](const auto &rounder) {
        dither_with<F>(rounder, values, stream, scale, codes, tally);
    };
    if (!codes.takes() || values.size() < kGroup) {
        codes.put_exactly(0, values, stream, scale, tally);
    } else if (shape.natural) {
        run(NaturalRounder(scale, shape));
    } else if constexpr (std::is_same_v<F, Float32>) {
        run(UniformRounder(scale, shape));
    } else if (!ValuesRounder<F, 8>::suits(scale)) {
        codes.put_exactly(0, values, stream, scale, tally);
    } else if (shape.levels <= 8) {
        run(ValuesRounder<F, 8>(scale, shape));
    } else if (shape.levels <= 16) {
        run(ValuesRounder<F, 16>(scale, shape));
    } else {
        run(ValuesRounder<F, 128>(scale, shape));
    }
}

template <class F>
void dither(In<typename F::Bits> values, const Stream &stream, float scale,
            const DitherShape &shape, Bytes packed, fewbits_tally &tally) {
    dither_blocks<F>(values, stream, scale, PackedCodes<F>{shape, packed}, tally);
}

template <class F>
void dither_levels(In<typename F::Bits> values, const Stream &stream, float scale,
                   const DitherShape &shape, uint8_t *levels, uint8_t *signs,
                   fewbits_tally &tally) {
    dither_blocks<F>(values, stream, scale, LevelCodes<F>{shape, levels, signs}, tally);
}

template <class F> constexpr DitherKernels<F> kernels_of() {
    return {
        .norm_terms = norm_terms<F>,
        .dither = dither<F>,
        .undither = Undither<F>::codes,
        .dither_levels = dither_levels<F>,
        .undither_levels = Undither<F>::levels,
        .dither_codes = nullptr,
        .scaled_terms = nullptr,
    };
}

} // namespace

constinit const DitherKernels<Float32> avx2_dithering_float32 = kernels_of<Float32>();
constinit const DitherKernels<Float16> avx2_dithering_float16 = kernels_of<Float16>();
constinit const DitherKernels<Bfloat16> avx2_dithering_bfloat16 = kernels_of<Bfloat16>();

} // namespace fewbits

#endif
