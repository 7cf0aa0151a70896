// The Walsh-Hadamard transform and random signs with AVX2.
//
// Three levels of the transform take one pass: eight vectors are in registers. The first pass also
// does the levels within a vector, the last one the scale.
#if defined(__AVX2__)

#include "avx2/avx2.h"
#include "select.h"

namespace fewbits {
namespace {

// Levels 1, 2 and 4 of eight values: each lane gets the sum or the difference with its partner.
struct Floats {
    using Value = float;
    static constexpr size_t lanes = 8;
    __m256 v;

    static Floats load(const float *from) { return {_mm256_loadu_ps(from)}; }
    static Floats spread(float x) { return {_mm256_set1_ps(x)}; }
    void store(float *to) const { _mm256_storeu_ps(to, v); }
    Floats operator+(Floats other) const { return {_mm256_add_ps(v, other.v)}; }
    Floats operator-(Floats other) const { return {_mm256_sub_ps(v, other.v)}; }
    Floats operator*(Floats other) const { return {_mm256_mul_ps(v, other.v)}; }
    Floats within() const {
        const __m256 one = _mm256_permute_ps(v, 0xB1);
        __m256 x = _mm256_blend_ps(_mm256_add_ps(v, one), _mm256_sub_ps(one, v), 0xAA);
        const __m256 two = _mm256_permute_ps(x, 0x4E);
        x = _mm256_blend_ps(_mm256_add_ps(x, two), _mm256_sub_ps(two, x), 0xCC);
        const __m256 four = _mm256_permute2f128_ps(x, x, 0x01);
        return {_mm256_blend_ps(_mm256_add_ps(x, four), _mm256_sub_ps(four, x), 0xF0)};
    }
};

// The same for levels 1 and 2 of four values.
struct Doubles {
    using Value = double;
    static constexpr size_t lanes = 4;
    __m256d v;

    static Doubles load(const double *from) { return {_mm256_loadu_pd(from)}; }
    static Doubles spread(double x) { return {_mm256_set1_pd(x)}; }
    void store(double *to) const { _mm256_storeu_pd(to, v); }
    Doubles operator+(Doubles other) const { return {_mm256_add_pd(v, other.v)}; }
    Doubles operator-(Doubles other) const { return {_mm256_sub_pd(v, other.v)}; }
    Doubles operator*(Doubles other) const { return {_mm256_mul_pd(v, other.v)}; }
    Doubles within() const {
        const __m256d one = _mm256_permute_pd(v, 0x5);
        const __m256d x = _mm256_blend_pd(_mm256_add_pd(v, one), _mm256_sub_pd(one, v), 0xA);
        const __m256d two = _mm256_permute2f128_pd(x, x, 0x01);
        return {_mm256_blend_pd(_mm256_add_pd(x, two), _mm256_sub_pd(two, x), 0xC)};
    }
};

template <class V> void pair(V &a, V &b) {
    const V sum = a + b;
    b = a - b;
    a = sum;
}

// The levels between `ways` vectors, at most 8, the nearest first.
template <size_t ways, class V> void between(V (&x)[ways]) {
    for (size_t h = 1; h < ways; h *= 2) {
        for (size_t i = 0; i < ways; ++i) {
            if ((i & h) == 0) {
                pair(x[i], x[i + h]);
            }
        }
    }
}

// Levels h to ways * h / 2 of all values, times `scale` if it is the last pass.
template <size_t ways, bool first, bool last, class V>
void pass(typename V::Value *values, size_t size, size_t h, V scale) {
    for (size_t start = 0; start < size; start += ways * h) {
        for (size_t at = start; at < start + h; at += V::lanes) {
            V x[ways];
            for (size_t i = 0; i < ways; ++i) {
                x[i] = V::load(values + at + i * h);
                x[i] = first ? x[i].within() : x[i];
            }
            between(x);
            for (size_t i = 0; i < ways; ++i) {
                (last ? x[i] * scale : x[i]).store(values + at + i * h);
            }
        }
    }
}

template <size_t ways, bool first, class V>
size_t level(typename V::Value *values, size_t size, size_t h, bool last, V scale) {
    if (last && ways * h == size) {
        pass<ways, first, true>(values, size, h, scale);
    } else {
        pass<ways, first, false>(values, size, h, scale);
    }
    return ways * h;
}

template <bool first, class V>
size_t next_level(typename V::Value *values, size_t size, size_t h, bool last, V scale) {
    const size_t left = size / h;
    return left >= 8   ? level<8, first>(values, size, h, last, scale)
           : left == 4 ? level<4, first>(values, size, h, last, scale)
           : left == 2 ? level<2, first>(values, size, h, last, scale)
                       : level<1, first>(values, size, h, last, scale);
}

template <class V>
void levels_from(typename V::Value *values, size_t size, size_t h, bool last, V scale) {
    while (h < size) {
        h = next_level<false>(values, size, h, last, scale);
    }
}

// Parts that fit the first cache are finished before the next one is begun.
template <class V> void transform(typename V::Value *values, size_t size, typename V::Value by) {
    const V scale = V::spread(by);
    const size_t near = std::min(size, 16384 / sizeof(by));
    for (size_t start = 0; start < size; start += near) {
        const size_t h = next_level<true>(values + start, near, V::lanes, near == size, scale);
        levels_from(values + start, near, h, near == size, scale);
    }
    levels_from(values, size, near, true, scale);
}

// Values whose lanes are words' top bits are negated.
template <bool draws>
uint32_t copy_signed(In<uint32_t> values, const Stream &stream, Out<uint32_t> out) {
    const Vector sign = pinned(0x80000000u);
    Vector largest = _mm256_setzero_si256();
    Words source(stream, stream.first);
    for (size_t i = 0; i < values.size(); i += 8) {
        const Vector value = load(&values[i]);
        largest = _mm256_max_epu32(largest, _mm256_andnot_si256(sign, value));
        store(&out[i],
              draws ? _mm256_xor_si256(value, _mm256_and_si256(source.next(), sign)) : value);
    }
    alignas(32) uint32_t lanes[8];
    store(lanes, largest);
    return *std::max_element(lanes, lanes + 8);
}

// Magnitudes of 64 bits are compared as signed numbers, which they are below 2^63.
template <bool draws>
uint64_t copy_signed(In<uint64_t> values, const Stream &stream, Out<uint64_t> out) {
    const Vector sign = _mm256_set1_epi64x(INT64_MIN);
    Vector largest = _mm256_setzero_si256();
    Words source(stream, stream.first);
    for (size_t i = 0; i < values.size(); i += 8) {
        const Vector words = draws ? source.next() : sign;
        for (size_t half = 0; half < 2; ++half) {
            const Vector value = load(&values[i + 4 * half]);
            const Vector magnitude = _mm256_andnot_si256(sign, value);
            largest =
                _mm256_blendv_epi8(largest, magnitude, _mm256_cmpgt_epi64(magnitude, largest));
            const __m128i own =
                half == 0 ? _mm256_castsi256_si128(words) : _mm256_extracti128_si256(words, 1);
            const Vector flips =
                _mm256_and_si256(_mm256_slli_epi64(_mm256_cvtepu32_epi64(own), 32), sign);
            store(&out[i + 4 * half], draws ? _mm256_xor_si256(value, flips) : value);
        }
    }
    alignas(32) uint64_t lanes[4];
    store(lanes, largest);
    return *std::max_element(lanes, lanes + 4);
}

template <class Bits, class Portable>
Bits signed_copy(In<Bits> values, const Stream *stream, Out<Bits> out, Portable portable) {
    const size_t count = values.size();
    const bool draws = stream != nullptr;
    const bool crosses = draws && count > 0 && crosses_segment(stream->first, count);
    const size_t whole = crosses ? 0 : count / 8 * 8;
    const Stream none{};
    const auto head = values.first(whole);
    const auto to = out.first(whole);
    const Bits largest =
        draws ? copy_signed<true>(head, *stream, to) : copy_signed<false>(head, none, to);
    const Stream rest = (draws ? *stream : none).from(whole);
    return std::max(largest,
                    portable(values.subspan(whole), draws ? &rest : nullptr, out.subspan(whole)));
}

} // namespace

void avx2_hadamard32(std::span<float> values, float scale) {
    values.size() < 8 ? portable_stages.hadamard32(values, scale)
                      : transform<Floats>(values.data(), values.size(), scale);
}

void avx2_hadamard64(std::span<double> values, double scale) {
    values.size() < 4 ? portable_stages.hadamard64(values, scale)
                      : transform<Doubles>(values.data(), values.size(), scale);
}

uint32_t avx2_signed32(In<uint32_t> values, const Stream *stream, Out<uint32_t> out) {
    return signed_copy(values, stream, out, portable_stages.signed32);
}

uint64_t avx2_signed64(In<uint64_t> values, const Stream *stream, Out<uint64_t> out) {
    return signed_copy(values, stream, out, portable_stages.signed64);
}

} // namespace fewbits

#endif
