// Dithering of float64 with AVX2, in groups of 32 elements. Tails, groups with a rare value, blocks
// in which the random stream changes its segment, and codes wider than a byte go to the portable
// kernels. Values are looked up there too.
#if defined(__AVX2__)

#include <cmath>
#include <limits>

#include "avx2/levels.h"

namespace fewbits {
namespace {

Vector all64(uint64_t x) { return _mm256_set1_epi64x(static_cast<long long>(x)); }
__m256d load_pd(const Unaligned<uint64_t> *from) {
    return _mm256_loadu_pd(reinterpret_cast<const double *>(from));
}

// ---- norms ----

// Magnitudes, 0 for what is not finite.
__m256d four_magnitudes(const Unaligned<uint64_t> *from) {
    const __m256d x = _mm256_and_pd(load_pd(from), _mm256_castsi256_pd(all64(INT64_MAX)));
    const __m256d limit = _mm256_castsi256_pd(all64(Float64::infinity));
    return _mm256_and_pd(x, _mm256_cmp_pd(x, limit, _CMP_LT_OQ));
}

// Calls `use(lane, magnitudes)` for all values, four at a time; zeros stand behind the end.
template <class Use> void each_four(In<uint64_t> values, Use use) {
    const size_t whole = values.size() / kGroup * kGroup;
    const auto group = [&](const Unaligned<uint64_t> *from) {
        for (size_t j = 0; j < 8; ++j) {
            use(j, four_magnitudes(from + 4 * j));
        }
    };
    for (size_t i = 0; i < whole; i += kGroup) {
        fetch_ahead<kGroup * 8>(values.data() + i);
        group(values.data() + i);
    }
    if (whole < values.size()) {
        Unaligned<uint64_t> rest[kGroup] = {};
        std::copy(values.begin() + static_cast<ptrdiff_t>(whole), values.end(), rest);
        group(rest);
    }
}

template <fewbits_norm norm> double scaled_sum(In<uint64_t> values, int shift) {
    // Two factors, because 2^-shift may be too large for one. Only the first rounds, once.
    const __m256d first = _mm256_set1_pd(std::ldexp(1.0, std::min(-shift, 1000)));
    const __m256d second = _mm256_set1_pd(std::ldexp(1.0, std::max(-shift - 1000, 0)));
    __m256d lanes[8];
    std::fill(std::begin(lanes), std::end(lanes), _mm256_setzero_pd());
    each_four(values, [&](size_t lane, __m256d x) {
        x = _mm256_mul_pd(_mm256_mul_pd(x, first), second);
        lanes[lane] = _mm256_add_pd(lanes[lane], norm == FEWBITS_NORM_2 ? _mm256_mul_pd(x, x) : x);
    });
    return folded(lanes);
}

double scaled_terms(In<uint64_t> values, fewbits_norm norm, int shift) {
    return norm == FEWBITS_NORM_2 ? scaled_sum<FEWBITS_NORM_2>(values, shift)
                                  : scaled_sum<FEWBITS_NORM_1>(values, shift);
}

void norm_terms(In<uint64_t> values, fewbits_norm norm, double &sum, uint64_t &largest) {
    if (norm != FEWBITS_NORM_MAX) {
        return portable_dithering_float64.norm_terms(values, norm, sum, largest);
    }
    __m256d most[8];
    std::fill(std::begin(most), std::end(most), _mm256_setzero_pd());
    each_four(values, [&](size_t lane, __m256d x) { most[lane] = _mm256_max_pd(most[lane], x); });
    for (size_t i = 1; i < 8; ++i) {
        most[0] = _mm256_max_pd(most[0], most[i]);
    }
    double each[4];
    _mm256_storeu_pd(each, most[0]);
    sum = 0;
    largest = std::bit_cast<uint64_t>(*std::max_element(std::begin(each), std::end(each)));
}

// ---- rounding ----

// Whole numbers below 2^52 to integers: added to 2^52 they are the low bits.
struct Integers {
    const __m256d big = _mm256_set1_pd(0x1p52);

    Vector of(__m256d whole) const {
        return _mm256_xor_si256(_mm256_castpd_si256(_mm256_add_pd(whole, big)),
                                _mm256_castpd_si256(big));
    }
    // A share below 1 in units of 2^-63, cut: first 31 bits, then 32.
    Vector chance(__m256d share) const {
        const __m256d scaled = _mm256_mul_pd(share, _mm256_set1_pd(0x1p31));
        const __m256d upper = _mm256_floor_pd(scaled);
        const __m256d rest = _mm256_mul_pd(_mm256_sub_pd(scaled, upper), _mm256_set1_pd(0x1p32));
        return _mm256_or_si256(_mm256_slli_epi64(of(upper), 32), of(_mm256_floor_pd(rest)));
    }
};

template <bool Natural> struct Rounder64 : Integers {
    const __m256d divisor, factor, lowest;
    const Vector offset;

    Rounder64(double scale, const DitherShape &shape)
        : divisor(_mm256_set1_pd(scale > 0 ? scale : std::numeric_limits<double>::infinity())),
          factor(_mm256_set1_pd(Natural ? double{shape.inverse_lowest()}
                                        : static_cast<double>(shape.levels))),
          lowest(_mm256_set1_pd(shape.lowest())),
          offset(_mm256_set1_epi64x(int64_t{shape.levels} - 1023)) {}

    Vector levels(__m256d magnitude, Vector draw) const {
        const __m256d y = _mm256_min_pd(_mm256_div_pd(magnitude, divisor), _mm256_set1_pd(1.0));
        const __m256d scaled = _mm256_mul_pd(y, factor);
        if constexpr (Natural) {
            const __m256d below = _mm256_cmp_pd(y, lowest, _CMP_LT_OQ);
            const Vector bits = _mm256_castpd_si256(y);
            const Vector high = _mm256_srli_epi64(_mm256_slli_epi64(bits, 12), 1);
            const Vector chance =
                _mm256_blendv_epi8(high, this->chance(scaled), _mm256_castpd_si256(below));
            const Vector lower = _mm256_andnot_si256(
                _mm256_castpd_si256(below), _mm256_add_epi64(_mm256_srli_epi64(bits, 52), offset));
            return _mm256_sub_epi64(lower, _mm256_cmpgt_epi64(chance, draw));
        } else {
            const __m256d lower = _mm256_floor_pd(scaled);
            const Vector chance = this->chance(_mm256_sub_pd(scaled, lower));
            return _mm256_sub_epi64(of(lower), _mm256_cmpgt_epi64(chance, draw));
        }
    }
};

// The low or the high halves of eight 64-bit fields, in order.
template <int choice> Vector halves(Vector a, Vector b) {
    const __m256 mixed = _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), choice);
    return _mm256_permute4x64_epi64(_mm256_castps_si256(mixed), 0xD8);
}

template <bool Natural, class Codes>
void dither_groups(In<uint64_t> values, const Stream &stream, double scale, const Codes &codes,
                   size_t first, fewbits_tally &tally) {
    const Rounder64<Natural> rounder(scale, codes.shape);
    const Vector mask = all64(INT64_MAX);
    Words source(stream, 2 * stream.first);
    for (size_t i = 0; i < values.size(); i += kGroup) {
        const auto *const from = values.data() + i;
        fetch_ahead<kGroup * 8>(from);
        Vector rare = _mm256_setzero_si256();
        Vector four[4];
        for (size_t j = 0; j < 4; ++j) {
            Vector bits[2], levels[2];
            for (size_t k = 0; k < 2; ++k) {
                bits[k] = load(from + 8 * j + 4 * k);
                const Vector magnitude = _mm256_and_si256(bits[k], mask);
                rare = _mm256_or_si256(rare,
                                       _mm256_cmpgt_epi64(magnitude, all64(Float64::infinity - 1)));
                levels[k] = rounder.levels(_mm256_castsi256_pd(magnitude),
                                           _mm256_srli_epi64(source.next(), 1));
            }
            // A number whose high half is 0 is not always 0.
            const Vector high = _mm256_or_si256(halves<0xDD>(bits[0], bits[1]), all(1));
            four[j] = _mm256_sign_epi32(halves<0x88>(levels[0], levels[1]), high);
        }
        if (any(rare)) [[unlikely]] {
            codes.put_exactly(first + i, values.subspan(i, kGroup), stream.from(i), scale, tally);
        } else {
            codes.put(first + i, joined_bytes(four));
        }
    }
}

template <class Codes>
void dither_blocks(In<uint64_t> values, const Stream &stream, double scale, const Codes &codes,
                   fewbits_tally &tally) {
    if (!codes.takes()) {
        return codes.put_exactly(0, values, stream, scale, tally);
    }
    const auto run = codes.shape.natural ? dither_groups<true, Codes> : dither_groups<false, Codes>;
    each_stretch<2>(values.size(), stream, [&](size_t start, size_t whole, size_t count) {
        if (whole > 0) {
            run(values.subspan(start, whole), stream.from(start), scale, codes, start, tally);
        }
        if (whole < count) {
            codes.put_exactly(start + whole, values.subspan(start + whole, count - whole),
                              stream.from(start + whole), scale, tally);
        }
    });
}

void dither(In<uint64_t> values, const Stream &stream, double scale, const DitherShape &shape,
            Bytes packed, fewbits_tally &tally) {
    dither_blocks(values, stream, scale, PackedCodes<Float64>{shape, packed}, tally);
}

void dither_levels(In<uint64_t> values, const Stream &stream, double scale,
                   const DitherShape &shape, uint8_t *levels, uint8_t *signs,
                   fewbits_tally &tally) {
    dither_blocks(values, stream, scale, LevelCodes<Float64>{shape, levels, signs}, tally);
}

} // namespace

constinit const DitherKernels<Float64> avx2_dithering_float64 = {
    .norm_terms = norm_terms,
    .dither = dither,
    .undither = nullptr,
    .dither_levels = dither_levels,
    .undither_levels = nullptr,
    .dither_codes = nullptr,
    .scaled_terms = scaled_terms,
};

} // namespace fewbits

#endif
