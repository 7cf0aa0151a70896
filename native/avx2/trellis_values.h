// Values of a block whose levels have eight bits, in one turn: words of a dither, symbols, paths
// and values. What is known of a path is a byte: byte 4 e + v of a vector is that of lane 8 v + e,
// so that shifts take the bytes of eight lanes to the numbers of a vector.
#pragma once

#include "avx2/trellis_find.h"

namespace fewbits {
namespace { // internal linkage: see random.h

// What a state is after a level, by bit 1 of that.
struct NextBytes {
    Vector each[2];

    explicit NextBytes(const TrellisCode &code) {
        for (int bit = 0; bit < 2; ++bit) {
            uint8_t bytes[16] = {};
            for (int state = 0; state < code.states; ++state) {
                bytes[state] = static_cast<uint8_t>(code.next(state, bit));
            }
            each[bit] = sixteen_bytes(bytes);
        }
    }
    [[gnu::always_inline]] Vector at(Vector states, Vector halves) const {
        return _mm256_blendv_epi8(_mm256_shuffle_epi8(each[0], states),
                                  _mm256_shuffle_epi8(each[1], states),
                                  _mm256_slli_epi16(halves, 7));
    }
};

// Numbers that a loop keeps.
struct ByteMasks {
    const Vector second = pinned(0xFF00), third = pinned(0xFF0000), fourth = pinned(0xFF000000),
                 table = pinned(0x3000), one = pinned(0x01010101), three = pinned(0x03030303);

    // The upper four bits of words, as bytes of lanes.
    [[gnu::always_inline]] Vector tops(const Vector (&words)[4]) const {
        return joined(_mm256_srli_epi32(words[0], 28), _mm256_srli_epi32(words[1], 28),
                      _mm256_srli_epi32(words[2], 28), _mm256_srli_epi32(words[3], 28));
    }
    // The upper bytes of slots, as bytes of lanes.
    [[gnu::always_inline]] Vector names(const Vector (&slots)[4]) const {
        const Vector low =
            _mm256_or_si256(_mm256_srli_epi32(slots[0], 24),
                            _mm256_and_si256(_mm256_srli_epi32(slots[1], 16), second));
        const Vector high = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(slots[2], 8), third),
                                            _mm256_and_si256(slots[3], fourth));
        return _mm256_or_si256(low, high);
    }
    // Bits 4 and 5 of the bytes of eight lanes as numbers of tables, above a slot's bits.
    template <size_t v> [[gnu::always_inline]] Vector tables(Vector bytes) const {
        const Vector moved = v == 0   ? _mm256_slli_epi32(bytes, 8)
                             : v == 1 ? bytes
                                      : _mm256_srli_epi32(bytes, 8 * (v - 1));
        return _mm256_and_si256(moved, table);
    }

  private:
    // Small numbers.
    [[gnu::always_inline]] static Vector joined(Vector a, Vector b, Vector c, Vector d) {
        const Vector low = _mm256_or_si256(a, _mm256_slli_epi32(b, 8));
        return _mm256_or_si256(low,
                               _mm256_slli_epi32(_mm256_or_si256(c, _mm256_slli_epi32(d, 8)), 16));
    }
};

// The bytes of eight lanes as signed numbers.
template <size_t v> [[gnu::always_inline]] inline Vector numbers_of(Vector bytes) {
    return _mm256_srai_epi32(v < 3 ? _mm256_slli_epi32(bytes, 24 - 8 * v) : bytes, 24);
}

// Eight levels less their dither, times the scale: (2^30 n - w) 2^-30 with the odd number w that a
// word gives, turned by its lowest bit.
struct DitheredValues {
    const Vector one = pinned(1);
#if defined(__AVX512DQ__)
    __m512d scale; // times 2^-30

    explicit DitheredValues(float own) : scale(_mm512_set1_pd(0x1p-30 * double{own})) {}

    [[gnu::always_inline]] __m256 eight(Vector levels, Vector words) const {
        const __m512i odd = _mm512_cvtepu32_epi64(_mm256_or_si256(words, one));
        const __m512i term = _mm512_slli_epi64(_mm512_cvtepi32_epi64(levels), 30);
        const __m512d number = _mm512_cvtepi64_pd(_mm512_sub_epi64(term, odd));
        const __m256 y = _mm512_cvtpd_ps(_mm512_mul_pd(number, scale));
        return _mm256_xor_ps(y, _mm256_castsi256_ps(_mm256_slli_epi32(words, 31)));
    }
#else
    // Whole numbers are made in the bits of 1.5 * 2^52.
    const Vector above = pinned(0x43380000), factor = pinned(1 << 30);
    const __m256d offset = _mm256_castsi256_pd(_mm256_slli_epi64(above, 32));
    __m256d scale; // times -2^-30

    explicit DitheredValues(float own) : scale(_mm256_set1_pd(-0x1p-30 * double{own})) {}

    [[gnu::always_inline]] __m128 four(Vector levels, Vector odd) const {
        const Vector term = _mm256_mul_epi32(levels, factor);
        const Vector whole = _mm256_sub_epi64(_mm256_blend_epi32(odd, above, 0xAA), term);
        const __m256d number = _mm256_sub_pd(_mm256_castsi256_pd(whole), offset);
        return _mm256_cvtpd_ps(_mm256_mul_pd(number, scale));
    }
    [[gnu::always_inline]] __m256 eight(Vector levels, Vector words) const {
        const Vector odd = _mm256_or_si256(words, one);
        const __m128 low = four(levels, odd);
        const __m128 high = four(_mm256_srli_epi64(levels, 32), _mm256_srli_epi64(odd, 32));
        const __m256 y = _mm256_set_m128(_mm_unpackhi_ps(low, high), _mm_unpacklo_ps(low, high));
        return _mm256_xor_ps(y, _mm256_castsi256_ps(_mm256_slli_epi32(words, 31)));
    }
#endif
};

template <bool dithered>
[[gnu::always_inline]] inline Vector values_of(Vector levels, Vector words, __m256 scale,
                                               const DitheredValues &wide) {
    if constexpr (dithered) {
        return _mm256_castps_si256(wide.eight(levels, words));
    } else { // a level has few bits: one rounding
        return _mm256_castps_si256(_mm256_mul_ps(_mm256_cvtepi32_ps(levels), scale));
    }
}

// What is behind the last whole turn, one by one; `at` has the states of the paths.
template <bool dithered>
const uint8_t *decode_rest(const uint8_t *from, const uint8_t *end, const PathTables &tables,
                           std::span<uint32_t> states, Vector at, const TrellisCode &code,
                           const PathValues &to, size_t start, uint32_t &largest) {
    uint8_t bytes[kPaths], own[kPaths], found[kPaths];
    uint32_t words[kPaths];
    int32_t levels[kPaths];
    store(bytes, at);
    for (size_t lane = 0; lane < kPaths; ++lane) {
        own[lane] = bytes[4 * (lane % 8) + lane / 8];
    }
    const auto values = to.values.subspan(start);
    const DitherWords<dithered> dither(to.dither);
    for (size_t i = 0; i < values.size(); ++i) {
        words[i] = dither.at(start + i);
    }
    const uint32_t *const known = dithered ? words : nullptr;
    from = rans_decode_paths(from, end, tables, states, own, code, known, {levels, values.size()},
                             found, 0);
    if (from != nullptr) {
        level_values<Float32>({levels, values.size()}, known, to.scale, values);
        for (size_t i = 0; i < values.size(); ++i) {
            largest = std::max(largest, static_cast<uint32_t>(std::abs(levels[i])));
        }
    }
    return from;
}

template <bool dithered>
const uint8_t *decode_near(ConstBytes data, const PathTables &tables, std::span<uint32_t> states,
                           const TrellisCode &code, const PathValues &to, uint32_t &largest) {
    const PhaseBytes<dithered> phases([&](const PathPhase &phase) {
        return phase.quarter >> tables.shift << 4 | (phase.positive ? 0u : 0x80u) |
               static_cast<uint32_t>(phase.whole);
    });
    const NextBytes next(code);
    const __m256 scale = _mm256_set1_ps(to.scale);
    const DitheredValues wide(to.scale);
    const ByteMasks masks;
    const uint32_t *const slots = tables.tables->slots;
    DitherWords<dithered> dither(to.dither);
    Vector at = _mm256_setzero_si256(), most = at;
    const uint8_t *from = data.data();
    const uint8_t *const end = from + data.size();
    // A turn waits for its slots, and then for its words: the values of the turn before, and the
    // dither of the next one, are made meanwhile.
    Vector words[4], level = at, before[4];
    const auto draw = [&] {
        std::copy_n(words, 4, before);
#if defined(__AVX512VBMI2__)
        for (size_t v = 0; v < 4; v += 2) {
            const __m512i two = dither.next();
            words[v] = _mm512_castsi512_si256(two);
            words[v + 1] = _mm512_extracti64x4_epi64(two, 1);
        }
#else
#pragma GCC unroll 4
        for (Vector &own : words) {
            own = dither.next();
        }
#endif
    };
    const auto make_values = [&](size_t i) {
        auto *const out = to.values.data() + i;
        store(out, values_of<dithered>(numbers_of<0>(level), before[0], scale, wide));
        store(out + 8, values_of<dithered>(numbers_of<1>(level), before[1], scale, wide));
        store(out + 16, values_of<dithered>(numbers_of<2>(level), before[2], scale, wide));
        store(out + 24, values_of<dithered>(numbers_of<3>(level), before[3], scale, wide));
    };
    std::fill_n(words, 4, at);
    draw();
    const auto turn = [&](size_t i, Vector(&x)[4]) {
        Vector own[4];
        const Vector phase = phases.at(dithered ? masks.tops(words) : words[0], at);
        own[0] = slots_among(x[0], masks.template tables<0>(phase), slots);
        own[1] = slots_among(x[1], masks.template tables<1>(phase), slots);
        own[2] = slots_among(x[2], masks.template tables<2>(phase), slots);
        own[3] = slots_among(x[3], masks.template tables<3>(phase), slots);
        fetch_ahead<4 * kPaths>(to.values.data() + i);
        if (i > 0) {
            make_values(i - kPaths);
        }
#pragma GCC unroll 4
        for (size_t v = 0; v < 4; ++v) {
            x[v] = left_slots(x[v], own[v], from);
        }
        draw();
        const Vector negative = _mm256_cmpgt_epi8(_mm256_setzero_si256(), phase);
        Vector half = _mm256_xor_si256(masks.names(own), negative);
        half = _mm256_sub_epi8(half, negative);
        if constexpr (dithered) {
            half = _mm256_add_epi8(half, _mm256_and_si256(phase, masks.three));
        }
        const Vector parity = _mm256_and_si256(at, masks.one);
        level = _mm256_add_epi8(_mm256_add_epi8(half, half), parity);
        at = next.at(at, half);
        most = _mm256_max_epu8(most, _mm256_abs_epi8(level));
    };
    const size_t i = decode_turns<4>(from, end, states, to.values.size(), turn);
    if (from == nullptr) {
        return nullptr;
    }
    if (i > 0) {
        make_values(i - kPaths);
    }
    uint8_t each[kPaths];
    store(each, most);
    largest = *std::max_element(each, each + kPaths);
    return decode_rest<dithered>(from, end, tables, states, at, code, to, i, largest);
}

const uint8_t *decode_path_values(ConstBytes data, const PathTables &tables,
                                  std::span<uint32_t> states, int trellis, const PathValues &to,
                                  uint32_t &largest) {
    const auto run = to.dither != nullptr ? decode_near<true> : decode_near<false>;
    return run(data, tables, states, TrellisCode(trellis), to, largest);
}

} // namespace
} // namespace fewbits
