// Casts between all float formats, one element at a time.
#include <algorithm>
#include <bit>
#include <cmath>

#include "portable/portable.h"

namespace fewbits {
namespace {

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

} // namespace

constinit const CastKernels portable_casts = {
    .float32 = cast<Float32, Float32>,
    .float64 = cast<Float64, Float64>,
    .float16 = cast<Float16, Float16>,
    .bfloat16 = cast<Bfloat16, Bfloat16>,
    .float32_to_float64 = cast<Float32, Float64>,
    .float32_to_float16 = cast<Float32, Float16>,
    .float32_to_bfloat16 = cast<Float32, Bfloat16>,
    .float64_to_float32 = cast<Float64, Float32>,
    .float64_to_float16 = cast<Float64, Float16>,
    .float64_to_bfloat16 = cast<Float64, Bfloat16>,
    .float16_to_float32 = cast<Float16, Float32>,
    .float16_to_float64 = cast<Float16, Float64>,
    .float16_to_bfloat16 = cast<Float16, Bfloat16>,
    .bfloat16_to_float32 = cast<Bfloat16, Float32>,
    .bfloat16_to_float64 = cast<Bfloat16, Float64>,
    .bfloat16_to_float16 = cast<Bfloat16, Float16>,
};

} // namespace fewbits
