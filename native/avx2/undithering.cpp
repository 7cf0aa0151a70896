// Codes of dithering to values with AVX2, where there are at most sixteen codes. The rest goes to
// the portable kernels.
#if defined(__AVX2__)

#include "avx2/levels.h"

namespace fewbits {
namespace {

// Sixteen values of float32 fit into two registers.
struct Sixteen {
    __m256 lower, upper;

    Sixteen(float scale, const DitherRatios &ratios)
        : lower(values_of_eight(ratios.of, _mm256_set1_pd(scale))),
          upper(values_of_eight(ratios.of + 8, _mm256_set1_pd(scale))) {}

    // Eight codes from 0 on.
    static __m256 values_of_eight(const double *ratios, __m256d scale) {
        const __m128 low = _mm256_cvtpd_ps(_mm256_mul_pd(scale, _mm256_loadu_pd(ratios)));
        const __m128 high = _mm256_cvtpd_ps(_mm256_mul_pd(scale, _mm256_loadu_pd(ratios + 4)));
        return _mm256_set_m128(high, low);
    }

    Vector operator[](Vector code) const {
        const __m256 low = _mm256_permutevar8x32_ps(lower, code);
        const __m256 high = _mm256_permutevar8x32_ps(upper, code);
        const Vector is_high = _mm256_slli_epi32(code, 28); // bit 3, where the choice looks
        return _mm256_castps_si256(_mm256_blendv_ps(low, high, _mm256_castsi256_ps(is_high)));
    }
};

// Sixteen values of a 16-bit format: their low bytes and their high bytes.
template <class F> struct SixteenWords {
    Vector low, high;

    SixteenWords(float scale, const DitherRatios &ratios) {
        uint8_t bytes[2][16];
        for (size_t code = 0; code < 16; ++code) {
            const auto own = static_cast<uint16_t>(code);
            Unaligned<uint16_t> value;
            portable_dithering<F>().undither({&own, 1}, scale, ratios, {&value, 1});
            bytes[0][code] = value.bytes[0];
            bytes[1][code] = value.bytes[1];
        }
        const auto both = [](const uint8_t *from) {
            return _mm256_broadcastsi128_si256(
                _mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
        };
        low = both(bytes[0]);
        high = both(bytes[1]);
    }

    // Sixteen codes in 16-bit fields. A byte with its top bit set selects nothing.
    Vector operator[](Vector codes) const {
        const Vector first = _mm256_or_si256(codes, _mm256_set1_epi16(INT16_MIN));
        const Vector second =
            _mm256_or_si256(_mm256_slli_epi16(codes, 8), _mm256_set1_epi16(0x0080));
        return _mm256_or_si256(_mm256_shuffle_epi8(low, first), _mm256_shuffle_epi8(high, second));
    }
};

// Sixteen bits, each as the top bit of a 16-bit field.
Vector sixteen_signs(const uint8_t *plane) {
    const Vector bits = _mm256_set1_epi16(load_as<int16_t>(plane));
    const Vector own = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096,
                                         8192, 16384, INT16_MIN);
    const Vector set = _mm256_cmpeq_epi16(_mm256_and_si256(bits, own), own);
    return _mm256_slli_epi16(set, 15);
}

__m128i half(const void *from) { return _mm_loadu_si128(static_cast<const __m128i *>(from)); }

} // namespace

template <class F>
void Undither<F>::codes(std::span<const uint16_t> codes, Wide<F> scale, const DitherRatios &ratios,
                        Out<Bits> values) {
    constexpr size_t step = 32 / sizeof(Bits);
    // A table for less than two steps does not pay.
    const size_t whole =
        ratios.count > 16 || codes.size() < 2 * step ? 0 : codes.size() / step * step;
    if (whole > 0) {
        if constexpr (sizeof(Bits) == 4) {
            const Sixteen table(scale, ratios);
            for (size_t i = 0; i < whole; i += step) {
                store(values.data() + i, table[_mm256_cvtepu16_epi32(half(codes.data() + i))]);
            }
        } else {
            const SixteenWords<F> table(scale, ratios);
            for (size_t i = 0; i < whole; i += step) {
                store(values.data() + i, table[load(codes.data() + i)]);
            }
        }
    }
    if (whole < codes.size()) {
        portable_dithering<F>().undither(codes.subspan(whole), scale, ratios,
                                         values.subspan(whole));
    }
}

template <class F>
void Undither<F>::levels(const uint8_t *levels, const uint8_t *signs, Wide<F> scale,
                         const DitherRatios &ratios, Out<Bits> values) {
    constexpr size_t step = 32 / sizeof(Bits);
    const size_t whole =
        ratios.count > 16 || values.size() < 2 * step ? 0 : values.size() / step * step;
    if (whole > 0) {
        if constexpr (sizeof(Bits) == 4) {
            const Sixteen table(scale, ratios);
            for (size_t i = 0; i < whole; i += step) {
                const Vector code = _mm256_cvtepu8_epi32(
                    _mm_loadl_epi64(reinterpret_cast<const __m128i *>(levels + i)));
                store(values.data() + i, _mm256_or_si256(table[code], eight_signs(signs[i / 8])));
            }
        } else {
            const SixteenWords<F> table(scale, ratios);
            for (size_t i = 0; i < whole; i += step) {
                const Vector own = table[_mm256_cvtepu8_epi16(half(levels + i))];
                store(values.data() + i, _mm256_or_si256(own, sixteen_signs(signs + i / 8)));
            }
        }
    }
    if (whole < values.size()) {
        portable_dithering<F>().undither_levels(levels + whole, signs + whole / 8, scale, ratios,
                                                values.subspan(whole));
    }
}

template struct Undither<Float32>;
template struct Undither<Float16>;
template struct Undither<Bfloat16>;

} // namespace fewbits

#endif
