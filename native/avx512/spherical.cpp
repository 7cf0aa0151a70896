// The search for directions with AVX-512: sixteen at a time, products and sums in one instruction.
#if defined(__AVX512VBMI2__)

#include <bit>

#include "avx512bw/avx512.h"
#include "spherical.h"

namespace fewbits {
namespace {

constexpr size_t kDirections = 16;

// Which of sixteen directions exceed their threshold, one bit each.
uint32_t above(const SphereTile &tile, size_t at, Wide products) {
    return _mm512_cmpgt_epi32_mask(products, load_wide(tile.need + at));
}

Wide added(Wide sum, Wide own, const SphereTile &tile, size_t pair, size_t at) {
    return _mm512_dpwssd_epi32(sum, own, load_wide(tile.pairs + pair * tile.count + at));
}

// `products(at)` are those of sixteen directions.
template <class Products>
size_t first_above(const SphereTile &tile, size_t from, Products products) {
    uint32_t mask = 0xFFFFu << (from % kDirections);
    for (size_t at = from - from % kDirections; at < tile.count; at += kDirections) {
        const uint32_t hits = above(tile, at, products(at)) & mask;
        if (hits != 0) {
            return at + static_cast<size_t>(std::countr_zero(hits));
        }
        mask = 0xFFFF;
    }
    return tile.count;
}

// Blocks of at most 2 * width coordinates stay in registers: the main road.
template <size_t width>
size_t next_short(const SphereTile &tile, const int32_t *block, size_t from) {
    Wide own[width];
    for (size_t j = 0; j < width; ++j) {
        own[j] = _mm512_set1_epi32(block[j]);
    }
    return first_above(tile, from, [&](size_t at) {
        Wide even = _mm512_setzero_si512();
        Wide odd = even;
        for (size_t j = 0; j < width; j += 2) {
            even = added(even, own[j], tile, j, at);
            odd = added(odd, own[j + 1], tile, j + 1, at);
        }
        return _mm512_add_epi32(even, odd);
    });
}

size_t next_long(const SphereTile &tile, const int32_t *block, size_t from) {
    return first_above(tile, from, [&](size_t at) {
        Wide even = _mm512_setzero_si512();
        Wide odd = even;
        size_t j = 0;
        for (; j + 2 <= tile.width; j += 2) {
            even = added(even, _mm512_set1_epi32(block[j]), tile, j, at);
            odd = added(odd, _mm512_set1_epi32(block[j + 1]), tile, j + 1, at);
        }
        if (j < tile.width) {
            even = added(even, _mm512_set1_epi32(block[j]), tile, j, at);
        }
        return _mm512_add_epi32(even, odd);
    });
}

size_t next(const SphereTile &tile, const int32_t *block, size_t from) {
    if (tile.count % kDirections != 0) {
        return avx2_spherical.next(tile, block, from);
    }
    switch (tile.width) {
    case 2:
        return next_short<2>(tile, block, from);
    case 4:
        return next_short<4>(tile, block, from);
    case 8:
        return next_short<8>(tile, block, from);
    case 12:
        return next_short<12>(tile, block, from);
    default:
        return next_long(tile, block, from);
    }
}

} // namespace

constinit const SphereKernels avx512_spherical = {nullptr, next, nullptr};

} // namespace fewbits

#endif
