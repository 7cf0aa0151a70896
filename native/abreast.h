// Blocks that are decoded side by side.
#pragma once

#include "kernels.h"

namespace fewbits {

// One of several blocks that are decoded side by side, as `decode` of the coder has it.
struct RansBlock {
    ConstBytes data;
    const RansDecodeTable *table;
    std::span<uint32_t> states;
    Bytes symbols;
    Ahead ahead;
    const uint8_t *end; // the result
};
constexpr size_t kAbreast = 4;   // blocks at most
constexpr int kAbreastLanes = 5; // log2

} // namespace fewbits
