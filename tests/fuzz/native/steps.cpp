// Multiples of a step, in every format: both tables write the codes of the definition and give back
// its values; any bytes are taken or refused as the coder alone takes or refuses them.
#include <bit>
#include <cmath>
#include <vector>

#include "harness.h"

using namespace fuzz;

namespace {

struct Case {
    fewbits_steps how;
    std::vector<uint32_t> words; // random ones, of the values
    std::vector<double> scales;  // of the runs
    std::vector<uint64_t> bits;  // of the values

    Format format() const { return format_of(how.dtype); }
    bool wide() const { return how.dtype == FEWBITS_FLOAT64; }
    size_t count() const { return bits.size(); }
    bool finite(size_t i) const { return format().finite(bits[i]); }
    double value(size_t i) const { return number_of(bits[i], format()); }
    double scale(size_t i) const { return scales[i / how.run]; }
    double uniform(size_t i) const { return (words[i] + 0.5) * 0x1p-32; }
    double dither(size_t i) const { return uniform(i) - 0.5; }
    std::optional<Dither> stream() const {
        if (how.rounding != FEWBITS_STEP_SUBTRACTIVE) {
            return {};
        }
        return Dither{how.key, how.first};
    }
    // The scales as a section has them.
    std::vector<uint8_t> sent() const {
        std::vector<uint8_t> bytes;
        for (const double scale : scales) {
            const auto narrow = std::bit_cast<uint32_t>(static_cast<float>(scale));
            const uint64_t own = wide() ? std::bit_cast<uint64_t>(scale) : narrow;
            const auto *const at = reinterpret_cast<const uint8_t *>(&own);
            bytes.insert(bytes.end(), at, at + (wide() ? 8 : 4));
        }
        return bytes;
    }
};

struct Codes : SignedCodes {
    using SignedCodes::SignedCodes;
    double code(size_t i) const { return negative(i) ? -1.0 * sizes[i] : sizes[i]; }
};

// The definition; 65536 and more are alike, beyond every bound.
double code_of(const Case &c, size_t i) {
    if (!(c.scale(i) > 0) || !c.finite(i)) {
        return 0;
    }
    const double t = c.value(i) / c.scale(i);
    if (c.how.rounding == FEWBITS_STEP_STOCHASTIC) {
        return std::copysign(std::floor(std::abs(t) + c.uniform(i)), t);
    }
    return std::nearbyint(c.how.rounding == FEWBITS_STEP_SUBTRACTIVE ? t + c.dither(i) : t);
}

uint64_t value_of(const Case &c, size_t i, double code) {
    if (!std::isfinite(c.scale(i))) {
        return c.format().quiet_nan();
    }
    code -= c.how.rounding == FEWBITS_STEP_SUBTRACTIVE ? c.dither(i) : 0;
    constexpr double most = 0x1.fffffffffffffp1023;
    return nearest(std::clamp(code * c.scale(i) + 0.0, -most, most), c.format());
}

Codes read_codes(const Case &c, ConstBytes data) {
    return {c.count(), c.how.bound, data, c.stream()};
}

void check_decoded(const Case &c, ConstBytes data, unsigned offset) {
    const Codes codes = read_codes(c, data);
    with_each_table([&](int) {
        const Buffer exact(data, offset), values(c.format().item() * c.count(), offset / 8);
        const Buffer some(c.scales.size(), 0), scales(c.sent(), offset);
        const int status = fewbits_steps_decode(exact.data(), exact.size(), &c.how, scales.data(),
                                                some.data(), some.size(), values.data(), c.count());
        REQUIRE(status == codes.status);
        std::vector<uint8_t> found(c.scales.size());
        for (size_t i = 0; i < c.count() && status == FEWBITS_OK; ++i) {
            REQUIRE(element(values.data(), i, c.format().item()) == value_of(c, i, codes.code(i)));
            found[i / c.how.run] |= codes.sizes[i] != 0;
        }
        REQUIRE(status != FEWBITS_OK || std::ranges::equal(found, some.bytes()));
    });
}

// Sums of a run: exact ones of squares, others to the last few bits.
void check_sums(const Case &c, const std::vector<double> &sums) {
    for (size_t run = 0; run < c.scales.size(); ++run) {
        double products = 0, squares = 0;
        const size_t end = std::min((run + 1) * c.how.run, c.count());
        for (size_t i = run * c.how.run; i < end; ++i) {
            products += std::abs(std::ldexp(c.value(i), -c.how.shift) * code_of(c, i));
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
    for (size_t i = 0; i < c.count(); ++i) {
        largest = std::max(largest, std::abs(code_of(c, i)));
        nonfinite += !c.finite(i);
    }
    const int expected = largest < c.how.bound ? FEWBITS_OK : FEWBITS_BAD_ARGUMENT;
    std::vector<uint8_t> sections[2];
    std::vector<double> sums[2];
    with_each_table([&](int table) {
        const Buffer out(fewbits_coded_size(c.count(), c.how.bound, 1), offset);
        const size_t item = c.format().item();
        const Buffer values(item * c.count(), offset / 8), scales(c.sent(), offset);
        for (size_t i = 0; i < c.count(); ++i) {
            std::memcpy(values.data() + i * item, &c.bits[i], item);
        }
        sums[table].resize(2 * c.scales.size());
        size_t written = 0;
        fewbits_tally tally;
        REQUIRE(fewbits_steps_encode(values.data(), c.count(), &c.how, scales.data(),
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
    for (size_t i = 0; i < c.count(); ++i) {
        REQUIRE(codes.code(i) == code_of(c, i));
    }
    check_decoded(c, sections[0], offset);
}

double scale_from(Input &input, bool wide) {
    const uint8_t kind = input.byte();
    const uint64_t bits = input.number(wide ? 8 : 4);
    const Format format = format_of(wide ? FEWBITS_FLOAT64 : FEWBITS_FLOAT32);
    const uint64_t normal = uint64_t{1} << format.mantissa;
    const uint64_t rare[] = {0,
                             1,
                             normal - 1,
                             normal,
                             format.infinity() - 1,
                             format.infinity(),
                             format.infinity() | format.sign(),
                             format.quiet_nan(),
                             format.sign()};
    uint64_t chosen = kind < 128 ? bits : rare[bits % std::size(rare)];
    if ((kind & 7) != 0) {
        const uint64_t middle = (format.top() >> 1) - 20 + kind / 8;
        const uint64_t exponent = (kind & 7) == 1 ? (bits >> 9) % format.top() : middle;
        chosen = exponent << format.mantissa | (bits & (normal - 1));
    }
    return wide ? std::bit_cast<double>(chosen)
                : std::bit_cast<float>(static_cast<uint32_t>(chosen));
}

// Many are near the place where a code changes.
uint64_t value_from(const Case &c, size_t i, uint8_t kind, uint64_t mix) {
    const double whole = static_cast<double>((mix >> 20) % (kind >= 0xF0 ? 70000 : 2 + kind));
    const double away =
        (static_cast<double>(mix >> 8 & 15) - 8) * std::ldexp(1.0, -1 - c.format().mantissa);
    const double dither = c.how.rounding == FEWBITS_STEP_NEAREST ? 0 : c.dither(i);
    const double place = (kind & 3) == 0 ? whole + static_cast<double>(mix >> 40) * 0x1p-24
                                         : (whole + 0.5 - dither) * (1 + away);
    const double value = (mix & 1 ? -1 : 1) * place * c.scale(i);
    const uint64_t any = mix >> (64 - 8 * c.format().item());
    return kind == 0xEF                            ? any
           : kind == 0xEE || !std::isfinite(value) ? 0
                                                   : nearest(value, c.format());
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
               {},
               1 + (shape >> 6),
               0},
              {},
              {},
              {}};
    const uint64_t first = input.number(4);
    c.how.first = (control & 8) != 0 ? (first << 32) - count / 2 : first;
    c.how.key[0] = static_cast<uint32_t>(input.number(2));
    c.words.resize(count);
    REQUIRE(fewbits_words(c.how.key, c.how.first, c.words.data(), count) == FEWBITS_OK);
    const double scales[2] = {scale_from(input, c.wide()), scale_from(input, c.wide())};
    for (size_t run = 0; run < (count + c.how.run - 1) / c.how.run; ++run) {
        c.scales.push_back(scales[run % 2]);
    }
    c.bits.resize(count);
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
        check_decoded(c, section_from(rest, (control & 32) != 0), control >> 4);
        return 0;
    }
    uint64_t mix = 1;
    for (size_t i = 0; i < count; ++i) {
        const uint8_t kind = rest.empty() ? uint8_t{1} : rest[i % rest.size()];
        mix = (mix + kind) * 6364136223846793005u + 1442695040888963407u;
        c.bits[i] = value_from(c, i, kind, mix ^ mix >> 29);
    }
    for (size_t i = 0; i < count && c.wide(); ++i) { // so that no product overflows
        int own = 0;
        std::frexp(c.finite(i) ? c.value(i) : 0.0, &own);
        c.how.shift = i == 0 ? own : std::max(c.how.shift, own);
    }
    check_encoded(c, control >> 4);
    return 0;
}
