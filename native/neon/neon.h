// What the NEON files share. Included only by files that are compiled for aarch64.
#pragma once

#include <arm_neon.h>

#include <cstring>

#include "portable/portable.h"
#include "random.h"

namespace fewbits {
namespace { // internal linkage: see random.h

constexpr size_t kGroup = 16; // elements handled at once: a byte each fills a vector
constexpr size_t kBlock =
    1 << 16; // elements between checks for a change of the random stream's segment

// Loads and stores of bytes: values may begin at any address.
inline uint8x16_t load(const void *from) { return vld1q_u8(static_cast<const uint8_t *>(from)); }
inline uint16x8_t load16(const void *from) { return vreinterpretq_u16_u8(load(from)); }
inline uint32x4_t load32(const void *from) { return vreinterpretq_u32_u8(load(from)); }
inline uint64x2_t load64(const void *from) { return vreinterpretq_u64_u8(load(from)); }
inline void store(void *to, uint8x16_t x) { vst1q_u8(static_cast<uint8_t *>(to), x); }
inline void store16(void *to, uint16x8_t x) { store(to, vreinterpretq_u8_u16(x)); }
inline void store32(void *to, uint32x4_t x) { store(to, vreinterpretq_u8_u32(x)); }
inline void store64(void *to, uint64x2_t x) { store(to, vreinterpretq_u8_u64(x)); }

template <class T> T load_as(const void *from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
}

inline bool any(uint8x16_t x) { return vmaxvq_u8(x) != 0; }
inline bool any(uint32x4_t x) { return vmaxvq_u32(x) != 0; }
inline uint32x4_t magnitudes(uint32x4_t bits) {
    return vandq_u32(bits, vdupq_n_u32(~Float32::sign));
}

// ---- planes of bits ----

// Bit i where byte i of the mask is all ones.
inline uint32_t bits_of(uint8x16_t mask) {
    const uint8x16_t places = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t each = vandq_u8(mask, places);
    return vaddv_u8(vget_low_u8(each)) | static_cast<uint32_t>(vaddv_u8(vget_high_u8(each))) << 8;
}

// The reverse: sixteen bits, the lowest first, as bytes of ones.
inline uint8x16_t mask_of(const uint8_t *plane) {
    const uint8x8_t places = {1, 2, 4, 8, 16, 32, 64, 128};
    return vcombine_u8(vtst_u8(vdup_n_u8(plane[0]), places), vtst_u8(vdup_n_u8(plane[1]), places));
}

// Eight bits as 16-bit lanes of ones, and as 32-bit lanes.
inline uint16x8_t mask16_of(uint8_t plane) {
    const uint16x8_t places = {1, 2, 4, 8, 16, 32, 64, 128};
    return vtstq_u16(vdupq_n_u16(plane), places);
}
struct Mask32 {
    uint32x4_t low, high;

    explicit Mask32(uint8_t plane) {
        const int16x8_t each = vreinterpretq_s16_u16(mask16_of(plane));
        low = vreinterpretq_u32_s32(vmovl_s16(vget_low_s16(each)));
        high = vreinterpretq_u32_s32(vmovl_high_s16(each));
    }
    // Each as the top bit alone.
    uint32x4_t low_signs() const { return vandq_u32(low, vdupq_n_u32(Float32::sign)); }
    uint32x4_t high_signs() const { return vandq_u32(high, vdupq_n_u32(Float32::sign)); }
};

// ---- sixteen values in four vectors ----

// Small integers, one a byte; those above 255 as 255.
inline uint8x16_t to_bytes(const uint32x4_t (&four)[4]) {
    const uint16x8_t low = vqmovn_high_u32(vqmovn_u32(four[0]), four[1]);
    const uint16x8_t high = vqmovn_high_u32(vqmovn_u32(four[2]), four[3]);
    return vqmovn_high_u16(vqmovn_u16(low), high);
}

// A byte of ones where the top bit of a value is set.
inline uint8x16_t signs_of(const uint32x4_t (&four)[4]) {
    const uint16x8_t low = vshrn_high_n_u32(vshrn_n_u32(four[0], 16), four[1], 16);
    const uint16x8_t high = vshrn_high_n_u32(vshrn_n_u32(four[2], 16), four[3], 16);
    const uint8x16_t tops = vshrn_high_n_u16(vshrn_n_u16(low, 8), high, 8);
    return vcltzq_s8(vreinterpretq_s8_u8(tops));
}

// ---- random words ----

inline uint32x4_t mixed(uint32x4_t x, uint32x4_t k1) {
    x = vmlaq_u32(k1, veorq_u32(x, vshrq_n_u32(x, 16)), vdupq_n_u32(kMultiply1));
    x = vmulq_u32(veorq_u32(x, vshrq_n_u32(x, 15)), vdupq_n_u32(kMultiply2));
    return veorq_u32(x, vshrq_n_u32(x, 16));
}

// Four consecutive words a call, within one segment.
struct Words {
    uint32x4_t counter, k1;

    Words(const Stream &stream, uint64_t first) {
        const Segment segment(stream.key, static_cast<uint32_t>(first >> 32));
        const uint32x4_t lanes = {0, 1, 2, 3};
        const uint32x4_t low = vaddq_u32(vdupq_n_u32(static_cast<uint32_t>(first)), lanes);
        counter = vmlaq_u32(vdupq_n_u32(segment.k0), low, vdupq_n_u32(kStep));
        k1 = vdupq_n_u32(segment.k1);
    }

    uint32x4_t next() {
        const uint32x4_t x = counter;
        counter = vaddq_u32(counter, vdupq_n_u32(4 * kStep));
        return mixed(x, k1);
    }
};

inline bool crosses_segment(uint64_t first, size_t count) {
    return (first >> 32) != ((first + count - 1) >> 32);
}

// ---- sums of 32 lanes ----

// Lane i of the reference is half i % 2 of vector i / 2.
struct SumLanes {
    static constexpr size_t count = 32;
    float64x2_t lanes[count / 2];

    SumLanes() {
        for (float64x2_t &pair : lanes) {
            pair = vdupq_n_f64(0);
        }
    }

    // The lanes from 4 * j on grow by these.
    void add(size_t j, float64x2_t low, float64x2_t high) {
        lanes[2 * j] = vaddq_f64(lanes[2 * j], low);
        lanes[2 * j + 1] = vaddq_f64(lanes[2 * j + 1], high);
    }
    void add(size_t j, float32x4_t values) {
        add(j, vcvt_f64_f32(vget_low_f32(values)), vcvt_high_f64_f32(values));
    }

    double total() {
        for (size_t half = count / 4; half > 0; half /= 2) {
            for (size_t i = 0; i < half; ++i) {
                lanes[i] = vaddq_f64(lanes[i], lanes[i + half]);
            }
        }
        return vgetq_lane_f64(lanes[0], 0) + vgetq_lane_f64(lanes[0], 1);
    }
};

} // namespace

extern const CommonKernels neon_common;
extern const CastKernels neon_casts;
extern const NaturalKernels<Float32> neon_natural_float32;
extern const NaturalKernels<Float64> neon_natural_float64;
extern const NaturalKernels<Float16> neon_natural_float16;
extern const NaturalKernels<Bfloat16> neon_natural_bfloat16;
extern const CoderKernels neon_coder;
extern const StageKernels neon_stages;
extern const TrellisKernels neon_trellis;
extern const DitherKernels<Float32> neon_dithering_float32;
extern const SignKernels neon_sign;
extern const StepKernels<Float32> neon_steps_float32;
extern const SphereKernels neon_spherical;
extern const SwitchKernels neon_switching;
extern const HashKernels neon_sealing;

} // namespace fewbits
