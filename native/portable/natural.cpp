// Natural compression, one element at a time.
#include <bit>

#include "portable/packing.h"
#include "portable/portable.h"
#include "random.h"

namespace fewbits {
namespace {

constexpr size_t kBlock = 64; // elements; any width then fills whole bytes

uint32_t word_at(const uint32_t key[4], uint64_t index) {
    return Segment(key, static_cast<uint32_t>(index >> 32)).word(static_cast<uint32_t>(index));
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

// Calls `put(start, codes)` for the exponents of every block.
template <class F, class Put>
void encode_blocks(In<typename F::Bits> values, const Stream &stream, fewbits_rounding rounding,
                   uint8_t *signs, fewbits_tally &tally, Put put) {
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
        put(start, std::span<const uint16_t>{codes, count});
        for (size_t byte = 0; byte < packed_size(count, 1); ++byte) {
            signs[start / 8 + byte] = static_cast<uint8_t>(sign_bits >> (8 * byte));
        }
    }
}

template <class F>
void encode(In<typename F::Bits> values, const Stream &stream, fewbits_rounding rounding,
            Bytes exponents, Bytes signs, fewbits_tally &tally) {
    encode_blocks<F>(values, stream, rounding, signs.data(), tally, [&](size_t start, auto codes) {
        pack(codes, F::exponent,
             exponents.subspan(packed_size(start, F::exponent),
                               packed_size(codes.size(), F::exponent)));
    });
}

template <class F> using CodeOf = typename NaturalKernels<F>::Code;

template <class F>
void encode_codes(In<typename F::Bits> values, const Stream &stream, fewbits_rounding rounding,
                  CodeOf<F> *exponents, uint8_t *signs, fewbits_tally &tally) {
    encode_blocks<F>(values, stream, rounding, signs, tally, [&](size_t start, auto codes) {
        std::transform(codes.begin(), codes.end(), exponents + start,
                       [](uint16_t code) { return static_cast<CodeOf<F>>(code); });
    });
}

// Calls `use(index, exponent code, negative)` for each element; refuses what encode cannot
// have written. `get(start, codes)` finds the exponents of a block.
template <class F, class Get, class Use>
fewbits_status natural_read(Get get, const uint8_t *signs, size_t total, fewbits_tally &tally,
                            Use use) {
    for (size_t start = 0; start < total; start += kBlock) {
        const size_t count = std::min(kBlock, total - start);
        uint16_t codes[kBlock];
        const fewbits_status status = get(start, std::span<uint16_t>{codes, count});
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

template <class F> auto packed_codes(ConstBytes exponents) {
    return [=](size_t start, std::span<uint16_t> codes) {
        const ConstBytes own = exponents.subspan(packed_size(start, F::exponent),
                                                 packed_size(codes.size(), F::exponent));
        return unpack(own, F::exponent, F::top_code + 1, codes);
    };
}
template <class F> auto plain_codes(const CodeOf<F> *exponents) {
    return [=](size_t start, std::span<uint16_t> codes) {
        std::copy_n(exponents + start, codes.size(), codes.begin());
        return FEWBITS_OK;
    };
}

// Writes values.
template <class F> auto written(Out<typename F::Bits> values) {
    using Bits = typename F::Bits;
    return [=](size_t i, uint16_t code, bool negative) {
        const auto power = static_cast<Bits>(uint64_t{code} << F::mantissa);
        values[i] = code == F::top_code ? F::quiet_nan
                                        : static_cast<Bits>(power | (negative ? F::sign : Bits{0}));
    };
}

// Adds to totals. Every format's powers of two are normal numbers of the total's format, so
// re-biasing is exact.
template <class F> auto added(Out<Wide<F>> totals) {
    using Total = std::conditional_t<std::is_same_v<Wide<F>, double>, Float64, Float32>;
    return [=](size_t i, uint16_t code, bool negative) {
        constexpr uint32_t rebias = (Total::top_code >> 1) - (F::top_code >> 1);
        auto bits = static_cast<typename Total::Bits>(uint64_t{code + rebias} << Total::mantissa);
        bits = code == 0 ? 0 : code == F::top_code ? Total::quiet_nan : bits;
        totals[i] = totals[i] + std::bit_cast<Wide<F>>(static_cast<typename Total::Bits>(
                                    negative ? bits | Total::sign : bits));
    };
}

template <class F>
fewbits_status decode(ConstBytes exponents, ConstBytes signs, Out<typename F::Bits> values,
                      fewbits_tally &tally) {
    return natural_read<F>(packed_codes<F>(exponents), signs.data(), values.size(), tally,
                           written<F>(values));
}

template <class F>
fewbits_status accumulate(ConstBytes exponents, ConstBytes signs, Out<Wide<F>> totals,
                          fewbits_tally &tally) {
    return natural_read<F>(packed_codes<F>(exponents), signs.data(), totals.size(), tally,
                           added<F>(totals));
}

template <class F>
fewbits_status decode_codes(const CodeOf<F> *exponents, const uint8_t *signs,
                            Out<typename F::Bits> values, fewbits_tally &tally) {
    return natural_read<F>(plain_codes<F>(exponents), signs, values.size(), tally,
                           written<F>(values));
}

template <class F>
fewbits_status accumulate_codes(const CodeOf<F> *exponents, const uint8_t *signs,
                                Out<Wide<F>> totals, fewbits_tally &tally) {
    return natural_read<F>(plain_codes<F>(exponents), signs, totals.size(), tally,
                           added<F>(totals));
}

} // namespace

constinit const NaturalKernels<Float32> portable_natural_float32 = {
    encode<Float32>, decode<Float32>, accumulate<Float32>};
constinit const NaturalKernels<Float64> portable_natural_float64 = {
    encode<Float64>,       decode<Float64>,       accumulate<Float64>,
    encode_codes<Float64>, decode_codes<Float64>, accumulate_codes<Float64>};
constinit const NaturalKernels<Float16> portable_natural_float16 = {
    encode<Float16>,       decode<Float16>,       accumulate<Float16>,
    encode_codes<Float16>, decode_codes<Float16>, accumulate_codes<Float16>};
constinit const NaturalKernels<Bfloat16> portable_natural_bfloat16 = {
    encode<Bfloat16>, decode<Bfloat16>, accumulate<Bfloat16>};

} // namespace fewbits
