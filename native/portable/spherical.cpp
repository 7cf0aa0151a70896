// The search for directions, one at a time.
#include "spherical.h"

#include <cmath>

#include "portable/portable.h"

namespace fewbits {
namespace {

void fill(const int16_t *table, const Stream &stream, SphereTile &tile) {
    const Segment segment(stream.key, static_cast<uint32_t>(stream.first >> 32));
    auto index = static_cast<uint32_t>(stream.first);
    for (size_t t = 0; t < tile.count; ++t) {
        int32_t square = 0;
        for (size_t j = 0; j < tile.width; ++j) {
            const uint32_t word = segment.word(index++);
            const bool padded = tile.odd && j + 1 == tile.width;
            const int32_t own = pair(table[word & 0xFFFF], padded ? int16_t{0} : table[word >> 16]);
            tile.pairs[j * tile.count + t] = own;
            square += low(own) * low(own) + high(own) * high(own);
        }
        tile.squares[t] = square;
    }
}

size_t next(const SphereTile &tile, const int32_t *block, size_t from) {
    for (size_t t = from; t < tile.count; ++t) {
        int32_t product = 0;
        for (size_t j = 0; j < tile.width; ++j) {
            const int32_t own = tile.pairs[j * tile.count + t];
            product += low(own) * low(block[j]) + high(own) * high(block[j]);
        }
        if (product > tile.need[t]) {
            return t;
        }
    }
    return tile.count;
}

void place(const SphereDirection &direction, double *y) {
    const Segment segment(direction.stream.key,
                          static_cast<uint32_t>(direction.stream.first >> 32));
    const auto start = static_cast<uint32_t>(direction.stream.first);
    int64_t square = 0;
    for (size_t i = 0; i < direction.size; ++i) {
        const uint32_t word = segment.word(start + static_cast<uint32_t>(i / 2));
        const int32_t own = direction.table[i % 2 == 0 ? word & 0xFFFF : word >> 16];
        const bool flip = (direction.flips[i / 32] >> (i % 32) & 1) != 0;
        square += own * own;
        y[i] = flip ? -own : own;
    }
    const double scaled = direction.length / std::sqrt(static_cast<double>(square));
    for (size_t i = 0; i < direction.size; ++i) {
        y[i] = y[i] * scaled * direction.by;
    }
}

} // namespace

constinit const SphereKernels portable_spherical = {fill, next, place};

} // namespace fewbits
