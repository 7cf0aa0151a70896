// The kernels of the spherical operator for AVX2.
#if defined(__AVX2__)

#include <bit>
#include <cmath>

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

// All ones in 16-bit lanes whose bit is set.
Vector lanes_of(uint32_t bits) {
    const Vector each = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096,
                                          8192, 16384, INT16_MIN);
    const Vector own = _mm256_and_si256(_mm256_set1_epi16(static_cast<int16_t>(bits)), each);
    return _mm256_cmpeq_epi16(own, each);
}

void place(const SphereDirection &direction, double *y) {
    if (direction.size % 16 != 0) {
        portable_spherical.place(direction, y);
        return;
    }
    alignas(32) int16_t own[kSphereLargest];
    Words source(direction.stream, direction.stream.first);
    Vector sums = _mm256_setzero_si256();
    for (size_t at = 0; at < direction.size; at += 16) {
        alignas(32) uint32_t words[8];
        store(words, source.next());
        for (size_t i = 0; i < 8; ++i) {
            own[at + 2 * i] = direction.table[words[i] & 0xFFFF];
            own[at + 2 * i + 1] = direction.table[words[i] >> 16];
        }
        const Vector pairs = load(own + at);
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, pairs));
    }
    alignas(32) int32_t lanes[8];
    store(lanes, sums);
    int64_t square = 0;
    for (const int32_t lane : lanes) {
        square += lane;
    }
    const __m256d scaled =
        _mm256_set1_pd(direction.length / std::sqrt(static_cast<double>(square)));
    const __m256d by = _mm256_set1_pd(direction.by);
    for (size_t at = 0; at < direction.size; at += 16) {
        const Vector flips = lanes_of(direction.flips[at / 32] >> (at % 32));
        alignas(32) int16_t turned[16];
        store(turned, _mm256_sub_epi16(_mm256_xor_si256(load(own + at), flips), flips));
        for (size_t i = 0; i < 16; i += 4) {
            const __m128i four = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(turned + i));
            const __m256d wide = _mm256_cvtepi32_pd(_mm_cvtepi16_epi32(four));
            _mm256_storeu_pd(y + at + i, _mm256_mul_pd(_mm256_mul_pd(wide, scaled), by));
        }
    }
}

} // namespace

constinit const SphereKernels avx2_spherical = {fill, next, place};

} // namespace fewbits

#endif
