// The natural encoder on arbitrary bits: both tables write what the definition says, element by
// element, and the decoder takes it.
#include <vector>

#include "harness.h"

using namespace fuzz;

namespace {

struct Case {
    int dtype, rounding;
    Format format;
    uint32_t key[4];
    uint64_t first;
    Buffer values;
    size_t count;
};

uint64_t addend(const Case &c, const std::vector<uint32_t> &words, size_t i) {
    const int mantissa = c.format.mantissa;
    if (c.rounding == FEWBITS_NEAREST) {
        return (uint64_t{1} << (mantissa - 1)) - 1;
    }
    if (mantissa <= 32) {
        return words[i] >> (32 - mantissa);
    }
    return (uint64_t{words[2 * i + 1]} << 32 | words[2 * i]) >> (64 - mantissa);
}

// The random words that the elements use, equal in both tables.
std::vector<uint32_t> words_of(const Case &c) {
    const uint64_t each = c.format.mantissa > 32 ? 2 : 1;
    std::vector<uint32_t> words[2];
    with_each_table([&](int table) {
        words[table].resize(c.count * each);
        REQUIRE(fewbits_words(c.key, c.first * each, words[table].data(), words[table].size()) ==
                FEWBITS_OK);
    });
    REQUIRE(words[0] == words[1]);
    return words[0];
}

void check(const Case &c, const std::vector<uint32_t> &words, const fewbits_unit &unit) {
    const Format format = c.format;
    fewbits_tally tally = {0, 0};
    for (size_t i = 0; i < c.count; ++i) {
        const uint64_t bits = element(c.values.data(), i, format.item());
        const uint64_t magnitude = bits & ~format.sign();
        uint64_t code = (magnitude + addend(c, words, i)) >> format.mantissa;
        if (magnitude >= format.infinity()) {
            code = format.top();
            ++tally.nonfinite;
        } else if (magnitude > (format.top() - 1) << format.mantissa) {
            code = format.top() - 1;
            ++tally.saturated;
        }
        const bool negative = bits != magnitude && code != 0 && code != format.top();
        REQUIRE(field({unit.sections[0], unit.sizes[0]}, i, format.exponent) == code);
        REQUIRE((field({unit.sections[1], unit.sizes[1]}, i, 1) != 0) == negative);
    }
    REQUIRE(padding_is_zero({unit.sections[0], unit.sizes[0]}, c.count, format.exponent));
    REQUIRE(padding_is_zero({unit.sections[1], unit.sizes[1]}, c.count, 1));
    REQUIRE(equal(tally, unit.tally));
}

Case read_case(Input &input) {
    const uint8_t control = input.byte();
    const int dtype = FEWBITS_FLOAT32 + (control & 3);
    const int rounding = (control >> 2) & 1;
    Case c = {dtype, rounding, format_of(dtype), {}, 0, Buffer(size_t{0}, 0), 0};
    for (uint32_t &word : c.key) {
        word = static_cast<uint32_t>(input.number(4));
    }
    c.first = input.number(8);
    if ((control & 8) != 0) { // near a change of the index's high half
        c.first = (c.first << 32) - (c.first >> 56) % 64;
    }
    c.count = input.rest().size() / c.format.item();
    c.values = Buffer(input.rest().first(c.count * c.format.item()), control >> 4);
    return c;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const Case c = read_case(input);
    const std::vector<uint32_t> words = words_of(c);
    with_each_table([&](int) {
        const Buffer exponents(packed_size(c.count, c.format.exponent), c.key[0] & 7);
        const Buffer signs(packed_size(c.count, 1), c.key[1] & 7);
        fewbits_unit unit{};
        unit.kind = FEWBITS_NATURAL;
        unit.dtype = static_cast<uint8_t>(c.dtype);
        unit.option = static_cast<uint8_t>(c.rounding);
        unit.values = c.values.data();
        unit.count = c.count;
        unit.first = c.first;
        std::copy(c.key, c.key + 4, unit.key);
        unit.sections[0] = exponents.data();
        unit.sizes[0] = exponents.size();
        unit.sections[1] = signs.data();
        unit.sizes[1] = signs.size();
        REQUIRE(run(fewbits_encode, unit) == FEWBITS_OK);
        check(c, words, unit);
        const uint64_t nonfinite = unit.tally.nonfinite;
        const Buffer decoded(c.values.size(), 1);
        unit.values = decoded.data();
        REQUIRE(run(fewbits_decode, unit) == FEWBITS_OK);
        REQUIRE(unit.tally.nonfinite == nonfinite);
    });
    return 0;
}
