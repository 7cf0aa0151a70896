// The arithmetic of in-network aggregation: powers of two in a byte, summed as 64-bit integers. The
// specification is src/fewbits/reference/switching.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "switch/fewbits_switch.h"

namespace fewbits {

struct Stream;

constexpr uint8_t kSwitchSign = 0x80;
constexpr uint8_t kSwitchMagnitude = 0x7F;
constexpr uint32_t kSwitchMostSum = 64; // a sum's magnitude is at most 2^63

// Exponents of float32, biased, that a worker's codes can have.
struct SwitchSpan {
    uint32_t lowest; // of code 1
    uint32_t most;   // the largest code
};

struct SwitchKernels {
    // Float32 bits to codes.
    void (*encode)(std::span<const uint32_t> values, const Stream &stream, const SwitchSpan &span,
                   uint8_t *codes, fewbits_switch_tally &tally);
    // Whether every code is one that a worker with this span sends.
    bool (*check)(std::span<const uint8_t> codes, uint32_t most);
    // sums = codes, or sums += codes; the codes have been checked.
    void (*set)(std::span<const uint8_t> codes, int64_t *sums);
    void (*add)(std::span<const uint8_t> codes, int64_t *sums);
    // Sums to codes, at random without bias.
    void (*round)(std::span<const int64_t> sums, const Stream &stream, uint8_t *codes);
    // Codes to the values that a table of 256 gives them.
    void (*decode)(std::span<const uint8_t> codes, const uint32_t *table, uint32_t *values);
};

} // namespace fewbits
