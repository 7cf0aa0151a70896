// Threads that use the core at once, as `backend/parallel.py` does: parts of one vector, each with
// its own output, and calls on the same input. The thread sanitizer watches;
// `tests/soaking/suites.py` builds and runs it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "fewbits.h"

namespace {

constexpr size_t kThreads = 4, kPart = 8192, kCount = kThreads * kPart;

struct Shared {
    std::vector<float> values, decoded;
    std::vector<uint8_t> exponents, signs;
    std::vector<uint32_t> places; // of magnitudes above the threshold
    std::vector<uint8_t> section; // of them, which all threads write to
    std::vector<float> kept, spread;
};

constexpr float kThreshold = 450;

void check(bool holds) {
    if (!holds) {
        std::abort();
    }
}

// This thread's part of the values that are kept, and of their places.
void keep(Shared &shared, size_t number) {
    const auto first = static_cast<uint32_t>(number * kPart);
    const auto begin = std::ranges::lower_bound(shared.places, first);
    const auto end = std::ranges::lower_bound(shared.places, first + uint32_t{kPart});
    const auto before = static_cast<size_t>(begin - shared.places.begin());
    const uint64_t threshold = std::bit_cast<uint32_t>(kThreshold);
    const fewbits_chosen how = {kCount, shared.places.size(), threshold, 0, first, before};
    uint64_t nonfinite;
    check(fewbits_keep(shared.values.data() + first, FEWBITS_FLOAT32, kPart, &how,
                       shared.section.data(), shared.section.size(), shared.kept.data() + before,
                       static_cast<size_t>(end - begin), &nonfinite) == FEWBITS_OK);
}

void spread(Shared &shared, size_t number) {
    const uint64_t k = shared.places.size();
    const fewbits_spread_task task = {
        kCount, k, k * number / kThreads, k * (number + 1) / kThreads, sizeof(float), 0};
    check(fewbits_spread(&task, shared.section.data(), shared.section.size(), shared.kept.data(),
                         shared.spread.data()) == FEWBITS_OK);
}

void check_spread(const Shared &shared) {
    for (size_t i = 0; i < kCount; ++i) {
        const bool large = std::abs(shared.values[i]) > kThreshold;
        check(shared.spread[i] == (large ? shared.values[i] : 0.0f));
    }
}

template <class Work> void all_threads(Shared &shared, Work work) {
    std::vector<std::thread> threads;
    for (size_t number = 0; number < kThreads; ++number) {
        threads.emplace_back(work, std::ref(shared), number);
    }
    for (std::thread &own : threads) {
        own.join();
    }
}

void work(Shared &shared, size_t number) {
    fewbits_unit unit{};
    unit.kind = FEWBITS_NATURAL;
    unit.dtype = FEWBITS_FLOAT32;
    unit.count = kPart;
    unit.first = number * kPart;
    unit.key[0] = 7;
    unit.values = shared.values.data() + number * kPart;
    unit.sections[0] = shared.exponents.data() + number * kPart;
    unit.sections[1] = shared.signs.data() + number * kPart / 8;
    unit.sizes[0] = kPart;
    unit.sizes[1] = kPart / 8;
    size_t failed;
    check(fewbits_encode(&unit, 1, &failed) == FEWBITS_OK);
    unit.values = shared.decoded.data() + number * kPart;
    check(fewbits_decode(&unit, 1, &failed) == FEWBITS_OK);
    const auto *bytes = reinterpret_cast<const uint8_t *>(shared.values.data());
    uint32_t words[64];
    uint64_t nonfinite;
    std::vector<uint32_t> places(100);
    check(fewbits_crc32c(0, bytes, 4 * kCount) != 0);
    check(fewbits_words(unit.key, number, words, 64) == FEWBITS_OK);
    check(fewbits_select(shared.values.data(), FEWBITS_FLOAT32, kCount, places.data(), 100,
                         &nonfinite) == FEWBITS_OK);
    keep(shared, number);
    fewbits_frame frame;
    uint64_t detail[2];
    check(fewbits_frame_parse(bytes, 100, 1000, &frame, detail) != FEWBITS_OK);
}

} // namespace

int main(int count, char **words) {
    const size_t rounds = count > 1 ? std::strtoull(words[1], nullptr, 10) : 1;
    Shared shared = {std::vector<float>(kCount),
                     std::vector<float>(kCount),
                     std::vector<uint8_t>(kCount),
                     std::vector<uint8_t>(kCount / 8),
                     {},
                     {},
                     {},
                     std::vector<float>(kCount)};
    for (size_t i = 0; i < kCount; ++i) {
        shared.values[i] = static_cast<float>(i % 1000) - 500.0f;
        if (std::abs(shared.values[i]) > kThreshold) {
            shared.places.push_back(static_cast<uint32_t>(i));
        }
    }
    shared.kept.resize(shared.places.size());
    for (size_t round = 0; round < rounds; ++round) {
        shared.section.assign(fewbits_places_size(kCount, shared.places.size()), 0);
        all_threads(shared, work);
        all_threads(shared, spread);
        check_spread(shared);
    }
    std::printf("rounds=%zu\n", rounds);
    return 0;
}
