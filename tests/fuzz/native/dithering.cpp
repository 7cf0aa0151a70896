// Dithering in every format: both tables have the norms and write the codes of the definition;
// sizes that do not fit are refused.
#include <bit>

#include "harness.h"

using namespace fuzz;

namespace {

struct Case {
    int dtype;
    uint32_t levels;
    bool natural;
    uint64_t block;
    uint64_t first;
    uint32_t key;
    size_t count;
    std::vector<uint8_t> bytes;
    std::vector<uint64_t> scales;
    std::vector<uint32_t> words;

    Format format() const { return format_of(dtype); }
    uint64_t bits(size_t i) const { return element(bytes.data(), i, format().item()); }
    bool finite(size_t i) const { return format().finite(bits(i)); }
    double magnitude(size_t i) const {
        return finite(i) ? std::abs(number_of(bits(i), format())) : 0.0;
    }
    size_t own(size_t i) const { return block != 0 ? static_cast<size_t>(i / block) : 0; }
    double scale(size_t i) const { return number_of(scales[own(i)], format()); }
    int width() const { return static_cast<int>(std::bit_width(2 * levels + 1)); }
    bool wide() const { return dtype == FEWBITS_FLOAT64; }
};

// Sums side by side in 32 lanes, which are then folded.
double sum_of(const Case &c, size_t start, size_t end, int norm, int shift) {
    double lanes[32] = {};
    for (size_t i = start; i < end; ++i) {
        const double own = std::ldexp(c.magnitude(i), -shift);
        lanes[(i - start) % 32] += norm == FEWBITS_NORM_2 ? own * own : own;
    }
    for (size_t half = 16; half > 0; half /= 2) {
        for (size_t i = 0; i < half; ++i) {
            lanes[i] += lanes[i + half];
        }
    }
    return lanes[0];
}

void check_norms(const Case &c, size_t size, int norm) {
    const size_t pieces = (c.count + size - 1) / size;
    int shift = 0;
    for (size_t i = 0; i < c.count && c.wide(); ++i) {
        int own = 0;
        std::frexp(c.magnitude(i), &own);
        shift = i == 0 ? own : std::max(shift, own);
    }
    with_each_table([&](int) {
        std::vector<double> sums(pieces);
        std::vector<uint64_t> largest(pieces);
        const auto terms = [&](size_t own, size_t number) {
            return fewbits_norm_terms(c.bytes.data(), c.dtype, c.count, own, norm, shift,
                                      sums.data(), largest.data(), number);
        };
        REQUIRE(terms(size, pieces) == FEWBITS_OK);
        REQUIRE(terms(UINT64_MAX - size, c.count == 0 ? 1 : 0) == FEWBITS_BAD_SIZE);
        for (size_t piece = 0; piece < pieces; ++piece) {
            const size_t start = piece * size, end = std::min(start + size, c.count);
            double most = 0;
            for (size_t i = start; i < end; ++i) {
                most = std::max(most, c.magnitude(i));
            }
            REQUIRE(number_of(largest[piece], c.format()) == most);
            REQUIRE(norm == FEWBITS_NORM_MAX || sums[piece] == sum_of(c, start, end, norm, shift));
        }
    });
}

struct Chosen {
    double lower, chance;
};

// Between the values that decoding gives.
Chosen between_values(const Case &c, size_t i) {
    const double x = c.magnitude(i), n = c.scale(i), s = c.levels;
    const double lower = std::min(std::floor(std::min(x / n, 1.0) * s), s - 1);
    const auto value = [&](double level) {
        return number_of(nearest(n * (level / s), c.format()), c.format());
    };
    const double below = value(lower), above = value(lower + 1);
    const double share = above > below ? (x - below) / (above - below) : 0.0;
    return share >= 1 ? Chosen{lower + 1, 0} : Chosen{lower, std::max(share, 0.0)};
}

// The level below, and the chance of the one above.
template <class T> Chosen chosen(const Case &c, size_t i) {
    const T scale = static_cast<T>(c.scale(i));
    const T y = scale > 0 ? std::min(static_cast<T>(c.magnitude(i)) / scale, T{1}) : T{0};
    const int s = static_cast<int>(c.levels);
    if (!c.natural) {
        const T place = y * static_cast<T>(s);
        return {std::floor(place), static_cast<double>(place - std::floor(place))};
    }
    if (const double lowest = std::ldexp(1.0, 1 - s); y < lowest) {
        return {0, static_cast<double>(y) / lowest};
    }
    const int exponent = std::ilogb(y);
    return {static_cast<double>(exponent + s), std::ldexp(static_cast<double>(y), -exponent) - 1};
}

uint32_t code_of(const Case &c, size_t i) {
    if (!c.finite(i)) {
        return 2 * c.levels + 1;
    }
    Chosen found = {0, 0};
    if (c.scale(i) > 0) {
        found = c.wide()                                 ? chosen<double>(c, i)
                : !c.natural && c.format().mantissa < 23 ? between_values(c, i)
                                                         : chosen<float>(c, i);
    }
    const uint64_t high = c.wide() ? c.words[2 * i + 1] : 0;
    const uint64_t low = c.words[c.wide() ? 2 * i : i];
    const double bits = c.wide() ? 0x1p63 : 0x1p31;
    const bool up = (high << 32 | low) >> 1 < static_cast<uint64_t>(found.chance * bits);
    const uint32_t level = static_cast<uint32_t>(found.lower) + up;
    const bool negative = c.bits(i) >= c.format().sign();
    return level != 0 && negative ? level + c.levels : level;
}

void check_codes(const Case &c, unsigned offset) {
    const size_t bytes = packed_size(c.count, c.width()), item = c.format().item();
    uint64_t nonfinite = 0;
    for (size_t i = 0; i < c.count; ++i) {
        nonfinite += !c.finite(i);
    }
    with_each_table([&](int) {
        const Buffer packed(bytes, offset), values(c.bytes, offset / 8);
        const Buffer scales(item * c.scales.size(), offset + 1);
        for (size_t i = 0; i < c.scales.size(); ++i) {
            std::memcpy(scales.data() + i * item, &c.scales[i], item);
        }
        fewbits_unit unit{};
        unit.kind = FEWBITS_DITHERING;
        unit.dtype = static_cast<uint8_t>(c.dtype);
        unit.option = c.natural ? FEWBITS_POWERS : 0; // the scales are given
        unit.levels = static_cast<uint16_t>(c.levels);
        unit.block = c.block;
        unit.values = values.data();
        unit.count = c.count;
        unit.first = c.first;
        unit.key[0] = c.key;
        unit.sections[0] = scales.data();
        unit.sections[1] = packed.data();
        unit.sizes[0] = scales.size();
        unit.sizes[1] = bytes + 1;
        REQUIRE(run(fewbits_encode, unit) == FEWBITS_BAD_SIZE);
        unit.sizes[1] = bytes;
        REQUIRE(run(fewbits_encode, unit) == FEWBITS_OK);
        for (size_t i = 0; i < c.count; ++i) {
            REQUIRE(field(packed.bytes(), i, c.width()) == code_of(c, i));
        }
        REQUIRE(padding_is_zero(packed.bytes(), c.count, c.width()));
        REQUIRE(unit.tally.nonfinite == nonfinite);
    });
}

// Scales that are the largest magnitude of their block or above it.
void scale(Case &c, uint64_t above) {
    const Format format = c.format();
    c.scales.assign(c.count == 0 ? 0 : c.own(c.count - 1) + 1, 0);
    for (size_t i = 0; i < c.count; ++i) {
        uint64_t &own = c.scales[c.own(i)];
        own = std::max(own, c.finite(i) ? c.bits(i) & ~format.sign() : 0);
    }
    for (uint64_t &own : c.scales) {
        own = std::min(own + above % (uint64_t{3} << format.mantissa), format.infinity() - 1);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const uint8_t control = input.byte();
    const bool natural = (control & 1) != 0;
    const size_t count = input.number(2) % 150;
    const auto wished = static_cast<uint32_t>(input.number(2));
    const uint32_t levels = 1 + wished % (natural || (control & 2) != 0 ? 127 : 32767);
    const uint8_t shape = input.byte();
    const uint64_t first = input.number(4);
    const auto key = static_cast<uint32_t>(input.number(2));
    const int dtype = 1 + (control >> 6);
    const uint64_t draws = dtype == FEWBITS_FLOAT64 ? 2 : 1;
    constexpr uint64_t blocks[] = {0, 8, 16, 64};
    const bool crosses = (control & 4) != 0; // a change of the stream's segment
    Case c = {dtype,
              levels,
              natural,
              blocks[shape & 3],
              crosses ? ((first + 1) << 32) / draws - count / 2 : first,
              key,
              count,
              {},
              {},
              std::vector<uint32_t>(draws * count)};
    const uint64_t above = input.number(6);
    const uint32_t words[4] = {key, 0, 0, 0};
    REQUIRE(fewbits_words(words, draws * c.first, c.words.data(), c.words.size()) == FEWBITS_OK);
    c.bytes = values_from(input.rest(), count, c.format());
    scale(c, (control & 16) != 0 ? above : 0);
    check_norms(c, 1 + wished % 100, 1 + control % 3);
    check_codes(c, control);
    return 0;
}
