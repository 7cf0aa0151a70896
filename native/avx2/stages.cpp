// Selection with AVX2; rotation and random places are in files of their own.
#if defined(__AVX2__)

#include "avx2/avx2.h"
#include "draws.h"
#include "select.h"

namespace fewbits {
namespace {

constexpr size_t kKeys = 32; // looked at together

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

// For every set of eight lanes, where its members are.
struct Lanes {
    alignas(64) uint8_t members[256][8];
};
constexpr Lanes kLanes = [] {
    Lanes lanes{};
    for (unsigned set = 0; set < 256; ++set) {
        unsigned found = 0;
        for (unsigned lane = 0; lane < 8; ++lane) {
            lanes.members[set][found] = static_cast<uint8_t>(lane);
            found += set >> lane & 1;
        }
    }
    return lanes;
}();

// The lanes of a set, in order, at the lower end.
inline Vector members(uint32_t set) {
    const auto *at = reinterpret_cast<const __m128i *>(kLanes.members[set]);
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(at));
}

inline uint32_t lanes_of(Vector x) {
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(x)));
}

size_t near_keys(In<uint32_t> values, uint32_t mask, KeyBand<uint32_t> band, uint32_t *near,
                 uint64_t &above) {
    const Vector flip = all(0x80000000u);
    const Vector masks = all(mask);
    const Vector low = all(band.low ^ 0x80000000u);
    const Vector high = all(band.high ^ 0x80000000u);
    size_t found = 0;
    size_t i = 0;
    for (; i + kKeys <= values.size(); i += kKeys) {
        fetch_ahead<128>(&values[i]);
        Vector key[4];
        uint32_t outside = 0;
        uint32_t more = 0;
        for (size_t j = 0; j < 4; ++j) {
            key[j] = _mm256_and_si256(load(&values[i + 8 * j]), masks);
            const Vector own = _mm256_xor_si256(key[j], flip);
            const Vector beyond = _mm256_cmpgt_epi32(own, high);
            const Vector less = _mm256_cmpgt_epi32(low, own);
            more |= lanes_of(beyond) << (8 * j);
            outside |= lanes_of(_mm256_or_si256(beyond, less)) << (8 * j);
        }
        above += static_cast<uint64_t>(__builtin_popcount(more));
        if (~outside == 0) {
            continue;
        }
        for (size_t j = 0; j < 4; ++j) {
            const uint32_t set = ~outside >> (8 * j) & 0xFF;
            store(near + found, _mm256_permutevar8x32_epi32(key[j], members(set)));
            found += static_cast<size_t>(__builtin_popcount(set));
        }
    }
    return found + near_any(values.subspan(i), mask, band, near + found, above);
}

size_t take_keys(In<uint32_t> values, uint32_t mask, uint32_t threshold, uint64_t &ties,
                 uint32_t *places, uint32_t *taken) {
    const Vector flip = all(0x80000000u);
    const Vector masks = all(mask);
    const Vector least = all(threshold ^ 0x80000000u);
    size_t found = 0;
    size_t i = 0;
    for (; i + kKeys <= values.size(); i += kKeys) {
        fetch_ahead<128>(&values[i]);
        Vector value[4];
        uint32_t below = 0;
        uint32_t equal = 0;
        for (size_t j = 0; j < 4; ++j) {
            value[j] = load(&values[i + 8 * j]);
            const Vector own = _mm256_xor_si256(_mm256_and_si256(value[j], masks), flip);
            below |= lanes_of(_mm256_cmpgt_epi32(least, own)) << (8 * j);
            equal |= lanes_of(_mm256_cmpeq_epi32(least, own)) << (8 * j);
        }
        if (equal != 0) {
            const uint32_t first = _pdep_u32((1u << std::min<uint64_t>(ties, 31)) - 1, equal);
            const uint32_t kept = ties >= kKeys ? equal : first;
            ties -= static_cast<uint64_t>(__builtin_popcount(kept));
            below |= equal & ~kept;
        }
        for (size_t j = 0; ~below != 0 && j < 4; ++j) {
            const uint32_t set = ~below >> (8 * j) & 0xFF;
            const Vector order = members(set);
            const Vector here = all(static_cast<uint32_t>(i + 8 * j));
            store(taken + found, _mm256_permutevar8x32_epi32(value[j], order));
            store(places + found, _mm256_add_epi32(order, here));
            found += static_cast<size_t>(__builtin_popcount(set));
        }
    }
    const size_t rest =
        take_any(values.subspan(i), mask, threshold, ties, places + found, taken + found);
    for (size_t j = found; j < found + rest; ++j) {
        places[j] += static_cast<uint32_t>(i);
    }
    return found + rest;
}

} // namespace

constinit const StageKernels avx2_stages = {
    count_keys,      gather_keys,   near_keys,     take_keys,       avx2_hadamard32,
    avx2_hadamard64, avx2_signed32, avx2_signed64, avx2_draws_near, avx2_draws_mask,
};

} // namespace fewbits

#endif
