// Decoding into a running sum: both tables give the bits of one addition after the other.
#include <bit>
#include <cmath>

#include "planes.h"

using namespace fuzz;

namespace {

// Arbitrary totals: any bit pattern, with small numbers, zeros and infinities more often than
// chance has them.
Buffer totals_from(uint64_t seed, size_t count, size_t item, unsigned offset) {
    const uint64_t infinity = item == 8 ? 0x7FF0000000000000u : 0x7F800000u;
    Buffer totals(count * item, offset);
    for (size_t i = 0; i < count; ++i) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t bits = seed >> (item == 8 ? 0 : 32);
        switch (seed >> 61) {
        case 0:
            bits = 0;
            break;
        case 1:
            bits = infinity;
            break;
        case 2:
            bits &= infinity | 1; // a power of two, or nearly one
            break;
        default:
            break;
        }
        std::memcpy(totals.data() + i * item, &bits, item);
    }
    return totals;
}

double decoded(const Planes &planes, size_t i) {
    const uint64_t code = planes.code(i);
    if (code == planes.format.top()) {
        return std::nan("");
    }
    const int bias = static_cast<int>(planes.format.top() >> 1);
    const double power = code == 0 ? 0.0 : std::ldexp(1.0, static_cast<int>(code) - bias);
    return planes.negative(i) ? -power : power;
}

template <class Total, class Bits>
void check(const Planes &planes, const Buffer &before, const Buffer &after) {
    for (size_t i = 0; i < planes.count; ++i) {
        const auto bits = static_cast<Bits>(element(before.data(), i, sizeof(Total)));
        const Total sum = std::bit_cast<Total>(bits) + static_cast<Total>(decoded(planes, i));
        const auto found = static_cast<Bits>(element(after.data(), i, sizeof(Total)));
        REQUIRE(std::isnan(sum) ? std::isnan(std::bit_cast<Total>(found))
                                : std::bit_cast<Bits>(sum) == found);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const uint64_t seed = input.number(4);
    const Planes planes = Planes::read(input);
    const int status = planes.expected_status();
    const size_t item = planes.dtype == FEWBITS_FLOAT64 ? 8 : 4;
    const Buffer before = totals_from(seed, planes.count, item, planes.offset);
    const Buffer sums[2] = {{before.bytes(), planes.offset}, {before.bytes(), planes.offset}};
    with_each_table([&](int table) {
        Unit work(planes, sums[table]);
        REQUIRE(run(fewbits_accumulate, work.unit) == status);
        REQUIRE(status != FEWBITS_OK || work.unit.tally.nonfinite == planes.nonfinite());
    });
    if (status == FEWBITS_OK) {
        REQUIRE(sums[0] == sums[1]);
        item == 8 ? check<double, uint64_t>(planes, before, sums[0])
                  : check<float, uint32_t>(planes, before, sums[0]);
    }
    return 0;
}
