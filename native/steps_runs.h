// Codes of one coder block of sparse dithering, and the runs in it that share a scale.
#pragma once

#include "coded.h"
#include "steps.h"

namespace fewbits {
namespace { // internal linkage: see random.h

template <class Code> bool has_nonzero(const Code *codes, size_t count) {
    return codes[0] != 0 || std::memcmp(codes, codes + 1, sizeof(Code) * (count - 1)) != 0;
}

// The scales of a vector: float32, or float64 for float64.
template <class F>
using ScaleOf = std::conditional_t<sizeof(typename F::Bits) == 8, Float64, Float32>;

struct StepBlock {
    uint8_t bytes[kCodedBlock];
    uint16_t words[kCodedBlock];
    uint8_t signs[kCodedBlock / 8];

    void clear(size_t first, size_t size) {
        std::fill_n(bytes + first, size, uint8_t{0});
        std::fill_n(words + first, size, uint16_t{0});
        for (size_t i = first; i < first + size; ++i) {
            if (i % 8 == 0 && i + 8 <= first + size) {
                signs[i / 8] = 0;
                i += 7;
            } else {
                set_sign(i, false);
            }
        }
    }
    void set_sign(size_t i, bool negative) {
        signs[i / 8] = static_cast<uint8_t>((signs[i / 8] & ~(1u << i % 8)) |
                                            static_cast<unsigned>(negative) << i % 8);
    }
    bool sign(size_t i) const { return (signs[i / 8] >> (i % 8) & 1) != 0; }
    bool some(size_t first, size_t size, bool small) const {
        return small ? has_nonzero(bytes + first, size) : has_nonzero(words + first, size);
    }
};

// Part of a coder block whose values share a scale.
struct StepPlace {
    size_t number; // of the scale
    size_t start;  // in the vector
    size_t first;  // in the coder block
    size_t size;
};

// Calls `use(place)` for the runs of the coder block that begins at `block`.
template <class Use> void each_run(size_t block, size_t total, size_t together, Use use) {
    const size_t end = std::min(total, block + kCodedBlock);
    for (size_t start = block; start < end;) {
        const size_t number = start / together;
        const size_t left = together - start % together;
        const size_t size = std::min(end - start, left);
        use(StepPlace{number, start, start - block, size});
        start += size;
    }
}

// A run's codes as bytes; returns the largest. Kernels write whole bytes of signs, so a run that
// does not begin at one is written elsewhere first.
template <class F>
uint32_t quantise_run(const StepRun<F> &run, size_t first, StepBlock &codes, fewbits_tally &tally) {
    constexpr size_t piece = 4096;
    if (first % 8 == 0) {
        return kernels().steps<F>().quantise(run, codes.bytes + first, codes.signs + first / 8,
                                             tally);
    }
    uint32_t largest = 0;
    for (size_t start = 0; start < run.values.size(); start += piece) {
        const size_t size = std::min(piece, run.values.size() - start);
        uint8_t signs[piece / 8];
        const StepRun<F> own = {run.values.subspan(start, size), run.stream.from(start), run.step,
                                run.rounding};
        largest = std::max(
            largest, kernels().steps<F>().quantise(own, codes.bytes + first + start, signs, tally));
        for (size_t i = 0; i < size; ++i) {
            codes.set_sign(first + start + i, (signs[i / 8] >> (i % 8) & 1) != 0);
        }
    }
    return largest;
}

// The same as words; the signs are there already. What is not finite was counted.
template <class F> uint32_t quantise_words(const StepRun<F> &run, size_t first, StepBlock &codes) {
    uint32_t largest = 0;
    fewbits_tally counted = {0, 0};
    each_code(run, 0, run.values.size(), counted, [&](size_t i, int32_t code) {
        const auto magnitude = static_cast<uint32_t>(std::abs(code));
        largest = std::max(largest, magnitude);
        codes.words[first + i] = static_cast<uint16_t>(magnitude);
    });
    return largest;
}

// Sums of a run; those of float64 are of values times 2^-shift.
template <class F>
StepSums run_sums(In<typename F::Bits> values, const StepBlock &codes, size_t first, bool words,
                  int shift) {
    if constexpr (std::is_same_v<F, Float64>) {
        return words ? shifted_sums<F>(values, codes.words + first, shift)
                     : kernels().steps<F>().shifted_sums(values, codes.bytes + first, shift);
    } else {
        return words ? step_sums<F>(values, codes.words + first)
                     : kernels().steps<F>().sums(values, codes.bytes + first);
    }
}

// Values of a run, whose scale may be anything: those of one that is not finite are the quiet NaN.
template <class F>
void dequantise_run(const StepRun<F> &run, const StepBlock &codes, size_t first, bool small,
                    Out<typename F::Bits> values) {
    if (!std::isfinite(run.step)) {
        std::fill(values.begin(), values.end(), F::quiet_nan);
        return;
    }
    constexpr size_t piece = 4096;
    uint8_t moved[piece / 8];
    const bool aligned = first % 8 == 0;
    const size_t step = aligned ? values.size() : piece;
    for (size_t start = 0; start < values.size(); start += step) {
        const auto own = values.subspan(start, std::min(step, values.size() - start));
        const uint8_t *signs = codes.signs + first / 8;
        if (!aligned) {
            std::fill(std::begin(moved), std::end(moved), uint8_t{0});
            for (size_t i = 0; i < own.size(); ++i) {
                moved[i / 8] =
                    static_cast<uint8_t>(moved[i / 8] | codes.sign(first + start + i) << (i % 8));
            }
            signs = moved;
        }
        const StepRun<F> part = {{}, run.stream.from(start), run.step, run.rounding};
        if (small) {
            kernels().steps<F>().dequantise(part, codes.bytes + first + start, signs, own);
        } else {
            dequantise_exactly(part, 0, own.size(), codes.words + first + start, signs, own);
        }
    }
}

} // namespace
} // namespace fewbits
