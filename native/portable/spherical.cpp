// The search for directions, one at a time.
#include "spherical.h"

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

} // namespace

constinit const SphereKernels portable_spherical = {fill, next};

} // namespace fewbits
