// Whole multiples of a step: what the kernels of sparse dithering share. The arithmetic is that of
// src/fewbits/reference/grid.py.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>

#include "formats.h"
#include "random.h"

namespace fewbits {

// Consecutive values that share a step.
template <class F> struct StepRun {
    In<typename F::Bits> values;
    Stream stream; // that of values[0]
    Wide<F> step;  // above 0
    fewbits_step_rounding rounding;
};

// Sums over a run's codes q and the values x that gave them.
struct StepSums {
    double products; // of |x| and |q|, in the order that the reference gives
    double squares;  // of q; exact in any order
};

constexpr size_t kSumLanes = 32;     // sums that grow side by side
constexpr uint32_t kLastSmall = 254; // the last code that has its place in a byte

namespace { // internal linkage: see random.h

// A random word as the middle of its 2^-32th of [-1/2, 1/2). Exact.
[[maybe_unused]] double dither_of(uint32_t word) {
    return (static_cast<double>(word) + 0.5) * 0x1p-32 - 0.5;
}

// The nearest integer, ties to even: in the sum the last bit counts ones.
[[maybe_unused]] double nearest_integer(double t) { return (t + 0x1.8p52) - 0x1.8p52; }

// The code of a finite value, with its sign; 65536 stands for all that is larger.
[[maybe_unused]] int32_t step_code(double value, double step, fewbits_step_rounding rounding,
                                   uint32_t word) {
    constexpr double most = 65536.0;
    const double t = std::clamp(value / step, -most, most);
    if (rounding == FEWBITS_STEP_STOCHASTIC) {
        const double uniform = (static_cast<double>(word) + 0.5) * 0x1p-32;
        const auto up = static_cast<int32_t>(std::abs(t) + uniform);
        return t < 0 ? -up : up;
    }
    const bool dithered = rounding == FEWBITS_STEP_SUBTRACTIVE;
    return static_cast<int32_t>(nearest_integer(dithered ? t + dither_of(word) : t));
}

// Calls `use(i, code)` for values [first, last) of a run.
template <class F, class Use>
void each_code(const StepRun<F> &run, size_t first, size_t last, fewbits_tally &tally, Use use) {
    const double step = run.step;
    const bool draws = run.rounding != FEWBITS_STEP_NEAREST;
    for (size_t i = first; i < last; ++i) {
        const typename F::Bits bits = run.values[i];
        if ((bits & (F::sign - 1)) >= F::infinity) {
            ++tally.nonfinite;
            use(i, 0);
            continue;
        }
        uint32_t word = 0;
        if (draws) {
            const uint64_t index = run.stream.first + i;
            const Segment segment(run.stream.key, static_cast<uint32_t>(index >> 32));
            word = segment.word(static_cast<uint32_t>(index));
        }
        use(i, step_code(widened<F>(bits), step, run.rounding, word));
    }
}

// Bytes and signs of [first, last); `first` is a multiple of 8.
template <class F>
uint32_t quantise_exactly(const StepRun<F> &run, size_t first, size_t last, uint8_t *codes,
                          uint8_t *signs, fewbits_tally &tally) {
    uint32_t largest = 0;
    std::fill(signs + first / 8, signs + packed_size(last, 1), uint8_t{0});
    each_code(run, first, last, tally, [&](size_t i, int32_t code) {
        const uint32_t byte = std::min(static_cast<uint32_t>(std::abs(code)), kLastSmall + 1);
        largest = std::max(largest, byte);
        codes[i] = static_cast<uint8_t>(byte);
        signs[i / 8] = static_cast<uint8_t>(signs[i / 8] | (code < 0) << (i % 8));
    });
    return largest;
}

// The value of a code: one rounding, no -0, and the largest number where it would be infinite.
template <class F> typename F::Bits step_value(double code, double scale) {
    const double most = widened<F>(static_cast<typename F::Bits>(F::infinity - 1));
    const double y = std::clamp(code * scale + 0.0, -most, most);
    const auto bits = nearest_bits<F>(std::abs(y));
    // A sign on a 0 that is none before it is rounded stays.
    return static_cast<typename F::Bits>(y < 0 ? bits | F::sign : bits);
}

// Values [first, last) of a run, whose `rounding` tells whether a dither is to be taken away.
template <class F, class Code>
void dequantise_exactly(const StepRun<F> &run, size_t first, size_t last, const Code *codes,
                        const uint8_t *signs, Out<typename F::Bits> values) {
    for (size_t i = first; i < last; ++i) {
        double code = codes[i];
        code = (signs[i / 8] >> (i % 8) & 1) != 0 ? -code : code;
        if (run.rounding == FEWBITS_STEP_SUBTRACTIVE) {
            const uint64_t index = run.stream.first + i;
            const Segment segment(run.stream.key, static_cast<uint32_t>(index >> 32));
            code -= dither_of(segment.word(static_cast<uint32_t>(index)));
        }
        values[i] = step_value<F>(code, run.step);
    }
}

// Values are times `first`, then times `second`.
template <class F, class Code>
StepSums step_sums(In<typename F::Bits> values, const Code *codes, double first, double second) {
    double lanes[kSumLanes] = {};
    uint64_t squares = 0;
    for (size_t i = 0; i < values.size(); ++i) {
        const double x = widened<F>(static_cast<typename F::Bits>(values[i] & (F::sign - 1)));
        lanes[i % kSumLanes] += x * first * second * codes[i];
        squares += uint64_t{codes[i]} * codes[i];
    }
    for (size_t half = kSumLanes / 2; half > 0; half /= 2) {
        for (size_t i = 0; i < half; ++i) {
            lanes[i] += lanes[i + half];
        }
    }
    return {lanes[0], static_cast<double>(squares)};
}

template <class F, class Code> StepSums step_sums(In<typename F::Bits> values, const Code *codes) {
    return step_sums<F>(values, codes, 1.0, 1.0);
}

// 2^-shift as two factors, because it may be too large for one. Only the first rounds, once.
struct Shrink {
    double first, second;

    explicit Shrink(int shift)
        : first(std::ldexp(1.0, std::min(-shift, 1000))),
          second(std::ldexp(1.0, std::max(-shift - 1000, 0))) {}
};

template <class F, class Code>
StepSums shifted_sums(In<typename F::Bits> values, const Code *codes, int shift) {
    const Shrink by(shift);
    return step_sums<F>(values, codes, by.first, by.second);
}

} // namespace

} // namespace fewbits
