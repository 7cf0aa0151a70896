// Casts with NEON: groups of 16 elements; a group with a rare value goes to the portable table.
#if defined(__aarch64__)

#include "neon/neon.h"

namespace fewbits {
namespace {

// Whole groups through `convert`, which returns false to decline; the rest through `rare`.
template <class From, class To, class Convert>
void cast_groups(In<typename From::Bits> input, Out<typename To::Bits> output, fewbits_tally &tally,
                 Cast<From, To> rare, Convert convert) {
    const size_t whole = input.size() / kGroup * kGroup;
    for (size_t i = 0; i < whole; i += kGroup) {
        if (!convert(input.data() + i, output.data() + i)) [[unlikely]] {
            rare(input.subspan(i, kGroup), output.subspan(i, kGroup), tally);
        }
    }
    rare(input.subspan(whole), output.subspan(whole), tally);
}

// Bytes of ones where a magnitude is greater.
template <class Bits> uint8x16_t above(uint8x16_t bits, Bits limit) {
    constexpr auto magnitude = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1);
    if constexpr (sizeof(Bits) == 8) {
        const uint64x2_t own = vandq_u64(vreinterpretq_u64_u8(bits), vdupq_n_u64(magnitude));
        return vreinterpretq_u8_u64(vcgtq_u64(own, vdupq_n_u64(limit)));
    } else if constexpr (sizeof(Bits) == 4) {
        const uint32x4_t own = vandq_u32(vreinterpretq_u32_u8(bits), vdupq_n_u32(magnitude));
        return vreinterpretq_u8_u32(vcgtq_u32(own, vdupq_n_u32(limit)));
    } else {
        const uint16x8_t own = vandq_u16(vreinterpretq_u16_u8(bits), vdupq_n_u16(magnitude));
        return vreinterpretq_u8_u16(vcgtq_u16(own, vdupq_n_u16(limit)));
    }
}

template <class F>
void copy(In<typename F::Bits> input, Out<typename F::Bits> output, fewbits_tally &tally) {
    using Bits = typename F::Bits;
    cast_groups<F, F>(input, output, tally, portable_casts.between<F, F>(),
                      [](const Unaligned<Bits> *from, Unaligned<Bits> *to) {
                          uint8x16_t rare = vdupq_n_u8(0);
                          for (size_t i = 0; i < kGroup; i += 16 / sizeof(Bits)) {
                              const uint8x16_t bits = load(from + i);
                              rare = vorrq_u8(rare, above<Bits>(bits, F::infinity - 1));
                              store(to + i, bits);
                          }
                          return !any(rare);
                      });
}

void float32_to_float16(In<uint32_t> input, Out<uint16_t> output, fewbits_tally &tally) {
    constexpr uint32_t overflow = 0x477FEFFFu; // above this, 65520 and more round to infinity
    cast_groups<Float32, Float16>(input, output, tally, portable_casts.float32_to_float16,
                                  [](const Unaligned<uint32_t> *from, Unaligned<uint16_t> *to) {
                                      uint8x16_t rare = vdupq_n_u8(0);
                                      for (size_t i = 0; i < kGroup; i += 8) {
                                          const uint8x16_t low = load(from + i);
                                          const uint8x16_t high = load(from + i + 4);
                                          rare = vorrq_u8(rare, above<uint32_t>(low, overflow));
                                          rare = vorrq_u8(rare, above<uint32_t>(high, overflow));
                                          const float16x8_t halves = vcvt_high_f16_f32(
                                              vcvt_f16_f32(vreinterpretq_f32_u8(low)),
                                              vreinterpretq_f32_u8(high));
                                          store(to + i, vreinterpretq_u8_f16(halves));
                                      }
                                      return !any(rare);
                                  });
}

void float32_to_bfloat16(In<uint32_t> input, Out<uint16_t> output, fewbits_tally &tally) {
    constexpr uint32_t overflow = 0x7F7F7FFFu; // above this the rounding reaches infinity
    cast_groups<Float32, Bfloat16>(
        input, output, tally, portable_casts.float32_to_bfloat16,
        [](const Unaligned<uint32_t> *from, Unaligned<uint16_t> *to) {
            uint8x16_t rare = vdupq_n_u8(0);
            for (size_t i = 0; i < kGroup; i += 8) {
                uint16x4_t rounded[2];
                for (size_t j = 0; j < 2; ++j) {
                    const uint8x16_t bits = load(from + i + 4 * j);
                    rare = vorrq_u8(rare, above<uint32_t>(bits, overflow));
                    const uint32x4_t own = vreinterpretq_u32_u8(bits);
                    const uint32x4_t odd = vandq_u32(vshrq_n_u32(own, 16), vdupq_n_u32(1));
                    rounded[j] = vaddhn_u32(own, vaddq_u32(odd, vdupq_n_u32(0x7FFF)));
                }
                store16(to + i, vcombine_u16(rounded[0], rounded[1]));
            }
            return !any(rare);
        });
}

// Sixteen values of a 16-bit format, eight at a time through `widen`.
template <class F, class Widen>
void widen_groups(In<uint16_t> input, Out<uint32_t> output, fewbits_tally &tally,
                  Cast<F, Float32> rare, Widen widen) {
    cast_groups<F, Float32>(input, output, tally, rare,
                            [&](const Unaligned<uint16_t> *from, Unaligned<uint32_t> *to) {
                                uint8x16_t met = vdupq_n_u8(0);
                                for (size_t i = 0; i < kGroup; i += 8) {
                                    const uint8x16_t bits = load(from + i);
                                    met = vorrq_u8(met, above<uint16_t>(bits, F::infinity - 1));
                                    widen(vreinterpretq_u16_u8(bits), to + i);
                                }
                                return !any(met);
                            });
}

void float16_to_float32(In<uint16_t> input, Out<uint32_t> output, fewbits_tally &tally) {
    widen_groups<Float16>(input, output, tally, portable_casts.float16_to_float32,
                          [](uint16x8_t bits, Unaligned<uint32_t> *to) {
                              const float16x8_t halves = vreinterpretq_f16_u16(bits);
                              const float32x4_t low = vcvt_f32_f16(vget_low_f16(halves));
                              store(to, vreinterpretq_u8_f32(low));
                              store(to + 4, vreinterpretq_u8_f32(vcvt_high_f32_f16(halves)));
                          });
}

void bfloat16_to_float32(In<uint16_t> input, Out<uint32_t> output, fewbits_tally &tally) {
    widen_groups<Bfloat16>(input, output, tally, portable_casts.bfloat16_to_float32,
                           [](uint16x8_t bits, Unaligned<uint32_t> *to) {
                               const uint16x8_t zero = vdupq_n_u16(0);
                               store16(to, vzip1q_u16(zero, bits));
                               store16(to + 4, vzip2q_u16(zero, bits));
                           });
}

} // namespace

constinit const CastKernels neon_casts = {
    .float32 = copy<Float32>,
    .float64 = copy<Float64>,
    .float16 = copy<Float16>,
    .bfloat16 = copy<Bfloat16>,
    .float32_to_float64 = nullptr,
    .float32_to_float16 = float32_to_float16,
    .float32_to_bfloat16 = float32_to_bfloat16,
    .float64_to_float32 = nullptr,
    .float64_to_float16 = nullptr,
    .float64_to_bfloat16 = nullptr,
    .float16_to_float32 = float16_to_float32,
    .float16_to_float64 = nullptr,
    .float16_to_bfloat16 = nullptr,
    .bfloat16_to_float32 = bfloat16_to_float32,
    .bfloat16_to_float64 = nullptr,
    .bfloat16_to_float16 = nullptr,
};

} // namespace fewbits

#endif
