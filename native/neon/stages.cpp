// Selection and the Walsh-Hadamard transform with NEON.
#if defined(__aarch64__)

#include <bit>

#include "neon/neon.h"
#include "select.h"

namespace fewbits {
namespace {

constexpr size_t kKeys = kGroup; // looked at together

// Levels 1 and 2 of four values: each lane gets the sum or the difference with its partner.
inline float32x4_t levels_of_4(float32x4_t v) {
    const uint32x4_t odd = {0, UINT32_MAX, 0, UINT32_MAX};
    const uint32x4_t upper = {0, 0, UINT32_MAX, UINT32_MAX};
    const float32x4_t one = vrev64q_f32(v);
    v = vbslq_f32(odd, vsubq_f32(one, v), vaddq_f32(v, one));
    const float32x4_t two = vextq_f32(v, v, 2);
    return vbslq_f32(upper, vsubq_f32(two, v), vaddq_f32(v, two));
}

inline float64x2_t level_of_2(float64x2_t v) {
    const uint64x2_t upper = {0, UINT64_MAX};
    const float64x2_t one = vextq_f64(v, v, 1);
    return vbslq_f64(upper, vsubq_f64(one, v), vaddq_f64(v, one));
}

// Sixteen keys.
inline void load_keys(const Unaligned<uint32_t> *from, uint32_t mask, uint32x4_t (&keys)[4]) {
    for (size_t j = 0; j < 4; ++j) {
        keys[j] = vandq_u32(load32(from + 4 * j), vdupq_n_u32(mask));
    }
}

void count_keys(In<uint32_t> values, uint32_t mask, KeyRange<uint32_t> among, KeyCounts &counts) {
    const int above = among.shift + kKeyBits;
    if (above >= 32) { // every key counts: a load and an addition each
        portable_stages.count_keys(values, mask, among, counts);
        return;
    }
    const uint32x4_t wanted = vdupq_n_u32(among.prefix);
    const int32x4_t right = vdupq_n_s32(-above);
    size_t i = 0;
    for (; i + kKeys <= values.size(); i += kKeys) {
        uint32x4_t keys[4];
        load_keys(&values[i], mask, keys);
        uint32x4_t equal = vdupq_n_u32(0);
        for (const uint32x4_t key : keys) {
            equal = vorrq_u32(equal, vceqq_u32(vshlq_u32(key, right), wanted));
        }
        if (any(equal)) {
            count_any(values.subspan(i, kKeys), mask, among, counts);
        }
    }
    count_any(values.subspan(i), mask, among, counts);
}

size_t gather_keys(In<uint32_t> values, uint32_t mask, uint32_t threshold, size_t ties,
                   std::span<uint32_t> places) {
    const uint32x4_t least = vdupq_n_u32(threshold);
    size_t found = 0;
    size_t i = 0;
    for (; i + kKeys <= values.size() && found < places.size(); i += kKeys) {
        uint32x4_t keys[4];
        load_keys(&values[i], mask, keys);
        for (uint32x4_t &key : keys) {
            key = vcgeq_u32(key, least);
        }
        if (!any(vorrq_u32(vorrq_u32(keys[0], keys[1]), vorrq_u32(keys[2], keys[3])))) {
            continue;
        }
        uint32_t chosen = bits_of(signs_of(keys));
        for (; chosen != 0 && found < places.size(); chosen &= chosen - 1) {
            const size_t place = i + static_cast<size_t>(std::countr_zero(chosen));
            if ((values[place] & mask) == threshold) {
                if (ties == 0) {
                    continue;
                }
                --ties;
            }
            places[found++] = static_cast<uint32_t>(place);
        }
    }
    return found + gather_any(values, mask, threshold, ties, places.subspan(found), i);
}

void hadamard32(std::span<float> values, float scale) {
    if (values.size() < 4) {
        portable_stages.hadamard32(values, scale);
        return;
    }
    for (size_t i = 0; i < values.size(); i += 4) {
        vst1q_f32(&values[i], levels_of_4(vld1q_f32(&values[i])));
    }
    levels(values.data(), values.size(), 4);
    multiply(values, scale);
}

void hadamard64(std::span<double> values, double scale) {
    if (values.size() < 2) {
        portable_stages.hadamard64(values, scale);
        return;
    }
    for (size_t i = 0; i < values.size(); i += 2) {
        vst1q_f64(&values[i], level_of_2(vld1q_f64(&values[i])));
    }
    levels(values.data(), values.size(), 2);
    multiply(values, scale);
}

} // namespace

constinit const StageKernels neon_stages = {
    .count_keys = count_keys,
    .gather_keys = gather_keys,
    .near_keys = nullptr,
    .take_keys = nullptr,
    .hadamard32 = hadamard32,
    .hadamard64 = hadamard64,
    .signed32 = nullptr,
    .signed64 = nullptr,
    .draws_near = nullptr,
    .draws_mask = nullptr,
};

} // namespace fewbits

#endif
