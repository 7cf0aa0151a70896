// Single values of float formats: exact to a wide number, and the nearest to one.
#pragma once

#include <bit>

#include "kernels.h"

namespace fewbits {
namespace { // internal linkage: see random.h

// A finite value in the format it is summed in. Exact.
template <class F> Wide<F> widened(typename F::Bits bits) {
    if constexpr (sizeof(bits) == 2) {
        constexpr uint32_t up = 23 - F::mantissa;
        constexpr float move = std::bit_cast<float>((127u + 127u - (F::top_code >> 1)) << 23);
        const uint32_t magnitude = bits & static_cast<uint32_t>(F::sign - 1);
        const float value = std::bit_cast<float>(magnitude << up) * move;
        return (bits & F::sign) != 0 ? -value : value;
    } else {
        return std::bit_cast<Wide<F>>(bits);
    }
}

// The value of the format nearest to `number`, ties to even, which is not negative and at most the
// format's largest value.
template <class F> typename F::Bits nearest_bits(double number) {
    using Bits = typename F::Bits;
    if constexpr (sizeof(Bits) == 2) {
        constexpr int drop = Float64::mantissa - F::mantissa;
        constexpr uint64_t bias = F::top_code >> 1;
        const auto bits = std::bit_cast<uint64_t>(number);
        if (bits < (1024 - bias) << Float64::mantissa) { // below the smallest normal number
            // Behind this sum's last bit lies what the grid cannot hold.
            constexpr double grid = std::bit_cast<double>((1076 - bias - F::mantissa) << 52);
            return static_cast<Bits>(std::bit_cast<uint64_t>(number + grid));
        }
        const uint64_t half = (F::one << (drop - 1)) - 1 + (bits >> drop & 1);
        return static_cast<Bits>(((bits + half) >> drop) - ((1023 - bias) << F::mantissa));
    } else {
        return std::bit_cast<Bits>(static_cast<Wide<F>>(number));
    }
}

} // namespace
} // namespace fewbits
