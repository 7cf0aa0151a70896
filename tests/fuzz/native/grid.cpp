// Rows of sparse dithering: both tables write the same bytes, which they read again; any bytes give
// the values and the status of the definition, for blocks of any size.
#include <array>
#include <bit>

#include "harness.h"

using namespace fuzz;

namespace {

struct Case {
    int dtype, rounding, scale;
    uint32_t bound;
    uint64_t block;
    size_t count;
    unsigned offset;

    Format format() const { return format_of(dtype); }
    Format scale_format() const {
        return format_of(dtype == FEWBITS_FLOAT64 ? FEWBITS_FLOAT64 : FEWBITS_FLOAT32);
    }
    size_t item() const { return format().item(); }
    size_t total() const { return scale_format().item(); }
    size_t own(size_t i) const { return block != 0 ? static_cast<size_t>(i / block) : 0; }
    size_t scales() const { return count == 0 ? 0 : own(count - 1) + 1; }
    bool dithered() const { return rounding == FEWBITS_STEP_SUBTRACTIVE; }

    fewbits_unit unit(void *values, const Buffer &first, const Buffer &second,
                      const Buffer &third) const {
        fewbits_unit unit{};
        unit.kind = FEWBITS_GRID;
        unit.dtype = static_cast<uint8_t>(dtype);
        unit.option = static_cast<uint8_t>(rounding + 4 * scale);
        unit.levels = static_cast<uint16_t>(bound - 1);
        unit.block = block;
        unit.factors[0] = 0.1;
        unit.factors[1] = 0.99;
        unit.values = values;
        unit.count = count;
        unit.key[2] = 5;
        unit.sections[0] = first.data();
        unit.sections[1] = second.data();
        unit.sections[2] = third.data();
        unit.sizes[0] = first.size();
        unit.sizes[1] = second.size();
        unit.sizes[2] = third.size();
        return unit;
    }
};

int expected_status(const Case &c, const SignedCodes &codes, ConstBytes scales) {
    if (codes.status != FEWBITS_OK) {
        return codes.status;
    }
    const Format format = c.scale_format();
    std::vector<bool> some(c.scales());
    for (size_t i = 0; i < c.count; ++i) {
        some[c.own(i)] = some[c.own(i)] || codes.sizes[i] != 0;
    }
    bool none = false, zeros = false;
    for (size_t i = 0; i < c.scales(); ++i) {
        const uint64_t bits = element(scales.data(), i, format.item());
        const bool nan = bits == format.quiet_nan();
        if (!nan && bits >= format.infinity()) {
            return FEWBITS_BAD_STEP;
        }
        none |= some[i] && (nan || bits == 0);
        zeros |= !some[i] && !nan && bits != 0 && !c.dithered();
    }
    return none ? FEWBITS_NO_STEP : zeros ? FEWBITS_ONLY_ZEROS : FEWBITS_OK;
}

uint64_t value_of(const Case &c, const SignedCodes &codes, ConstBytes scales, size_t i,
                  uint32_t word) {
    const Format format = c.scale_format();
    const uint64_t bits = element(scales.data(), c.own(i), format.item());
    if (!format.finite(bits)) {
        return c.format().quiet_nan();
    }
    double code = codes.negative(i) ? -1.0 * codes.sizes[i] : codes.sizes[i];
    code -= c.dithered() ? (word + 0.5) * 0x1p-32 - 0.5 : 0;
    constexpr double most = 0x1.fffffffffffffp1023;
    return nearest(std::clamp(code * number_of(bits, format) + 0.0, -most, most), c.format());
}

using Key = std::array<uint32_t, 4>;

Key key_of(ConstBytes section) {
    Key key = {};
    std::copy(section.begin(), section.end(), reinterpret_cast<uint8_t *>(key.data()));
    return key;
}

SignedCodes read_codes(const Case &c, ConstBytes data, const Key &key) {
    if (c.dithered()) {
        return {c.count, c.bound, data, Dither{key.data(), 0}};
    }
    return {c.count, c.bound, data};
}

void check_decoded(const Case &c, ConstBytes scales, ConstBytes data, ConstBytes key) {
    const Key own = key_of(key);
    const SignedCodes codes = read_codes(c, data, own);
    const int expected = expected_status(c, codes, scales);
    std::vector<uint32_t> words(c.count);
    REQUIRE(fewbits_words(own.data(), 0, words.data(), c.count) == FEWBITS_OK);
    std::vector<uint8_t> sums[2];
    with_each_table([&](int table) {
        const Buffer first(scales, c.offset), second(data, c.offset + 1), third(key, 3);
        const Buffer values(c.count * c.item(), c.offset), totals(c.count * c.total(), 0);
        fewbits_unit unit = c.unit(values.data(), first, second, third);
        REQUIRE(run(fewbits_decode, unit) == expected);
        std::fill_n(totals.data(), totals.size(), uint8_t{0x3F});
        fewbits_unit adding = c.unit(totals.data(), first, second, third);
        REQUIRE(run(fewbits_accumulate, adding) == expected);
        if (expected != FEWBITS_OK) {
            return;
        }
        uint64_t nonfinite = 0;
        for (size_t i = 0; i < c.count; ++i) {
            const uint64_t bits = value_of(c, codes, scales, i, words[i]);
            nonfinite += !c.format().finite(bits);
            REQUIRE(element(values.data(), i, c.item()) == bits);
        }
        REQUIRE(equal(unit.tally, {0, nonfinite}) && equal(adding.tally, unit.tally));
        sums[table].assign(totals.data(), totals.data() + totals.size());
    });
    REQUIRE(sums[0] == sums[1]);
}

void check_encoded(const Case &c, ConstBytes bytes) {
    std::vector<uint8_t> sections[2], scales[2], keys[2];
    fewbits_tally tallies[2];
    with_each_table([&](int table) {
        const Buffer values(bytes, c.offset), first(c.scales() * c.total(), c.offset);
        const Buffer second(fewbits_coded_size(c.count, c.bound, 1), c.offset);
        const Buffer third(c.dithered() ? 16 : 0, 1);
        fewbits_unit unit = c.unit(values.data(), first, second, third);
        REQUIRE(run(fewbits_encode, unit) == FEWBITS_OK);
        scales[table].assign(first.data(), first.data() + first.size());
        sections[table].assign(second.data(), second.data() + unit.sizes[1]);
        keys[table].assign(third.data(), third.data() + third.size());
        tallies[table] = unit.tally;
    });
    REQUIRE(sections[0] == sections[1] && scales[0] == scales[1] && keys[0] == keys[1]);
    REQUIRE(equal(tallies[0], tallies[1]));
    const SignedCodes codes = read_codes(c, sections[0], key_of(keys[0]));
    REQUIRE(expected_status(c, codes, scales[0]) == FEWBITS_OK);
    check_decoded(c, scales[0], sections[0], keys[0]);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const uint8_t control = input.byte(), shape = input.byte();
    constexpr uint64_t blocks[] = {0, 1, 3, 8, 13, 32, 64, 100};
    constexpr uint32_t bounds[] = {2, 40, 256, 300};
    Case c = {1 + (shape & 3),
              control % 3,
              0,
              bounds[shape >> 2 & 3],
              blocks[shape >> 4 & 7],
              input.number(1) % 250u,
              static_cast<unsigned>(control >> 4 & 7)};
    c.scale = c.rounding == FEWBITS_STEP_NEAREST ? (control >> 2 & 3) % 3 : 0;
    if ((control & 128) == 0) {
        c.bound = 300; // enough for 250 values and the step of unit()
        check_encoded(c, values_from(input.rest(), c.count, c.format()));
        return 0;
    }
    std::vector<uint8_t> scales(c.scales() * c.total());
    const uint8_t kind = input.byte();
    for (uint8_t &byte : scales) {
        byte = kind < 100 ? 0 : kind < 200 ? 0x3C : input.byte();
    }
    std::vector<uint8_t> key(c.dithered() ? 16 : 0, kind);
    check_decoded(c, scales, section_from(input.rest(), (kind & 1) != 0), key);
    return 0;
}
