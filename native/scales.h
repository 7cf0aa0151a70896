// Norms of blocks and scales that are sent, as src/fewbits/reference/grid_scales.py has them.
#pragma once

#include <limits>

#include "norms.h"

namespace fewbits {
namespace { // internal linkage: see random.h

// Positive numbers as a scale, towards 0 or away from it. Results that are not normal numbers are
// rounded away from 0; what is too large becomes the largest number.
template <class T> T rounded_scale(double number, bool up) {
    constexpr T most = std::numeric_limits<T>::max();
    constexpr T normal = std::numeric_limits<T>::min();
    if constexpr (std::is_same_v<T, double>) {
        const double above = std::nextafter(number, std::numeric_limits<double>::infinity());
        return std::min(number < normal ? above : number, most);
    } else {
        const auto near = static_cast<float>(std::min(number, double{most}));
        const float below = near > number ? std::nextafter(near, 0.0f) : near;
        const float above =
            near < number ? std::nextafter(near, std::numeric_limits<float>::infinity()) : near;
        return std::min(up || below < normal ? above : below, most);
    }
}

struct Scanned {
    double squares; // of values divided by 2^shift
    double peak;
    int shift;
};

template <class F> Scanned scanned(In<typename F::Bits> values) {
    typename F::Bits largest = 0;
    Scanned found = {};
    found.squares = block_sum<F>(values, FEWBITS_NORM_2, largest, found.shift);
    found.peak = widened<F>(largest);
    return found;
}

// The power of two that values of float64 are divided by.
template <class F> int shift_of(In<typename F::Bits> values) {
    typename F::Bits largest = 0;
    int shift = 0;
    if constexpr (std::is_same_v<F, Float64>) {
        block_sum<F>(values, FEWBITS_NORM_MAX, largest, shift);
        std::frexp(widened<F>(largest), &shift);
    }
    return shift;
}

template <class F> size_t nonfinite(In<typename F::Bits> values) {
    return static_cast<size_t>(std::count_if(values.begin(), values.end(), [](auto bits) {
        return (bits & (F::sign - 1)) >= F::infinity;
    }));
}

template <class F> size_t count_above(In<typename F::Bits> values, double limit) {
    return static_cast<size_t>(std::count_if(values.begin(), values.end(), [&](auto bits) {
        const auto magnitude = static_cast<typename F::Bits>(bits & (F::sign - 1));
        return magnitude < F::infinity && widened<F>(magnitude) > limit;
    }));
}

} // namespace
} // namespace fewbits
