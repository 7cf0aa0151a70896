// Selection: both tables give the places that a stable sort of the magnitudes gives.
#include <numeric>
#include <vector>

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
    });
    return 0;
}
