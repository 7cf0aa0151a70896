// The search for directions: both tables find the first one in each block's cap by the definition,
// direction by direction. Sections, damaged or not: both tables read the same, or refuse the same;
// parts of a vector are those of the whole.
#include <array>
#include <cmath>
#include <vector>

#include "fewbits_stages.h"
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

// ---- sections ----

fewbits_spherical numbers_of(Input &input) {
    const uint8_t control = input.byte();
    fewbits_spherical how{};
    how.key[0] = static_cast<uint32_t>(input.number(2));
    how.block = 1 + input.byte() % 40u;
    how.parameter = control % 7;
    how.limit = 8u << how.parameter;
    how.dtype = FEWBITS_FLOAT32 + (control >> 3 & 3);
    how.radius_bits = 1 + (control >> 5 & 3);
    how.least_exponent = how.dtype == FEWBITS_FLOAT64   ? -1074
                         : how.dtype == FEWBITS_FLOAT16 ? -24
                                                        : -149;
    how.nan_code = (control & 128) != 0 ? 2249 : 200;
    how.steps = 31;
    how.rho = how.last_rho = 0.75;
    return how;
}

Buffer coded(const std::vector<uint16_t> &codes, uint32_t bound) {
    std::vector<uint8_t> room(fewbits_coded_size(codes.size(), bound, 0));
    size_t written = 0;
    REQUIRE(fewbits_coded_encode(codes.data(), nullptr, codes.size(), bound, room.data(),
                                 room.size(), &written) == FEWBITS_OK);
    room.resize(written);
    return Buffer(room, 1);
}

// What an encoder could have written, and then a few bytes changed or cut.
std::vector<Buffer> sections_of(const fewbits_spherical &how, size_t count, Input &input) {
    const size_t blocks = (count + how.block - 1) / how.block;
    std::vector<uint16_t> radii(blocks), escapes(count);
    std::vector<int32_t> indices(blocks, -1);
    uint64_t live = 0;
    for (size_t block = 0; block < blocks; ++block) {
        const uint64_t choice = input.number(2);
        radii[block] = static_cast<uint16_t>(choice % (how.nan_code + 1));
        if (radii[block] == 0 || radii[block] == how.nan_code) {
            continue;
        }
        ++live;
        const bool escaped = choice >> 14 == 3;
        indices[block] = static_cast<int32_t>(escaped ? how.limit : choice * 7 % how.limit);
        for (size_t i = block * how.block; escaped && i < std::min(count, (block + 1) * how.block);
             ++i) {
            escapes[i] = static_cast<uint16_t>(1 + (choice + i) % (how.steps + 1));
        }
    }
    std::vector<uint8_t> rice(blocks * 8 + 8);
    uint64_t at[2] = {0, live * static_cast<uint64_t>(how.parameter)};
    REQUIRE(fewbits_rice_append(indices.data(), blocks, how.parameter, rice.data(), rice.size(),
                                at) == FEWBITS_OK);
    rice.resize((at[1] + 7) / 8);
    std::vector<Buffer> sections;
    sections.push_back(coded(radii, how.nan_code + 1));
    sections.emplace_back(rice, 2);
    sections.push_back(coded(escapes, how.steps + 2));
    while (!input.rest().empty()) {
        const Buffer &own = sections[input.byte() % 3];
        const uint64_t where = input.number(1);
        if (own.size() > 0) {
            own.data()[where % own.size()] ^= input.byte();
        }
    }
    return sections;
}

struct Decoded {
    int status;
    Buffer out;
    uint64_t counts[2];
};

Decoded decode(const fewbits_spherical &how, const std::vector<Buffer> &sections, size_t count,
               uint64_t begin, uint64_t end) {
    Decoded result = {0, Buffer(count * format_of(how.dtype).item(), 3), {}};
    std::memset(result.out.data(), 0xA5, result.out.size());
    fewbits_sections given{};
    for (size_t i = 0; i < 3; ++i) {
        given.data[i] = sections[i].data();
        given.sizes[i] = sections[i].size();
    }
    result.status = fewbits_spherical_decode(table().data(), &how, &given, count, begin, end,
                                             result.out.data(), result.counts);
    REQUIRE(result.status != FEWBITS_BAD_ARGUMENT);
    return result;
}

void check_sections(Input &input) {
    const fewbits_spherical how = numbers_of(input);
    const size_t count = input.number(2) % 300;
    const size_t item = format_of(how.dtype).item();
    const uint64_t blocks = (count + how.block - 1) / how.block;
    const uint64_t cut = blocks == 0 ? 0 : input.byte() % blocks;
    const std::vector<Buffer> sections = sections_of(how, count, input);
    std::vector<Decoded> found;
    with_each_table([&](int) {
        found.push_back(decode(how, sections, count, 0, blocks));
        const Decoded &whole = found.back();
        const Decoded first = decode(how, sections, count, 0, cut);
        const Decoded last = decode(how, sections, count, cut, blocks);
        REQUIRE((whole.status == FEWBITS_OK) ==
                (first.status == FEWBITS_OK && last.status == FEWBITS_OK));
        if (whole.status == FEWBITS_OK) {
            const size_t at = std::min<size_t>(count, cut * how.block) * item;
            REQUIRE(std::memcmp(whole.out.data(), first.out.data(), at) == 0);
            REQUIRE(std::memcmp(whole.out.data() + at, last.out.data() + at,
                                whole.out.size() - at) == 0);
            REQUIRE(whole.counts[0] == first.counts[0] + last.counts[0]);
            REQUIRE(whole.counts[1] == first.counts[1] + last.counts[1]);
        }
    });
    REQUIRE(found[0].status == found[1].status);
    REQUIRE(found[0].status != FEWBITS_OK || found[0].out == found[1].out);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const uint8_t control = input.byte();
    if ((control & 8) != 0) {
        check_sections(input);
        return 0;
    }
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
