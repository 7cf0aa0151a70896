// Dithering, one element at a time.
#include "dithering.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "portable/packing.h"
#include "portable/portable.h"

namespace fewbits {
namespace {

constexpr size_t kPiece = 4096; // elements whose codes are packed at once

// Chances and draws have 31 bits, 63 for float64.
template <class T> constexpr int kChanceBits = sizeof(T) == 8 ? 63 : 31;
template <class T> uint64_t chance_of(T share) {
    return static_cast<uint64_t>(share * static_cast<T>(uint64_t{1} << kChanceBits<T>));
}

struct Rounded {
    uint32_t lower;
    uint64_t chance;
};

template <class T> Rounded natural_level(T y, const DitherShape &shape) {
    using F = std::conditional_t<sizeof(T) == 8, Float64, Float32>;
    if (y < static_cast<T>(shape.lowest())) {
        return {0, chance_of(y * static_cast<T>(shape.inverse_lowest()))};
    }
    const auto bits = std::bit_cast<typename F::Bits>(y);
    const auto mantissa = bits & ((F::one << F::mantissa) - 1);
    return {static_cast<uint32_t>(bits >> F::mantissa) + shape.levels - (F::top_code >> 1),
            mantissa << (kChanceBits<T> - F::mantissa)};
}

template <class T> Rounded uniform_level(T y, const DitherShape &shape) {
    const T place = y * static_cast<T>(shape.levels);
    const T lower = std::floor(place);
    return {static_cast<uint32_t>(lower), chance_of(place - lower)};
}

// Uniform levels between the values that decoding gives, for formats of 16 bits.
template <class F> Rounded level_of_values(double x, double scale, const DitherShape &shape) {
    const double place = std::min(x / scale, 1.0) * shape.levels;
    const uint32_t lower = std::min(static_cast<uint32_t>(place), shape.levels - 1);
    const auto value = [&](uint32_t level) {
        return double{widened<F>(nearest_bits<F>(scale * shape.ratio(level)))};
    };
    const double below = value(lower);
    const double above = value(lower + 1);
    const double share = above > below ? (x - below) / (above - below) : 0.0;
    return share >= 1 ? Rounded{lower + 1, 0}
                      : Rounded{lower, static_cast<uint64_t>(std::max(share, 0.0) * 0x1p31)};
}

template <class F>
uint16_t code_of(typename F::Bits bits, Wide<F> divisor, uint64_t draw, const DitherShape &shape,
                 fewbits_tally &tally) {
    const auto magnitude = static_cast<typename F::Bits>(bits & (F::sign - 1));
    if (magnitude >= F::infinity) {
        ++tally.nonfinite;
        return static_cast<uint16_t>(2 * shape.levels + 1);
    }
    const Wide<F> x = widened<F>(magnitude);
    Rounded rounded;
    if (!shape.natural && sizeof(bits) == 2) {
        rounded = std::isinf(divisor) ? Rounded{0, 0} : level_of_values<F>(x, divisor, shape);
    } else {
        const Wide<F> y = std::min(x / divisor, Wide<F>{1});
        rounded = shape.natural ? natural_level(y, shape) : uniform_level(y, shape);
    }
    const uint32_t level = rounded.lower + (draw < rounded.chance);
    const bool negative = (bits & F::sign) != 0 && level != 0;
    return static_cast<uint16_t>(negative ? level + shape.levels : level);
}

// The sums of all lanes, in halves.
double folded(double (&lanes)[kNormLanes]) {
    for (size_t half = kNormLanes / 2; half > 0; half /= 2) {
        for (size_t i = 0; i < half; ++i) {
            lanes[i] += lanes[i + half];
        }
    }
    return lanes[0];
}

template <class F>
void norm_terms(In<typename F::Bits> values, fewbits_norm norm, double &sum,
                typename F::Bits &largest) {
    double lanes[kNormLanes] = {};
    largest = 0;
    for (size_t i = 0; i < values.size(); ++i) {
        auto magnitude = static_cast<typename F::Bits>(values[i] & (F::sign - 1));
        magnitude = magnitude >= F::infinity ? 0 : magnitude;
        largest = std::max(largest, magnitude);
        const double value = widened<F>(magnitude);
        lanes[i % kNormLanes] += norm == FEWBITS_NORM_2 ? value * value : value;
    }
    sum = folded(lanes);
}

double scaled_terms(In<uint64_t> values, fewbits_norm norm, int shift) {
    // Two factors, because 2^-shift may be too large for one. Only the first rounds, once.
    const double first = std::ldexp(1.0, std::min(-shift, 1000));
    const double second = std::ldexp(1.0, std::max(-shift - 1000, 0));
    double lanes[kNormLanes] = {};
    for (size_t i = 0; i < values.size(); ++i) {
        const uint64_t magnitude = values[i] & ~Float64::sign;
        const bool finite = magnitude < Float64::infinity;
        const double value = (finite ? std::bit_cast<double>(magnitude) : 0.0) * first * second;
        lanes[i % kNormLanes] += norm == FEWBITS_NORM_2 ? value * value : value;
    }
    return folded(lanes);
}

// At most a piece.
template <class F>
void codes_of_piece(In<typename F::Bits> values, const Stream &stream, Wide<F> scale,
                    const DitherShape &shape, uint16_t *codes, fewbits_tally &tally) {
    constexpr size_t draws = sizeof(Wide<F>) / 4; // words of an element
    const Wide<F> divisor = scale > 0 ? scale : std::numeric_limits<Wide<F>>::infinity();
    uint32_t words[draws * kPiece];
    Stream own = stream;
    own.first *= draws;
    portable_common.words(own, {words, draws * values.size()});
    for (size_t i = 0; i < values.size(); ++i) {
        const uint64_t high = draws == 2 ? words[2 * i + 1] : 0;
        const uint64_t draw = (high << 32 | words[draws * i]) >> 1;
        codes[i] = code_of<F>(values[i], divisor, draw, shape, tally);
    }
}

// Calls `use(start, codes)` for every piece.
template <class F, class Use>
void each_piece(In<typename F::Bits> values, const Stream &stream, Wide<F> scale,
                const DitherShape &shape, fewbits_tally &tally, Use use) {
    for (size_t start = 0; start < values.size(); start += kPiece) {
        const size_t count = std::min(kPiece, values.size() - start);
        uint16_t codes[kPiece];
        codes_of_piece<F>(values.subspan(start, count), stream.from(start), scale, shape, codes,
                          tally);
        use(start, std::span<const uint16_t>{codes, count});
    }
}

template <class F>
void dither(In<typename F::Bits> values, const Stream &stream, Wide<F> scale,
            const DitherShape &shape, Bytes packed, fewbits_tally &tally) {
    const int width = shape.width();
    each_piece<F>(values, stream, scale, shape, tally, [&](size_t start, auto codes) {
        portable_common.pack(
            codes, width,
            packed.subspan(packed_size(start, width), packed_size(codes.size(), width)));
    });
}

template <class F>
void dither_codes(In<typename F::Bits> values, const Stream &stream, Wide<F> scale,
                  const DitherShape &shape, uint16_t *codes, fewbits_tally &tally) {
    for (size_t start = 0; start < values.size(); start += kPiece) {
        const size_t count = std::min(kPiece, values.size() - start);
        codes_of_piece<F>(values.subspan(start, count), stream.from(start), scale, shape,
                          codes + start, tally);
    }
}

template <class F>
void dither_levels(In<typename F::Bits> values, const Stream &stream, Wide<F> scale,
                   const DitherShape &shape, uint8_t *levels, uint8_t *signs,
                   fewbits_tally &tally) {
    std::fill_n(signs, packed_size(values.size(), 1), uint8_t{0});
    each_piece<F>(values, stream, scale, shape, tally, [&](size_t start, auto codes) {
        for (size_t i = 0; i < codes.size(); ++i) {
            const size_t at = start + i;
            const bool above = codes[i] > shape.levels;
            const bool negative = above && codes[i] <= 2 * shape.levels;
            levels[at] = static_cast<uint8_t>(above ? codes[i] - shape.levels : codes[i]);
            signs[at / 8] = static_cast<uint8_t>(signs[at / 8] | negative << (at % 8));
        }
    });
}

// A product in float64, rounded to the format. Powers of two are exact in float64.
template <class F>
void undither(std::span<const uint16_t> codes, Wide<F> scale, const DitherRatios &ratios,
              Out<typename F::Bits> values) {
    using Bits = typename F::Bits;
    const double unit = scale;
    const auto value = [&](size_t code) -> Bits {
        if (code == ratios.count - 1) {
            return F::quiet_nan;
        }
        const double ratio = ratios.at(code);
        const Bits magnitude = nearest_bits<F>(unit * std::abs(ratio));
        return static_cast<Bits>(ratio < 0 ? magnitude | F::sign : magnitude);
    };
    if (!ratios.listed() || codes.size() < ratios.count) { // a table would be longer than they are
        for (size_t i = 0; i < codes.size(); ++i) {
            values[i] = value(codes[i]);
        }
        return;
    }
    Bits table[std::size(ratios.of)];
    for (size_t code = 0; code < ratios.count; ++code) {
        table[code] = value(code);
    }
    for (size_t i = 0; i < codes.size(); ++i) {
        values[i] = table[codes[i]];
    }
}

template <class F>
void undither_levels(const uint8_t *levels, const uint8_t *signs, Wide<F> scale,
                     const DitherRatios &ratios, Out<typename F::Bits> values) {
    using Bits = typename F::Bits;
    for (size_t start = 0; start < values.size(); start += kPiece) {
        uint16_t codes[kPiece];
        const auto own = values.subspan(start, std::min(kPiece, values.size() - start));
        std::copy_n(levels + start, own.size(), codes);
        undither<F>({codes, own.size()}, scale, ratios, own);
        for (size_t i = 0; i < own.size(); ++i) {
            const bool negative = (signs[(start + i) / 8] >> (i % 8) & 1) != 0;
            own[i] = static_cast<Bits>(own[i] | (negative ? F::sign : Bits{0}));
        }
    }
}

template <class F> constexpr DitherKernels<F> kernels_of() {
    DitherKernels<F> kernels = {
        .norm_terms = norm_terms<F>,
        .dither = dither<F>,
        .undither = undither<F>,
        .dither_levels = dither_levels<F>,
        .undither_levels = undither_levels<F>,
        .dither_codes = dither_codes<F>,
        .scaled_terms = nullptr,
    };
    if constexpr (std::is_same_v<F, Float64>) {
        kernels.scaled_terms = scaled_terms;
    }
    return kernels;
}

} // namespace

constinit const DitherKernels<Float32> portable_dithering_float32 = kernels_of<Float32>();
constinit const DitherKernels<Float64> portable_dithering_float64 = kernels_of<Float64>();
constinit const DitherKernels<Float16> portable_dithering_float16 = kernels_of<Float16>();
constinit const DitherKernels<Bfloat16> portable_dithering_bfloat16 = kernels_of<Bfloat16>();

} // namespace fewbits
