// Signs with NEON, in groups of 32 values; the scan of float64 is left to the portable table.
#if defined(__aarch64__)

#include "sign.h"

#include <algorithm>

#include "neon/neon.h"

namespace fewbits {
namespace {

constexpr size_t kScanned = kSignLanes; // values that are scanned together
static_assert(kScanned == SumLanes::count && kScanned == 2 * kGroup);

// Four finite magnitudes, as bits in 32-bit lanes, as numbers.
template <class F> float32x4_t numbers(uint32x4_t magnitude) {
    if constexpr (std::is_same_v<F, Float16>) {
        return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(magnitude)));
    } else {
        return vreinterpretq_f32_u32(vshlq_n_u32(magnitude, 23 - F::mantissa));
    }
}

template <class F> struct Scan {
    using Bits = typename F::Bits;
    static constexpr bool narrow = sizeof(Bits) == 2;

    SumLanes sums;
    uint32x4_t smallest = vdupq_n_u32(UINT32_MAX);
    uint32x4_t largest = vdupq_n_u32(0);
    uint32x4_t unused = vdupq_n_u32(0); // counts, negative
    uint32x4_t nonfinite = vdupq_n_u32(0);

    static uint32x4_t four(const Unaligned<Bits> *from) {
        if constexpr (narrow) {
            return vmovl_u16(vreinterpret_u16_u64(vdup_n_u64(load_as<uint64_t>(from))));
        } else {
            return load32(from);
        }
    }

    // Adds the 16 values behind lane 4 * first; returns their signs. If some may be 0 or not
    // finite, it is `Careful`.
    template <bool Careful> uint32_t add_half(const Unaligned<Bits> *from, size_t first) {
        uint32x4_t tops[4];
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; ++j) {
            const uint32x4_t bits = four(from + 4 * j);
            tops[j] = narrow ? vshlq_n_u32(bits, 16) : bits;
            uint32x4_t magnitude = vandq_u32(bits, vdupq_n_u32(F::sign - 1));
            uint32x4_t low = magnitude;
            if constexpr (Careful) {
                const uint32x4_t odd = vcgeq_u32(magnitude, vdupq_n_u32(F::infinity));
                magnitude = vbicq_u32(magnitude, odd);
                const uint32x4_t zero = vceqzq_u32(magnitude);
                nonfinite = vaddq_u32(nonfinite, odd);
                unused = vaddq_u32(unused, zero);
                low = vorrq_u32(magnitude, zero);
            }
            largest = vmaxq_u32(largest, magnitude);
            smallest = vminq_u32(smallest, low);
            sums.add(first + j, numbers<F>(magnitude));
        }
        return bits_of(signs_of(tops));
    }

    template <bool Careful> uint32_t add(const Unaligned<Bits> *from) {
        const uint32_t low = add_half<Careful>(from, 0);
        return low | add_half<Careful>(from + kGroup, 4) << 16;
    }

    template <bool Careful> void add_groups(In<Bits> values, uint8_t *signs) {
        for (size_t i = 0; i < values.size(); i += kScanned) {
            const uint32_t plane = add<Careful>(values.data() + i);
            std::memcpy(signs + i / 8, &plane, 4);
        }
    }

    // Whether a value was 0 or not finite, if none was cleaned.
    bool met_rare() const {
        return vmaxvq_u32(largest) >= F::infinity || vminvq_u32(smallest) == 0;
    }

    // What so many values have added, those behind the end among them.
    SignTerms terms(size_t padded) {
        SignTerms terms;
        terms.sum = sums.total();
        terms.used = padded - (0 - vaddvq_u32(unused));
        terms.nonfinite = 0 - vaddvq_u32(nonfinite);
        if (terms.used > 0) {
            terms.largest = vmaxvq_u32(largest);
            terms.smallest = vminvq_u32(smallest);
        }
        return terms;
    }
};

template <class F> SignTerms scan(In<typename F::Bits> values, uint8_t *signs) {
    Scan<F> found;
    const size_t whole = values.size() / kScanned * kScanned;
    found.template add_groups<false>(values.first(whole), signs);
    if (found.met_rare()) [[unlikely]] {
        found = Scan<F>();
        found.template add_groups<true>(values.first(whole), signs);
    }
    if (whole < values.size()) { // zeros behind the end change nothing
        Unaligned<typename F::Bits> rest[kScanned] = {};
        std::copy(values.begin() + static_cast<ptrdiff_t>(whole), values.end(), rest);
        const uint32_t plane = found.template add<true>(rest);
        std::memcpy(signs + whole / 8, &plane, packed_size(values.size() - whole, 1));
    }
    return found.terms((values.size() + kScanned - 1) / kScanned * kScanned);
}

// ---- values: eight for each byte of the plane ----

void fill16(const uint8_t *signs, uint16_t scale, Out<uint16_t> values) {
    const size_t whole = values.size() / 8 * 8;
    for (size_t i = 0; i < whole; i += 8) {
        const uint16x8_t top = vandq_u16(mask16_of(signs[i / 8]), vdupq_n_u16(Float16::sign));
        store16(values.data() + i, vorrq_u16(vdupq_n_u16(scale), top));
    }
    portable_sign.fill16(signs + whole / 8, scale, values.subspan(whole));
}

void fill32(const uint8_t *signs, uint32_t scale, Out<uint32_t> values) {
    const size_t whole = values.size() / 8 * 8;
    for (size_t i = 0; i < whole; i += 8) {
        const Mask32 negative(signs[i / 8]);
        store32(values.data() + i, vorrq_u32(vdupq_n_u32(scale), negative.low_signs()));
        store32(values.data() + i + 4, vorrq_u32(vdupq_n_u32(scale), negative.high_signs()));
    }
    portable_sign.fill32(signs + whole / 8, scale, values.subspan(whole));
}

// Calls `use(place, sign bits)` for the four pairs of a byte.
template <class Use> void each_pair(uint8_t plane, Use use) {
    const Mask32 negative(plane);
    const uint32x4_t none = vdupq_n_u32(0);
    const uint32x4_t low = negative.low_signs();
    const uint32x4_t high = negative.high_signs();
    use(0, vreinterpretq_u64_u32(vzip1q_u32(none, low)));
    use(2, vreinterpretq_u64_u32(vzip2q_u32(none, low)));
    use(4, vreinterpretq_u64_u32(vzip1q_u32(none, high)));
    use(6, vreinterpretq_u64_u32(vzip2q_u32(none, high)));
}

void fill64(const uint8_t *signs, uint64_t scale, Out<uint64_t> values) {
    const size_t whole = values.size() / 8 * 8;
    for (size_t i = 0; i < whole; i += 8) {
        each_pair(signs[i / 8], [&](size_t place, uint64x2_t top) {
            store64(values.data() + i + place, vorrq_u64(vdupq_n_u64(scale), top));
        });
    }
    portable_sign.fill64(signs + whole / 8, scale, values.subspan(whole));
}

void add32(const uint8_t *signs, float scale, Out<float> totals) {
    const uint32x4_t size = vreinterpretq_u32_f32(vdupq_n_f32(scale));
    const size_t whole = totals.size() / 8 * 8;
    const auto grow = [&](size_t at, uint32x4_t top) {
        const float32x4_t own = vreinterpretq_f32_u32(load32(totals.data() + at));
        const float32x4_t term = vreinterpretq_f32_u32(veorq_u32(size, top));
        store32(totals.data() + at, vreinterpretq_u32_f32(vaddq_f32(own, term)));
    };
    for (size_t i = 0; i < whole; i += 8) {
        const Mask32 negative(signs[i / 8]);
        grow(i, negative.low_signs());
        grow(i + 4, negative.high_signs());
    }
    portable_sign.add32(signs + whole / 8, scale, totals.subspan(whole));
}

void add64(const uint8_t *signs, double scale, Out<double> totals) {
    const uint64x2_t size = vreinterpretq_u64_f64(vdupq_n_f64(scale));
    const size_t whole = totals.size() / 8 * 8;
    for (size_t i = 0; i < whole; i += 8) {
        each_pair(signs[i / 8], [&](size_t place, uint64x2_t top) {
            const float64x2_t own = vreinterpretq_f64_u64(load64(totals.data() + i + place));
            const float64x2_t term = vreinterpretq_f64_u64(veorq_u64(size, top));
            store64(totals.data() + i + place, vreinterpretq_u64_f64(vaddq_f64(own, term)));
        });
    }
    portable_sign.add64(signs + whole / 8, scale, totals.subspan(whole));
}

} // namespace

constinit const SignKernels neon_sign = {
    .scan_float32 = scan<Float32>,
    .scan_float64 = nullptr,
    .scan_float16 = scan<Float16>,
    .scan_bfloat16 = scan<Bfloat16>,
    .fill16 = fill16,
    .fill32 = fill32,
    .fill64 = fill64,
    .add32 = add32,
    .add64 = add64,
};

} // namespace fewbits

#endif
