// Dithering with coded levels, in every format: both tables write the same bytes, which hold the
// codes of the packed form, and read any bytes as the packed form reads what the coder alone makes
// of them.
#include <bit>
#include <cmath>
#include <vector>

#include "harness.h"

using namespace fuzz;

namespace {

struct Case {
    int dtype;
    bool powers; // scales are sent as powers of two
    uint32_t levels;
    bool natural;
    uint64_t block;
    int norm;
    size_t count;
    unsigned offset;

    size_t own(size_t i) const { return block != 0 ? i / block : 0; } // the number of its scale
    size_t scales() const { return count == 0 ? 0 : own(count - 1) + 1; }
    int width() const { return static_cast<int>(std::bit_width(2 * levels + 1)); }
    size_t item() const { return format_of(dtype).item(); }
    size_t total() const { return dtype == FEWBITS_FLOAT64 ? 8 : 4; }
    size_t scale_bytes() const {
        return powers ? packed_size(scales(), format_of(dtype).exponent) : item() * scales();
    }

    fewbits_unit unit(bool coded, void *values, const Buffer &first, const Buffer &second) const {
        fewbits_unit unit{};
        unit.kind = FEWBITS_DITHERING;
        unit.dtype = static_cast<uint8_t>(dtype);
        unit.option = static_cast<uint8_t>(norm + (natural ? FEWBITS_POWERS : 0) +
                                           (coded ? FEWBITS_LEVELS_CODED : 0) +
                                           (powers ? FEWBITS_SCALES_POWERS : 0));
        unit.levels = static_cast<uint16_t>(levels);
        unit.block = block;
        unit.values = values;
        unit.count = count;
        unit.first = UINT32_MAX - 40u; // the stream changes its segment on the way
        unit.key[1] = 7;
        unit.sections[0] = first.data();
        unit.sections[1] = second.data();
        unit.sizes[0] = first.size();
        unit.sizes[1] = second.size();
        return unit;
    }
};

using Codes = SignedCodes;

Codes read_codes(const Case &c, ConstBytes data) { return {c.count, c.levels + 2, data}; }

// The code that stands for the same level and sign in the packed form.
uint16_t packed_code(const Case &c, const Codes &codes, size_t i) {
    const uint32_t level = codes.sizes[i];
    return static_cast<uint16_t>(level > c.levels    ? 2 * c.levels + 1
                                 : codes.negative(i) ? level + c.levels
                                                     : level);
}

// The same levels, packed.
std::vector<uint8_t> packed_of(const Case &c, const Codes &codes) {
    std::vector<uint16_t> all(c.count);
    for (size_t i = 0; i < c.count; ++i) {
        all[i] = packed_code(c, codes, i);
    }
    std::vector<uint8_t> packed(packed_size(c.count, c.width()));
    REQUIRE(fewbits_pack(all.data(), c.count, c.width(), packed.data(), packed.size()) ==
            FEWBITS_OK);
    return packed;
}

bool has_signed_nan(const Case &c, const Codes &codes) {
    for (size_t i = 0; i < c.count; ++i) {
        if (codes.sizes[i] == c.levels + 1 && codes.negative(i)) {
            return true;
        }
    }
    return false;
}

void check_decoded(const Case &c, ConstBytes scales, ConstBytes data) {
    const Codes codes = read_codes(c, data);
    const bool readable = codes.status == FEWBITS_OK;
    const std::vector<uint8_t> packed = readable ? packed_of(c, codes) : std::vector<uint8_t>();
    for (const bool add : {false, true}) {
        with_each_table([&](int) {
            const Buffer first(scales, c.offset), second(data, c.offset + 1), other(packed, 0);
            const size_t bytes = c.count * (add ? c.total() : c.item());
            const Buffer values(bytes, c.offset), wanted(bytes, 0);
            std::fill_n(values.data(), values.size(), uint8_t{0x3F});
            std::fill_n(wanted.data(), wanted.size(), uint8_t{0x3F});
            const auto function = add ? fewbits_accumulate : fewbits_decode;
            fewbits_unit unit = c.unit(true, values.data(), first, second);
            fewbits_unit plain = c.unit(false, wanted.data(), first, other);
            const int status = run(function, unit);
            if (!readable) {
                REQUIRE(status == codes.status || status == FEWBITS_BAD_SCALE ||
                        status == FEWBITS_BAD_PADDING || status == FEWBITS_BAD_CODE);
                return;
            }
            const int expected = run(function, plain);
            const bool bad_sign = (expected == FEWBITS_OK || expected == FEWBITS_BAD_LEVEL) &&
                                  has_signed_nan(c, codes);
            REQUIRE(status == (bad_sign ? FEWBITS_BAD_SIGN : expected));
            if (status == FEWBITS_OK) {
                REQUIRE(equal(unit.tally, plain.tally));
                REQUIRE(values == wanted);
            }
        });
    }
}

void check_encoded(const Case &c, ConstBytes bytes) {
    std::vector<uint8_t> sections[2], scales[2], packed;
    with_each_table([&](int table) {
        const Buffer values(bytes, c.offset), first(c.scale_bytes(), c.offset);
        const Buffer second(fewbits_coded_size(c.count, c.levels + 2, 1), c.offset);
        const Buffer other(packed_size(c.count, c.width()), 0);
        fewbits_unit unit = c.unit(true, values.data(), first, second);
        REQUIRE(run(fewbits_encode, unit) == FEWBITS_OK);
        scales[table].assign(first.data(), first.data() + first.size());
        sections[table].assign(second.data(), second.data() + unit.sizes[1]);
        fewbits_unit plain = c.unit(false, values.data(), first, other);
        REQUIRE(run(fewbits_encode, plain) == FEWBITS_OK && equal(unit.tally, plain.tally));
        packed.assign(other.data(), other.data() + other.size());
    });
    REQUIRE(sections[0] == sections[1] && scales[0] == scales[1]);
    const Codes codes = read_codes(c, sections[0]);
    REQUIRE(codes.status == FEWBITS_OK && packed_of(c, codes) == packed);
    REQUIRE(!has_signed_nan(c, codes));
    check_decoded(c, scales[0], sections[0]);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const uint8_t control = input.byte(), shape = input.byte(), kind = input.byte();
    constexpr uint64_t blocks[] = {0, 8, 32, 64};
    constexpr uint32_t levels[] = {1, 2, 7, 14, 127, 128, 254, 3000};
    const bool natural = (shape & 8) != 0;
    const Case c = {1 + (shape >> 6),
                    (kind & 2) != 0,
                    std::min(levels[shape & 7], natural ? 127u : 32767u),
                    natural,
                    blocks[shape >> 4 & 3],
                    1 + (control & 31) % 3,
                    input.number(1) % 200,
                    static_cast<unsigned>(control >> 4 & 7)};
    if ((control & 128) == 0) {
        check_encoded(c, values_from(input.rest(), c.count, format_of(c.dtype)));
        return 0;
    }
    std::vector<uint8_t> scales(c.scale_bytes());
    for (uint8_t &byte : scales) {
        byte = kind < 200 ? 0x3C : input.byte();
    }
    check_decoded(c, scales, section_from(input.rest(), (kind & 1) != 0));
    return 0;
}
