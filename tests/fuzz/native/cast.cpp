// Casts between the four float formats: both tables give the same bits, finite stays finite, and a
// value that the target holds exactly comes back.
#include "harness.h"

using namespace fuzz;

namespace {

struct Case {
    int from, to;
    size_t count;
    unsigned offset;
    Buffer values;
};

fewbits_unit unit_of(const Buffer &in, int from, const Buffer &out, int to, size_t count) {
    fewbits_unit unit{};
    unit.kind = FEWBITS_CAST;
    unit.dtype = static_cast<uint8_t>(from);
    unit.option = static_cast<uint8_t>(to);
    unit.values = in.data();
    unit.count = count;
    unit.sections[0] = out.data();
    unit.sizes[0] = out.size();
    return unit;
}

fewbits_tally convert(const Case &c, const Buffer &in, int from, const Buffer &out, int to) {
    fewbits_unit unit = unit_of(in, from, out, to, c.count);
    REQUIRE(run(fewbits_encode, unit) == FEWBITS_OK);
    return unit.tally;
}

void check_refusals(const Case &c, const Buffer &out) {
    const auto cast = [&](int from, size_t count, int to) {
        fewbits_unit unit = unit_of(c.values, from, out, to, count);
        return run(fewbits_encode, unit);
    };
    REQUIRE(cast(c.from, c.count + 1, c.to) == FEWBITS_BAD_SIZE);
    REQUIRE(cast(c.from, SIZE_MAX / 4 + 1 + c.count, c.to) == FEWBITS_BAD_SIZE);
    REQUIRE(cast(c.from, c.count, 0) == FEWBITS_BAD_ARGUMENT);
    REQUIRE(cast(5, c.count, c.to) == FEWBITS_BAD_ARGUMENT);
}

void check_classes(const Case &c, const Buffer &out, const fewbits_tally &tally) {
    const Format from = format_of(c.from);
    const Format to = format_of(c.to);
    uint64_t nonfinite = 0;
    for (size_t i = 0; i < c.count; ++i) {
        const uint64_t x = element(c.values.data(), i, from.item());
        const uint64_t y = element(out.data(), i, to.item());
        REQUIRE(from.finite(x) == to.finite(y));
        nonfinite += !from.finite(x);
        const bool nan = (x & ~from.sign()) > from.infinity();
        REQUIRE(c.from == c.to ? x == y : nan ? y == to.quiet_nan() : true);
        REQUIRE(nan || ((x & from.sign()) != 0) == ((y & to.sign()) != 0));
    }
    REQUIRE(tally.nonfinite == nonfinite);
}

// There and back, and there again: `out` holds values of `to`, so the third equals it unless the
// way back had to round or saturate, which it has not where `from` is at least as wide.
void check_round_trip(const Case &c, const Buffer &out) {
    const Format from = format_of(c.from);
    const Format to = format_of(c.to);
    const Buffer back(c.count * from.item(), c.offset + 3);
    convert(c, out, c.to, back, c.from);
    if (from.exponent >= to.exponent && from.mantissa >= to.mantissa) {
        const Buffer again(c.count * to.item(), c.offset + 5);
        REQUIRE(convert(c, back, c.from, again, c.to).saturated == 0);
        REQUIRE(again == out);
    } else if (to.exponent >= from.exponent && to.mantissa >= from.mantissa) {
        for (size_t i = 0; i < c.count; ++i) {
            const uint64_t x = element(c.values.data(), i, from.item());
            REQUIRE((x & ~from.sign()) > from.infinity() ||
                    element(back.data(), i, from.item()) == x);
        }
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const uint8_t control = input.byte();
    const uint8_t offsets = input.byte();
    const int from = FEWBITS_FLOAT32 + (control & 3);
    const int to = FEWBITS_FLOAT32 + ((control >> 2) & 3);
    const size_t item = format_of(from).item();
    const size_t count = input.rest().size() / item;
    const Case c = {from, to, count, offsets, Buffer(input.rest().first(count * item), offsets)};
    const size_t out_size = count * format_of(to).item();
    const Buffer out[2] = {{out_size, offsets / 8u}, {out_size, offsets / 8u}};
    fewbits_tally tally[2];
    with_each_table([&](int table) {
        tally[table] = convert(c, c.values, from, out[table], to);
        check_classes(c, out[table], tally[table]);
        check_round_trip(c, out[table]);
    });
    REQUIRE(equal(tally[0], tally[1]));
    REQUIRE(out[0] == out[1]);
    check_refusals(c, out[0]);
    return 0;
}
