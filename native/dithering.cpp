// Dithering: norms of pieces of a vector and rounding to levels, as
// src/fewbits/kernels/dithering.py specifies them, for float32. Here the portable kernels and the C
// interface.
#include "dithering.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "fewbits.h"
#include "random.h"

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

// How many pieces of `size` elements there are; the sum of both numbers may not fit.
size_t pieces_of(size_t total, size_t size) { return total / size + (total % size != 0); }

// Whether every code is 0 or the last one, NaN.
bool without_levels(std::span<const uint16_t> codes, size_t last) {
    return std::all_of(codes.begin(), codes.end(),
                       [&](uint16_t code) { return code == 0 || code == last; });
}

// In 16 bits, which is as wide as a piece is long: so the compiler makes vectors of it.
uint16_t occurrences(std::span<const uint16_t> codes, uint16_t wanted) {
    static_assert(kPiece < 1 << 16);
    uint16_t found = 0;
    for (const uint16_t code : codes) {
        found = static_cast<uint16_t>(found + (code == wanted));
    }
    return found;
}

bool ends_with_zeros(ConstBytes packed, size_t count, int width) {
    const size_t used = count % 8 * static_cast<size_t>(width) % 8;
    return used == 0 || (packed.back() >> used) == 0;
}

void add_to(Out<float> totals, In<float> terms) {
    for (size_t i = 0; i < totals.size(); ++i) {
        totals[i] = totals[i] + terms[i];
    }
}

// [start, start + count) of the pieces of `size` elements that share a scale.
template <class Use> void each_block(size_t total, size_t size, Use use) {
    for (size_t start = 0, block = 0; start < total; start += size, ++block) {
        use(start, std::min(size, total - start), block);
    }
}

} // namespace

void norm_terms_scalar(In<uint32_t> values, fewbits_norm norm, double &sum, uint32_t &largest) {
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

void dither_scalar(In<uint32_t> values, const Stream &stream, float scale, const DitherShape &shape,
                   Bytes packed, fewbits_tally &tally) {
    const float divisor = scale > 0.0f ? scale : 1.0f; // all magnitudes are 0 then
    const int width = shape.width();
    for (size_t start = 0; start < values.size(); start += kPiece) {
        const size_t count = std::min(kPiece, values.size() - start);
        uint16_t codes[kPiece];
        uint32_t words[kPiece];
        scalar_kernels.words(stream.from(start), {words, count});
        for (size_t i = 0; i < count; ++i) {
            codes[i] = code_of(values[start + i], divisor, words[i], shape, tally);
        }
        scalar_kernels.pack({codes, count}, width,
                            packed.subspan(packed_size(start, width), packed_size(count, width)));
    }
}

DitherRatios::DitherRatios(const DitherShape &shape) : count(2 * shape.levels + 2) {
    for (uint32_t level = 1; level <= shape.levels; ++level) {
        const double ratio =
            shape.natural
                ? std::ldexp(1.0, static_cast<int>(level) - static_cast<int>(shape.levels))
                : static_cast<double>(level) / shape.levels;
        of[level] = ratio;
        of[shape.levels + level] = -ratio;
    }
    of[count - 1] = std::numeric_limits<double>::quiet_NaN();
}

// A product in float64, rounded to float32. Powers of two are exact in float64.
void undither_scalar(std::span<const uint16_t> codes, float scale, const DitherRatios &ratios,
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

} // namespace fewbits

extern "C" {

int fewbits_norm_terms(const uint32_t *values, size_t count, size_t size, int norm, double *sums,
                       uint32_t *largest, size_t pieces) {
    using namespace fewbits;
    if (norm < FEWBITS_NORM_1 || norm > FEWBITS_NORM_MAX || size == 0) {
        return FEWBITS_BAD_ARGUMENT;
    }
    if (count > SIZE_MAX / 16 || pieces != pieces_of(count, size)) {
        return FEWBITS_BAD_SIZE;
    }
    const auto all = input<uint32_t>(values, count);
    each_block(count, size, [&](size_t start, size_t own, size_t piece) {
        kernels().norm_terms(all.subspan(start, own), static_cast<fewbits_norm>(norm), sums[piece],
                             largest[piece]);
    });
    return FEWBITS_OK;
}

int fewbits_dither(const uint32_t *values, size_t count, const fewbits_dithering *how,
                   const uint32_t *scales, size_t blocks, uint8_t *packed, size_t packed_bytes,
                   fewbits_tally *tally) {
    using namespace fewbits;
    const DitherShape shape = {how->levels, how->natural != 0};
    const bool small = how->levels >= 1 && how->levels <= (shape.natural ? 127u : 32767u);
    if (!small || how->block == 0 || (blocks > 1 && how->block % 8 != 0)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const int width = shape.width();
    if (count > SIZE_MAX / 16 || blocks != pieces_of(count, how->block) ||
        packed_bytes != packed_size(count, width)) {
        return FEWBITS_BAD_SIZE;
    }
    *tally = {0, 0};
    const auto all = input<uint32_t>(values, count);
    const auto given = input<uint32_t>(scales, blocks);
    const Stream stream = {{how->key[0], how->key[1], how->key[2], how->key[3]}, how->first};
    each_block(count, how->block, [&](size_t start, size_t own, size_t block) {
        const auto scale = std::bit_cast<float>(static_cast<uint32_t>(given[block]));
        kernels().dither(all.subspan(start, own), stream.from(start), scale, shape,
                         {packed + packed_size(start, width), packed_size(own, width)}, *tally);
    });
    return FEWBITS_OK;
}

int fewbits_undither(const uint8_t *packed, size_t packed_bytes, const fewbits_dithering *how,
                     const uint32_t *scales, size_t blocks, uint32_t *values, size_t count, int add,
                     fewbits_tally *tally) {
    using namespace fewbits;
    const DitherShape shape = {how->levels, how->natural != 0};
    const bool small = how->levels >= 1 && how->levels <= DitherRatios::most_levels;
    const bool even = blocks <= 1 || (std::has_single_bit(how->block) && how->block >= 8);
    if (!small || !even || how->block == 0 || add < 0 || add > 1) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const int width = shape.width();
    if (count > SIZE_MAX / 16 || blocks != (count + how->block - 1) / how->block ||
        packed_bytes != packed_size(count, width)) {
        return FEWBITS_BAD_SIZE;
    }
    *tally = {0, 0};
    const ConstBytes section = {packed, packed_bytes};
    if (!ends_with_zeros(section, count, width)) {
        return FEWBITS_BAD_PADDING;
    }
    const auto given = input<float>(scales, blocks);
    const DitherRatios ratios(shape);
    int status = FEWBITS_OK;
    for (size_t start = 0; start < count; start += kPiece) {
        uint16_t room[kPiece];
        const std::span<uint16_t> codes = {room, std::min(kPiece, count - start)};
        const int read = kernels().unpack(
            section.subspan(packed_size(start, width), packed_size(codes.size(), width)), width,
            static_cast<uint32_t>(ratios.count), codes);
        if (read != FEWBITS_OK) {
            return read;
        }
        uint32_t terms[kPiece];
        const auto own = output<uint32_t>(add == 0 ? values + start : terms, codes.size());
        const auto first = given.subspan(start / how->block);
        each_block(codes.size(), how->block, [&](size_t at, size_t size, size_t block) {
            const auto part = codes.subspan(at, size);
            if (first[block] == 0.0f && !without_levels(part, ratios.count - 1)) {
                status = FEWBITS_BAD_LEVEL; // unless a later code is beyond the bound
            }
            kernels().undither(part, first[block], ratios, own.subspan(at, size));
        });
        tally->nonfinite += occurrences(codes, static_cast<uint16_t>(ratios.count - 1));
        if (add == 1) {
            add_to(output<float>(values + start, codes.size()), input<float>(terms, codes.size()));
        }
    }
    return status;
}
}
