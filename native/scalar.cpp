// The portable table. Every other table must give the same bits.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "dithering.h"
#include "kernels.h"
#include "random.h"
#include "scalar.h"
#include "select.h"
#include "spherical.h"
#include "steps.h"
#include "switch.h"

namespace fewbits {
namespace {

constexpr size_t kBlock = 64; // elements; any width then fills whole bytes

// ---- CRC-32C, eight bytes a step through eight tables ----

constexpr auto crc_tables = [] {
    std::array<std::array<uint32_t, 256>, 8> tables{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0u);
        }
        tables[0][byte] = crc;
    }
    for (size_t byte = 0; byte < 256; ++byte) {
        for (size_t t = 1; t < 8; ++t) {
            tables[t][byte] = (tables[t - 1][byte] >> 8) ^ tables[0][tables[t - 1][byte] & 255];
        }
    }
    return tables;
}();

uint32_t crc32c(uint32_t crc, ConstBytes data) {
    crc = ~crc;
    size_t i = 0;
    for (; i + 8 <= data.size(); i += 8) {
        uint32_t next = 0;
        for (size_t byte = 0; byte < 8; ++byte) {
            const uint32_t mixed = byte < 4 ? (crc >> (8 * byte)) & 255 : 0;
            next ^= crc_tables[7 - byte][data[i + byte] ^ mixed];
        }
        crc = next;
    }
    for (; i < data.size(); ++i) {
        crc = (crc >> 8) ^ crc_tables[0][(crc ^ data[i]) & 255];
    }
    return ~crc;
}

// ---- random words ----

uint32_t word_at(const uint32_t key[4], uint64_t index) {
    return Segment(key, static_cast<uint32_t>(index >> 32)).word(static_cast<uint32_t>(index));
}

void words(const Stream &stream, std::span<uint32_t> out) {
    uint64_t index = stream.first;
    for (size_t i = 0; i < out.size();) {
        const Segment segment(stream.key, static_cast<uint32_t>(index >> 32));
        do {
            out[i++] = segment.word(static_cast<uint32_t>(index++));
        } while (i < out.size() && static_cast<uint32_t>(index) != 0);
    }
}

// The mantissa-sized draw of one element: the top bits of one word, or of two for float64.
template <class F> typename F::Bits draw(const Stream &stream, size_t i) {
    const uint64_t index = stream.first + i;
    if constexpr (F::mantissa <= 32) {
        return static_cast<typename F::Bits>(word_at(stream.key, index) >> (32 - F::mantissa));
    } else {
        const uint64_t low = word_at(stream.key, 2 * index);
        const uint64_t high = word_at(stream.key, 2 * index + 1);
        return static_cast<typename F::Bits>((high << 32 | low) >> (64 - F::mantissa));
    }
}

// ---- bit packing ----

void pack(std::span<const uint16_t> codes, int width, Bytes packed) {
    uint64_t pending = 0;
    int bits = 0;
    size_t at = 0;
    for (const uint16_t code : codes) {
        pending |= uint64_t{code} << bits;
        bits += width;
        for (; bits >= 8; bits -= 8, pending >>= 8) {
            packed[at++] = static_cast<uint8_t>(pending);
        }
    }
    if (bits > 0) {
        packed[at] = static_cast<uint8_t>(pending);
    }
}

fewbits_status unpack(ConstBytes packed, int width, uint32_t bound, std::span<uint16_t> codes) {
    uint64_t pending = 0;
    int bits = 0;
    size_t at = 0;
    uint32_t largest = 0;
    const uint64_t mask = (uint64_t{1} << width) - 1;
    for (uint16_t &code : codes) {
        for (; bits < width; bits += 8) {
            pending |= uint64_t{packed[at++]} << bits;
        }
        code = static_cast<uint16_t>(pending & mask);
        largest = std::max<uint32_t>(largest, code);
        pending >>= width;
        bits -= width;
    }
    if (pending != 0) {
        return FEWBITS_BAD_PADDING;
    }
    return largest < bound ? FEWBITS_OK : FEWBITS_BAD_CODE;
}

// ---- natural compression ----

struct Code {
    uint16_t exponent;
    bool negative;
};

// One element. The carry of magnitude + addend into the exponent is the rounding.
template <class F>
Code natural_code(typename F::Bits bits, typename F::Bits addend, fewbits_tally &tally) {
    const auto magnitude = static_cast<typename F::Bits>(bits & ~F::sign);
    const bool negative = (bits & F::sign) != 0;
    if (magnitude >= F::infinity) {
        ++tally.nonfinite;
        return {static_cast<uint16_t>(F::top_code), false};
    }
    if (magnitude > F::largest_power) {
        ++tally.saturated;
        return {static_cast<uint16_t>(F::top_code - 1), negative};
    }
    const auto exponent = static_cast<uint16_t>((uint64_t{magnitude} + addend) >> F::mantissa);
    return {exponent, negative && exponent != 0};
}

template <class F>
void natural_encode(In<typename F::Bits> values, const Stream &stream, fewbits_rounding rounding,
                    Bytes exponents, Bytes signs, fewbits_tally &tally) {
    // Ties go to the smaller magnitude: half minus one carries only above 1.5 * 2^a.
    constexpr auto half = static_cast<typename F::Bits>((F::one << (F::mantissa - 1)) - 1);
    for (size_t start = 0; start < values.size(); start += kBlock) {
        const size_t count = std::min(kBlock, values.size() - start);
        uint16_t codes[kBlock];
        uint64_t sign_bits = 0;
        for (size_t i = 0; i < count; ++i) {
            const auto addend = rounding == FEWBITS_NEAREST ? half : draw<F>(stream, start + i);
            const Code code = natural_code<F>(values[start + i], addend, tally);
            codes[i] = code.exponent;
            sign_bits |= uint64_t{code.negative} << i;
        }
        pack({codes, count}, F::exponent,
             exponents.subspan(packed_size(start, F::exponent), packed_size(count, F::exponent)));
        for (size_t byte = 0; byte < packed_size(count, 1); ++byte) {
            signs[start / 8 + byte] = static_cast<uint8_t>(sign_bits >> (8 * byte));
        }
    }
}

// Calls `use(index, exponent code, negative)` for each element; refuses what natural_encode cannot
// have written.
template <class F, class Use>
fewbits_status natural_read(ConstBytes exponents, ConstBytes signs, size_t total,
                            fewbits_tally &tally, Use use) {
    for (size_t start = 0; start < total; start += kBlock) {
        const size_t count = std::min(kBlock, total - start);
        uint16_t codes[kBlock];
        const auto status = unpack(
            exponents.subspan(packed_size(start, F::exponent), packed_size(count, F::exponent)),
            F::exponent, F::top_code + 1, {codes, count});
        if (status != FEWBITS_OK) {
            return status;
        }
        uint64_t sign_bits = 0;
        for (size_t byte = 0; byte < packed_size(count, 1); ++byte) {
            sign_bits |= uint64_t{signs[start / 8 + byte]} << (8 * byte);
        }
        if (count < kBlock && (sign_bits >> count) != 0) {
            return FEWBITS_BAD_PADDING;
        }
        for (size_t i = 0; i < count; ++i) {
            const bool negative = (sign_bits >> i) & 1;
            if (negative && (codes[i] == 0 || codes[i] == F::top_code)) {
                return FEWBITS_BAD_SIGN;
            }
            tally.nonfinite += codes[i] == F::top_code;
            use(start + i, codes[i], negative);
        }
    }
    return FEWBITS_OK;
}

template <class F>
fewbits_status natural_decode(ConstBytes exponents, ConstBytes signs, Out<typename F::Bits> values,
                              fewbits_tally &tally) {
    using Bits = typename F::Bits;
    return natural_read<F>(
        exponents, signs, values.size(), tally, [&](size_t i, uint16_t code, bool negative) {
            const auto power = static_cast<Bits>(uint64_t{code} << F::mantissa);
            values[i] = code == F::top_code
                            ? F::quiet_nan
                            : static_cast<Bits>(power | (negative ? F::sign : Bits{0}));
        });
}

template <class F>
fewbits_status natural_accumulate(ConstBytes exponents, ConstBytes signs,
                                  Out<typename FormatKernels<F>::Total> totals,
                                  fewbits_tally &tally) {
    // Every format's powers of two are normal numbers of the total's format, so re-biasing is
    // exact.
    using Total = typename FormatKernels<F>::Total;
    using Wide = std::conditional_t<std::is_same_v<Total, double>, Float64, Float32>;
    constexpr uint32_t rebias = (Wide::top_code >> 1) - (F::top_code >> 1);
    return natural_read<F>(
        exponents, signs, totals.size(), tally, [&](size_t i, uint16_t code, bool negative) {
            auto bits = static_cast<typename Wide::Bits>(uint64_t{code + rebias} << Wide::mantissa);
            bits = code == 0 ? 0 : code == F::top_code ? Wide::quiet_nan : bits;
            totals[i] = totals[i] + std::bit_cast<Total>(static_cast<typename Wide::Bits>(
                                        negative ? bits | Wide::sign : bits));
        });
}

// ---- casts ----

// The exact value of a finite element; every format's values are doubles.
template <class F> double widen(typename F::Bits bits) {
    if constexpr (std::is_same_v<F, Float64>) {
        return std::bit_cast<double>(bits);
    } else if constexpr (std::is_same_v<F, Float32>) {
        return std::bit_cast<float>(bits);
    } else {
        constexpr int bias = static_cast<int>(F::top_code >> 1);
        const auto magnitude = static_cast<typename F::Bits>(bits & ~F::sign);
        const int code = magnitude >> F::mantissa;
        const int fraction = magnitude & ((1 << F::mantissa) - 1);
        const int significand = code == 0 ? fraction : fraction | (1 << F::mantissa);
        const double value = std::ldexp(significand, std::max(code, 1) - bias - F::mantissa);
        return (bits & F::sign) ? -value : value;
    }
}

// Round a finite double to the nearest value of F, ties to even, in one rounding; finite values
// stay finite.
template <class F> typename F::Bits narrow(double value, fewbits_tally &tally) {
    using Bits = typename F::Bits;
    const uint64_t bits = std::bit_cast<uint64_t>(value);
    const Bits sign = (bits & Float64::sign) ? F::sign : Bits{0};
    constexpr int shift = Float64::mantissa - F::mantissa;
    constexpr int lowest =
        1 - static_cast<int>(F::top_code >> 1); // exponent of the smallest normal number
    const uint64_t magnitude = bits & ~Float64::sign;
    const int exponent = static_cast<int>(magnitude >> Float64::mantissa) - 1023;
    // Below the normal range the grid stops shrinking: drop as many more bits as the exponent
    // lacks.
    const int drop = shift + std::max(lowest - exponent, 0);
    if (magnitude == 0 || drop > Float64::mantissa + 1) {
        return sign; // less than half of the smallest subnormal number (a double's own subnormals
                     // included)
    }
    const uint64_t significand =
        (magnitude & ((F::one << Float64::mantissa) - 1)) | (F::one << Float64::mantissa);
    uint64_t kept = drop == 0 ? significand : significand >> drop;
    if (drop > 0) {
        const uint64_t rest = significand & ((F::one << drop) - 1);
        const uint64_t half = F::one << (drop - 1);
        kept += rest > half || (rest == half && (kept & 1));
    }
    // `kept` holds the hidden bit in the normal range: adding makes it, and any carry, part of the
    // exponent.
    const uint64_t base =
        exponent < lowest ? 0 : static_cast<uint64_t>(exponent - lowest) << F::mantissa;
    uint64_t result = base + kept;
    if (result >= F::infinity) {
        ++tally.saturated;
        result = F::infinity - 1;
    }
    return static_cast<Bits>(result | sign);
}

template <class From, class To>
void cast(In<typename From::Bits> input, Out<typename To::Bits> output, fewbits_tally &tally) {
    for (size_t i = 0; i < input.size(); ++i) {
        const auto magnitude = static_cast<typename From::Bits>(input[i] & ~From::sign);
        const bool finite = magnitude < From::infinity;
        tally.nonfinite += !finite;
        if constexpr (std::is_same_v<From, To>) {
            output[i] = input[i];
        } else if (finite) {
            output[i] = narrow<To>(widen<From>(input[i]), tally);
        } else if (magnitude == From::infinity) {
            output[i] = static_cast<typename To::Bits>(To::infinity |
                                                       ((input[i] & From::sign) ? To::sign : 0));
        } else {
            output[i] = To::quiet_nan;
        }
    }
}

template <class F>
constexpr FormatKernels<F> format = {natural_encode<F>, natural_decode<F>, natural_accumulate<F>,
                                     cast<F, F>};

template <class From, class To>
void cast_void(const void *input, void *output, size_t count, fewbits_tally &tally) {
    cast<From, To>(fewbits::input<typename From::Bits>(input, count),
                   fewbits::output<typename To::Bits>(output, count), tally);
}

template <class From>
void cast_from(const void *input, int to, void *output, size_t count, fewbits_tally &tally) {
    switch (to) {
    case FEWBITS_FLOAT32:
        return cast_void<From, Float32>(input, output, count, tally);
    case FEWBITS_FLOAT64:
        return cast_void<From, Float64>(input, output, count, tally);
    case FEWBITS_FLOAT16:
        return cast_void<From, Float16>(input, output, count, tally);
    default:
        return cast_void<From, Bfloat16>(input, output, count, tally);
    }
}

} // namespace

void cast_any(int from, const void *input, int to, void *output, size_t count,
              fewbits_tally &tally) {
    switch (from) {
    case FEWBITS_FLOAT32:
        return cast_from<Float32>(input, to, output, count, tally);
    case FEWBITS_FLOAT64:
        return cast_from<Float64>(input, to, output, count, tally);
    case FEWBITS_FLOAT16:
        return cast_from<Float16>(input, to, output, count, tally);
    default:
        return cast_from<Bfloat16>(input, to, output, count, tally);
    }
}

constinit const Kernels scalar_kernels = {
    .crc32c = crc32c,
    .words = words,
    .pack = pack,
    .unpack = unpack,
    .count_symbols = CodedScalar::count_symbols,
    .rans_encode = CodedScalar::rans_encode,
    .rans_decode = CodedScalar::rans_decode,
    .nonzero = CodedScalar::nonzero,
    .join_bits = CodedScalar::join_bits,
    .spread_bits = CodedScalar::spread_bits,
    .join_bytes = CodedScalar::join_bytes,
    .spread_bytes = CodedScalar::spread_bytes,
    .count_keys = StagesScalar::count_keys,
    .gather_keys = StagesScalar::gather_keys,
    .hadamard32 = StagesScalar::hadamard32,
    .hadamard64 = StagesScalar::hadamard64,
    .norm_terms = norm_terms_scalar,
    .dither = dither_scalar,
    .undither = undither_scalar,
    .steps = &scalar_steps,
    .sphere_fill = SphereScalar::fill,
    .sphere_next = SphereScalar::next,
    .switching = &scalar_switch,
    .formats = {format<Float32>, format<Float64>, format<Float16>, format<Bfloat16>},
    .float32_to_float16 = cast<Float32, Float16>,
    .float32_to_bfloat16 = cast<Float32, Bfloat16>,
    .float16_to_float32 = cast<Float16, Float32>,
    .bfloat16_to_float32 = cast<Bfloat16, Float32>,
};

} // namespace fewbits
