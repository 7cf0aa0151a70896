// What the AVX2 files of dithering share: where codes go, and which blocks groups may take.
#pragma once

#include <algorithm>

#include "avx2/loads.h"
#include "dithering.h"

namespace fewbits {
namespace { // internal linkage: see random.h

// Calls `use(start, whole, count)` for every block between checks for a change of the stream's
// segment: `whole` of its `count` elements are groups within one. An element takes so many draws.
template <uint64_t draws, size_t group = kGroup, class Use>
void each_stretch(size_t total, const Stream &stream, Use use) {
    for (size_t start = 0; start < total; start += kBlock) {
        const size_t count = std::min(kBlock, total - start);
        const bool plain = !crosses_segment((stream.first + start) * draws, count * draws);
        use(start, plain ? count / group * group : 0, count);
    }
}

// Four vectors of eight signed integers -> 32 signed levels, one a byte.
inline Vector joined_bytes(const Vector (&four)[4]) {
    const Vector mixed = _mm256_packs_epi16(_mm256_packs_epi32(four[0], four[1]),
                                            _mm256_packs_epi32(four[2], four[3]));
    return _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// Eight bytes of `width` bits each in every 64-bit field move together to its low end.
struct Joiner {
    Vector one, two, four;
    __m128i first, second, third, by_one, by_two, by_four;

    explicit Joiner(int width) {
        const auto ones = [](int bits) { return (uint64_t{1} << bits) - 1; };
        const uint64_t w = ones(width);
        const uint64_t ww = ones(2 * width);
        one = _mm256_set1_epi16(static_cast<short>(w));
        two = _mm256_set1_epi32(static_cast<int>(ww));
        four = _mm256_set1_epi64x(static_cast<long long>(ones(4 * width)));
        first = _mm_cvtsi32_si128(8 - width);
        second = _mm_cvtsi32_si128(16 - 2 * width);
        third = _mm_cvtsi32_si128(32 - 4 * width);
        by_one = _mm_cvtsi32_si128(width);
        by_two = _mm_cvtsi32_si128(2 * width);
        by_four = _mm_cvtsi32_si128(4 * width);
    }

    static Vector step(Vector x, Vector mask, __m128i down, __m128i up) {
        const Vector high = _mm256_and_si256(_mm256_srl_epi64(x, down), _mm256_sll_epi64(mask, up));
        return _mm256_or_si256(_mm256_and_si256(x, mask), high);
    }

    Vector join(Vector bytes) const {
        Vector x = step(bytes, one, first, by_one);
        x = step(x, two, second, by_two);
        return step(x, four, third, by_four);
    }
};

// Each of the four fields to `width` bytes. Stores eight bytes at a time, so there must be room for
// 32 behind `to` in all.
inline void store_fields(uint8_t *to, Vector fields, size_t width) {
    uint64_t words[4];
    store(words, fields);
    for (size_t i = 0; i < 4; ++i) {
        std::memcpy(to + i * width, &words[i], 8);
    }
}

// Where codes go: packed, or as levels and signs.
template <class F> struct PackedCodes {
    const DitherShape &shape;
    Bytes packed;
    Joiner joiner{std::min(shape.width(), 8)}; // wider codes are not put, see takes
    Vector levels = _mm256_set1_epi8(static_cast<char>(shape.levels));

    bool takes() const { return shape.width() <= 8; }

    void put(size_t at, Vector each) const {
        const Vector negative = _mm256_cmpgt_epi8(_mm256_setzero_si256(), each);
        const Vector codes =
            _mm256_add_epi8(_mm256_abs_epi8(each), _mm256_and_si256(negative, levels));
        const auto width = static_cast<size_t>(shape.width());
        const Bytes to = packed.subspan(at / 8 * width);
        const Vector fields = joiner.join(codes);
        if (to.size() >= 32) [[likely]] {
            store_fields(to.data(), fields, width);
        } else {
            uint8_t last[32];
            store_fields(last, fields, width);
            std::memcpy(to.data(), last, 4 * width);
        }
    }

    void put_exactly(size_t at, In<typename F::Bits> values, const Stream &stream, Wide<F> scale,
                     fewbits_tally &tally) const {
        const int width = shape.width();
        portable_dithering<F>().dither(
            values, stream, scale, shape,
            packed.subspan(packed_size(at, width), packed_size(values.size(), width)), tally);
    }
};

template <class F> struct LevelCodes {
    const DitherShape &shape;
    uint8_t *levels;
    uint8_t *signs;

    bool takes() const { return true; }

    void put(size_t at, Vector each) const {
        const auto plane = static_cast<uint32_t>(_mm256_movemask_epi8(each));
        store(levels + at, _mm256_abs_epi8(each));
        std::memcpy(signs + at / 8, &plane, 4);
    }

    void put_exactly(size_t at, In<typename F::Bits> values, const Stream &stream, Wide<F> scale,
                     fewbits_tally &tally) const {
        portable_dithering<F>().dither_levels(values, stream, scale, shape, levels + at,
                                              signs + at / 8, tally);
    }
};

} // namespace

// Kernels from codes to values.
template <class F> struct Undither {
    using Bits = typename F::Bits;
    static void codes(std::span<const uint16_t> codes, Wide<F> scale, const DitherRatios &ratios,
                      Out<Bits> values);
    static void levels(const uint8_t *levels, const uint8_t *signs, Wide<F> scale,
                       const DitherRatios &ratios, Out<Bits> values);
};

} // namespace fewbits
