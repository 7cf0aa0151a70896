// Decoding of dithered codes: the status and the values are those of the definition, in both
// tables, whatever the bytes are.
#include <bit>
#include <cmath>
#include <vector>

#include "harness.h"

using namespace fuzz;

namespace {

struct Case {
    fewbits_dithering how;
    size_t count;
    std::vector<float> scales;
    Buffer packed;

    int width() const { return static_cast<int>(std::bit_width(2 * how.levels + 1)); }
    uint32_t code(size_t i) const { return field(packed.bytes(), i, width()); }
    float scale(size_t i) const { return scales[static_cast<size_t>(i / how.block)]; }
};

int expected_status(const Case &c) {
    if (!padding_is_zero(c.packed.bytes(), c.count, c.width())) {
        return FEWBITS_BAD_PADDING;
    }
    bool level = false;
    for (size_t i = 0; i < c.count; ++i) {
        if (c.code(i) > 2 * c.how.levels + 1) {
            return FEWBITS_BAD_CODE;
        }
        level |= c.scale(i) == 0 && c.code(i) % (2 * c.how.levels + 1) != 0;
    }
    return level ? FEWBITS_BAD_LEVEL : FEWBITS_OK;
}

float expected_value(const Case &c, size_t i) {
    const uint32_t s = c.how.levels, code = c.code(i);
    if (code == 0 || code > 2 * s) {
        return code == 0 ? 0.0f : std::bit_cast<float>(0x7FC00000u);
    }
    const uint32_t level = code > s ? code - s : code;
    const double scale = c.scale(i);
    const double share = c.how.natural != 0
                             ? std::ldexp(1.0, static_cast<int>(level) - static_cast<int>(s))
                             : static_cast<double>(level) / static_cast<double>(s);
    const auto value = static_cast<float>(scale * share);
    return code > s ? -value : value;
}

// The same bytes as a row of a table.
void check_row(const Case &c, bool add, int status, const std::vector<float> &values,
               const fewbits_tally &tally) {
    const ConstBytes bytes = {reinterpret_cast<const uint8_t *>(c.scales.data()),
                              4 * c.scales.size()};
    const Buffer scales(bytes, 3);
    std::vector<float> own(c.count, 0.75f);
    fewbits_unit unit{};
    unit.kind = FEWBITS_DITHERING;
    unit.dtype = FEWBITS_FLOAT32;
    unit.option = static_cast<uint8_t>(FEWBITS_NORM_2 + (c.how.natural != 0 ? FEWBITS_POWERS : 0));
    unit.levels = static_cast<uint16_t>(c.how.levels);
    unit.block = c.how.block;
    unit.values = own.data();
    unit.count = c.count;
    unit.sections[0] = scales.data();
    unit.sections[1] = c.packed.data();
    unit.sizes[0] = scales.size();
    unit.sizes[1] = c.packed.size();
    REQUIRE(run(add ? fewbits_accumulate : fewbits_decode, unit) == status);
    if (status == FEWBITS_OK) {
        REQUIRE(equal(unit.tally, tally));
        REQUIRE(c.count == 0 || std::memcmp(own.data(), values.data(), 4 * c.count) == 0);
    }
    if (!c.scales.empty()) {
        scales.data()[3] |= 0x80; // a sign
        REQUIRE(run(fewbits_decode, unit) == FEWBITS_BAD_SCALE);
    }
}

void check(const Case &c, bool add) {
    const int status = expected_status(c);
    uint64_t nonfinite = 0;
    with_each_table([&](int) {
        std::vector<float> values(c.count, 0.75f);
        fewbits_tally tally;
        const int got = fewbits_undither(
            c.packed.data(), c.packed.size(), &c.how,
            reinterpret_cast<const uint32_t *>(c.scales.data()), c.scales.size(),
            reinterpret_cast<uint32_t *>(values.data()), c.count, add ? 1 : 0, &tally);
        REQUIRE(got == status);
        check_row(c, add, status, values, tally);
        if (got != FEWBITS_OK) {
            return;
        }
        nonfinite = 0;
        for (size_t i = 0; i < c.count; ++i) {
            const float wanted = (add ? 0.75f : 0.0f) + expected_value(c, i);
            nonfinite += std::isnan(wanted);
            REQUIRE(std::isnan(wanted) ? std::isnan(values[i]) : values[i] == wanted);
        }
        REQUIRE(equal(tally, {0, nonfinite}));
    });
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const uint8_t control = input.byte();
    const uint32_t levels = 1 + input.byte() % 127u;
    const uint64_t block = uint64_t{8} << (control & 3);
    const auto seed = static_cast<uint32_t>(input.number(4));
    const ConstBytes rest = input.rest();
    const auto width = static_cast<size_t>(std::bit_width(2 * levels + 1));
    const size_t count = rest.size() * 8 / width;
    Case c = {{levels, (control & 4) != 0, block, 0, {0, 0, 0, 0}, 0, 0},
              count,
              std::vector<float>(count / block + (count % block != 0)),
              Buffer(rest.first(packed_size(count, static_cast<int>(width))), control >> 5)};
    for (size_t i = 0; i < c.scales.size(); ++i) { // finite, some of them 0
        const auto mixed = seed * static_cast<uint32_t>(2 * i + 1);
        c.scales[i] = (mixed & 7) == 0 ? 0.0f : std::bit_cast<float>(mixed % 0x7F800000u);
    }
    check(c, (control & 8) != 0);
    return 0;
}
