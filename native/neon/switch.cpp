// The arithmetic of in-network aggregation with NEON, integers only: the bits of
// portable/switch.cpp.
#if defined(__aarch64__)

#include <algorithm>

#include "neon/neon.h"

namespace fewbits {
namespace {

// ---- a worker's values to codes ----

// Four codes in 32-bit lanes; `rare` is not zero where the portable kernel must do them.
inline uint32x4_t encode_four(const uint32_t *from, Words &source, const SwitchSpan &span,
                              uint32x4_t &rare) {
    const uint32x4_t bits = load32(from);
    const uint32x4_t magnitude = magnitudes(bits);
    const uint32x4_t zero = vceqzq_u32(magnitude);
    const uint32x4_t word = vshrq_n_u32(source.next(), 9);
    const uint32x4_t exponent = vshrq_n_u32(vaddq_u32(magnitude, word), 23);
    const uint32x4_t low = vcltq_u32(magnitude, vdupq_n_u32(span.lowest << 23));
    const uint32x4_t high = vcgtq_u32(exponent, vdupq_n_u32(span.lowest + span.most - 1));
    rare = vorrq_u32(rare, vorrq_u32(vbicq_u32(low, zero), high));
    const uint32x4_t sign = vshlq_n_u32(vshrq_n_u32(bits, 31), 7);
    const uint32x4_t code = vsubq_u32(exponent, vdupq_n_u32(span.lowest - 1));
    return vbicq_u32(vorrq_u32(code, sign), zero);
}

void encode(std::span<const uint32_t> values, const Stream &stream, const SwitchSpan &span,
            uint8_t *codes, fewbits_switch_tally &tally) {
    for (size_t start = 0; start < values.size(); start += kBlock) {
        const size_t count = std::min(kBlock, values.size() - start);
        const uint64_t first = stream.first + start;
        const size_t whole = crosses_segment(first, count) ? 0 : count / kGroup * kGroup;
        Words source(stream, first);
        for (size_t i = start; i < start + whole; i += kGroup) {
            uint32x4_t rare = vdupq_n_u32(0);
            uint32x4_t four[4];
            for (size_t j = 0; j < 4; ++j) {
                four[j] = encode_four(values.data() + i + 4 * j, source, span, rare);
            }
            if (any(rare)) [[unlikely]] {
                portable_switching.encode(values.subspan(i, kGroup), stream.from(i), span,
                                          codes + i, tally);
            } else {
                store(codes + i, to_bytes(four));
            }
        }
        const size_t rest = start + whole;
        portable_switching.encode(values.subspan(rest, count - whole), stream.from(rest), span,
                                  codes + rest, tally);
    }
}

// ---- codes to integers ----

bool check(std::span<const uint8_t> codes, uint32_t most) {
    uint8x16_t bad = vdupq_n_u8(0);
    const auto limit = static_cast<uint8_t>(std::min<uint32_t>(most, kSwitchMagnitude));
    size_t i = 0;
    for (; i + kGroup <= codes.size(); i += kGroup) {
        const uint8x16_t code = load(codes.data() + i);
        const uint8x16_t magnitude = vandq_u8(code, vdupq_n_u8(kSwitchMagnitude));
        bad = vorrq_u8(bad, vcgtq_u8(magnitude, vdupq_n_u8(limit)));
        bad = vorrq_u8(bad, vceqq_u8(code, vdupq_n_u8(kSwitchSign)));
    }
    return !any(bad) && portable_switching.check(codes.subspan(i), most);
}

// Two codes, 0 or plus or minus 2^(code - 1). A shift by -1 is one to the right, and gives 0.
inline int64x2_t integers(uint64x2_t code) {
    const uint64x2_t magnitude = vandq_u64(code, vdupq_n_u64(kSwitchMagnitude));
    const int64x2_t shift = vsubq_s64(vreinterpretq_s64_u64(magnitude), vdupq_n_s64(1));
    const uint64x2_t power = vshlq_u64(vdupq_n_u64(1), shift);
    const uint64x2_t minus = vcgtq_u64(code, vdupq_n_u64(kSwitchMagnitude));
    return vreinterpretq_s64_u64(vsubq_u64(veorq_u64(power, minus), minus));
}

// Calls `use(place, integers)` for pairs of codes; returns how many codes that were.
template <class Use> size_t each_pair(std::span<const uint8_t> codes, Use use) {
    size_t i = 0;
    for (; i + 8 <= codes.size(); i += 8) {
        const uint16x8_t words = vmovl_u8(vld1_u8(codes.data() + i));
        const uint32x4_t low = vmovl_u16(vget_low_u16(words));
        const uint32x4_t high = vmovl_high_u16(words);
        use(i, integers(vmovl_u32(vget_low_u32(low))));
        use(i + 2, integers(vmovl_high_u32(low)));
        use(i + 4, integers(vmovl_u32(vget_low_u32(high))));
        use(i + 6, integers(vmovl_high_u32(high)));
    }
    return i;
}

void set(std::span<const uint8_t> codes, int64_t *sums) {
    const size_t done = each_pair(
        codes, [&](size_t i, int64x2_t own) { store64(sums + i, vreinterpretq_u64_s64(own)); });
    portable_switching.set(codes.subspan(done), sums + done);
}

void add(std::span<const uint8_t> codes, int64_t *sums) {
    const size_t done = each_pair(codes, [&](size_t i, int64x2_t own) {
        store64(sums + i, vaddq_u64(load64(sums + i), vreinterpretq_u64_s64(own)));
    });
    portable_switching.add(codes.subspan(done), sums + done);
}

// ---- sums to codes ----

// All bits below the top one set, and it too.
inline uint64x2_t filled(uint64x2_t x) {
    x = vorrq_u64(x, vshrq_n_u64(x, 1));
    x = vorrq_u64(x, vshrq_n_u64(x, 2));
    x = vorrq_u64(x, vshrq_n_u64(x, 4));
    x = vorrq_u64(x, vshrq_n_u64(x, 8));
    x = vorrq_u64(x, vshrq_n_u64(x, 16));
    return vorrq_u64(x, vshrq_n_u64(x, 32));
}

inline uint64x2_t count_ones(uint64x2_t x) {
    return vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(vcntq_u8(vreinterpretq_u8_u64(x)))));
}

// Two codes in 64-bit lanes.
inline uint64x2_t round_two(const int64_t *from, Words &source) {
    const uint64x2_t sum = load64(from);
    const uint64x2_t minus = vcltzq_s64(vreinterpretq_s64_u64(sum));
    const uint64x2_t magnitude = vsubq_u64(veorq_u64(sum, minus), minus);
    const uint64x2_t ones = filled(magnitude);
    const uint64x2_t draw = vandq_u64(vreinterpretq_u64_u32(source.next()), vshrq_n_u64(ones, 1));
    // A carry out of the top bit leaves nothing but the next bit outside of `ones`.
    const uint64x2_t raised = vaddq_u64(magnitude, draw);
    const uint64x2_t over = vtstq_u64(vbicq_u64(raised, ones), vdupq_n_u64(UINT64_MAX));
    const uint64x2_t code = vsubq_u64(count_ones(ones), over); // a mask is -1
    return vorrq_u64(code, vandq_u64(minus, vdupq_n_u64(kSwitchSign)));
}

void round(std::span<const int64_t> sums, const Stream &stream, uint8_t *codes) {
    for (size_t start = 0; start < sums.size(); start += kBlock) {
        const size_t count = std::min(kBlock, sums.size() - start);
        const uint64_t first = 2 * (stream.first + start);
        const size_t whole = crosses_segment(first, 2 * count) ? 0 : count / kGroup * kGroup;
        Words source(stream, first);
        for (size_t i = start; i < start + whole; i += kGroup) {
            uint32x4_t four[4];
            for (size_t j = 0; j < 4; ++j) {
                const uint64x2_t low = round_two(sums.data() + i + 4 * j, source);
                const uint64x2_t high = round_two(sums.data() + i + 4 * j + 2, source);
                four[j] = vmovn_high_u64(vmovn_u64(low), high);
            }
            store(codes + i, to_bytes(four));
        }
        const size_t rest = start + whole;
        portable_switching.round(sums.subspan(rest, count - whole), stream.from(rest),
                                 codes + rest);
    }
}

} // namespace

constinit const SwitchKernels neon_switching = {
    .encode = encode,
    .check = check,
    .set = set,
    .add = add,
    .round = round,
    .decode = nullptr, // one load a value: nothing to gain
};

} // namespace fewbits

#endif
