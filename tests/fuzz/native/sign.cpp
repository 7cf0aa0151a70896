// Signs times a scale: both tables write the same bytes, which hold the codes of the definition,
// and read any bytes as the definition reads what the coder alone makes of them.
#include <bit>
#include <cmath>
#include <vector>

#include "harness.h"

using namespace fuzz;

namespace {

struct Case {
    int dtype;
    uint64_t block;
    size_t count;
    unsigned offset;

    Format format() const { return format_of(dtype); }
    size_t item() const { return format().item(); }
    size_t total() const { return dtype == FEWBITS_FLOAT64 ? 8 : 4; }
    size_t own(size_t i) const { return block != 0 ? i / block : 0; } // the number of its scale
    size_t scales() const { return count == 0 ? 0 : own(count - 1) + 1; }

    fewbits_unit unit(void *values, const Buffer &first, const Buffer &second) const {
        fewbits_unit unit{};
        unit.kind = FEWBITS_SIGN;
        unit.dtype = static_cast<uint8_t>(dtype);
        unit.block = block;
        unit.values = values;
        unit.count = count;
        unit.sections[0] = first.data();
        unit.sections[1] = second.data();
        unit.sizes[0] = first.size();
        unit.sizes[1] = second.size();
        return unit;
    }
};

using Codes = SignedCodes;

Codes read_codes(const Case &c, ConstBytes data) { return {c.count, 3, data}; }

int expected_status(const Case &c, const Codes &codes, ConstBytes scales) {
    if (codes.status != FEWBITS_OK) {
        return codes.status;
    }
    const Format format = c.format();
    for (size_t i = 0; i < c.scales(); ++i) {
        if (element(scales.data(), i, c.item()) >= format.infinity()) {
            return FEWBITS_BAD_SCALE;
        }
    }
    bool level = false;
    for (size_t i = 0; i < c.count; ++i) {
        if (codes.sizes[i] == 2 && codes.negative(i)) {
            return FEWBITS_BAD_SIGN;
        }
        level |= codes.sizes[i] == 1 && element(scales.data(), c.own(i), c.item()) == 0;
    }
    return level ? FEWBITS_BAD_LEVEL : FEWBITS_OK;
}

uint64_t value_of(const Case &c, const Codes &codes, ConstBytes scales, size_t i) {
    const Format format = c.format();
    const uint64_t scale = element(scales.data(), c.own(i), c.item());
    return codes.sizes[i] == 0   ? 0
           : codes.sizes[i] == 2 ? format.quiet_nan()
                                 : scale | (codes.negative(i) ? format.sign() : 0);
}

void check_decoded(const Case &c, ConstBytes scales, ConstBytes data) {
    const Codes codes = read_codes(c, data);
    const int expected = expected_status(c, codes, scales);
    uint64_t nonfinite = 0;
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i < c.count && expected == FEWBITS_OK; ++i) {
        nonfinite += codes.sizes[i] == 2;
        const uint64_t bits = value_of(c, codes, scales, i);
        const auto *const own = reinterpret_cast<const uint8_t *>(&bits);
        bytes.insert(bytes.end(), own, own + c.item());
    }
    std::vector<uint8_t> sums[2];
    with_each_table([&](int table) {
        const Buffer first(scales, c.offset), second(data, c.offset + 1);
        const Buffer values(c.count * c.item(), c.offset), totals(c.count * c.total(), 0);
        fewbits_unit unit = c.unit(values.data(), first, second);
        REQUIRE(run(fewbits_decode, unit) == expected);
        std::fill_n(totals.data(), totals.size(), uint8_t{0x3F});
        fewbits_unit adding = c.unit(totals.data(), first, second);
        REQUIRE(run(fewbits_accumulate, adding) == expected);
        if (expected == FEWBITS_OK) {
            REQUIRE(equal(unit.tally, {0, nonfinite}) && equal(adding.tally, unit.tally));
            REQUIRE(std::ranges::equal(bytes, values.bytes()));
            sums[table].assign(totals.data(), totals.data() + totals.size());
        }
    });
    REQUIRE(sums[0] == sums[1]);
}

void check_codes(const Case &c, ConstBytes values, ConstBytes data) {
    const Format format = c.format();
    const Codes codes = read_codes(c, data);
    REQUIRE(codes.status == FEWBITS_OK);
    for (size_t i = 0; i < c.count; ++i) {
        const uint64_t bits = element(values.data(), i, c.item());
        const uint64_t magnitude = bits & ~format.sign();
        const unsigned code = !format.finite(bits) ? 2 : magnitude != 0 ? 1 : 0;
        REQUIRE(codes.sizes[i] == code);
        REQUIRE(codes.negative(i) == (code == 1 && bits != magnitude));
    }
}

// Every scale lies between the smallest and the largest of its values that are used.
void check_scales(const Case &c, ConstBytes values, ConstBytes scales) {
    std::vector<uint64_t> least(c.scales(), UINT64_MAX), most(c.scales());
    for (size_t i = 0; i < c.count; ++i) {
        const uint64_t bits = element(values.data(), i, c.item());
        const uint64_t magnitude = bits & ~c.format().sign();
        if (c.format().finite(bits) && magnitude != 0) {
            least[c.own(i)] = std::min(least[c.own(i)], magnitude);
            most[c.own(i)] = std::max(most[c.own(i)], magnitude);
        }
    }
    for (size_t i = 0; i < c.scales(); ++i) {
        const uint64_t scale = element(scales.data(), i, c.item());
        REQUIRE(scale <= most[i] && (most[i] == 0 || scale >= least[i]));
    }
}

void check_encoded(const Case &c, ConstBytes bytes) {
    std::vector<uint8_t> sections[2], scales[2];
    with_each_table([&](int table) {
        const Buffer values(bytes, c.offset), first(c.scales() * c.item(), c.offset);
        const Buffer second(fewbits_coded_size(c.count, 3, 1), c.offset);
        fewbits_unit unit = c.unit(values.data(), first, second);
        REQUIRE(run(fewbits_encode, unit) == FEWBITS_OK);
        scales[table].assign(first.data(), first.data() + first.size());
        sections[table].assign(second.data(), second.data() + unit.sizes[1]);
    });
    REQUIRE(sections[0] == sections[1] && scales[0] == scales[1]);
    check_codes(c, bytes, sections[0]);
    check_scales(c, bytes, scales[0]);
    check_decoded(c, scales[0], sections[0]);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const uint8_t control = input.byte();
    constexpr uint64_t blocks[] = {0, 8, 16, 64};
    const Case c = {1 + (control & 3), blocks[control >> 2 & 3], input.number(1) % 200,
                    static_cast<unsigned>(control >> 4 & 7)};
    if ((control & 128) == 0) {
        check_encoded(c, values_from(input.rest(), c.count, c.format()));
        return 0;
    }
    std::vector<uint8_t> scales(c.scales() * c.item());
    const uint8_t kind = input.byte();
    for (uint8_t &byte : scales) {
        byte = kind < 200 ? 0x3C : input.byte();
    }
    check_decoded(c, scales, section_from(input.rest(), (kind & 1) != 0));
    return 0;
}
