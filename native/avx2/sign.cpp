// Signs with AVX2, in groups of 32 values; filling float64 is left to the portable table.
#if defined(__AVX2__)

#include "sign.h"

#include <bit>

#include "avx2/avx2.h"

namespace fewbits {
namespace {

// Eight finite magnitudes, as bits in 32-bit lanes, as numbers.
template <class F> __m256 numbers(Vector magnitude) {
    if constexpr (std::is_same_v<F, Float16>) {
        const Vector words = _mm256_permute4x64_epi64(_mm256_packus_epi32(magnitude, magnitude), 8);
        return _mm256_cvtph_ps(_mm256_castsi256_si128(words));
    } else {
        return _mm256_castsi256_ps(_mm256_slli_epi32(magnitude, 23 - F::mantissa));
    }
}

// Lane i of the sums has values i, i + 32, ….
template <class F> struct Scan {
    using Bits = typename F::Bits;
    static constexpr bool narrow = sizeof(Bits) == 2;

    __m256d lanes[8];
    Vector smallest = all(UINT32_MAX);
    Vector largest = _mm256_setzero_si256();
    Vector unused = _mm256_setzero_si256(); // counts, negative
    Vector nonfinite = _mm256_setzero_si256();
    Vector mask = pinned(F::sign - 1);
    Vector finite = pinned(F::infinity - 1);

    Scan() { std::fill(std::begin(lanes), std::end(lanes), _mm256_setzero_pd()); }

    static Vector eight(const Unaligned<Bits> *from) {
        if constexpr (narrow) {
            return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
        } else {
            return load(from);
        }
    }

    // Adds 32 values; returns their signs. If some may be 0 or not finite, it is `Careful`.
    template <bool Careful> uint32_t add(const Unaligned<Bits> *from) {
        uint32_t signs = 0;
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
            const Vector bits = eight(from + 8 * j);
            const Vector top = narrow ? _mm256_slli_epi32(bits, 16) : bits;
            signs |= static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(top))) << (8 * j);
            Vector magnitude = _mm256_and_si256(bits, mask);
            Vector low = magnitude;
            if constexpr (Careful) {
                const Vector odd = _mm256_cmpgt_epi32(magnitude, finite);
                magnitude = _mm256_andnot_si256(odd, magnitude);
                const Vector zero = _mm256_cmpeq_epi32(magnitude, _mm256_setzero_si256());
                nonfinite = _mm256_add_epi32(nonfinite, odd);
                unused = _mm256_add_epi32(unused, zero);
                low = _mm256_or_si256(magnitude, zero);
            }
            largest = _mm256_max_epi32(largest, magnitude);
            smallest = _mm256_min_epu32(smallest, low);
            const __m256 values = numbers<F>(magnitude);
            lanes[2 * j] =
                _mm256_add_pd(lanes[2 * j], _mm256_cvtps_pd(_mm256_castps256_ps128(values)));
            lanes[2 * j + 1] =
                _mm256_add_pd(lanes[2 * j + 1], _mm256_cvtps_pd(_mm256_extractf128_ps(values, 1)));
        }
        return signs;
    }

    template <bool Careful> void add_groups(In<Bits> values, uint8_t *signs) {
        for (size_t i = 0; i < values.size(); i += kGroup) {
            fetch_ahead<kGroup * sizeof(Bits)>(values.data() + i);
            const uint32_t plane = add<Careful>(values.data() + i);
            std::memcpy(signs + i / 8, &plane, 4);
        }
    }

    // Whether a value was 0 or not finite, if none was cleaned.
    bool met_rare() const {
        return any(_mm256_or_si256(_mm256_cmpgt_epi32(largest, finite),
                                   _mm256_cmpeq_epi32(smallest, _mm256_setzero_si256())));
    }

    // What so many values have added, those behind the end among them.
    SignTerms terms(size_t padded) {
        for (size_t half = 4; half > 0; half /= 2) {
            for (size_t i = 0; i < half; ++i) {
                lanes[i] = _mm256_add_pd(lanes[i], lanes[i + half]);
            }
        }
        const __m128d pair =
            _mm_add_pd(_mm256_castpd256_pd128(lanes[0]), _mm256_extractf128_pd(lanes[0], 1));
        uint32_t least[8], most[8], zeros[8], odd[8];
        store(least, smallest);
        store(most, largest);
        store(zeros, unused);
        store(odd, nonfinite);
        SignTerms terms;
        terms.sum = _mm_cvtsd_f64(_mm_add_sd(pair, _mm_unpackhi_pd(pair, pair)));
        terms.used = padded;
        for (size_t i = 0; i < 8; ++i) {
            terms.used -= 0 - zeros[i];
            terms.nonfinite += 0 - odd[i];
        }
        if (terms.used > 0) {
            terms.largest = *std::max_element(std::begin(most), std::end(most));
            terms.smallest = *std::min_element(std::begin(least), std::end(least));
        }
        return terms;
    }
};

template <class F> SignTerms scan(In<typename F::Bits> values, uint8_t *signs) {
    Scan<F> found;
    const size_t whole = values.size() / kGroup * kGroup;
    found.template add_groups<false>(values.first(whole), signs);
    if (found.met_rare()) [[unlikely]] {
        found = Scan<F>();
        found.template add_groups<true>(values.first(whole), signs);
    }
    if (whole < values.size()) { // zeros behind the end change nothing
        Unaligned<typename F::Bits> rest[kGroup] = {};
        std::copy(values.begin() + static_cast<ptrdiff_t>(whole), values.end(), rest);
        const uint32_t plane = found.template add<true>(rest);
        std::memcpy(signs + whole / 8, &plane, packed_size(values.size() - whole, 1));
    }
    return found.terms((values.size() + kGroup - 1) / kGroup * kGroup);
}

// float64, whose sums need its largest magnitude first. Comparisons of numbers do for their bits.
struct Scan64 {
    __m256d smallest = _mm256_set1_pd(std::numeric_limits<double>::infinity());
    __m256d largest = _mm256_setzero_pd();
    Vector unused = _mm256_setzero_si256(); // counts, negative
    Vector nonfinite = _mm256_setzero_si256();

    uint32_t add(const Unaligned<uint64_t> *from) {
        const Vector mask = _mm256_set1_epi64x(INT64_MAX);
        const Vector finite = _mm256_set1_epi64x(static_cast<long long>(Float64::infinity - 1));
        uint32_t signs = 0;
        for (int j = 0; j < 8; ++j) {
            const Vector bits = load(from + 4 * j);
            signs |= static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(bits)))
                     << (4 * j);
            const Vector all_magnitudes = _mm256_and_si256(bits, mask);
            const Vector odd = _mm256_cmpgt_epi64(all_magnitudes, finite);
            const Vector magnitude = _mm256_andnot_si256(odd, all_magnitudes);
            const Vector zero = _mm256_cmpeq_epi64(magnitude, _mm256_setzero_si256());
            nonfinite = _mm256_add_epi64(nonfinite, odd);
            unused = _mm256_add_epi64(unused, zero);
            largest = _mm256_max_pd(largest, _mm256_castsi256_pd(magnitude));
            // A zero is NaN here, and then the second operand is the result.
            smallest =
                _mm256_min_pd(_mm256_castsi256_pd(_mm256_or_si256(magnitude, zero)), smallest);
        }
        return signs;
    }

    SignTerms terms(size_t padded) const {
        double least[4], most[4];
        uint64_t zeros[4], odd[4];
        _mm256_storeu_pd(least, smallest);
        _mm256_storeu_pd(most, largest);
        store(zeros, unused);
        store(odd, nonfinite);
        SignTerms terms;
        terms.used = padded;
        for (size_t i = 0; i < 4; ++i) {
            terms.used += zeros[i];
            terms.nonfinite -= odd[i];
        }
        if (terms.used > 0) {
            const auto bits = [](double x) { return std::bit_cast<uint64_t>(x); };
            terms.largest = bits(*std::max_element(std::begin(most), std::end(most)));
            terms.smallest = bits(*std::min_element(std::begin(least), std::end(least)));
        }
        return terms;
    }
};

SignTerms scan_float64(In<uint64_t> values, uint8_t *signs) {
    Scan64 found;
    size_t i = 0;
    for (; i + kGroup <= values.size(); i += kGroup) {
        fetch_ahead<kGroup * 8>(values.data() + i);
        const uint32_t plane = found.add(values.data() + i);
        std::memcpy(signs + i / 8, &plane, 4);
    }
    if (i < values.size()) {
        Unaligned<uint64_t> rest[kGroup] = {};
        std::copy(values.begin() + static_cast<ptrdiff_t>(i), values.end(), rest);
        const uint32_t plane = found.add(rest);
        std::memcpy(signs + i / 8, &plane, packed_size(values.size() - i, 1));
    }
    return found.terms((values.size() + kGroup - 1) / kGroup * kGroup);
}

void fill16(const uint8_t *signs, uint16_t scale, Out<uint16_t> values) {
    const Vector each = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096,
                                          8192, 16384, static_cast<short>(0x8000));
    const Vector size = _mm256_set1_epi16(static_cast<short>(scale));
    const Vector top = _mm256_set1_epi16(static_cast<short>(0x8000));
    const size_t whole = values.size() / 16 * 16;
    for (size_t i = 0; i < whole; i += 16) {
        const Vector plane = _mm256_set1_epi16(load_as<short>(signs + i / 8));
        const Vector negative = _mm256_cmpeq_epi16(_mm256_and_si256(plane, each), each);
        store(values.data() + i, _mm256_or_si256(size, _mm256_and_si256(negative, top)));
    }
    portable_sign.fill16(signs + whole / 8, scale, values.subspan(whole));
}

void fill32(const uint8_t *signs, uint32_t scale, Out<uint32_t> values) {
    const Vector size = pinned(scale);
    const size_t whole = values.size() / 8 * 8;
    for (size_t i = 0; i < whole; i += 8) {
        store(values.data() + i, _mm256_or_si256(size, eight_signs(signs[i / 8])));
    }
    portable_sign.fill32(signs + whole / 8, scale, values.subspan(whole));
}

void add32(const uint8_t *signs, float scale, Out<float> totals) {
    const __m256 size = _mm256_set1_ps(scale);
    const size_t whole = totals.size() / 8 * 8;
    for (size_t i = 0; i < whole; i += 8) {
        auto *const at = reinterpret_cast<float *>(totals.data() + i);
        const __m256 own = _mm256_or_ps(size, _mm256_castsi256_ps(eight_signs(signs[i / 8])));
        _mm256_storeu_ps(at, _mm256_add_ps(_mm256_loadu_ps(at), own));
    }
    portable_sign.add32(signs + whole / 8, scale, totals.subspan(whole));
}

} // namespace

constinit const SignKernels avx2_sign = {
    .scan_float32 = scan<Float32>,
    .scan_float64 = scan_float64,
    .scan_float16 = scan<Float16>,
    .scan_bfloat16 = scan<Bfloat16>,
    .fill16 = fill16,
    .fill32 = fill32,
    .fill64 = nullptr,
    .add32 = add32,
    .add64 = nullptr,
};

} // namespace fewbits

#endif
