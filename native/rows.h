// Rows of a table of units, and what they may ask for.
#pragma once

#include "kernels.h"

namespace fewbits {

enum class Direction { encode, decode, accumulate };

// Calls `use` with a value of the format's type; BAD_ARGUMENT for an unknown dtype.
template <class Use> int with_format(int dtype, Use use) {
    switch (dtype) {
    case FEWBITS_FLOAT32:
        return use(Float32{});
    case FEWBITS_FLOAT64:
        return use(Float64{});
    case FEWBITS_FLOAT16:
        return use(Float16{});
    case FEWBITS_BFLOAT16:
        return use(Bfloat16{});
    default:
        return FEWBITS_BAD_ARGUMENT;
    }
}

// A unit without a stage: all of its values.
int plain_unit(fewbits_unit &unit, Direction direction);
// A unit whose largest values are a plain unit of their own.
int kept_unit(fewbits_unit &unit, Direction direction);
// values = factors[0] * x + factors[1] * y.
int combine(fewbits_unit &unit);
int dithering_unit(fewbits_unit &unit, Direction direction);
int grid_unit(fewbits_unit &unit, Direction direction);
int trellis_unit(fewbits_unit &unit, Direction direction);
int sign_unit(fewbits_unit &unit, Direction direction);

// Values that share a scale: all, or a power of two of them.
constexpr size_t kLargestScaleBlock = 1 << 16;
inline bool is_scale_block(uint64_t block) {
    return block == 0 || ((block & (block - 1)) == 0 && block >= 8 && block <= kLargestScaleBlock);
}

// How many pieces of `size` elements there are; the sum of both numbers may not fit.
inline size_t pieces_of(size_t total, size_t size) { return total / size + (total % size != 0); }

inline Stream stream_of(const fewbits_unit &unit) {
    return {{unit.key[0], unit.key[1], unit.key[2], unit.key[3]}, unit.first};
}

} // namespace fewbits
