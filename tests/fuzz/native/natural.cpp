// Decoding of the natural operator's planes: both tables agree with a decoder of one element at a
// time, and what is accepted is exactly what the encoder writes.
#include "planes.h"

using namespace fuzz;

namespace {

uint64_t expected(const Planes &planes, size_t i) {
    const Format format = planes.format;
    const uint64_t code = planes.code(i);
    return code == format.top()
               ? format.quiet_nan()
               : code << format.mantissa | (planes.negative(i) ? format.sign() : 0);
}

void check_values(const Planes &planes, const Buffer &values) {
    for (size_t i = 0; i < planes.count; ++i) {
        REQUIRE(element(values.data(), i, planes.format.item()) == expected(planes, i));
    }
}

// Powers of two are fixed points, so encoding gives the planes back, at random as to the nearest.
void check_canonical(const Planes &planes, const Buffer &values, int rounding) {
    Unit again(planes, values);
    std::memset(again.exponents.data(), 0xA5, again.exponents.size());
    std::memset(again.signs.data(), 0xA5, again.signs.size());
    again.unit.option = static_cast<uint8_t>(rounding);
    REQUIRE(run(fewbits_encode, again.unit) == FEWBITS_OK);
    REQUIRE(std::ranges::equal(again.exponents.bytes(), planes.exponents));
    REQUIRE(std::ranges::equal(again.signs.bytes(), planes.signs));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const Planes planes = Planes::read(input);
    const int status = planes.expected_status();
    const fewbits_tally tally = {0, planes.nonfinite()};
    with_each_table([&](int table) {
        const Buffer values(planes.count * planes.format.item(), planes.offset);
        Unit work(planes, values);
        REQUIRE(run(fewbits_decode, work.unit) == status);
        if (status == FEWBITS_OK) {
            REQUIRE(equal(work.unit.tally, tally));
            check_values(planes, values);
            check_canonical(planes, values, table == 0 ? FEWBITS_NEAREST : FEWBITS_STOCHASTIC);
        }
    });
    return 0;
}
