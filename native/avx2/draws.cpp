// Which random words are large, with AVX2.
#if defined(__AVX2__)

#include "draws.h"

#include "avx2/avx2.h"

namespace fewbits {

namespace {

constexpr size_t kTogether = 32; // words

inline uint32_t top_bits(Vector lanes) {
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(lanes)));
}

// All ones in lanes whose word is at least `low`, without signs.
inline Vector at_least(Vector words, Vector low) {
    return _mm256_cmpeq_epi32(_mm256_max_epu32(words, low), words);
}

} // namespace

DrawCounts avx2_draws_near(const Stream &stream, size_t count, DrawRange range,
                           std::span<uint32_t> near) {
    const Vector flip = pinned(0x80000000u);
    const Vector high = _mm256_xor_si256(all(range.high), flip);
    const Vector low = all(range.low), width = all(range.high - range.low);
    Words source(stream, stream.first);
    Vector above = _mm256_setzero_si256(); // minus the number, in each lane: at most 2^29
    DrawCounts counts{};
    size_t i = 0;
    for (; i + kTogether <= count; i += kTogether) {
        Vector outside = _mm256_cmpeq_epi32(flip, flip);
        for (size_t j = 0; j < 4; ++j) {
            const Vector word = source.next();
            above = _mm256_add_epi32(above, _mm256_cmpgt_epi32(_mm256_xor_si256(word, flip), high));
            const Vector over = _mm256_sub_epi32(word, low);
            const Vector within = _mm256_cmpeq_epi32(_mm256_min_epu32(over, width), over);
            outside = _mm256_andnot_si256(within, outside);
        }
        if (top_bits(outside) != 0xFF) {
            const uint64_t known = counts.above;
            counts = near_exactly(stream, i, i + kTogether, range, near, counts);
            counts.above = known;
        }
    }
    alignas(32) uint32_t lanes[8];
    store(lanes, above);
    for (const uint32_t lane : lanes) {
        counts.above += uint32_t{0} - lane;
    }
    return near_exactly(stream, i, count, range, near, counts);
}

void avx2_draws_mask(const Stream &stream, uint32_t low, std::span<uint32_t> masks) {
    const Vector least = all(low);
    Words source(stream, stream.first);
    for (uint32_t &mask : masks) {
        uint32_t bits = 0;
        for (int j = 0; j < 4; ++j) {
            bits |= top_bits(at_least(source.next(), least)) << (8 * j);
        }
        mask = bits;
    }
}

} // namespace fewbits

#endif
