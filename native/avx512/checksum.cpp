// CRC-32C with AVX-512: four vectors are moved forward over the data by carry-less multiplication.
#if defined(__AVX512VBMI2__)

#include "avx512bw/avx512.h"
#include "crc.h"

namespace fewbits {
namespace {

constexpr size_t kFold = 256; // bytes of four vectors

// x^n modulo the polynomial.
constexpr uint32_t power_of_x(unsigned n) {
    uint32_t power = 1u << 31;
    for (; n > 0; --n) {
        power = (power >> 1) ^ ((power & 1) != 0 ? kCrcPolynomial : 0u);
    }
    return power;
}

// Moves 128 bits `bits` bits forward: both halves times x^bits. The low half has the powers above
// the high one's. Products of reversed polynomials come out times x, and the factors stand in the
// upper powers of 64 bits, so the exponents are 33 less.
constexpr uint64_t low_factor(unsigned bits) { return power_of_x(bits + 64 - 33); }
constexpr uint64_t high_factor(unsigned bits) { return power_of_x(bits - 33); }

template <unsigned bits> Wide factors() {
    constexpr auto low = static_cast<long long>(low_factor(bits));
    constexpr auto high = static_cast<long long>(high_factor(bits));
    return _mm512_set_epi64(high, low, high, low, high, low, high, low);
}

// What `x` adds where it was moved to, and what is there.
Wide folded(Wide x, Wide factor, Wide there) {
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, factor, 0x00),
                                     _mm512_clmulepi64_epi128(x, factor, 0x11), there, 0x96);
}

// The vector's last 128 bits after its other ones have been moved there.
__m128i last_quarter(Wide x) {
    constexpr auto low = [](unsigned bits) { return static_cast<long long>(low_factor(bits)); };
    constexpr auto high = [](unsigned bits) { return static_cast<long long>(high_factor(bits)); };
    const Wide factor =
        _mm512_set_epi64(0, 0, high(128), low(128), high(256), low(256), high(384), low(384));
    const Wide moved = folded(x, factor, _mm512_maskz_mov_epi64(0xC0, x));
    const Vector half =
        _mm256_xor_si256(_mm512_castsi512_si256(moved), _mm512_extracti64x4_epi64(moved, 1));
    return _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

uint32_t crc32c(uint32_t crc, ConstBytes data) {
    if (data.size() < 2 * kFold) {
        return avx2_common.crc32c(crc, data);
    }
    const uint8_t *at = data.data();
    size_t left = data.size() - kFold;
    const Wide far = factors<8 * kFold>();
    Wide x[4];
    for (size_t i = 0; i < 4; ++i) {
        x[i] = load_wide(at + 64 * i);
    }
    x[0] =
        _mm512_xor_si512(x[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~crc))));
    for (at += kFold; left >= kFold; at += kFold, left -= kFold) {
        for (size_t i = 0; i < 4; ++i) {
            x[i] = folded(x[i], far, load_wide(at + 64 * i));
        }
    }
    const Wide near = factors<512>();
    const __m128i last =
        last_quarter(folded(folded(folded(x[0], near, x[1]), near, x[2]), near, x[3]));
    const uint64_t part = _mm_crc32_u64(0, static_cast<uint64_t>(_mm_cvtsi128_si64(last)));
    const auto whole = static_cast<uint32_t>(
        _mm_crc32_u64(part, static_cast<uint64_t>(_mm_extract_epi64(last, 1))));
    return avx2_common.crc32c(~whole, {at, left});
}

} // namespace

constinit const CommonKernels avx512_common = {crc32c, nullptr, nullptr, nullptr};

} // namespace fewbits

#endif
