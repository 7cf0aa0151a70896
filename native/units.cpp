// Tables of units: checks every size, then calls the kernels. One call serves a whole batch.
#include "fewbits.h"

#include <algorithm>
#include <bit>

#include "coded.h"
#include "rows.h"

static_assert(std::endian::native == std::endian::little,
              "the kernels store words as the wire wants them");

namespace fewbits {
namespace {

size_t item_size(int dtype) {
    return dtype == FEWBITS_FLOAT64 ? 8 : dtype == FEWBITS_FLOAT32 ? 4 : 2;
}

bool is_dtype(int dtype) { return dtype >= FEWBITS_FLOAT32 && dtype <= FEWBITS_BFLOAT16; }

// Whether the sections have the sizes of codes of these widths, in bits; there is no third section.
bool fits(const fewbits_unit &unit, int first, int second) {
    return unit.count <= SIZE_MAX / 16 && unit.sizes[0] == packed_size(unit.count, first) &&
           unit.sizes[1] == packed_size(unit.count, second) && unit.sizes[2] == 0;
}

bool ends_with_zeros(ConstBytes plane, size_t count, int width) {
    const size_t used = count * static_cast<size_t>(width) % 8;
    return used == 0 || (plane.back() >> used) == 0;
}

// ---- natural compression with coded exponents, a block of codes at a time ----

// One block between the kernels and the coder. Formats with 8 bits of exponent have one code a byte
// in packed planes too.
template <class F> struct CodedPlanes {
    static constexpr bool wide = F::exponent > 8;
    uint8_t bytes[kCodedBlock];
    uint16_t words[wide ? kCodedBlock : 1];
    uint8_t signs[kCodedBlock / 8];

    auto *codes() {
        if constexpr (wide) {
            return words;
        } else {
            return bytes;
        }
    }

    void encode(In<typename F::Bits> values, const Stream &stream, fewbits_rounding rounding,
                fewbits_tally &tally) {
        const size_t count = values.size();
        const auto &kernel = kernels().natural<F>();
        if constexpr (F::exponent == 8) {
            kernel.encode(values, stream, rounding, {bytes, count}, {signs, packed_size(count, 1)},
                          tally);
        } else {
            kernel.encode_codes(values, stream, rounding, codes(), signs, tally);
        }
    }

    // `kernel` is the format's decoder or accumulator.
    template <class Value, class Kernel>
    int decode(Out<Value> values, Kernel kernel, fewbits_tally &tally) {
        if constexpr (F::exponent == 8) {
            const size_t count = values.size();
            return kernel({bytes, count}, {signs, packed_size(count, 1)}, values, tally);
        } else {
            return kernel(codes(), signs, values, tally);
        }
    }
};

template <class F> void natural_coded_encode(fewbits_unit &unit, const CodedShape &shape) {
    const auto rounding = static_cast<fewbits_rounding>(unit.option & FEWBITS_NEAREST);
    const Stream stream = stream_of(unit);
    const auto values = input<typename F::Bits>(unit.values, unit.count);
    CodedPlanes<F> planes;
    CodedWriter writer(shape, unit.sections[0]);
    for (size_t start = 0; start < unit.count; start += kCodedBlock) {
        const size_t count = std::min(kCodedBlock, values.size() - start);
        planes.encode(values.subspan(start, count), stream.from(start), rounding, unit.tally);
        const auto rest = values.subspan(start + count);
        writer.write({count, planes.bytes, planes.words, planes.signs, ahead_of(rest)});
    }
    unit.sizes[0] = writer.size();
}

// Decodes or accumulates: `values` and `kernel` are those of the direction.
template <class F, class Value, class Kernel>
int natural_coded_read(fewbits_unit &unit, const CodedShape &shape, Out<Value> values,
                       Kernel kernel) {
    CodedPlanes<F> planes;
    CodedReader reader(shape, {unit.sections[0], unit.sizes[0]});
    int status = reader.open();
    for (size_t start = 0; start < unit.count && status == FEWBITS_OK; start += kCodedBlock) {
        const size_t count = std::min<size_t>(kCodedBlock, unit.count - start);
        const auto own = values.subspan(start, count);
        status = reader.read(
            {count, planes.bytes, planes.words, planes.signs, nullptr, nullptr, ahead_of(own)});
        if (status == FEWBITS_OK) {
            status = planes.decode(own, kernel, unit.tally);
        }
    }
    return status;
}

template <class F> int natural_coded(fewbits_unit &unit, Direction direction) {
    const CodedShape shape = {unit.count, F::top_code + 1, true};
    const bool encodes = direction == Direction::encode;
    if (unit.count > SIZE_MAX / 32 || unit.sizes[1] != 0 || unit.sizes[2] != 0 ||
        (encodes && unit.sizes[0] < shape.largest())) {
        return FEWBITS_BAD_SIZE;
    }
    if (encodes) {
        natural_coded_encode<F>(unit, shape);
        return FEWBITS_OK;
    }
    const auto &kernel = kernels().natural<F>();
    const auto read = [&](auto values, auto packed, auto codes) {
        if constexpr (F::exponent == 8) {
            return natural_coded_read<F>(unit, shape, values, packed);
        } else {
            return natural_coded_read<F>(unit, shape, values, codes);
        }
    };
    if (direction == Direction::decode) {
        return read(output<typename F::Bits>(unit.values, unit.count), kernel.decode,
                    kernel.decode_codes);
    }
    return read(output<Wide<F>>(unit.values, unit.count), kernel.accumulate,
                kernel.accumulate_codes);
}

template <class F> int natural(fewbits_unit &unit, Direction direction) {
    if ((unit.option & ~(int{FEWBITS_CODED} | int{FEWBITS_NEAREST})) != 0) {
        return FEWBITS_BAD_ARGUMENT;
    }
    if ((unit.option & FEWBITS_CODED) != 0) {
        return natural_coded<F>(unit, direction);
    }
    if (!fits(unit, F::exponent, 1)) {
        return FEWBITS_BAD_SIZE;
    }
    using Bits = typename F::Bits;
    using Total = typename NaturalKernels<F>::Total;
    const auto &kernel = kernels().natural<F>();
    const Bytes exponents = {unit.sections[0], unit.sizes[0]};
    const Bytes signs = {unit.sections[1], unit.sizes[1]};
    // Judged first, so that the error does not depend on how far a table's kernel looks ahead.
    if (direction != Direction::encode && (!ends_with_zeros(exponents, unit.count, F::exponent) ||
                                           !ends_with_zeros(signs, unit.count, 1))) {
        return FEWBITS_BAD_PADDING;
    }
    switch (direction) {
    case Direction::encode:
        kernel.encode(input<Bits>(unit.values, unit.count), stream_of(unit),
                      static_cast<fewbits_rounding>(unit.option), exponents, signs, unit.tally);
        return FEWBITS_OK;
    case Direction::decode:
        return kernel.decode(exponents, signs, output<Bits>(unit.values, unit.count), unit.tally);
    default:
        return kernel.accumulate(exponents, signs, output<Total>(unit.values, unit.count),
                                 unit.tally);
    }
}

// totals += decoded values, by blocks that stay in the first cache. Through the unit's own format,
// which may hold less than the section's: accumulating is decoding and then adding.
int accumulate_cast(fewbits_unit &unit) {
    constexpr size_t block = 1024;
    const int wide = unit.dtype == FEWBITS_FLOAT64 ? FEWBITS_FLOAT64 : FEWBITS_FLOAT32;
    const size_t item = item_size(unit.option);
    for (size_t start = 0; start < unit.count; start += block) {
        const size_t count = unit.count - start < block ? unit.count - start : block;
        double decoded[block]; // room for any format
        double terms[block];
        fewbits_tally counted = {0, 0}; // by the first cast already
        cast_any(unit.option, unit.sections[0] + start * item, unit.dtype, decoded, count,
                 unit.tally);
        cast_any(unit.dtype, decoded, wide, terms, count, counted);
        const auto add = [&]<class Total>(Total) {
            const auto totals =
                output<Total>(static_cast<char *>(unit.values) + start * sizeof(Total), count);
            const auto addends = input<Total>(terms, count);
            for (size_t i = 0; i < count; ++i) {
                totals[i] = totals[i] + addends[i];
            }
        };
        wide == FEWBITS_FLOAT64 ? add(double{}) : add(float{});
    }
    return FEWBITS_OK;
}

int cast_unit(fewbits_unit &unit, Direction direction) {
    if (!is_dtype(unit.option) || !is_dtype(unit.dtype)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    if (!fits(unit, static_cast<int>(8 * item_size(unit.option)), 0)) {
        return FEWBITS_BAD_SIZE;
    }
    switch (direction) {
    case Direction::encode:
        cast_any(unit.dtype, unit.values, unit.option, unit.sections[0], unit.count, unit.tally);
        return FEWBITS_OK;
    case Direction::decode:
        cast_any(unit.option, unit.sections[0], unit.dtype, unit.values, unit.count, unit.tally);
        return FEWBITS_OK;
    default:
        return accumulate_cast(unit);
    }
}

// One step of a sum over totals of the unit's wide format.
int sum_step(fewbits_unit &unit, Direction direction) {
    if (direction != Direction::accumulate || !is_dtype(unit.dtype)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    if (!fits(unit, 0, 0)) {
        return FEWBITS_BAD_SIZE;
    }
    const auto step = [&]<class Total>(Total divisor) {
        const auto totals = output<Total>(unit.values, unit.count);
        if (unit.kind == FEWBITS_CLEAR) {
            std::memset(totals.data(), 0, totals.size_bytes());
            return FEWBITS_OK;
        }
        for (Unaligned<Total> &total : totals) {
            total = total / divisor;
        }
        return FEWBITS_OK;
    };
    return unit.dtype == FEWBITS_FLOAT64 ? step(static_cast<double>(unit.first))
                                         : step(static_cast<float>(unit.first));
}

// Sets what a row asks for; false if no row may ask for it.
bool direction_of(const fewbits_unit &unit, Direction called, Direction &direction) {
    const bool other = unit.encodes != 0 || unit.decodes != 0;
    direction = unit.encodes != 0   ? Direction::encode
                : unit.decodes != 0 ? Direction::decode
                                    : called;
    return unit.encodes + unit.decodes <= 1 && (!other || called == Direction::accumulate) &&
           (unit.remains == 0 ||
            (unit.remains == 1 && unit.kept != 0 && direction == Direction::encode));
}

int each(fewbits_unit *units, size_t count, size_t *failed, Direction called) {
    for (size_t i = 0; i < count; ++i) {
        fewbits_unit &unit = units[i];
        Direction direction = called;
        unit.tally = {0, 0};
        const int status = !direction_of(unit, called, direction) ? FEWBITS_BAD_ARGUMENT
                           : unit.kept != 0                       ? kept_unit(unit, direction)
                                                                  : plain_unit(unit, direction);
        if (status != FEWBITS_OK) {
            *failed = i;
            return status;
        }
    }
    return FEWBITS_OK;
}

} // namespace

void cast_any(int from, const void *values, int to, void *result, size_t count,
              fewbits_tally &tally) {
    with_format(from, [&]<class From>(From) -> int {
        return with_format(to, [&]<class To>(To) -> int {
            kernels().casts.between<From, To>()(input<typename From::Bits>(values, count),
                                                output<typename To::Bits>(result, count), tally);
            return FEWBITS_OK;
        });
    });
}

int plain_unit(fewbits_unit &unit, Direction direction) {
    switch (unit.kind) {
    case FEWBITS_NATURAL:
        return with_format(unit.dtype,
                           [&]<class F>(F) -> int { return natural<F>(unit, direction); });
    case FEWBITS_CAST:
        return cast_unit(unit, direction);
    case FEWBITS_CLEAR:
    case FEWBITS_DIVIDE:
        return sum_step(unit, direction);
    case FEWBITS_COMBINE:
        return direction == Direction::accumulate ? combine(unit) : int{FEWBITS_BAD_ARGUMENT};
    case FEWBITS_DITHERING:
        return dithering_unit(unit, direction);
    case FEWBITS_GRID:
        return grid_unit(unit, direction);
    case FEWBITS_TRELLIS:
        return trellis_unit(unit, direction);
    case FEWBITS_SIGN:
        return sign_unit(unit, direction);
    default:
        return FEWBITS_BAD_ARGUMENT;
    }
}

} // namespace fewbits

extern "C" {

int fewbits_encode(fewbits_unit *units, size_t count, size_t *failed) {
    return fewbits::each(units, count, failed, fewbits::Direction::encode);
}

int fewbits_decode(fewbits_unit *units, size_t count, size_t *failed) {
    return fewbits::each(units, count, failed, fewbits::Direction::decode);
}

int fewbits_accumulate(fewbits_unit *units, size_t count, size_t *failed) {
    return fewbits::each(units, count, failed, fewbits::Direction::accumulate);
}
}
