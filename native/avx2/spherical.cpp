// The kernels of the spherical operator for AVX2.
#if defined(__AVX2__)

#include <bit>

#include "avx2/avx2.h"
#include "spherical.h"

namespace fewbits {
namespace {

Vector pairs_of(const SphereTile &tile, size_t pair, size_t at) {
    return _mm256_load_si256(reinterpret_cast<const Vector *>(tile.pairs + pair * tile.count + at));
}

// Which of eight directions exceed their threshold, one bit each.
unsigned above(const SphereTile &tile, size_t at, Vector products) {
    const Vector need = _mm256_load_si256(reinterpret_cast<const Vector *>(tile.need + at));
    return static_cast<unsigned>(
        _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(products, need))));
}

// Blocks of at most 2 * width coordinates stay in registers: the main road.
template <size_t width>
size_t next_short(const SphereTile &tile, const int32_t *block, size_t from) {
    Vector own[width];
    for (size_t j = 0; j < width; ++j) {
        own[j] = _mm256_set1_epi32(block[j]);
    }
    unsigned mask = 0xFFu << (from % 8);
    for (size_t at = from - from % 8; at < tile.count; at += 8, mask = 0xFF) {
        Vector sum = _mm256_madd_epi16(own[0], pairs_of(tile, 0, at));
        for (size_t j = 1; j < width; ++j) {
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(own[j], pairs_of(tile, j, at)));
        }
        const unsigned hits = above(tile, at, sum) & mask;
        if (hits != 0) {
            return at + static_cast<size_t>(std::countr_zero(hits));
        }
    }
    return tile.count;
}

size_t next_long(const SphereTile &tile, const int32_t *block, size_t from) {
    unsigned mask = 0xFFu << (from % 8);
    for (size_t at = from - from % 8; at < tile.count; at += 8, mask = 0xFF) {
        Vector even = _mm256_setzero_si256();
        Vector odd = even;
        size_t j = 0;
        for (; j + 2 <= tile.width; j += 2) {
            const Vector first = _mm256_set1_epi32(block[j]);
            const Vector second = _mm256_set1_epi32(block[j + 1]);
            even = _mm256_add_epi32(even, _mm256_madd_epi16(first, pairs_of(tile, j, at)));
            odd = _mm256_add_epi32(odd, _mm256_madd_epi16(second, pairs_of(tile, j + 1, at)));
        }
        if (j < tile.width) {
            const Vector last = _mm256_set1_epi32(block[j]);
            even = _mm256_add_epi32(even, _mm256_madd_epi16(last, pairs_of(tile, j, at)));
        }
        const unsigned hits = above(tile, at, _mm256_add_epi32(even, odd)) & mask;
        if (hits != 0) {
            return at + static_cast<size_t>(std::countr_zero(hits));
        }
    }
    return tile.count;
}

void fill(const int16_t *table, const Stream &stream, SphereTile &tile) {
    const Segment segment(stream.key, static_cast<uint32_t>(stream.first >> 32));
    const auto width = static_cast<uint32_t>(tile.width);
    const Vector k0 = all(segment.k0), k1 = all(segment.k1), step = all(kStep);
    const Vector multiply1 = all(kMultiply1), multiply2 = all(kMultiply2);
    const Vector lanes = _mm256_mullo_epi32(all(width), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    for (size_t t = 0; t < tile.count; t += 8) {
        Vector squares = _mm256_setzero_si256();
        const auto first = static_cast<uint32_t>(stream.first) + static_cast<uint32_t>(t) * width;
        for (uint32_t j = 0; j < width; ++j) {
            const Vector index = _mm256_add_epi32(all(first + j), lanes);
            Vector x = _mm256_add_epi32(_mm256_mullo_epi32(index, step), k0);
            x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
            x = _mm256_add_epi32(_mm256_mullo_epi32(x, multiply1), k1);
            x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 15));
            x = _mm256_mullo_epi32(x, multiply2);
            alignas(32) uint32_t words[8];
            store(words, _mm256_xor_si256(x, _mm256_srli_epi32(x, 16)));
            int32_t *pairs = tile.pairs + j * tile.count + t;
            for (size_t lane = 0; lane < 8; ++lane) {
                const auto low = static_cast<uint16_t>(table[words[lane] & 0xFFFF]);
                const auto high = static_cast<uint16_t>(table[words[lane] >> 16]);
                pairs[lane] = static_cast<int32_t>(uint32_t{low} | uint32_t{high} << 16);
            }
            Vector own = load(pairs);
            if (tile.odd && j + 1 == width) {
                own = _mm256_and_si256(own, all(0xFFFF));
                store(pairs, own);
            }
            squares = _mm256_add_epi32(squares, _mm256_madd_epi16(own, own));
        }
        store(tile.squares + t, squares);
    }
}

size_t next(const SphereTile &tile, const int32_t *block, size_t from) {
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

constinit const SphereKernels avx2_spherical = {fill, next};

} // namespace fewbits

#endif
