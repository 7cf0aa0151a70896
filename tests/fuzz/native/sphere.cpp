// The search for directions: both tables find the first one in each block's cap by the definition,
// direction by direction.
#include <array>
#include <cmath>
#include <vector>

#include "harness.h"

using namespace fuzz;

namespace {

constexpr double kLength = 32000; // of the rounded blocks

// Odd numbers about as large as the normal ones: sums of four bytes.
const std::array<int16_t, 65536> &table() {
    static const auto made = [] {
        std::array<int16_t, 65536> numbers;
        for (uint32_t i = 0; i < numbers.size(); ++i) {
            const uint32_t x = i * 0x9E3779B1u;
            const auto sum =
                static_cast<int>((x & 255) + (x >> 8 & 255) + (x >> 16 & 255) + (x >> 24));
            numbers[i] = static_cast<int16_t>((sum - 510) | 1);
        }
        return numbers;
    }();
    return made;
}

struct Case {
    fewbits_sphere task;
    std::vector<double> values, need;
    std::vector<int16_t> rounded;
};

double product(const Case &c, size_t block, const std::vector<int16_t> &direction) {
    double sum = 0;
    for (size_t i = 0; i < c.task.size; ++i) {
        sum += c.values[block * c.task.size + i] * direction[i];
    }
    return sum;
}

std::vector<int16_t> direction_of(const Case &c, uint64_t t) {
    const size_t pairs = (c.task.size + 1) / 2;
    uint32_t words[512];
    REQUIRE(fewbits_words(c.task.key, uint64_t{c.task.group} << 32 | t * pairs, words, pairs) ==
            FEWBITS_OK);
    std::vector<int16_t> direction(c.task.size);
    for (size_t i = 0; i < direction.size(); ++i) {
        const uint32_t word = words[i / 2];
        direction[i] = table()[i % 2 == 0 ? word & 0xFFFF : word >> 16];
    }
    return direction;
}

std::vector<int32_t> defined(const Case &c) {
    std::vector<int32_t> found(c.need.size(), -1);
    for (uint32_t t = 0; t < c.task.limit; ++t) {
        const std::vector<int16_t> direction = direction_of(c, t);
        int64_t square = 0;
        for (const int64_t own : direction) {
            square += own * own;
        }
        const double length = std::sqrt(static_cast<double>(square));
        for (size_t block = 0; block < found.size(); ++block) {
            if (found[block] < 0 && std::isfinite(c.need[block]) &&
                product(c, block, direction) >= c.need[block] * length) {
                found[block] = static_cast<int32_t>(t);
            }
        }
    }
    return found;
}

// A block with a cap, and its integers as src/fewbits/reference/spherical.py makes them.
void add_block(Case &c, Input &input, double least) {
    const uint8_t kind = input.byte();
    double norm = 0;
    std::vector<double> block(c.task.size);
    for (double &value : block) {
        value = static_cast<double>(static_cast<int16_t>(input.number(1 + kind % 2))) * 0x1p-15;
        norm += value * value;
    }
    norm = std::sqrt(norm);
    const double cosine = least * (1 + (kind >> 4) * 0.02);
    const bool none = norm == 0 || (kind & 12) == 12;
    const double need = none ? INFINITY : norm * std::max(cosine, 1e-3);
    c.need.push_back(need);
    const double factor = none ? 0 : kLength * least / need;
    for (const double value : block) {
        c.values.push_back(value);
        c.rounded.push_back(static_cast<int16_t>(std::nearbyint(value * factor)));
    }
    if (c.task.size % 2 != 0) {
        c.rounded.push_back(0);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const uint8_t control = input.byte();
    const uint32_t wished = input.byte();
    Case c{};
    c.task.size = control >= 0xFC ? 1 + wished * 4 : 1 + wished % 26;
    c.task.limit = 8u << (control & 3) << (control == 0x5F ? 3 : 0); // several tiles, rarely
    c.task.key[0] = static_cast<uint32_t>(input.number(2));
    c.task.group = (control & 4) != 0 ? UINT32_MAX : static_cast<uint32_t>(input.number(1));
    const double least = 0.05 + 0.1 * (control >> 4 & 7); // below every cosine
    c.task.slope = kLength * least - std::sqrt(c.task.size) / 2 - 1;
    for (size_t blocks = wished % 4; blocks > 0; --blocks) {
        add_block(c, input, least);
    }
    const std::vector<int32_t> wanted = defined(c);
    with_each_table([&](int) {
        std::vector<int32_t> found(c.need.size());
        REQUIRE(fewbits_first_in_cap(table().data(), &c.task, c.values.data(), c.rounded.data(),
                                     c.need.data(), found.data(), found.size()) == FEWBITS_OK);
        REQUIRE(found == wanted);
    });
    return 0;
}
