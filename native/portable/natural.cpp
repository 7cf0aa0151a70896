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

template <class F>
void encode(In<typename F::Bits> values, const Stream &stream, fewbits_rounding rounding,
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

// Calls `use(index, exponent code, negative)` for each element; refuses what encode cannot
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
fewbits_status decode(ConstBytes exponents, ConstBytes signs, Out<typename F::Bits> values,
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
fewbits_status accumulate(ConstBytes exponents, ConstBytes signs,
                          Out<typename NaturalKernels<F>::Total> totals, fewbits_tally &tally) {
    // Every format's powers of two are normal numbers of the total's format, so re-biasing is
    // exact.
    using Total = typename NaturalKernels<F>::Total;
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

} // namespace

constinit const NaturalKernels<Float32> portable_natural_float32 = {
    encode<Float32>, decode<Float32>, accumulate<Float32>};
constinit const NaturalKernels<Float64> portable_natural_float64 = {
    encode<Float64>, decode<Float64>, accumulate<Float64>};
constinit const NaturalKernels<Float16> portable_natural_float16 = {
    encode<Float16>, decode<Float16>, accumulate<Float16>};
constinit const NaturalKernels<Bfloat16> portable_natural_bfloat16 = {
    encode<Bfloat16>, decode<Bfloat16>, accumulate<Bfloat16>};

} // namespace fewbits
