// Natural compression of formats with 8 bits of exponent with AVX-512, in groups of 64 elements.
// Tails and groups with a rare value go to the AVX2 kernels.
#if defined(__AVX512BW__)

#include <algorithm>

#include "avx512bw/words.h"

namespace fewbits {
namespace {

constexpr size_t kWideGroup = 64;
constexpr int kMantissa = 23; // bfloat16 is the upper half of 32 bits

template <class F> const NaturalKernels<F> &exact() {
    return of_format<F>(avx2_natural_float32, avx2_natural_float64, avx2_natural_float16,
                        avx2_natural_bfloat16);
}

template <class F> Wide load_sixteen(const Unaligned<typename F::Bits> *from) {
    if constexpr (sizeof(typename F::Bits) == 4) {
        return load_wide(from);
    } else {
        return _mm512_slli_epi32(_mm512_cvtepu16_epi32(load(from)), 16);
    }
}

// Four vectors of sixteen integers, those above 255 as 255, to bytes in order.
Wide narrowed(const Wide (&four)[4]) {
    const Wide mixed = _mm512_packus_epi16(_mm512_packus_epi32(four[0], four[1]),
                                           _mm512_packus_epi32(four[2], four[3]));
    return _mm512_permutexvar_epi32(
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), mixed);
}

// False: a value may be above the largest power or not finite, and the group must be encoded over
// what was written here.
template <class F, bool random>
bool encode_group(const Unaligned<typename F::Bits> *from, WideWords &words, uint8_t *exponents,
                  uint8_t *signs) {
    Wide codes[4];
    uint64_t sign_bits = 0;
    for (size_t j = 0; j < 4; ++j) {
        const Wide bits = load_sixteen<F>(from + 16 * j);
        const Wide magnitude = _mm512_and_si512(bits, all_wide(0x7FFFFFFFu));
        const Wide addend = random ? _mm512_srli_epi32(words.next(), 32 - kMantissa)
                                   : all_wide((1u << (kMantissa - 1)) - 1);
        codes[j] = _mm512_srli_epi32(_mm512_add_epi32(magnitude, addend), kMantissa);
        sign_bits |= uint64_t{_mm512_movepi32_mask(bits)} << (16 * j);
    }
    const Wide bytes = narrowed(codes);
    store_wide(exponents, bytes);
    sign_bits &= _mm512_test_epi8_mask(bytes, bytes); // a zero has no sign
    std::memcpy(signs, &sign_bits, 8);
    const auto top = static_cast<char>(F::top_code - 1);
    return _mm512_cmpge_epu8_mask(bytes, _mm512_set1_epi8(top)) == 0;
}

template <class F, bool random>
void encode_groups(In<typename F::Bits> values, const Stream &stream, fewbits_rounding rounding,
                   uint8_t *exponents, uint8_t *signs, fewbits_tally &tally) {
    const auto exactly = [&](size_t start, size_t count) {
        exact<F>().encode(values.subspan(start, count), stream.from(start), rounding,
                          {exponents + start, count}, {signs + start / 8, packed_size(count, 1)},
                          tally);
    };
    size_t i = 0;
    while (values.size() - i >= kWideGroup) {
        const Stream own = stream.from(i);
        const uint64_t segment = UINT32_MAX - (own.first & UINT32_MAX) + 1; // words left of it
        const size_t whole =
            static_cast<size_t>(std::min<uint64_t>(values.size() - i, segment)) / kWideGroup;
        WideWords words(own);
        for (const size_t end = i + whole * kWideGroup; i < end; i += kWideGroup) {
            fetch_ahead<kWideGroup * sizeof(values[0])>(values.data() + i);
            if (!encode_group<F, random>(values.data() + i, words, exponents + i, signs + i / 8)) {
                exactly(i, kWideGroup);
            }
        }
        if (whole == 0) { // the segment ends within this group
            exactly(i, kWideGroup);
            i += kWideGroup;
        }
    }
    exactly(i, values.size() - i);
}

template <class F>
void encode(In<typename F::Bits> values, const Stream &stream, fewbits_rounding rounding,
            Bytes exponents, Bytes signs, fewbits_tally &tally) {
    const auto run = rounding == FEWBITS_NEAREST ? encode_groups<F, false> : encode_groups<F, true>;
    run(values, stream, rounding, exponents.data(), signs.data(), tally);
}

template <class F>
fewbits_status decode(ConstBytes exponents, ConstBytes signs, Out<typename F::Bits> values,
                      fewbits_tally &tally) {
    const auto exactly = [&](size_t start, size_t count) {
        return exact<F>().decode(exponents.subspan(start, count),
                                 signs.subspan(start / 8, packed_size(count, 1)),
                                 values.subspan(start, count), tally);
    };
    size_t i = 0;
    for (; values.size() - i >= kWideGroup; i += kWideGroup) {
        fetch_ahead<kWideGroup * sizeof(values[0])>(values.data() + i);
        const Wide codes = load_wide(exponents.data() + i);
        const auto sign_bits = load_as<uint64_t>(signs.data() + i / 8);
        const uint64_t zeros = _mm512_testn_epi8_mask(codes, codes);
        const uint64_t tops =
            _mm512_cmpeq_epi8_mask(codes, _mm512_set1_epi8(static_cast<char>(F::top_code)));
        if ((tops | (sign_bits & zeros)) != 0) [[unlikely]] {
            const fewbits_status status = exactly(i, kWideGroup);
            if (status != FEWBITS_OK) {
                return status;
            }
            continue;
        }
        if constexpr (sizeof(typename F::Bits) == 4) {
            for (size_t j = 0; j < 4; ++j) {
                const Wide each = _mm512_slli_epi32(
                    _mm512_cvtepu8_epi32(_mm_loadu_si128(
                        reinterpret_cast<const __m128i *>(exponents.data() + i + 16 * j))),
                    kMantissa);
                store_wide(values.data() + i + 16 * j,
                           _mm512_mask_or_epi32(each, static_cast<__mmask16>(sign_bits >> (16 * j)),
                                                each, all_wide(0x80000000u)));
            }
        } else {
            for (size_t j = 0; j < 2; ++j) {
                const Wide each = _mm512_slli_epi16(
                    _mm512_cvtepu8_epi16(load(exponents.data() + i + 32 * j)), kMantissa - 16);
                const auto negative = static_cast<__mmask32>(sign_bits >> (32 * j));
                store_wide(
                    values.data() + i + 32 * j,
                    _mm512_mask_add_epi16(each, negative, each, _mm512_set1_epi16(INT16_MIN)));
            }
        }
    }
    return exactly(i, values.size() - i);
}

} // namespace

constinit const NaturalKernels<Float32> avx512bw_natural_float32 = {encode<Float32>,
                                                                    decode<Float32>, nullptr};
constinit const NaturalKernels<Bfloat16> avx512bw_natural_bfloat16 = {encode<Bfloat16>,
                                                                      decode<Bfloat16>, nullptr};

} // namespace fewbits

#endif
