// Signs, one element at a time.
#include "sign.h"

#include <bit>

#include "portable/portable.h"

namespace fewbits {
namespace {

template <class F> double value_of(typename F::Bits magnitude) {
    if constexpr (F::exponent == 8) {
        return std::bit_cast<float>(uint32_t{magnitude} << (23 - F::mantissa));
    } else if (const uint32_t exponent = magnitude >> F::mantissa; exponent == 0) {
        return magnitude * 0x1p-24; // a subnormal number
    } else {
        return std::bit_cast<float>((uint32_t{magnitude} << (23 - F::mantissa)) + (112u << 23));
    }
}

template <class F> SignTerms scan(In<typename F::Bits> values, uint8_t *signs) {
    using Bits = typename F::Bits;
    SignTerms terms;
    double lanes[kSignLanes] = {};
    std::fill_n(signs, packed_size(values.size(), 1), uint8_t{0});
    for (size_t i = 0; i < values.size(); ++i) {
        const Bits bits = values[i];
        const auto magnitude = static_cast<Bits>(bits & (F::sign - 1));
        signs[i / 8] = static_cast<uint8_t>(signs[i / 8] | (bits != magnitude) << (i % 8));
        const bool finite = magnitude < F::infinity;
        terms.nonfinite += !finite;
        if (finite && magnitude != 0) {
            ++terms.used;
            terms.smallest = std::min<uint64_t>(terms.smallest, magnitude);
            terms.largest = std::max<uint64_t>(terms.largest, magnitude);
            if constexpr (sizeof(Bits) < 8) {
                lanes[i % kSignLanes] += value_of<F>(magnitude);
            }
        }
    }
    for (size_t half = kSignLanes / 2; half > 0; half /= 2) {
        for (size_t i = 0; i < half; ++i) {
            lanes[i] += lanes[i + half];
        }
    }
    terms.sum = lanes[0];
    return terms;
}

bool is_set(const uint8_t *signs, size_t i) { return (signs[i / 8] >> (i % 8) & 1) != 0; }

template <class Bits> void fill(const uint8_t *signs, Bits scale, Out<Bits> values) {
    constexpr int top = 8 * sizeof(Bits) - 1;
    const Bits both[2] = {scale, static_cast<Bits>(scale | Bits{1} << top)};
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = both[is_set(signs, i)];
    }
}

template <class Total> void add(const uint8_t *signs, Total scale, Out<Total> totals) {
    const Total both[2] = {scale, -scale};
    for (size_t i = 0; i < totals.size(); ++i) {
        totals[i] = totals[i] + both[is_set(signs, i)];
    }
}

} // namespace

constinit const SignKernels portable_sign = {
    .scan_float32 = scan<Float32>,
    .scan_float64 = scan<Float64>,
    .scan_float16 = scan<Float16>,
    .scan_bfloat16 = scan<Bfloat16>,
    .fill16 = fill<uint16_t>,
    .fill32 = fill<uint32_t>,
    .fill64 = fill<uint64_t>,
    .add32 = add<float>,
    .add64 = add<double>,
};

} // namespace fewbits
