// Selection and the Walsh-Hadamard transform with AVX2.
#if defined(__AVX2__)

#include "avx2/avx2.h"
#include "select.h"

namespace fewbits {
namespace {

using Floats = __m256;
using Doubles = __m256d;
constexpr size_t kKeys = 32; // looked at together

// Levels 1, 2 and 4 of eight values: each lane gets the sum or the difference with its partner.
inline Floats levels_of_8(Floats v) {
    const Floats one = _mm256_permute_ps(v, 0xB1);
    v = _mm256_blend_ps(_mm256_add_ps(v, one), _mm256_sub_ps(one, v), 0xAA);
    const Floats two = _mm256_permute_ps(v, 0x4E);
    v = _mm256_blend_ps(_mm256_add_ps(v, two), _mm256_sub_ps(two, v), 0xCC);
    const Floats four = _mm256_permute2f128_ps(v, v, 0x01);
    return _mm256_blend_ps(_mm256_add_ps(v, four), _mm256_sub_ps(four, v), 0xF0);
}

inline Doubles levels_of_4(Doubles v) {
    const Doubles one = _mm256_permute_pd(v, 0x5);
    v = _mm256_blend_pd(_mm256_add_pd(v, one), _mm256_sub_pd(one, v), 0xA);
    const Doubles two = _mm256_permute2f128_pd(v, v, 0x01);
    return _mm256_blend_pd(_mm256_add_pd(v, two), _mm256_sub_pd(two, v), 0xC);
}

// Four counters for each number of a key's leading bits: neighbours are often equal, and one
// counter would have to wait for itself.
void count_leading(In<uint32_t> values, uint32_t mask, int shift, KeyCounts &counts) {
    uint32_t several[4][1 << kKeyBits] = {};
    const size_t whole = std::min(values.size(), size_t{1} << 30) / 4 * 4;
    for (size_t i = 0; i < whole; i += 4) {
        for (size_t j = 0; j < 4; ++j) {
            ++several[j][(values[i + j] & mask) >> shift];
        }
    }
    for (size_t bin = 0; bin < std::size(counts); ++bin) {
        counts[bin] +=
            uint64_t{several[0][bin]} + several[1][bin] + several[2][bin] + several[3][bin];
    }
    const KeyRange<uint32_t> all{shift, 0};
    if (whole < values.size()) {
        values.size() - whole > kKeys ? count_leading(values.subspan(whole), mask, shift, counts)
                                      : count_any(values.subspan(whole), mask, all, counts);
    }
}

void count_keys(In<uint32_t> values, uint32_t mask, KeyRange<uint32_t> among, KeyCounts &counts) {
    const int above = among.shift + kKeyBits;
    if (above >= 32) {
        count_leading(values, mask, among.shift, counts);
        return;
    }
    const Vector masks = all(mask);
    const Vector wanted = all(among.prefix);
    const __m128i shift = _mm_cvtsi32_si128(above);
    size_t i = 0;
    for (; i + kKeys <= values.size(); i += kKeys) {
        fetch_ahead<128>(&values[i]);
        Vector equal[4];
        for (size_t j = 0; j < 4; ++j) {
            const Vector key = _mm256_and_si256(load(&values[i + 8 * j]), masks);
            equal[j] = _mm256_cmpeq_epi32(_mm256_srl_epi32(key, shift), wanted);
        }
        if (any(_mm256_or_si256(_mm256_or_si256(equal[0], equal[1]),
                                _mm256_or_si256(equal[2], equal[3])))) {
            count_any(values.subspan(i, kKeys), mask, among, counts);
        }
    }
    count_any(values.subspan(i), mask, among, counts);
}

size_t gather_keys(In<uint32_t> values, uint32_t mask, uint32_t threshold, size_t ties,
                   std::span<uint32_t> places) {
    // Comparisons are signed: flipping the top bit of both sides makes them unsigned.
    const Vector flip = all(0x80000000u);
    const Vector masks = all(mask);
    const Vector below = _mm256_xor_si256(all(threshold), flip);
    size_t found = 0;
    size_t i = 0;
    for (; i + kKeys <= values.size() && found < places.size(); i += kKeys) {
        fetch_ahead<128>(&values[i]);
        uint32_t chosen = 0;
        for (size_t j = 0; j < 4; ++j) {
            const Vector key = _mm256_and_si256(load(&values[i + 8 * j]), masks);
            const Vector less = _mm256_cmpgt_epi32(below, _mm256_xor_si256(key, flip));
            const auto lanes = static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(less)));
            chosen |= (lanes ^ 0xFFu) << (8 * j);
        }
        for (; chosen != 0 && found < places.size(); chosen &= chosen - 1) {
            const size_t place = i + static_cast<size_t>(__builtin_ctz(chosen));
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
    if (values.size() < 8) {
        portable_stages.hadamard32(values, scale);
        return;
    }
    for (size_t i = 0; i < values.size(); i += 8) {
        _mm256_storeu_ps(&values[i], levels_of_8(_mm256_loadu_ps(&values[i])));
    }
    levels(values.data(), values.size(), 8);
    multiply(values, scale);
}

void hadamard64(std::span<double> values, double scale) {
    if (values.size() < 4) {
        portable_stages.hadamard64(values, scale);
        return;
    }
    for (size_t i = 0; i < values.size(); i += 4) {
        _mm256_storeu_pd(&values[i], levels_of_4(_mm256_loadu_pd(&values[i])));
    }
    levels(values.data(), values.size(), 4);
    multiply(values, scale);
}

} // namespace

constinit const StageKernels avx2_stages = {count_keys, gather_keys, hadamard32, hadamard64};

} // namespace fewbits

#endif
