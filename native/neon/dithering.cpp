// Dithering with NEON, in groups of 16 elements. Tails, groups with a rare value, blocks in which
// the random stream changes its segment, and codes wider than a byte go to the portable kernels.
#if defined(__aarch64__)

#include "dithering.h"

#include <algorithm>
#include <limits>

#include "neon/neon.h"

namespace fewbits {
namespace {

// ---- norms ----

static_assert(kNormLanes == SumLanes::count);

// Adds 32 elements to the lanes.
template <fewbits_norm norm>
void add_group(const Unaligned<uint32_t> *from, SumLanes &sums, uint32x4_t &largest) {
#pragma GCC unroll 8
    for (size_t j = 0; j < 8; ++j) {
        uint32x4_t magnitude = magnitudes(load32(from + 4 * j));
        const uint32x4_t odd = vcgeq_u32(magnitude, vdupq_n_u32(Float32::infinity));
        magnitude = vbicq_u32(magnitude, odd);
        largest = vmaxq_u32(largest, magnitude);
        if constexpr (norm == FEWBITS_NORM_2) {
            const float32x4_t values = vreinterpretq_f32_u32(magnitude);
            const float64x2_t low = vcvt_f64_f32(vget_low_f32(values));
            const float64x2_t high = vcvt_high_f64_f32(values);
            sums.add(j, vmulq_f64(low, low), vmulq_f64(high, high));
        } else if constexpr (norm == FEWBITS_NORM_1) {
            sums.add(j, vreinterpretq_f32_u32(magnitude));
        }
    }
}

template <fewbits_norm norm> void norm_of(In<uint32_t> values, double &sum, uint32_t &largest) {
    SumLanes sums;
    uint32x4_t most = vdupq_n_u32(0);
    const size_t whole = values.size() / kNormLanes * kNormLanes;
    for (size_t i = 0; i < whole; i += kNormLanes) {
        add_group<norm>(values.data() + i, sums, most);
    }
    if (whole < values.size()) { // zeros behind the end change nothing
        Unaligned<uint32_t> rest[kNormLanes] = {};
        std::copy(values.begin() + static_cast<ptrdiff_t>(whole), values.end(), rest);
        add_group<norm>(rest, sums, most);
    }
    sum = sums.total();
    largest = vmaxvq_u32(most);
}

void norm_terms(In<uint32_t> values, fewbits_norm norm, double &sum, uint32_t &largest) {
    switch (norm) {
    case FEWBITS_NORM_1:
        return norm_of<FEWBITS_NORM_1>(values, sum, largest);
    case FEWBITS_NORM_2:
        return norm_of<FEWBITS_NORM_2>(values, sum, largest);
    default:
        return norm_of<FEWBITS_NORM_MAX>(values, sum, largest);
    }
}

// ---- rounding ----

// Constants of a call.
struct Levels {
    float32x4_t divisor, factor, lowest;
    uint32x4_t offset;

    // A scale of 0 makes every level 0. The factor is the inverse of the lowest level, or the
    // number of levels.
    Levels(float scale, const DitherShape &shape)
        : divisor(vdupq_n_f32(scale > 0.0f ? scale : std::numeric_limits<float>::infinity())),
          factor(vdupq_n_f32(shape.natural ? shape.inverse_lowest()
                                           : static_cast<float>(shape.levels))),
          lowest(vdupq_n_f32(shape.natural ? shape.lowest() : 0.0f)),
          offset(vdupq_n_u32(shape.levels - 127)) {}
};

template <bool Natural> uint32x4_t rounded(float32x4_t y, uint32x4_t draw, const Levels &own) {
    constexpr float chances = 2147483648.0f; // 2^31
    const float32x4_t scaled = vmulq_f32(y, own.factor);
    if constexpr (Natural) {
        const uint32x4_t bits = vreinterpretq_u32_f32(y);
        const uint32x4_t below = vcltq_f32(y, own.lowest);
        const uint32x4_t low = vcvtq_u32_f32(vmulq_n_f32(scaled, chances));
        const uint32x4_t high = vshlq_n_u32(vandq_u32(bits, vdupq_n_u32(0x7FFFFFu)), 8);
        const uint32x4_t lower = vbicq_u32(vaddq_u32(vshrq_n_u32(bits, 23), own.offset), below);
        return vsubq_u32(lower, vcltq_u32(draw, vbslq_u32(below, low, high)));
    } else {
        const uint32x4_t lower = vcvtq_u32_f32(scaled);
        const float32x4_t share = vsubq_f32(scaled, vcvtq_f32_u32(lower));
        const uint32x4_t chance = vcvtq_u32_f32(vmulq_n_f32(share, chances));
        return vsubq_u32(lower, vcltq_u32(draw, chance));
    }
}

// Sixteen levels, one a byte, and ones in the bytes of those below 0.
struct Signed {
    uint8x16_t levels, negative;
};

template <bool Natural>
Signed levels_of(const Unaligned<uint32_t> *from, Words &source, const Levels &own, bool &rare) {
    uint32x4_t bits[4];
    uint32x4_t levels[4];
    uint32x4_t largest = vdupq_n_u32(0);
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; ++j) {
        bits[j] = load32(from + 4 * j);
        const uint32x4_t magnitude = magnitudes(bits[j]);
        largest = vmaxq_u32(largest, magnitude);
        const float32x4_t share = vdivq_f32(vreinterpretq_f32_u32(magnitude), own.divisor);
        const float32x4_t y = vminq_f32(share, vdupq_n_f32(1.0f));
        levels[j] = rounded<Natural>(y, vshrq_n_u32(source.next(), 1), own);
    }
    rare = vmaxvq_u32(largest) >= Float32::infinity;
    const uint8x16_t bytes = to_bytes(levels);
    return {bytes, vbicq_u8(signs_of(bits), vceqzq_u8(bytes))};
}

// Eight bytes of `width` bits each in both 64-bit fields move together to its low end.
struct Joiner {
    uint64x2_t masks[3], uppers[3];
    int64x2_t shifts[3];

    explicit Joiner(int width) {
        for (int i = 0; i < 3; ++i) { // one code of each pair, then two of four, then four of eight
            const int codes = 1 << i;
            const int field = 16 << i;
            uint64_t mask = (uint64_t{1} << (codes * width)) - 1;
            for (int wide = field; wide < 64; wide *= 2) {
                mask |= mask << wide;
            }
            masks[i] = vdupq_n_u64(mask);
            uppers[i] = vdupq_n_u64(mask << (codes * width));
            shifts[i] = vdupq_n_s64(-codes * (8 - width)); // to the right
        }
    }

    uint64x2_t join(uint8x16_t bytes) const {
        uint64x2_t x = vreinterpretq_u64_u8(bytes);
        for (int i = 0; i < 3; ++i) {
            const uint64x2_t high = vandq_u64(vshlq_u64(x, shifts[i]), uppers[i]);
            x = vorrq_u64(vandq_u64(x, masks[i]), high);
        }
        return x;
    }
};

// Where codes go: packed, or as levels and signs.
struct PackedCodes {
    const DitherShape &shape;
    Bytes packed;
    Joiner joiner{std::min(shape.width(), 8)}; // wider codes are not put, see takes

    bool takes() const { return shape.width() <= 8; }

    void put(size_t at, const Signed &each) const {
        const uint8x16_t levels = vdupq_n_u8(static_cast<uint8_t>(shape.levels));
        const uint8x16_t codes = vaddq_u8(each.levels, vandq_u8(each.negative, levels));
        const auto width = static_cast<size_t>(shape.width());
        const Bytes to = packed.subspan(at / 8 * width);
        const uint64x2_t fields = joiner.join(codes);
        uint8_t last[16];
        uint8_t *const out = to.size() >= 16 ? to.data() : last; // stores take eight bytes each
        vst1_u8(out, vget_low_u8(vreinterpretq_u8_u64(fields)));
        vst1_u8(out + width, vget_high_u8(vreinterpretq_u8_u64(fields)));
        if (out == last) {
            std::memcpy(to.data(), last, 2 * width);
        }
    }

    void put_exactly(size_t at, In<uint32_t> values, const Stream &stream, float scale,
                     fewbits_tally &tally) const {
        const int width = shape.width();
        portable_dithering_float32.dither(
            values, stream, scale, shape,
            packed.subspan(packed_size(at, width), packed_size(values.size(), width)), tally);
    }
};

struct LevelCodes {
    const DitherShape &shape;
    uint8_t *levels;
    uint8_t *signs;

    bool takes() const { return true; }

    void put(size_t at, const Signed &each) const {
        const auto plane = static_cast<uint16_t>(bits_of(each.negative));
        store(levels + at, each.levels);
        std::memcpy(signs + at / 8, &plane, 2);
    }

    void put_exactly(size_t at, In<uint32_t> values, const Stream &stream, float scale,
                     fewbits_tally &tally) const {
        portable_dithering_float32.dither_levels(values, stream, scale, shape, levels + at,
                                                 signs + at / 8, tally);
    }
};

// Groups from `first` on, within one segment of the stream.
template <bool Natural, class Codes>
void dither_groups(In<uint32_t> values, const Stream &stream, float scale, const Codes &codes,
                   size_t first, fewbits_tally &tally) {
    const Levels own(scale, codes.shape);
    Words source(stream, stream.first);
    for (size_t i = 0; i < values.size(); i += kGroup) {
        bool rare = false;
        const Signed each = levels_of<Natural>(values.data() + i, source, own, rare);
        if (rare) [[unlikely]] {
            codes.put_exactly(first + i, values.subspan(i, kGroup), stream.from(i), scale, tally);
        } else {
            codes.put(first + i, each);
        }
    }
}

template <class Codes>
void dither_blocks(In<uint32_t> values, const Stream &stream, float scale, const Codes &codes,
                   fewbits_tally &tally) {
    const auto run = codes.shape.natural ? dither_groups<true, Codes> : dither_groups<false, Codes>;
    for (size_t start = 0; start < values.size(); start += kBlock) {
        const size_t count = std::min(kBlock, values.size() - start);
        const Stream here = stream.from(start);
        const bool plain = codes.takes() && !crosses_segment(here.first, count);
        const size_t whole = plain ? count / kGroup * kGroup : 0;
        if (whole > 0) {
            run(values.subspan(start, whole), here, scale, codes, start, tally);
        }
        if (whole < count) {
            codes.put_exactly(start + whole, values.subspan(start + whole, count - whole),
                              here.from(whole), scale, tally);
        }
    }
}

void dither(In<uint32_t> values, const Stream &stream, float scale, const DitherShape &shape,
            Bytes packed, fewbits_tally &tally) {
    dither_blocks(values, stream, scale, PackedCodes{shape, packed}, tally);
}

void dither_levels(In<uint32_t> values, const Stream &stream, float scale, const DitherShape &shape,
                   uint8_t *levels, uint8_t *signs, fewbits_tally &tally) {
    dither_blocks(values, stream, scale, LevelCodes{shape, levels, signs}, tally);
}

// ---- values ----

// A table of sixteen values fits into four registers; a value is found by its four bytes.
struct Sixteen {
    static constexpr size_t most = 16;
    uint8x16x4_t bytes;

    Sixteen(float scale, const DitherRatios &ratios) {
        const double unit = scale;
        float values[most];
        for (size_t code = 0; code < most; ++code) {
            values[code] = static_cast<float>(unit * ratios.of[code]);
        }
        for (size_t i = 0; i < 4; ++i) {
            bytes.val[i] = load(values + 4 * i);
        }
    }

    uint32x4_t operator[](uint32x4_t code) const {
        const uint32x4_t places =
            vmlaq_u32(vdupq_n_u32(0x03020100u), code, vdupq_n_u32(0x04040404u));
        return vreinterpretq_u32_u8(vqtbl4q_u8(bytes, vreinterpretq_u8_u32(places)));
    }
};

void undither(std::span<const uint16_t> codes, float scale, const DitherRatios &ratios,
              Out<uint32_t> values) {
    const size_t whole = ratios.count > Sixteen::most ? 0 : codes.size() / 8 * 8;
    const Sixteen table(scale, ratios);
    for (size_t i = 0; i < whole; i += 8) {
        const uint16x8_t code = load16(codes.data() + i);
        store32(values.data() + i, table[vmovl_u16(vget_low_u16(code))]);
        store32(values.data() + i + 4, table[vmovl_high_u16(code)]);
    }
    if (whole < codes.size()) {
        portable_dithering_float32.undither(codes.subspan(whole), scale, ratios,
                                            values.subspan(whole));
    }
}

void undither_levels(const uint8_t *levels, const uint8_t *signs, float scale,
                     const DitherRatios &ratios, Out<uint32_t> values) {
    const size_t whole = ratios.count > Sixteen::most ? 0 : values.size() / 8 * 8;
    const Sixteen table(scale, ratios);
    for (size_t i = 0; i < whole; i += 8) {
        const uint16x8_t code = vmovl_u8(vld1_u8(levels + i));
        const Mask32 negative(signs[i / 8]);
        const uint32x4_t low = table[vmovl_u16(vget_low_u16(code))];
        const uint32x4_t high = table[vmovl_high_u16(code)];
        store32(values.data() + i, vorrq_u32(low, negative.low_signs()));
        store32(values.data() + i + 4, vorrq_u32(high, negative.high_signs()));
    }
    if (whole < values.size()) {
        portable_dithering_float32.undither_levels(levels + whole, signs + whole / 8, scale, ratios,
                                                   values.subspan(whole));
    }
}

} // namespace

constinit const DitherKernels<Float32> neon_dithering_float32 = {
    .norm_terms = norm_terms,
    .dither = dither,
    .undither = undither,
    .dither_levels = dither_levels,
    .undither_levels = undither_levels,
    .dither_codes = nullptr,
    .scaled_terms = nullptr,
};

} // namespace fewbits

#endif
