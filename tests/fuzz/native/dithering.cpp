// Dithering: both tables have the norms and write the codes of the definition; sizes that do not
// fit are refused.
#include <bit>
#include <cmath>
#include <vector>

#include "harness.h"

using namespace fuzz;

namespace {

struct Case {
    fewbits_dithering how;
    std::vector<float> values, scales;
    std::vector<uint32_t> words;
    unsigned offset;

    size_t block(size_t i) const { return static_cast<size_t>(i / how.block); }
    int width() const { return static_cast<int>(std::bit_width(2 * how.levels + 1)); }
    const uint32_t *bits() const { return reinterpret_cast<const uint32_t *>(values.data()); }
};

double magnitude(float value) { return std::isfinite(value) ? std::abs(value) : 0.0; }

// Sums side by side in 32 lanes, which are then folded.
double sum_of(const Case &c, size_t start, size_t end, int norm) {
    double lanes[32] = {};
    for (size_t i = start; i < end; ++i) {
        const double own = magnitude(c.values[i]);
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
    const size_t count = c.values.size(), pieces = (count + size - 1) / size;
    with_each_table([&](int) {
        std::vector<double> sums(pieces);
        std::vector<uint32_t> largest(pieces);
        REQUIRE(fewbits_norm_terms(c.bits(), count, size, norm, sums.data(), largest.data(),
                                   pieces) == FEWBITS_OK);
        REQUIRE(fewbits_norm_terms(c.bits(), count, UINT64_MAX - size, norm, sums.data(),
                                   largest.data(), count == 0 ? 1 : 0) == FEWBITS_BAD_SIZE);
        for (size_t piece = 0; piece < pieces; ++piece) {
            const size_t start = piece * size, end = std::min(start + size, count);
            double most = 0;
            for (size_t i = start; i < end; ++i) {
                most = std::max(most, magnitude(c.values[i]));
            }
            REQUIRE(std::bit_cast<float>(largest[piece]) == most);
            REQUIRE(norm == FEWBITS_NORM_MAX || sums[piece] == sum_of(c, start, end, norm));
        }
    });
}

// The level below, and the chance of the one above in units of 2^-31.
uint32_t code_of(const Case &c, size_t i) {
    const uint32_t s = c.how.levels;
    if (!std::isfinite(c.values[i])) {
        return 2 * s + 1;
    }
    const float scale = c.scales[c.block(i)];
    const float y = std::abs(c.values[i]) / (scale > 0 ? scale : 1.0f);
    double lower, chance;
    if (c.how.natural == 0) {
        const float place = y * static_cast<float>(s);
        lower = std::floor(place);
        chance = place - lower;
    } else if (const double lowest = std::ldexp(1.0, 1 - static_cast<int>(s)); y < lowest) {
        lower = 0;
        chance = y / lowest;
    } else {
        const int exponent = std::ilogb(y);
        lower = exponent + static_cast<int>(s);
        chance = std::ldexp(static_cast<double>(y), -exponent) - 1;
    }
    const bool up = c.words[i] >> 1 < static_cast<uint32_t>(chance * 0x1p31);
    const uint32_t level = static_cast<uint32_t>(lower) + up;
    return level != 0 && std::signbit(c.values[i]) ? level + s : level;
}

void check_codes(const Case &c) {
    const size_t count = c.values.size(), bytes = packed_size(count, c.width());
    uint64_t nonfinite = 0;
    for (const float value : c.values) {
        nonfinite += !std::isfinite(value);
    }
    with_each_table([&](int) {
        const Buffer packed(bytes, c.offset);
        fewbits_tally tally;
        size_t written = 0;
        REQUIRE(fewbits_dither(c.bits(), count, &c.how,
                               reinterpret_cast<const uint32_t *>(c.scales.data()), c.scales.size(),
                               packed.data(), bytes, &written, &tally) == FEWBITS_OK &&
                written == bytes);
        for (size_t i = 0; i < count; ++i) {
            REQUIRE(field(packed.bytes(), i, c.width()) == code_of(c, i));
        }
        REQUIRE(padding_is_zero(packed.bytes(), count, c.width()));
        REQUIRE(equal(tally, {0, nonfinite}));
    });
}

// Values of the input, repeated with other bits below: with any exponents, or near each other.
void fill(Case &c, ConstBytes rest, bool alike) {
    uint64_t mix = 1;
    for (size_t i = 0; i < c.values.size(); ++i) {
        uint32_t bits = 0;
        for (size_t j = 0; j < 4 && !rest.empty(); ++j) {
            bits = bits << 8 | rest[(4 * i + j) % rest.size()];
        }
        mix = mix * 6364136223846793005u + 1442695040888963407u;
        bits ^= i < rest.size() / 4 ? 0 : static_cast<uint32_t>(mix >> 33) & 0x807FFFFF;
        bits = alike ? (bits & 0x83FFFFFF) | 0x3C000000 : bits;
        c.values[i] = std::bit_cast<float>(bits);
    }
}

// Scales that are the largest magnitude of their block or above it.
void scale(Case &c, uint32_t above) {
    c.scales.assign((c.values.size() + c.how.block - 1) / c.how.block, 0.0f);
    for (size_t i = 0; i < c.values.size(); ++i) {
        float &own = c.scales[c.block(i)];
        own = std::max(own, static_cast<float>(magnitude(c.values[i])));
    }
    for (float &own : c.scales) {
        own = std::bit_cast<float>(std::min(std::bit_cast<uint32_t>(own) + above, 0x7F7FFFFFu));
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
    const uint64_t block = 8 * (1 + uint64_t{input.byte()});
    const uint64_t first = input.number(4);
    const auto key = static_cast<uint32_t>(input.number(2));
    Case c = {{levels,
               natural,
               block,
               (control & 4) != 0 ? (first << 32) - count / 2 : first,
               {key, 1, 2, 3},
               0,
               0},
              std::vector<float>(count),
              {},
              std::vector<uint32_t>(count),
              control};
    const auto above = static_cast<uint32_t>(input.number(3));
    REQUIRE(fewbits_words(c.how.key, c.how.first, c.words.data(), count) == FEWBITS_OK);
    fill(c, input.rest(), (control & 8) != 0);
    scale(c, (control & 16) != 0 ? above : 0);
    check_norms(c, 1 + wished % 100, 1 + control % 3);
    check_codes(c);
    return 0;
}
