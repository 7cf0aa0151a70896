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

// The same values through a coded section: what the planes hold, in other bytes.
void check_coded(const Planes &planes, const Buffer &values, int rounding) {
    const auto bound = static_cast<uint32_t>(planes.format.top() + 1);
    const Buffer room(fewbits_coded_size(planes.count, bound, 1), planes.exponents_offset);
    fewbits_unit unit{};
    unit.kind = FEWBITS_NATURAL;
    unit.dtype = static_cast<uint8_t>(planes.dtype);
    unit.option = static_cast<uint8_t>(FEWBITS_CODED + rounding);
    unit.values = values.data();
    unit.count = planes.count;
    unit.sections[0] = room.data();
    unit.sizes[0] = room.size();
    REQUIRE(run(fewbits_encode, unit) == FEWBITS_OK);
    const Buffer section(room.bytes().first(unit.sizes[0]), planes.signs_offset);
    const Buffer decoded(values.size(), planes.offset);
    unit.sections[0] = section.data();
    unit.values = decoded.data();
    REQUIRE(run(fewbits_decode, unit) == FEWBITS_OK);
    REQUIRE(decoded == values);
    REQUIRE(unit.tally.nonfinite == planes.nonfinite());
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
            const int rounding = table == 0 ? FEWBITS_NEAREST : FEWBITS_STOCHASTIC;
            check_canonical(planes, values, rounding);
            check_coded(planes, values, rounding);
        }
    });
    return 0;
}
