// Decoding of dithered codes in every format: the status and the values are those of the
// definition, in both tables, whatever the bytes are.
#include <bit>

#include "harness.h"

using namespace fuzz;

namespace {

struct Case {
    int dtype;
    uint32_t levels;
    bool natural, powers;
    uint64_t block;
    size_t count;
    Buffer scales, packed;

    Format format() const { return format_of(dtype); }
    int width() const { return static_cast<int>(std::bit_width(2 * levels + 1)); }
    uint32_t code(size_t i) const { return field(packed.bytes(), i, width()); }
    size_t number() const { return static_cast<size_t>((count + block - 1) / block); }
    uint64_t scale_bits(size_t number) const {
        const Format own = format();
        return powers ? uint64_t{field(scales.bytes(), number, own.exponent)} << own.mantissa
                      : element(scales.data(), number, own.item());
    }
    uint64_t scale(size_t i) const { return scale_bits(static_cast<size_t>(i / block)); }
};

int status_of_scales(const Case &c) {
    if (c.powers && !padding_is_zero(c.scales.bytes(), c.number(), c.format().exponent)) {
        return FEWBITS_BAD_PADDING;
    }
    for (size_t i = 0; i < c.number(); ++i) {
        if (c.scale_bits(i) >= c.format().infinity()) {
            return c.powers ? FEWBITS_BAD_CODE : FEWBITS_BAD_SCALE;
        }
    }
    return FEWBITS_OK;
}

int expected_status(const Case &c) {
    const int status = status_of_scales(c);
    if (status != FEWBITS_OK) {
        return status;
    }
    if (!padding_is_zero(c.packed.bytes(), c.count, c.width())) {
        return FEWBITS_BAD_PADDING;
    }
    bool level = false;
    for (size_t i = 0; i < c.count; ++i) {
        if (c.code(i) > 2 * c.levels + 1) {
            return FEWBITS_BAD_CODE;
        }
        level |= c.scale(i) == 0 && c.code(i) % (2 * c.levels + 1) != 0;
    }
    return level ? FEWBITS_BAD_LEVEL : FEWBITS_OK;
}

uint64_t expected_bits(const Case &c, size_t i) {
    const uint32_t s = c.levels, code = c.code(i);
    if (code == 0 || code > 2 * s) {
        return code == 0 ? 0 : c.format().quiet_nan();
    }
    const uint32_t level = code > s ? code - s : code;
    const double scale = number_of(c.scale(i), c.format());
    const double share = c.natural ? std::ldexp(1.0, static_cast<int>(level) - static_cast<int>(s))
                                   : static_cast<double>(level) / static_cast<double>(s);
    return nearest(scale * share, c.format()) | (code > s ? c.format().sign() : 0);
}

double wide_of(uint64_t bits, const Format &format) {
    return format.finite(bits) ? number_of(bits, format) : std::nan("");
}

template <class Total>
void check_total(const Case &c, size_t i, const uint8_t *totals, const Total start) {
    Total total;
    std::memcpy(&total, totals + i * sizeof(Total), sizeof(Total));
    const Total wanted = start + static_cast<Total>(wide_of(expected_bits(c, i), c.format()));
    REQUIRE(std::isnan(wanted) ? std::isnan(total) : total == wanted);
}

void check(const Case &c, bool add) {
    const int status = expected_status(c);
    const bool wide = c.dtype == FEWBITS_FLOAT64;
    const size_t item = add ? (wide ? 8 : 4) : c.format().item();
    with_each_table([&](int) {
        const Buffer values(c.count * item, add ? 0 : 3);
        std::fill_n(values.data(), values.size(), uint8_t{0x3F});
        fewbits_unit unit{};
        unit.kind = FEWBITS_DITHERING;
        unit.dtype = static_cast<uint8_t>(c.dtype);
        unit.option = static_cast<uint8_t>(FEWBITS_NORM_2 + (c.natural ? FEWBITS_POWERS : 0) +
                                           (c.powers ? FEWBITS_SCALES_POWERS : 0));
        unit.levels = static_cast<uint16_t>(c.levels);
        unit.block = c.block;
        unit.values = values.data();
        unit.count = c.count;
        unit.sections[0] = c.scales.data();
        unit.sections[1] = c.packed.data();
        unit.sizes[0] = c.scales.size();
        unit.sizes[1] = c.packed.size();
        REQUIRE(run(add ? fewbits_accumulate : fewbits_decode, unit) == status);
        uint64_t nonfinite = 0;
        for (size_t i = 0; i < c.count && status == FEWBITS_OK; ++i) {
            const uint64_t bits = expected_bits(c, i);
            nonfinite += !c.format().finite(bits);
            if (!add) {
                REQUIRE(element(values.data(), i, item) == bits);
            } else if (wide) {
                check_total(c, i, values.data(), std::bit_cast<double>(0x3F3F3F3F3F3F3F3F));
            } else {
                check_total(c, i, values.data(), std::bit_cast<float>(0x3F3F3F3F));
            }
        }
        REQUIRE(status != FEWBITS_OK || equal(unit.tally, {0, nonfinite}));
    });
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const uint8_t control = input.byte(), shape = input.byte();
    const auto wished = static_cast<uint32_t>(input.number(2));
    const bool natural = (control & 4) != 0;
    const uint32_t levels = 1 + wished % (natural || (control & 16) != 0 ? 127 : 32767);
    const uint64_t block = uint64_t{8} << (control & 3);
    const auto seed = static_cast<uint32_t>(input.number(4));
    const int dtype = 1 + (shape & 3);
    const bool powers = (shape & 4) != 0;
    const Format format = format_of(dtype);
    const ConstBytes rest = input.rest();
    const auto width = static_cast<size_t>(std::bit_width(2 * levels + 1));
    const size_t count = rest.size() * 8 / width, number = (count + block - 1) / block;
    const size_t bytes = powers ? packed_size(number, format.exponent) : number * format.item();
    const Case c = {dtype,
                    levels,
                    natural,
                    powers,
                    block,
                    count,
                    Buffer(bytes, 1),
                    Buffer(rest.first(packed_size(count, static_cast<int>(width))), control >> 5)};
    for (size_t i = 0; i < bytes; ++i) {
        c.scales.data()[i] = static_cast<uint8_t>(seed * (2 * i + 1) >> 13);
    }
    for (size_t i = 0; i < number && !powers && (shape & 8) != 0; ++i) { // finite, some of them 0
        const uint64_t mixed = (uint64_t{seed} << 32 | seed) * (2 * i + 1);
        const uint64_t bits = (mixed >> 40 & 7) == 0 ? 0 : mixed % format.infinity();
        std::memcpy(c.scales.data() + i * format.item(), &bits, format.item());
    }
    check(c, (control & 8) != 0);
    return 0;
}
