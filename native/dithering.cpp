// The C interface and the rows of dithering: norms of pieces of a vector and rounding to levels,
// for float32, as src/fewbits/reference/dithering.py specifies them.
#include "dithering.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "fewbits.h"
#include "rows.h"

namespace fewbits {
namespace {

constexpr size_t kPiece = 4096;             // elements whose codes are unpacked at once
constexpr size_t kSummationBlock = 1 << 16; // elements whose sum is finished first

// Whether every code is 0 or the last one, NaN.
bool without_levels(std::span<const uint16_t> codes, size_t last) {
    return std::all_of(codes.begin(), codes.end(),
                       [&](uint16_t code) { return code == 0 || code == last; });
}

// A 16-bit counter is enough for a piece and as wide as a code, so the compiler uses vectors.
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

// Calls `use(start, count, number)` for each block of `size` elements; the last may be shorter.
template <class Use> void each_block(size_t total, size_t size, Use use) {
    for (size_t start = 0, block = 0; start < total; start += size, ++block) {
        use(start, std::min(size, total - start), block);
    }
}

} // namespace

DitherRatios::DitherRatios(const DitherShape &shape, bool coded)
    : count((coded ? 1 : 2) * shape.levels + 2) {
    for (uint32_t level = 1; level <= shape.levels; ++level) {
        const double ratio =
            shape.natural
                ? std::ldexp(1.0, static_cast<int>(level) - static_cast<int>(shape.levels))
                : static_cast<double>(level) / shape.levels;
        of[level] = ratio;
        of[shape.levels + level] = -ratio; // not for coded levels, which have fewer codes
    }
    of[count - 1] = std::numeric_limits<double>::quiet_NaN();
}

namespace {

// Codes to values, or added to them. Of several reasons to refuse them the one with the lowest
// number counts: padding, then a code beyond the bound, then a level above 0 in a block whose scale
// is 0.
int undither(ConstBytes section, const DitherShape &shape, size_t block_size, In<float> scales,
             Out<uint32_t> values, bool add, fewbits_tally &tally) {
    const int width = shape.width();
    if (!ends_with_zeros(section, values.size(), width)) {
        return FEWBITS_BAD_PADDING;
    }
    const DitherRatios ratios(shape);
    int status = FEWBITS_OK;
    for (size_t start = 0; start < values.size(); start += kPiece) {
        uint16_t room[kPiece];
        const std::span<uint16_t> codes = {room, std::min(kPiece, values.size() - start)};
        const int read = kernels().common.unpack(
            section.subspan(packed_size(start, width), packed_size(codes.size(), width)), width,
            static_cast<uint32_t>(ratios.count), codes);
        if (read != FEWBITS_OK) {
            return read;
        }
        uint32_t terms[kPiece];
        const auto there = values.subspan(start, codes.size());
        const auto own = add ? output<uint32_t>(terms, codes.size()) : there;
        const auto first = scales.subspan(start / block_size);
        each_block(codes.size(), block_size, [&](size_t at, size_t size, size_t block) {
            const auto part = codes.subspan(at, size);
            if (first[block] == 0.0f && !without_levels(part, ratios.count - 1)) {
                status = FEWBITS_BAD_LEVEL;
            }
            kernels().dithering.undither(part, first[block], ratios, own.subspan(at, size));
        });
        tally.nonfinite += occurrences(codes, static_cast<uint16_t>(ratios.count - 1));
        if (add) {
            add_terms(there, {own.data(), codes.size()});
        }
    }
    return status;
}

void dither(In<uint32_t> values, const Stream &stream, const DitherShape &shape, size_t block_size,
            In<uint32_t> scales, uint8_t *packed, fewbits_tally &tally) {
    const int width = shape.width();
    each_block(values.size(), block_size, [&](size_t start, size_t own, size_t block) {
        const auto scale = std::bit_cast<float>(static_cast<uint32_t>(scales[block]));
        kernels().dithering.dither(values.subspan(start, own), stream.from(start), scale, shape,
                                   {packed + packed_size(start, width), packed_size(own, width)},
                                   tally);
    });
}

// A block's norm as the nearest float32, at least its largest magnitude.
uint32_t scale_of(In<uint32_t> values, fewbits_norm norm) {
    double total = 0;
    uint32_t largest = 0;
    each_block(values.size(), kSummationBlock, [&](size_t start, size_t count, size_t) {
        double sum = 0;
        uint32_t own = 0;
        kernels().dithering.norm_terms(values.subspan(start, count), norm, sum, own);
        total += sum;
        largest = std::max(largest, own);
    });
    if (norm == FEWBITS_NORM_MAX) {
        return largest;
    }
    const double root = norm == FEWBITS_NORM_2 ? std::sqrt(total) : total;
    uint32_t nearest = 0;
    fewbits_tally ignored = {0, 0};
    cast_any(FEWBITS_FLOAT64, &root, FEWBITS_FLOAT32, &nearest, 1, ignored);
    return std::max(largest, nearest);
}

void encode_row(fewbits_unit &unit, const DitherShape &shape, size_t block_size, size_t blocks,
                bool coded) {
    const auto values = input<uint32_t>(unit.values, unit.count);
    const auto scales = output<uint32_t>(unit.sections[0], blocks);
    const auto norm = static_cast<fewbits_norm>(unit.option & 3);
    each_block(values.size(), block_size, [&](size_t start, size_t count, size_t block) {
        scales[block] = scale_of(values.subspan(start, count), norm);
    });
    const auto given = input<uint32_t>(unit.sections[0], blocks);
    if (coded) {
        unit.sizes[1] = dither_coded(values, stream_of(unit), {shape, block_size, given},
                                     unit.sections[1], unit.tally);
    } else {
        dither(values, stream_of(unit), shape, block_size, given, unit.sections[1], unit.tally);
    }
}

// Whether a section of codes has a size that fits. A coded one is written into its largest.
bool suits(size_t size, const DitherShape &shape, size_t count, bool coded, bool encodes) {
    if (coded) {
        return !encodes || size >= coded_levels(shape, count).largest();
    }
    return size == packed_size(count, shape.width());
}

} // namespace

int dithering_unit(fewbits_unit &unit, Direction direction) {
    const DitherShape shape = {unit.levels, (unit.option & FEWBITS_POWERS) != 0};
    const int norm = unit.option & ~(FEWBITS_POWERS | FEWBITS_LEVELS_CODED);
    const bool coded = (unit.option & FEWBITS_LEVELS_CODED) != 0;
    const bool encodes = direction == Direction::encode;
    if (unit.dtype != FEWBITS_FLOAT32 || norm < FEWBITS_NORM_1 || norm > FEWBITS_NORM_MAX ||
        !is_scale_block(unit.block) || unit.levels < 1 || unit.levels > DitherRatios::most_levels) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const size_t block_size = unit.block != 0 ? unit.block : std::max<uint64_t>(unit.count, 1);
    const size_t blocks = pieces_of(unit.count, block_size);
    if (unit.count > SIZE_MAX / 32 || unit.sizes[0] != 4 * blocks || unit.sizes[2] != 0 ||
        !suits(unit.sizes[1], shape, unit.count, coded, encodes)) {
        return FEWBITS_BAD_SIZE;
    }
    if (encodes) {
        encode_row(unit, shape, block_size, blocks, coded);
        return FEWBITS_OK;
    }
    for (const uint32_t scale : input<uint32_t>(unit.sections[0], blocks)) {
        if (scale >= Float32::infinity) { // or a sign is set
            return FEWBITS_BAD_SCALE;
        }
    }
    const bool add = direction == Direction::accumulate;
    const ConstBytes section = {unit.sections[1], unit.sizes[1]};
    const auto values = output<uint32_t>(unit.values, unit.count);
    if (coded) {
        const auto scales = input<uint32_t>(unit.sections[0], blocks);
        return undither_coded(section, {shape, block_size, scales}, values, add, unit.tally);
    }
    return undither(section, shape, block_size, input<float>(unit.sections[0], blocks), values, add,
                    unit.tally);
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
        kernels().dithering.norm_terms(all.subspan(start, own), static_cast<fewbits_norm>(norm),
                                       sums[piece], largest[piece]);
    });
    return FEWBITS_OK;
}

int fewbits_dither(const uint32_t *values, size_t count, const fewbits_dithering *how,
                   const uint32_t *scales, size_t blocks, uint8_t *packed, size_t packed_bytes,
                   size_t *written, fewbits_tally *tally) {
    using namespace fewbits;
    const DitherShape shape = {how->levels, how->natural != 0};
    const bool coded = how->coded != 0;
    const uint32_t most = shape.natural || coded ? DitherRatios::most_levels : 32767;
    const bool even = coded ? is_scale_block(how->block) : how->block % 8 == 0;
    if (how->levels < 1 || how->levels > most || how->block == 0 || (blocks > 1 && !even)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    if (count > SIZE_MAX / 32 || blocks != pieces_of(count, how->block) ||
        !suits(packed_bytes, shape, count, coded, true)) {
        return FEWBITS_BAD_SIZE;
    }
    *tally = {0, 0};
    *written = packed_bytes;
    const Stream stream = {{how->key[0], how->key[1], how->key[2], how->key[3]}, how->first};
    const auto all = input<uint32_t>(values, count);
    const auto given = input<uint32_t>(scales, blocks);
    if (coded) {
        *written = dither_coded(all, stream, {shape, how->block, given}, packed, *tally);
    } else {
        dither(all, stream, shape, how->block, given, packed, *tally);
    }
    return FEWBITS_OK;
}

int fewbits_undither(const uint8_t *packed, size_t packed_bytes, const fewbits_dithering *how,
                     const uint32_t *scales, size_t blocks, uint32_t *values, size_t count, int add,
                     fewbits_tally *tally) {
    using namespace fewbits;
    const DitherShape shape = {how->levels, how->natural != 0};
    const bool small = how->levels >= 1 && how->levels <= DitherRatios::most_levels;
    const bool coded = how->coded != 0;
    const bool even = blocks <= 1 || (coded ? is_scale_block(how->block)
                                            : std::has_single_bit(how->block) && how->block >= 8);
    if (!small || !even || how->block == 0 || add < 0 || add > 1) {
        return FEWBITS_BAD_ARGUMENT;
    }
    if (count > SIZE_MAX / 32 || blocks != pieces_of(count, how->block) ||
        !suits(packed_bytes, shape, count, coded, false)) {
        return FEWBITS_BAD_SIZE;
    }
    *tally = {0, 0};
    const auto out = output<uint32_t>(values, count);
    if (coded) {
        return undither_coded({packed, packed_bytes},
                              {shape, how->block, input<uint32_t>(scales, blocks)}, out, add == 1,
                              *tally);
    }
    return undither({packed, packed_bytes}, shape, how->block, input<float>(scales, blocks), out,
                    add == 1, *tally);
}
}
