// The randomised Walsh-Hadamard rotation of blocks; src/fewbits/reference/rotation.py is the
// specification.
#pragma once

#include "fewbits_stages.h"
#include "rows.h"

namespace fewbits {

constexpr size_t kLargestRotation = 1 << 16;

inline bool is_rotation(const fewbits_rotation &how) {
    return how.block != 0 && (how.block & (how.block - 1)) == 0 && how.block <= kLargestRotation;
}

// What is added up over blocks.
struct Rotated {
    fewbits_tally tally; // of the result
    uint64_t given;      // values that were not finite before
};

// The arithmetic of 16-bit formats is that of float32.
template <class F>
using RotationFloat = std::conditional_t<sizeof(typename F::Bits) == 8, double, float>;

// From `values` to `out`, which may be the same. `work` has room for a block; it may be `out`
// unless the format has 16 bits.
template <class F>
void rotate_blocks(const void *values, size_t count, size_t block, const Stream &stream,
                   bool inverse, void *out, RotationFloat<F> *work, Rotated &met);

} // namespace fewbits
