// Dithering, one element at a time.
#include "dithering.h"

#include <algorithm>
#include <cmath>

#include "portable/packing.h"
#include "portable/portable.h"

namespace fewbits {
namespace {

constexpr size_t kPiece = 4096; // elements whose codes are packed at once

struct Rounded {
    uint32_t lower;
    uint32_t chance; // of 2^31
};

Rounded natural_level(float y, const DitherShape &shape) {
    if (y < shape.lowest()) {
        const float share = y * shape.inverse_lowest();
        return {0, static_cast<uint32_t>(share * 2147483648.0f)};
    }
    const auto bits = std::bit_cast<uint32_t>(y);
    return {(bits >> 23) + shape.levels - 127, (bits & 0x7FFFFFu) << 8};
}

Rounded uniform_level(float y, const DitherShape &shape) {
    const float place = y * static_cast<float>(shape.levels);
    const float lower = std::floor(place);
    return {static_cast<uint32_t>(lower), static_cast<uint32_t>((place - lower) * 2147483648.0f)};
}

uint16_t code_of(uint32_t bits, float divisor, uint32_t word, const DitherShape &shape,
                 fewbits_tally &tally) {
    const uint32_t magnitude = bits & ~Float32::sign;
    if (magnitude >= Float32::infinity) {
        ++tally.nonfinite;
        return static_cast<uint16_t>(2 * shape.levels + 1);
    }
    const float y = std::min(std::bit_cast<float>(magnitude) / divisor, 1.0f);
    const Rounded rounded = shape.natural ? natural_level(y, shape) : uniform_level(y, shape);
    const uint32_t level = rounded.lower + ((word >> 1) < rounded.chance);
    const bool negative = (bits & Float32::sign) != 0 && level != 0;
    return static_cast<uint16_t>(negative ? level + shape.levels : level);
}

void norm_terms(In<uint32_t> values, fewbits_norm norm, double &sum, uint32_t &largest) {
    double lanes[kNormLanes] = {};
    largest = 0;
    for (size_t i = 0; i < values.size(); ++i) {
        uint32_t magnitude = values[i] & ~Float32::sign;
        magnitude = magnitude >= Float32::infinity ? 0 : magnitude;
        largest = std::max(largest, magnitude);
        const double value = std::bit_cast<float>(magnitude);
        lanes[i % kNormLanes] += norm == FEWBITS_NORM_2 ? value * value : value;
    }
    for (size_t half = kNormLanes / 2; half > 0; half /= 2) {
        for (size_t i = 0; i < half; ++i) {
            lanes[i] += lanes[i + half];
        }
    }
    sum = lanes[0];
}

// Calls `use(start, codes)` for every piece.
template <class Use>
void each_piece(In<uint32_t> values, const Stream &stream, float scale, const DitherShape &shape,
                fewbits_tally &tally, Use use) {
    const float divisor = scale > 0.0f ? scale : 1.0f; // all magnitudes are 0 then
    for (size_t start = 0; start < values.size(); start += kPiece) {
        const size_t count = std::min(kPiece, values.size() - start);
        uint16_t codes[kPiece];
        uint32_t words[kPiece];
        portable_common.words(stream.from(start), {words, count});
        for (size_t i = 0; i < count; ++i) {
            codes[i] = code_of(values[start + i], divisor, words[i], shape, tally);
        }
        use(start, std::span<const uint16_t>{codes, count});
    }
}

void dither(In<uint32_t> values, const Stream &stream, float scale, const DitherShape &shape,
            Bytes packed, fewbits_tally &tally) {
    const int width = shape.width();
    each_piece(values, stream, scale, shape, tally, [&](size_t start, auto codes) {
        portable_common.pack(
            codes, width,
            packed.subspan(packed_size(start, width), packed_size(codes.size(), width)));
    });
}

void dither_levels(In<uint32_t> values, const Stream &stream, float scale, const DitherShape &shape,
                   uint8_t *levels, uint8_t *signs, fewbits_tally &tally) {
    std::fill_n(signs, packed_size(values.size(), 1), uint8_t{0});
    each_piece(values, stream, scale, shape, tally, [&](size_t start, auto codes) {
        for (size_t i = 0; i < codes.size(); ++i) {
            const size_t at = start + i;
            const bool above = codes[i] > shape.levels;
            const bool negative = above && codes[i] <= 2 * shape.levels;
            levels[at] = static_cast<uint8_t>(above ? codes[i] - shape.levels : codes[i]);
            signs[at / 8] = static_cast<uint8_t>(signs[at / 8] | negative << (at % 8));
        }
    });
}

// A product in float64, rounded to float32. Powers of two are exact in float64.
void undither(std::span<const uint16_t> codes, float scale, const DitherRatios &ratios,
              Out<uint32_t> values) {
    const double unit = scale;
    const auto value = [&](size_t code) {
        return std::bit_cast<uint32_t>(static_cast<float>(unit * ratios.of[code]));
    };
    if (codes.size() < ratios.count) { // a table would be longer than what it is for
        for (size_t i = 0; i < codes.size(); ++i) {
            values[i] = value(codes[i]);
        }
        return;
    }
    uint32_t table[std::size(ratios.of)];
    for (size_t code = 0; code < ratios.count; ++code) {
        table[code] = value(code);
    }
    for (size_t i = 0; i < codes.size(); ++i) {
        values[i] = table[codes[i]];
    }
}

void undither_levels(const uint8_t *levels, const uint8_t *signs, float scale,
                     const DitherRatios &ratios, Out<uint32_t> values) {
    for (size_t start = 0; start < values.size(); start += kPiece) {
        uint16_t codes[kPiece];
        const auto own = values.subspan(start, std::min(kPiece, values.size() - start));
        std::copy_n(levels + start, own.size(), codes);
        undither({codes, own.size()}, scale, ratios, own);
        for (size_t i = 0; i < own.size(); ++i) {
            const uint32_t sign = signs[(start + i) / 8] >> (i % 8) & 1;
            own[i] = own[i] | sign << 31;
        }
    }
}

} // namespace

constinit const DitherKernels portable_dithering = {
    .norm_terms = norm_terms,
    .dither = dither,
    .undither = undither,
    .dither_levels = dither_levels,
    .undither_levels = undither_levels,
};

} // namespace fewbits
