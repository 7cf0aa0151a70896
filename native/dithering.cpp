// The C interface and the rows of dithering: norms of pieces of a vector and rounding to levels, as
// src/fewbits/reference/dithering.py specifies them.
#include "dithering.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "fewbits.h"
#include "norms.h"
#include "rows.h"

namespace fewbits {
namespace {

constexpr size_t kPiece = kTermPiece;               // elements whose codes are unpacked at once
constexpr size_t kMostScales = kCodedBlock / 8;     // of a coder block
constexpr uint64_t kScaleWords = uint64_t{1} << 63; // where the random words of scales begin

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

} // namespace

double DitherShape::ratio(uint32_t level) const {
    if (natural) {
        return level == 0 ? 0.0
                          : std::ldexp(1.0, static_cast<int>(level) - static_cast<int>(levels));
    }
    return static_cast<double>(level) / levels;
}

double DitherRatios::at(size_t code) const {
    if (listed()) {
        return of[code];
    }
    const auto own = static_cast<uint32_t>(code);
    return own > shape.levels ? -shape.ratio(own - shape.levels) : shape.ratio(own);
}

DitherRatios::DitherRatios(const DitherShape &given, bool coded)
    : shape(given), count((coded ? 1 : 2) * given.levels + 2) {
    if (!listed()) {
        return;
    }
    for (uint32_t level = 1; level <= shape.levels; ++level) {
        of[level] = shape.ratio(level);
        of[shape.levels + level] = -of[level]; // not for coded levels, which have fewer codes
    }
    of[count - 1] = std::numeric_limits<double>::quiet_NaN();
}

namespace {

// Codes to values, or added to them. Of several reasons to refuse them the one with the lowest
// number counts: padding, then a code beyond the bound, then a level above 0 in a block whose scale
// is 0.
template <class F>
int undither(ConstBytes section, const DitherBlocks<F> &blocks, size_t total, void *values,
             bool add, fewbits_tally &tally) {
    using Bits = typename F::Bits;
    const int width = blocks.shape.width();
    if (!ends_with_zeros(section, total, width)) {
        return FEWBITS_BAD_PADDING;
    }
    const DitherRatios ratios(blocks.shape);
    int status = FEWBITS_OK;
    for (size_t start = 0; start < total; start += kPiece) {
        uint16_t room[kPiece];
        const std::span<uint16_t> codes = {room, std::min(kPiece, total - start)};
        const int read = kernels().common.unpack(
            section.subspan(packed_size(start, width), packed_size(codes.size(), width)), width,
            static_cast<uint32_t>(ratios.count), codes);
        if (read != FEWBITS_OK) {
            return read;
        }
        Unaligned<Bits> terms[kPiece];
        const auto own = add ? Out<Bits>{terms, codes.size()}
                             : output<Bits>(values, total).subspan(start, codes.size());
        each_block(codes.size(), blocks.block_size, [&](size_t at, size_t size, size_t) {
            const auto part = codes.subspan(at, size);
            const Wide<F> scale = blocks.scale_of(start + at);
            if (scale == 0 && !without_levels(part, ratios.count - 1)) {
                status = FEWBITS_BAD_LEVEL;
            }
            kernels().dithering<F>().undither(part, scale, ratios, own.subspan(at, size));
        });
        tally.nonfinite += occurrences(codes, static_cast<uint16_t>(ratios.count - 1));
        if (add) {
            add_terms<F>(output<Wide<F>>(values, total).subspan(start, own.size()), own);
        }
    }
    return status;
}

// A block's norm as the nearest value of the format, at least its largest magnitude.
template <class F> typename F::Bits scale_of(In<typename F::Bits> values, fewbits_norm norm) {
    typename F::Bits largest = 0;
    int shift = 0;
    const double total = block_sum<F>(values, norm, largest, shift);
    if (norm == FEWBITS_NORM_MAX || largest == 0) {
        return largest;
    }
    constexpr double most = std::bit_cast<double>(Float64::infinity - 1);
    const double root = norm == FEWBITS_NORM_2 ? std::sqrt(total) : total;
    const double whole = std::min(std::ldexp(root, shift), most);
    const double limit = widened<F>(static_cast<typename F::Bits>(F::infinity - 1));
    return std::max(largest, nearest_bits<F>(std::min(whole, limit)));
}

// ---- encoding ----

// What a row asks for.
template <class F> struct DitherRow {
    using Bits = typename F::Bits;
    fewbits_unit &unit;
    DitherShape shape;
    fewbits_norm norm; // 0: scales are given
    bool natural_scale;
    bool coded;
    size_t block_size;
    size_t blocks;

    In<Bits> values() const { return input<Bits>(unit.values, unit.count); }
    ConstBytes first() const { return {unit.sections[0], unit.sizes[0]}; }
    ConstBytes second() const { return {unit.sections[1], unit.sizes[1]}; }
};

// Exponents of scales, rounded to powers of two, to where they belong in a section of zeros. Scales
// that are lost become 0.
template <class F>
void send_powers(const DitherRow<F> &row, size_t first, std::span<typename F::Bits> scales) {
    uint8_t packed[packed_size(kMostScales, F::exponent)];
    uint8_t signs[packed_size(kMostScales, 1)];
    uint16_t codes[kMostScales];
    const size_t count = scales.size();
    const Stream own = stream_of(row.unit);
    Stream stream = own;
    stream.first = kScaleWords / (sizeof(Wide<F>) / 4) + own.first / row.block_size + first;
    fewbits_tally ignored = {0, 0};
    const Bytes plane = {packed, packed_size(count, F::exponent)};
    kernels().natural<F>().encode(input<typename F::Bits>(scales.data(), count), stream,
                                  FEWBITS_STOCHASTIC, plane, {signs, packed_size(count, 1)},
                                  ignored);
    kernels().common.unpack(plane, F::exponent, F::top_code + 1, {codes, count});
    for (size_t i = 0; i < count; ++i) {
        const size_t bit = (first + i) * size_t{F::exponent};
        const uint32_t word = uint32_t{codes[i]} << (bit % 8);
        for (size_t byte = 0; word >> (8 * byte) != 0; ++byte) {
            uint8_t &to = row.unit.sections[0][bit / 8 + byte];
            to = static_cast<uint8_t>(to | word >> (8 * byte));
        }
        scales[i] = codes[i] == 0 ? 0 : scales[i];
    }
}

// The scales to round with of the values from `start` on; they are sent.
template <class F>
void prepare_scales(const DitherRow<F> &row, size_t start, size_t count,
                    std::span<typename F::Bits> scales) {
    using Bits = typename F::Bits;
    const size_t first = start / row.block_size;
    each_block(count, row.block_size, [&](size_t at, size_t size, size_t block) {
        scales[block] = row.norm == 0
                            ? Bits{input<Bits>(row.unit.sections[0], row.blocks)[first + block]}
                            : scale_of<F>(row.values().subspan(start + at, size), row.norm);
    });
    if (row.natural_scale) {
        for (Bits &scale : scales) {
            scale = std::min(scale, Bits{F::largest_power});
        }
        send_powers(row, first, scales);
    } else if (row.norm != 0) {
        std::memcpy(row.unit.sections[0] + first * sizeof(Bits), scales.data(),
                    scales.size_bytes());
    }
}

// Values above the largest power of two, to which their scale was cut.
template <class F> size_t beyond(In<typename F::Bits> values) {
    return static_cast<size_t>(std::count_if(values.begin(), values.end(), [](auto bits) {
        const auto magnitude = static_cast<typename F::Bits>(bits & (F::sign - 1));
        return magnitude > F::largest_power && magnitude < F::infinity;
    }));
}

template <class F> void encode_row(const DitherRow<F> &row) {
    using Bits = typename F::Bits;
    fewbits_unit &unit = row.unit;
    const auto values = row.values();
    const int width = row.shape.width();
    const bool one = unit.block == 0;
    if (row.natural_scale) {
        std::memset(unit.sections[0], 0, unit.sizes[0]);
    }
    Bits room[kMostScales];
    if (one && !values.empty()) {
        prepare_scales<F>(row, 0, values.size(), {room, 1});
    }
    CodedWriter writer(coded_levels(row.shape, unit.count), unit.sections[1]);
    // A norm is found and used while its values are in the cache.
    each_block(values.size(), kCodedBlock, [&](size_t start, size_t count, size_t) {
        const std::span<Bits> scales = {room, one ? 1 : pieces_of(count, row.block_size)};
        if (!one) {
            prepare_scales<F>(row, start, count, scales);
        }
        const size_t block = one ? count : row.block_size;
        const Stream stream = stream_of(unit).from(start);
        each_block(count, block, [&](size_t at, size_t size, size_t number) {
            const auto own = values.subspan(start + at, size);
            if (scales[number] == F::largest_power) {
                unit.tally.saturated += beyond<F>(own);
            }
            if (!row.coded) {
                kernels().dithering<F>().dither(
                    own, stream.from(at), widened<F>(scales[number]), row.shape,
                    {unit.sections[1] + packed_size(start + at, width), packed_size(size, width)},
                    unit.tally);
            }
        });
        if (row.coded) {
            dither_coded<F>(values.subspan(start, count), stream, row.shape, block, scales, writer,
                            unit.tally);
        }
    });
    if (row.coded) {
        unit.sizes[1] = writer.size();
    }
}

// ---- decoding ----

// Refuses scales that encoding does not send.
template <class F> int check_scales(const DitherRow<F> &row) {
    if (!row.natural_scale) {
        for (const typename F::Bits scale :
             input<typename F::Bits>(row.unit.sections[0], row.blocks)) {
            if (scale >= F::infinity) { // or a sign is set
                return FEWBITS_BAD_SCALE;
            }
        }
        return FEWBITS_OK;
    }
    if (!ends_with_zeros(row.first(), row.blocks, F::exponent)) {
        return FEWBITS_BAD_PADDING;
    }
    const DitherScales<F> scales = {row.first(), true, row.blocks};
    for (size_t i = 0; i < row.blocks; ++i) {
        if (scales.exponent(i) == F::top_code) {
            return FEWBITS_BAD_CODE;
        }
    }
    return FEWBITS_OK;
}

template <class F> int decode_row(const DitherRow<F> &row, bool add) {
    const int status = check_scales(row);
    if (status != FEWBITS_OK) {
        return status;
    }
    const DitherBlocks<F> blocks = {
        row.shape, row.block_size, {row.first(), row.natural_scale, row.blocks}};
    const auto run = row.coded ? undither_coded<F> : undither<F>;
    return run(row.second(), blocks, row.unit.count, row.unit.values, add, row.unit.tally);
}

// Whether a section of codes has a size that fits. A coded one is written into its largest.
bool suits(size_t size, const DitherShape &shape, size_t count, bool coded, bool encodes) {
    if (coded) {
        return !encodes || size >= coded_levels(shape, count).largest();
    }
    return size == packed_size(count, shape.width());
}

template <class F> int run_row(fewbits_unit &unit, Direction direction) {
    constexpr int flags = FEWBITS_POWERS | FEWBITS_LEVELS_CODED | FEWBITS_SCALES_POWERS;
    const size_t block_size = unit.block != 0 ? unit.block : std::max<uint64_t>(unit.count, 1);
    const DitherRow<F> row = {unit,
                              {unit.levels, (unit.option & FEWBITS_POWERS) != 0},
                              static_cast<fewbits_norm>(unit.option & ~flags),
                              (unit.option & FEWBITS_SCALES_POWERS) != 0,
                              (unit.option & FEWBITS_LEVELS_CODED) != 0,
                              block_size,
                              pieces_of(unit.count, block_size)};
    const uint32_t most = row.shape.natural ? DitherRatios::most_levels : 32767;
    const bool encodes = direction == Direction::encode;
    if (row.norm > FEWBITS_NORM_MAX || !is_scale_block(unit.block) || unit.levels < 1 ||
        unit.levels > most || (row.norm == 0 && row.natural_scale && encodes)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const int item = row.natural_scale ? F::exponent : 8 * int{sizeof(typename F::Bits)};
    if (unit.count > SIZE_MAX / 64 || unit.sizes[0] != packed_size(row.blocks, item) ||
        unit.sizes[2] != 0 || !suits(unit.sizes[1], row.shape, unit.count, row.coded, encodes)) {
        return FEWBITS_BAD_SIZE;
    }
    if (encodes) {
        encode_row(row);
        return FEWBITS_OK;
    }
    return decode_row(row, direction == Direction::accumulate);
}

} // namespace

int dithering_unit(fewbits_unit &unit, Direction direction) {
    return with_format(unit.dtype, [&]<class F>(F) -> int { return run_row<F>(unit, direction); });
}

} // namespace fewbits

extern "C" {

int fewbits_norm_terms(const void *values, int dtype, size_t count, size_t size, int norm,
                       int shift, double *sums, uint64_t *largest, size_t pieces) {
    using namespace fewbits;
    if (norm < FEWBITS_NORM_1 || norm > FEWBITS_NORM_MAX || size == 0 || shift < -1073 ||
        shift > 1024) {
        return FEWBITS_BAD_ARGUMENT;
    }
    if (count > SIZE_MAX / 64 || pieces != pieces_of(count, size)) {
        return FEWBITS_BAD_SIZE;
    }
    return with_format(dtype, [&]<class F>(F) -> int {
        using Bits = typename F::Bits;
        const auto all = input<Bits>(values, count);
        const auto &kernel = kernels().dithering<F>();
        const auto own = static_cast<fewbits_norm>(norm);
        each_block(count, size, [&](size_t start, size_t part, size_t piece) {
            Bits most = 0;
            constexpr bool apart = std::is_same_v<F, Float64>;
            kernel.norm_terms(all.subspan(start, part), apart ? FEWBITS_NORM_MAX : own, sums[piece],
                              most);
            largest[piece] = most;
            if (apart && own != FEWBITS_NORM_MAX) {
                sums[piece] = kernel.scaled_terms(all.subspan(start, part), own, shift);
            }
        });
        return FEWBITS_OK;
    });
}
}
