// Multiples of a step: both tables write the codes of the definition and give back its values; any
// bytes are taken or refused as the coder alone takes or refuses them.
#include <bit>
#include <cmath>
#include <vector>

#include "harness.h"

using namespace fuzz;

namespace {

struct Case {
    fewbits_steps how;
    std::vector<uint32_t> words; // random ones, of the values
    std::vector<float> scales;   // of the runs
    std::vector<float> values;

    float scale(size_t i) const { return scales[i / how.run]; }
    double uniform(size_t i) const { return (words[i] + 0.5) * 0x1p-32; }
    double dither(size_t i) const { return uniform(i) - 0.5; }
};

struct Codes {
    int status;
    std::vector<uint16_t> sizes;
    std::vector<uint8_t> signs;

    double code(size_t i) const { return field(signs, i, 1) != 0 ? -1.0 * sizes[i] : sizes[i]; }
};

// The definition; 65536 and more are alike, beyond every bound.
double code_of(const Case &c, size_t i) {
    if (!(c.scale(i) > 0) || !std::isfinite(c.values[i])) {
        return 0;
    }
    const double t = static_cast<double>(c.values[i]) / c.scale(i);
    if (c.how.rounding == FEWBITS_STEP_STOCHASTIC) {
        return std::copysign(std::floor(std::abs(t) + c.uniform(i)), t);
    }
    return std::nearbyint(c.how.rounding == FEWBITS_STEP_SUBTRACTIVE ? t + c.dither(i) : t);
}

uint32_t value_of(const Case &c, size_t i, double code) {
    if (!std::isfinite(c.scale(i))) {
        return 0x7FC00000;
    }
    code -= c.how.rounding == FEWBITS_STEP_SUBTRACTIVE ? c.dither(i) : 0;
    constexpr double most = 0x1.fffffep127;
    const double y = std::clamp(code * c.scale(i) + 0.0, -most, most);
    return std::bit_cast<uint32_t>(static_cast<float>(y));
}

// What the coder alone says of a section.
Codes read_codes(const Case &c, ConstBytes data) {
    const size_t count = c.values.size();
    Codes codes = {0, std::vector<uint16_t>(count),
                   std::vector<uint8_t>(packed_size(count, 1) + 1)};
    codes.status = fewbits_coded_decode(data.data(), data.size(), c.how.bound, codes.sizes.data(),
                                        codes.signs.data(), count);
    return codes;
}

void check_decoded(const Case &c, ConstBytes data, unsigned offset) {
    const Codes codes = read_codes(c, data);
    with_each_table([&](int) {
        const Buffer exact(data, offset), values(4 * c.values.size(), offset / 8);
        const Buffer some(c.scales.size(), 0), scales(4 * c.scales.size(), 0);
        std::copy(c.scales.begin(), c.scales.end(), reinterpret_cast<float *>(scales.data()));
        const int status = fewbits_steps_decode(
            exact.data(), exact.size(), &c.how, reinterpret_cast<uint32_t *>(scales.data()),
            some.data(), some.size(), reinterpret_cast<uint32_t *>(values.data()), c.values.size());
        REQUIRE(status == codes.status);
        std::vector<uint8_t> found(c.scales.size());
        for (size_t i = 0; i < c.values.size() && status == FEWBITS_OK; ++i) {
            REQUIRE(element(values.data(), i, 4) == value_of(c, i, codes.code(i)));
            found[i / c.how.run] |= codes.sizes[i] != 0;
        }
        REQUIRE(status != FEWBITS_OK || std::ranges::equal(found, some.bytes()));
    });
}

// Sums of a run: exact ones of squares, others to the last few bits.
void check_sums(const Case &c, const std::vector<double> &sums) {
    for (size_t run = 0; run < c.scales.size(); ++run) {
        double products = 0, squares = 0;
        const size_t end = std::min((run + 1) * c.how.run, c.values.size());
        for (size_t i = run * c.how.run; i < end; ++i) {
            products += std::abs(c.values[i] * code_of(c, i));
            squares += code_of(c, i) * code_of(c, i);
        }
        REQUIRE(sums[2 * run + 1] == (c.how.fit != 0 ? squares : squares > 0));
        products = c.how.fit != 0 ? products : 0;
        REQUIRE(std::abs(sums[2 * run] - products) <= 1e-12 * products ||
                !std::isfinite(products)); // NaN
    }
}

void check_encoded(const Case &c, unsigned offset) {
    double largest = 0;
    uint64_t nonfinite = 0;
    for (size_t i = 0; i < c.values.size(); ++i) {
        largest = std::max(largest, std::abs(code_of(c, i)));
        nonfinite += !std::isfinite(c.values[i]);
    }
    const int expected = largest < c.how.bound ? FEWBITS_OK : FEWBITS_BAD_ARGUMENT;
    std::vector<uint8_t> sections[2];
    std::vector<double> sums[2];
    with_each_table([&](int table) {
        const Buffer out(fewbits_coded_size(c.values.size(), c.how.bound, 1), offset);
        const auto *const bytes = reinterpret_cast<const uint8_t *>(c.values.data());
        const Buffer values({bytes, 4 * c.values.size()}, offset / 8);
        sums[table].resize(2 * c.scales.size());
        size_t written = 0;
        fewbits_tally tally;
        REQUIRE(fewbits_steps_encode(reinterpret_cast<uint32_t *>(values.data()), c.values.size(),
                                     &c.how, reinterpret_cast<const uint32_t *>(c.scales.data()),
                                     sums[table].data(), c.scales.size(), out.data(), out.size(),
                                     &written, &tally) == expected);
        sections[table].assign(out.data(), out.data() + (expected == FEWBITS_OK ? written : 0));
        REQUIRE(expected != FEWBITS_OK || equal(tally, {0, nonfinite}));
    });
    if (expected != FEWBITS_OK) {
        return;
    }
    REQUIRE(sections[0] == sections[1]);
    REQUIRE(nonfinite > 0 || sums[0] == sums[1]);
    if (nonfinite == 0) {
        check_sums(c, sums[0]);
    }
    const Codes codes = read_codes(c, sections[0]);
    REQUIRE(codes.status == FEWBITS_OK);
    for (size_t i = 0; i < c.values.size(); ++i) {
        REQUIRE(codes.code(i) == code_of(c, i));
    }
    check_decoded(c, sections[0], offset);
}

float scale_from(Input &input) {
    const uint8_t kind = input.byte();
    const auto bits = static_cast<uint32_t>(input.number(4));
    constexpr uint32_t rare[] = {0,          1,          0x7FFFFF,   0x800000,   0x7F7FFFFF,
                                 0x7F800000, 0xFF800000, 0x7FC00000, 0x80000000, 0xBF800000};
    if ((kind & 7) == 0) {
        return std::bit_cast<float>(kind < 128 ? bits : rare[bits % std::size(rare)]);
    }
    const uint32_t exponent = (kind & 7) == 1 ? bits >> 24 : 107 + kind / 8;
    return std::bit_cast<float>(std::min(exponent, 254u) << 23 | (bits & 0x7FFFFF));
}

// Many are near the place where a code changes.
float value_from(const Case &c, size_t i, uint8_t kind, uint64_t mix) {
    const double whole = static_cast<double>((mix >> 20) % (kind >= 0xF0 ? 70000 : 2 + kind));
    const double away = (static_cast<double>(mix >> 8 & 15) - 8) * 0x1p-24;
    const double dither = c.how.rounding == FEWBITS_STEP_NEAREST ? 0 : c.dither(i);
    const double place = (kind & 3) == 0 ? whole + static_cast<double>(mix >> 40) * 0x1p-24
                                         : (whole + 0.5 - dither) * (1 + away);
    const double value = (mix & 1 ? -1 : 1) * place * c.scale(i);
    constexpr double most = 0x1.fffffep127;
    return kind == 0xEF ? std::bit_cast<float>(static_cast<uint32_t>(mix >> 32))
           : kind == 0xEE || !std::isfinite(value)
               ? 0.0f
               : static_cast<float>(std::clamp(value, -most, most));
}

Case read_case(Input &input, uint8_t control, size_t count) {
    constexpr uint64_t runs[] = {8, 16, 32, 64, 128, 256, 4096, 65536};
    constexpr uint32_t bounds[] = {2, 3, 255, 256, 257, 300, 2000, 65536};
    const uint8_t shape = input.byte();
    Case c = {{bounds[shape & 7],
               static_cast<uint16_t>(control % 3),
               (control & 4) != 0,
               runs[shape >> 3 & 7],
               0,
               {}},
              {},
              {},
              {}};
    const uint64_t first = input.number(4);
    c.how.first = (control & 8) != 0 ? (first << 32) - count / 2 : first;
    c.how.key[0] = static_cast<uint32_t>(input.number(2));
    c.words.resize(count);
    REQUIRE(fewbits_words(c.how.key, c.how.first, c.words.data(), count) == FEWBITS_OK);
    const float scales[2] = {scale_from(input), scale_from(input)};
    for (size_t run = 0; run < (count + c.how.run - 1) / c.how.run; ++run) {
        c.scales.push_back(scales[run % 2]);
    }
    c.values.resize(count);
    return c;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const uint8_t control = input.byte();
    const size_t count = input.number(2) % 150;
    Case c = read_case(input, control, count);
    const ConstBytes rest = input.rest();
    if ((control & 16) != 0) {
        std::vector<uint8_t> section(rest.begin(), rest.end());
        if ((control & 32) != 0) { // one block, of the right length
            const auto length = static_cast<uint8_t>(std::min<size_t>(rest.size(), 255));
            section.resize(length);
            section.insert(section.begin(), {length, 0, 0});
        }
        check_decoded(c, section, control >> 4);
        return 0;
    }
    uint64_t mix = 1;
    for (size_t i = 0; i < count; ++i) {
        const uint8_t kind = rest.empty() ? uint8_t{1} : rest[i % rest.size()];
        mix = (mix + kind) * 6364136223846793005u + 1442695040888963407u;
        c.values[i] = value_from(c, i, kind, mix ^ mix >> 29);
    }
    check_encoded(c, control >> 4);
    return 0;
}
