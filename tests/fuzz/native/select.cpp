// Selection: both tables give the places that a stable sort of the magnitudes gives.
#include <numeric>
#include <vector>

#include "fewbits_stages.h"
#include "harness.h"

using namespace fuzz;

namespace {

struct Case {
    int dtype; // 0: unsigned numbers
    size_t item, count, k;
    Buffer values;
};

uint64_t key(const Case &c, size_t i) {
    const uint64_t bits = element(c.values.data(), i, c.item);
    return c.dtype == 0 ? bits : bits & ~format_of(c.dtype).sign();
}

std::vector<uint32_t> by_sorting(const Case &c) {
    std::vector<uint32_t> order(c.count);
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return key(c, a) > key(c, b); });
    order.resize(c.k);
    std::ranges::sort(order);
    return order;
}

// The same in two parts, around a threshold that bands of keys must surround.
void check_keeping(const Case &c, const std::vector<uint32_t> &wanted, uint8_t cut) {
    const Format format = format_of(c.dtype);
    std::vector<uint64_t> keys;
    for (size_t i = 0; i < c.count; ++i) {
        keys.push_back(key(c, i));
    }
    std::ranges::nth_element(keys, keys.begin() + static_cast<ptrdiff_t>(c.k - 1),
                             std::greater<>());
    const uint64_t threshold = keys[c.k - 1];
    uint64_t band[2];
    REQUIRE(fewbits_guess_keys(c.values.data(), c.dtype, c.count, c.k, band) == FEWBITS_OK);
    REQUIRE(band[0] <= band[1] && band[1] < format.sign());
    const Buffer near(static_cast<size_t>(cut) * c.item, cut);
    std::vector<uint64_t> bins(FEWBITS_KEY_BINS);
    uint64_t counts[2], within = 0, above = 0;
    REQUIRE(fewbits_near_keys(c.values.data(), c.dtype, c.count, band, near.data(), cut,
                              bins.data(), counts) == FEWBITS_OK);
    for (const uint64_t own : keys) {
        within += own >= band[0] && own <= band[1];
        above += own > band[1];
    }
    REQUIRE(counts[0] == above && counts[1] == within);
    REQUIRE(within <= cut || band[0] == band[1] ||
            std::accumulate(bins.begin(), bins.end(), uint64_t{0}) == within);

    const size_t n = std::min(c.k, c.count - c.k), middle = cut * c.count / 256;
    const Buffer section(static_cast<size_t>(fewbits_places_size(c.count, n)), cut);
    std::memset(section.data(), 0, section.size());
    const Buffer kept(c.k * c.item, 1);
    uint64_t done = 0, ties = 0;
    for (size_t i = 0; i < c.k; ++i) {
        ties += key(c, wanted[i]) == threshold;
    }
    for (int part = 0; part < 2; ++part) {
        const size_t start = part == 0 ? 0 : middle, end = part == 0 ? middle : c.count;
        const auto room = static_cast<size_t>(std::ranges::count_if(
            wanted, [&](uint32_t place) { return place >= start && place < end; }));
        uint64_t own = 0, bad = 0;
        for (size_t i = start; i < end; ++i) {
            own += key(c, i) == threshold;
        }
        const fewbits_chosen how = {c.count, c.k, threshold, std::min(own, ties), start, done};
        REQUIRE(fewbits_keep(c.values.data() + start * c.item, c.dtype, end - start, &how,
                             section.data(), section.size(), kept.data() + done * c.item, room,
                             &bad) == FEWBITS_OK);
        ties -= std::min(own, ties);
        done += room;
    }
    std::vector<uint32_t> listed = wanted;
    if (n != c.k) {
        listed.clear();
        for (uint32_t i = 0; i < c.count; ++i) {
            if (!std::ranges::binary_search(wanted, i)) {
                listed.push_back(i);
            }
        }
    }
    const Buffer whole(section.size(), 0);
    REQUIRE(fewbits_places_encode(listed.data(), n, c.count, whole.data(), whole.size()) ==
            FEWBITS_OK);
    REQUIRE(whole == section);
    for (size_t i = 0; i < c.k; ++i) {
        REQUIRE(element(kept.data(), i, c.item) == element(c.values.data(), wanted[i], c.item));
    }
}

// Values of the input, repeated with changes of a few bits, so that there are ties and near ones.
void fill(const Case &c, ConstBytes rest, uint8_t change) {
    uint64_t mix = change;
    for (size_t i = 0; i < c.values.size(); ++i) {
        mix = mix * 6364136223846793005u + 1442695040888963407u;
        const uint8_t own = rest.empty() ? uint8_t{0} : rest[i % rest.size()];
        const bool other = change != 0 && (mix >> 33) % 256 < change;
        c.values.data()[i] = static_cast<uint8_t>(other ? own ^ 1u << (mix >> 60 & 7) : own);
    }
}

// Random places: those with the largest words of a stream, which are all different.
void check_draws(const Case &c, uint32_t number) {
    const uint32_t key[4] = {number, number * 5, 7, number ^ 9};
    std::vector<uint32_t> words(c.count);
    REQUIRE(fewbits_words(key, 0, words.data(), c.count) == FEWBITS_OK);
    std::vector<uint32_t> sorted = words;
    std::ranges::sort(sorted, std::greater<>());
    const uint32_t low = sorted[c.k - 1];
    uint64_t counts[2] = {};
    std::vector<uint32_t> near(c.k);
    REQUIRE(fewbits_draws_near(key, 0, c.count, low, low + (UINT32_MAX - low) / 2, near.data(),
                               near.size(), counts) == FEWBITS_OK);
    REQUIRE(counts[0] + counts[1] == c.k);
    const fewbits_draws how = {{key[0], key[1], key[2], key[3]}, 0, c.count, low, c.dtype, 1.0};
    Buffer kept(c.k * c.item, 1), out(c.values.bytes(), 2);
    fewbits_tally tally{};
    REQUIRE(fewbits_draws_take(&how, c.values.data(), kept.data(), c.k, &tally) == FEWBITS_OK);
    REQUIRE(fewbits_draws_take(&how, c.values.data(), kept.data(), c.k - 1, &tally) ==
            FEWBITS_BAD_SIZE);
    REQUIRE(fewbits_draws_put(&how, kept.data(), c.k, 0, out.data(), &tally) == FEWBITS_OK);
    for (size_t i = 0, taken = 0; i < c.count; ++i) {
        const bool chosen = words[i] >= low;
        const uint64_t wanted = chosen ? element(kept.data(), taken, c.item) : 0;
        REQUIRE(element(out.data(), i, c.item) == wanted);
        const uint64_t given = element(c.values.data(), i, c.item);
        REQUIRE(!chosen || !format_of(c.dtype).finite(given) || wanted == given);
        taken += chosen;
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const uint8_t control = input.byte();
    const int dtype = control % 5;
    const size_t item = dtype == 0 ? 4 : format_of(dtype).item();
    const uint64_t choice = input.number(2);
    // Long ones are selected among those above a guess.
    const size_t count = (choice & 0x8000) != 0 ? 2048 + choice % 1024 : choice % 150;
    const uint8_t change = input.byte();
    const size_t k = count == 0 ? 0 : 1 + input.number(2) % count;
    const Case c = {dtype, item, count, k, Buffer(count * item, control >> 4)};
    fill(c, input.rest(), change);
    const std::vector<uint32_t> wanted = by_sorting(c);
    uint64_t bad = 0;
    for (size_t i = 0; i < count; ++i) {
        bad += dtype != 0 && key(c, i) >= format_of(dtype).infinity();
    }
    with_each_table([&](int) {
        const std::unique_ptr<uint32_t[]> places(new uint32_t[k]);
        uint64_t nonfinite = 0;
        REQUIRE(fewbits_select(c.values.data(), dtype, count, places.get(), k, &nonfinite) ==
                FEWBITS_OK);
        REQUIRE(std::equal(wanted.begin(), wanted.end(), places.get()));
        REQUIRE(nonfinite == bad);
        if (dtype != 0 && (control & 8) != 0 && k > 0 && k < count) {
            check_keeping(c, wanted, change);
        }
        if (dtype != 0 && k > 0) {
            check_draws(c, static_cast<uint32_t>(choice));
        }
    });
    return 0;
}
