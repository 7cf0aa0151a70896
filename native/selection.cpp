// Which k values of a vector are the largest.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "places.h"
#include "select.h"

namespace fewbits {
namespace {

// ---- by the bits of the threshold, twelve at a time: right for any values ----

template <class Bits>
void select_all(In<Bits> values, Bits mask, Bits infinity, std::span<uint32_t> places,
                uint64_t &nonfinite) {
    constexpr int width = 8 * sizeof(Bits);
    Bits prefix = 0;
    size_t wanted = places.size(); // among the keys that begin with the prefix
    nonfinite = 0;
    int shift = width;
    while (shift > 0) {
        const int next = std::max(0, shift - kKeyBits);
        // The last pass may count bits that the prefix already has.
        const int known = next + kKeyBits;
        KeyCounts counts = {};
        const Bits head = known < width ? static_cast<Bits>((prefix << shift) >> known) : Bits{0};
        if constexpr (sizeof(Bits) == 4) {
            kernels().stages.count_keys(values, mask, {next, head}, counts);
        } else {
            count_any<Bits>(values, mask, {next, head}, counts);
        }
        if (shift == width && infinity != 0) {
            for (size_t bin = infinity >> next; bin < std::size(counts); ++bin) {
                nonfinite += counts[bin];
            }
        }
        // Keys above the prefix have been taken already; skip them if this pass counted them again.
        const size_t bins = size_t{1} << (shift - next);
        const size_t base = shift == width
                                ? 0
                                : static_cast<size_t>((uint64_t{prefix} << (shift - next)) &
                                                      (std::size(counts) - 1));
        size_t bin = base + bins - 1;
        while (counts[bin] < wanted) {
            wanted -= counts[bin];
            --bin;
        }
        prefix = static_cast<Bits>(
            (static_cast<uint64_t>(shift == width ? 0 : prefix) << (shift - next)) | (bin - base));
        shift = next;
        if (counts[bin] == wanted) {
            wanted = std::numeric_limits<size_t>::max(); // all of them
            break;
        }
    }
    const Bits threshold = static_cast<Bits>(static_cast<uint64_t>(prefix) << shift);
    if constexpr (sizeof(Bits) == 4) {
        kernels().stages.gather_keys(values, mask, threshold, wanted, places);
    } else {
        gather_any<Bits>(values, mask, threshold, wanted, places);
    }
}

// ---- among the values above a guess: one pass, if the guess from a sample is good ----

constexpr size_t kSamples = 512;
constexpr size_t kCandidates = 16384;
constexpr size_t kBins = 2048;

// A key that a little more than k of the values should reach; at least 1.
uint32_t guess(In<uint32_t> values, uint32_t mask, size_t k) {
    uint32_t sample[kSamples];
    for (size_t i = 0; i < kSamples; ++i) { // not at equal distances: values may be periodic
        const auto at = static_cast<uint32_t>(i * 0x9E3779B1u);
        sample[i] = values[static_cast<size_t>(uint64_t{at} * values.size() >> 32)] & mask;
    }
    const double mean = static_cast<double>(k) * kSamples / static_cast<double>(values.size());
    const auto rank = static_cast<size_t>(mean + 3 * std::sqrt(mean) + 2);
    std::nth_element(sample, sample + rank, sample + kSamples, std::greater<>());
    return std::max(sample[rank], 1u);
}

// The k-th largest of these keys, and how many of those that equal it are needed. The bins are cut
// to the keys' range, so that few keys share the one where it is; `last` has room for all of them.
[[gnu::noinline]] uint32_t threshold_of(std::span<const uint32_t> keys, uint32_t least,
                                        uint32_t most, size_t &k, uint32_t *last) {
    int shift = 0;
    while ((most - least) >> shift >= kBins) {
        ++shift;
    }
    uint32_t counts[kBins] = {};
    for (const uint32_t key : keys) {
        ++counts[(key - least) >> shift];
    }
    size_t bin = kBins - 1;
    while (counts[bin] < k) {
        k -= counts[bin--];
    }
    size_t found = 0;
    for (const uint32_t key : keys) {
        last[found] = key;
        found += (key - least) >> shift == bin;
    }
    std::nth_element(last, last + (k - 1), last + found, std::greater<>());
    const uint32_t threshold = last[k - 1];
    const auto above = [=](uint32_t key) { return key > threshold; };
    k -= static_cast<size_t>(std::count_if(last, last + found, above));
    return threshold;
}

// False if the guess was bad: nothing is known then.
bool select_guessed(In<uint32_t> values, uint32_t mask, uint32_t infinity,
                    std::span<uint32_t> places, uint64_t &nonfinite) {
    size_t k = places.size();
    if (values.size() < 4 * kSamples || k > values.size() / 8 || k > kCandidates / 2) {
        return false;
    }
    const uint32_t least = guess(values, mask, k);
    uint32_t candidates[kCandidates];
    const size_t found =
        kernels().stages.gather_keys(values, mask, least, values.size(), {candidates, kCandidates});
    if (found < k || found == kCandidates || (infinity != 0 && least > infinity)) {
        return false;
    }
    uint32_t keys[kCandidates];
    uint32_t most = least;
    nonfinite = 0;
    for (size_t i = 0; i < found; ++i) {
        keys[i] = values[candidates[i]] & mask;
        most = std::max(most, keys[i]);
        nonfinite += infinity != 0 && keys[i] >= infinity;
    }
    size_t ties = k;
    uint32_t room[kCandidates];
    const uint32_t threshold = threshold_of({keys, found}, least, most, ties, room);
    size_t taken = 0;
    for (size_t i = 0; taken < k; ++i) {
        const bool tie = keys[i] == threshold && ties > 0;
        ties -= tie;
        places[taken] = candidates[i];
        taken += keys[i] > threshold || tie;
    }
    return true;
}

template <class F>
void magnitudes(const void *values, size_t count, std::span<uint32_t> places, uint64_t &nonfinite) {
    select_magnitudes<F>(input<typename F::Bits>(values, count), places, nonfinite);
}

} // namespace

template <class Bits>
void select(In<Bits> values, Bits mask, Bits infinity, std::span<uint32_t> places,
            uint64_t &nonfinite) {
    if constexpr (sizeof(Bits) == 4) {
        if (select_guessed(values, mask, infinity, places, nonfinite)) {
            return;
        }
    }
    select_all<Bits>(values, mask, infinity, places, nonfinite);
}

template void select(In<uint16_t>, uint16_t, uint16_t, std::span<uint32_t>, uint64_t &);
template void select(In<uint32_t>, uint32_t, uint32_t, std::span<uint32_t>, uint64_t &);
template void select(In<uint64_t>, uint64_t, uint64_t, std::span<uint32_t>, uint64_t &);

} // namespace fewbits

using namespace fewbits;

extern "C" {

int fewbits_select(const void *values, int dtype, size_t count, uint32_t *places, size_t k,
                   uint64_t *nonfinite) {
    if (k > count || uint64_t{count} > kMostPlaces || (k == 0 && count > 0)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const std::span<uint32_t> chosen{places, k};
    *nonfinite = 0;
    if (count == 0) {
        return FEWBITS_OK;
    }
    switch (dtype) {
    case 0:
        select<uint32_t>(input<uint32_t>(values, count), ~uint32_t{0}, 0, chosen, *nonfinite);
        return FEWBITS_OK;
    case FEWBITS_FLOAT32:
        magnitudes<Float32>(values, count, chosen, *nonfinite);
        return FEWBITS_OK;
    case FEWBITS_FLOAT64:
        magnitudes<Float64>(values, count, chosen, *nonfinite);
        return FEWBITS_OK;
    case FEWBITS_FLOAT16:
        magnitudes<Float16>(values, count, chosen, *nonfinite);
        return FEWBITS_OK;
    case FEWBITS_BFLOAT16:
        magnitudes<Bfloat16>(values, count, chosen, *nonfinite);
        return FEWBITS_OK;
    default:
        return FEWBITS_BAD_ARGUMENT;
    }
}
}
