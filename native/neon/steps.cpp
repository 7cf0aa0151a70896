// Sparse dithering with NEON, in groups of 16 values; tails go to the portable code.
//
// Codes are found in float32. The reference divides in float64, so a value that lies within 2^-14
// of the place where its code changes is not sure: its group is done again exactly. That is one
// group in some hundreds.
#if defined(__aarch64__)

#include "steps.h"

#include "neon/neon.h"

namespace fewbits {
namespace {

static_assert(kSumLanes == SumLanes::count);

constexpr float kSure = 0.5f - 0x1p-14f;

// A step whose inverse is finite. The products' relative error is below 2^-22.9, at most 3.3e-5 for
// codes up to 254, and 4.9e-5 after a dither has been added. Inverses of the largest steps are
// subnormal and less exact, but there the codes are at most 4.
bool ordinary(const StepRun<Float32> &run) { return run.step >= 0x1p-126f; }

// A word with its top bit flipped is a signed number.
int32x4_t centred(uint32x4_t word) {
    return vreinterpretq_s32_u32(veorq_u32(word, vdupq_n_u32(0x80000000u)));
}

// The dither of a word, from -1/2 to 1/2.
float32x4_t dither(uint32x4_t word) { return vmulq_n_f32(vcvtq_f32_s32(centred(word)), 0x1p-32f); }

// Four codes without signs; the signs are the top bits of `signs`.
template <fewbits_step_rounding rounding>
uint32x4_t round_four(const Unaligned<uint32_t> *from, Words &source, float32x4_t inverse,
                      uint32x4_t &signs, uint32x4_t &sure) {
    const float32x4_t x = vreinterpretq_f32_u32(load32(from));
    float32x4_t t = vmulq_f32(x, inverse);
    signs = vreinterpretq_u32_f32(x);
    if constexpr (rounding == FEWBITS_STEP_STOCHASTIC) {
        // floor(|t| + u) is the nearest integer to |t| + (u - 1/2), but for ties, which are unsure.
        t = vaddq_f32(vabsq_f32(t), dither(source.next()));
    } else if constexpr (rounding == FEWBITS_STEP_SUBTRACTIVE) {
        t = vaddq_f32(t, dither(source.next()));
        signs = vreinterpretq_u32_f32(t);
    }
    const float32x4_t nearest = vrndnq_f32(t);
    // False for NaN too.
    sure = vandq_u32(sure, vcleq_f32(vabdq_f32(t, nearest), vdupq_n_f32(kSure)));
    return vcvtq_u32_f32(vminq_f32(vabsq_f32(nearest), vdupq_n_f32(255.0f)));
}

template <fewbits_step_rounding rounding>
uint32_t quantise_groups(const StepRun<Float32> &run, uint8_t *codes, uint8_t *signs,
                         fewbits_tally &tally) {
    const float32x4_t inverse = vdupq_n_f32(static_cast<float>(1.0 / run.step));
    Words source(run.stream, run.stream.first);
    uint8x16_t most = vdupq_n_u8(0);
    uint32_t largest = 0;
    const size_t whole = run.values.size() / kGroup * kGroup;
    for (size_t i = 0; i < whole; i += kGroup) {
        const auto *const from = run.values.data() + i;
        uint32x4_t found[4];
        uint32x4_t tops[4];
        uint32x4_t sure = vdupq_n_u32(UINT32_MAX);
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; ++j) {
            found[j] = round_four<rounding>(from + 4 * j, source, inverse, tops[j], sure);
        }
        if (vminvq_u32(sure) == 0) [[unlikely]] {
            largest = std::max(largest, quantise_exactly(run, i, i + kGroup, codes, signs, tally));
            continue;
        }
        const uint8x16_t bytes = to_bytes(found);
        most = vmaxq_u8(most, bytes);
        store(codes + i, bytes);
        const auto plane = static_cast<uint16_t>(bits_of(signs_of(tops)));
        std::memcpy(signs + i / 8, &plane, 2);
    }
    largest = std::max<uint32_t>(largest, vmaxvq_u8(most));
    return std::max(largest, quantise_exactly(run, whole, run.values.size(), codes, signs, tally));
}

uint32_t quantise(const StepRun<Float32> &run, uint8_t *codes, uint8_t *signs,
                  fewbits_tally &tally) {
    const bool draws = run.rounding != FEWBITS_STEP_NEAREST;
    if (!ordinary(run) || (draws && crosses_segment(run.stream.first, run.values.size()))) {
        return portable_steps_float32.quantise(run, codes, signs, tally);
    }
    switch (run.rounding) {
    case FEWBITS_STEP_STOCHASTIC:
        return quantise_groups<FEWBITS_STEP_STOCHASTIC>(run, codes, signs, tally);
    case FEWBITS_STEP_NEAREST:
        return quantise_groups<FEWBITS_STEP_NEAREST>(run, codes, signs, tally);
    default:
        return quantise_groups<FEWBITS_STEP_SUBTRACTIVE>(run, codes, signs, tally);
    }
}

// ---- sums ----

// Eight codes from `first` of the 32 on.
void add_eight(const Unaligned<uint32_t> *values, const uint8_t *codes, size_t first,
               SumLanes &sums, uint64x2_t &squares) {
    const uint16x8_t wide = vmovl_u8(vld1_u8(codes + first));
    const uint32x4_t halves[2] = {vmovl_u16(vget_low_u16(wide)), vmovl_high_u16(wide)};
    for (size_t j = 0; j < 2; ++j) {
        const size_t at = first + 4 * j;
        const float32x4_t x = vreinterpretq_f32_u32(magnitudes(load32(values + at)));
        const float64x2_t low = vcvtq_f64_u64(vmovl_u32(vget_low_u32(halves[j])));
        const float64x2_t high = vcvtq_f64_u64(vmovl_high_u32(halves[j]));
        sums.add(at / 4, vmulq_f64(vcvt_f64_f32(vget_low_f32(x)), low),
                 vmulq_f64(vcvt_high_f64_f32(x), high));
        squares = vpadalq_u32(squares, vmulq_u32(halves[j], halves[j]));
    }
}

void add_group(const Unaligned<uint32_t> *values, const uint8_t *codes, SumLanes &sums,
               uint64x2_t &squares) {
#pragma GCC unroll 4
    for (size_t first = 0; first < kSumLanes; first += 8) {
        add_eight(values, codes, first, sums, squares);
    }
}

StepSums sums(In<uint32_t> values, const uint8_t *codes) {
    SumLanes products;
    uint64x2_t squares = vdupq_n_u64(0);
    const size_t whole = values.size() / kSumLanes * kSumLanes;
    for (size_t i = 0; i < whole; i += kSumLanes) {
        add_group(values.data() + i, codes + i, products, squares);
    }
    if (whole < values.size()) { // zeros behind the end change nothing
        Unaligned<uint32_t> rest[kSumLanes] = {};
        uint8_t own[kSumLanes] = {};
        std::copy(values.begin() + static_cast<ptrdiff_t>(whole), values.end(), rest);
        std::copy(codes + whole, codes + values.size(), own);
        add_group(rest, own, products, squares);
    }
    return {products.total(), static_cast<double>(vaddvq_u64(squares))};
}

// ---- values ----

// A product of a code and a scale has at most 40 bits, so one multiplication in float32 rounds as
// the reference does.
void multiply(const StepRun<Float32> &run, size_t whole, const uint8_t *codes, const uint8_t *signs,
              Out<uint32_t> values) {
    const auto four = [&](uint32x4_t code, uint32x4_t sign, size_t at) {
        const float32x4_t y = vmulq_n_f32(vcvtq_f32_u32(code), run.step);
        const float32x4_t most = vminq_f32(y, vdupq_n_f32(0x1.fffffep127f));
        store32(values.data() + at, veorq_u32(vreinterpretq_u32_f32(most), sign));
    };
    for (size_t i = 0; i < whole; i += 8) {
        const uint16x8_t code = vmovl_u8(vld1_u8(codes + i));
        const Mask32 negative(signs[i / 8]);
        four(vmovl_u16(vget_low_u16(code)), negative.low_signs(), i);
        four(vmovl_high_u16(code), negative.high_signs(), i + 4);
    }
}

// Two values of codes less a dither; both have at most 33 bits, and the difference is exact.
float32x2_t two_values(int32x2_t codes, int32x2_t word, double scale) {
    const float64x2_t middle = vaddq_f64(vcvtq_f64_s64(vmovl_s32(word)), vdupq_n_f64(0.5));
    const float64x2_t off = vmulq_n_f64(middle, 0x1p-32);
    const float64x2_t code = vcvtq_f64_s64(vmovl_s32(codes));
    const float64x2_t y = vmulq_n_f64(vsubq_f64(code, off), scale);
    const float64x2_t plain = vaddq_f64(y, vdupq_n_f64(0)); // no -0
    const float64x2_t below = vminq_f64(plain, vdupq_n_f64(0x1.fffffep127));
    return vcvt_f32_f64(vmaxq_f64(below, vdupq_n_f64(-0x1.fffffep127)));
}

void subtract(const StepRun<Float32> &run, size_t whole, const uint8_t *codes, const uint8_t *signs,
              Out<uint32_t> values) {
    Words source(run.stream, run.stream.first);
    const auto four = [&](uint32x4_t magnitude, uint32x4_t negative, size_t at) {
        const uint32x4_t code = vsubq_u32(veorq_u32(magnitude, negative), negative);
        const int32x4_t own = vreinterpretq_s32_u32(code);
        const int32x4_t word = centred(source.next());
        const float32x2_t low = two_values(vget_low_s32(own), vget_low_s32(word), run.step);
        const float32x2_t high = two_values(vget_high_s32(own), vget_high_s32(word), run.step);
        store32(values.data() + at, vreinterpretq_u32_f32(vcombine_f32(low, high)));
    };
    for (size_t i = 0; i < whole; i += 8) {
        const uint16x8_t code = vmovl_u8(vld1_u8(codes + i));
        const Mask32 negative(signs[i / 8]);
        four(vmovl_u16(vget_low_u16(code)), negative.low, i);
        four(vmovl_high_u16(code), negative.high, i + 4);
    }
}

void dequantise(const StepRun<Float32> &run, const uint8_t *codes, const uint8_t *signs,
                Out<uint32_t> values) {
    const size_t whole = values.size() / 8 * 8;
    size_t done = 0;
    if (run.rounding != FEWBITS_STEP_SUBTRACTIVE) {
        if (run.step > 0.0f) {
            multiply(run, whole, codes, signs, values);
            done = whole;
        }
    } else if (values.size() > 0 && !crosses_segment(run.stream.first, values.size())) {
        subtract(run, whole, codes, signs, values);
        done = whole;
    }
    dequantise_exactly(run, done, values.size(), codes, signs, values);
}

} // namespace

constinit const StepKernels<Float32> neon_steps_float32 = {
    .quantise = quantise,
    .sums = sums,
    .dequantise = dequantise,
};

} // namespace fewbits

#endif
