// What the AVX2 files share. Included only by files that are compiled for AVX2.
#pragma once

// GCC 12 finds fault with its own header, where AVX-512's functions leave unused lanes open.
#pragma GCC diagnostic push
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstring>

#include "portable/portable.h"
#include "random.h"

namespace fewbits {
namespace { // internal linkage: see random.h

using Vector = __m256i;
constexpr size_t kGroup = 32; // elements handled at once
constexpr size_t kBlock =
    1 << 16; // elements between checks for a change of the random stream's segment

inline Vector all(uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }
inline Vector load(const void *from) {
    return _mm256_loadu_si256(static_cast<const Vector *>(from));
}
inline void store(void *to, Vector x) { _mm256_storeu_si256(static_cast<Vector *>(to), x); }
inline bool any(Vector x) { return !_mm256_testz_si256(x, x); }

// A constant that the compiler must keep in a register or on the stack: left alone, GCC builds it
// anew from an immediate in every turn of a loop that is short of registers, which cost a third of
// the encoder's speed.
inline Vector pinned(uint32_t x) {
    Vector vector = all(x);
    asm("" : "+x"(vector));
    return vector;
}

// Fetch `bytes` bytes that lie a page ahead of `at`. The processor's own prefetching stops at the
// end of a page; asking for the next one in time made encoding a third faster. A fetch beyond a
// buffer's end does nothing.
template <size_t bytes> void fetch_ahead(const void *at) {
    for (size_t line = 0; line < bytes; line += 64) {
        _mm_prefetch(reinterpret_cast<const char *>(reinterpret_cast<uintptr_t>(at) + 4096 + line),
                     _MM_HINT_T0);
    }
}

// What goes with the symbols of one turn, into the second cache: a block is larger than the first.
// Beyond a buffer's end as above.
[[gnu::always_inline]] inline void fetch_turn(const Ahead &ahead, size_t symbol, size_t lanes) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(ahead.at) + symbol * ahead.each;
    for (size_t line = 0; line < lanes * ahead.each; line += 64) {
        _mm_prefetch(reinterpret_cast<const char *>(at + line), _MM_HINT_T1);
    }
}

template <class T> T load_as(const void *from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
}

// Eight consecutive words a call, within one segment.
struct Words {
    Vector counter, k1;
    const Vector step = pinned(8 * kStep), multiply1 = pinned(kMultiply1),
                 multiply2 = pinned(kMultiply2);

    Words(const Stream &stream, uint64_t first) {
        const Segment segment(stream.key, static_cast<uint32_t>(first >> 32));
        const Vector low = _mm256_add_epi32(all(static_cast<uint32_t>(first)),
                                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
        counter = _mm256_add_epi32(_mm256_mullo_epi32(low, all(kStep)), all(segment.k0));
        k1 = pinned(segment.k1);
    }

    Vector next() {
        Vector x = counter;
        counter = _mm256_add_epi32(counter, step);
        x = _mm256_mullo_epi32(_mm256_xor_si256(x, _mm256_srli_epi32(x, 16)), multiply1);
        x = _mm256_add_epi32(x, k1);
        x = _mm256_mullo_epi32(_mm256_xor_si256(x, _mm256_srli_epi32(x, 15)), multiply2);
        return _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
    }
};

inline bool crosses_segment(uint64_t first, size_t count) {
    return (first >> 32) != ((first + count - 1) >> 32);
}

// The bits of a byte of a plane, the lowest first, each as the top bit of a 32-bit lane.
inline Vector eight_signs(uint8_t plane) {
    const Vector place = _mm256_setr_epi32(31 - 0, 31 - 1, 31 - 2, 31 - 3, 31 - 4, 31 - 5, 31 - 6,
                                           31 - 7); // how far each bit is from the top
    return _mm256_and_si256(_mm256_sllv_epi32(all(plane), place), all(0x80000000u));
}

// float32 as it is; a 16-bit format in the upper half of 32 bits.
template <class F> Vector load_values(const Unaligned<typename F::Bits> *from) {
    if constexpr (sizeof(typename F::Bits) == 4) {
        return load(from);
    } else {
        return _mm256_slli_epi32(
            _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from))), 16);
    }
}

} // namespace

// Entries of the group of stages.
void avx2_hadamard32(std::span<float> values, float scale);
void avx2_hadamard64(std::span<double> values, double scale);
uint32_t avx2_signed32(In<uint32_t> values, const Stream *stream, Out<uint32_t> out);
uint64_t avx2_signed64(In<uint64_t> values, const Stream *stream, Out<uint64_t> out);
DrawCounts avx2_draws_near(const Stream &stream, size_t count, DrawRange range,
                           std::span<uint32_t> near);
void avx2_draws_mask(const Stream &stream, uint32_t low, std::span<uint32_t> masks);

extern const CommonKernels avx2_common;
extern const CastKernels avx2_casts;
extern const NaturalKernels<Float32> avx2_natural_float32;
extern const NaturalKernels<Float64> avx2_natural_float64;
extern const NaturalKernels<Float16> avx2_natural_float16;
extern const NaturalKernels<Bfloat16> avx2_natural_bfloat16;
extern const CoderKernels avx2_coder;
extern const PhaseKernels avx2_phases;
extern const TrellisKernels avx2_trellis;
extern const StageKernels avx2_stages;
extern const DitherKernels<Float32> avx2_dithering_float32;
extern const DitherKernels<Float64> avx2_dithering_float64;
extern const DitherKernels<Float16> avx2_dithering_float16;
extern const DitherKernels<Bfloat16> avx2_dithering_bfloat16;
extern const SignKernels avx2_sign;
extern const StepKernels<Float32> avx2_steps_float32;
extern const StepKernels<Float64> avx2_steps_float64;
extern const StepKernels<Float16> avx2_steps_float16;
extern const StepKernels<Bfloat16> avx2_steps_bfloat16;
extern const SphereKernels avx2_spherical;
extern const ProductKernels<float> avx2_products32;
extern const ProductKernels<double> avx2_products64;
extern const SwitchKernels avx2_switching;
extern const HashKernels avx2_sealing;

} // namespace fewbits
