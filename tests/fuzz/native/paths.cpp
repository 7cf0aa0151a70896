// Rows of a trellis: both tables write the same bytes, which they read again; any bytes, and
// written ones with damage, give the same status, values and sums from both.
#include "harness.h"

using namespace fuzz;

namespace {

constexpr uint32_t kBound = 300; // enough for 5,200 values and the steps of unit()
constexpr uint32_t kLargestBound = 65536;

struct Sections {
    std::vector<uint8_t> scales, codes, key;
    bool operator==(const Sections &) const = default;
};

struct Case {
    int dtype, states; // states: 1 to 3 for 4, 8 and 16
    bool dithered, fitted;
    size_t count;
    unsigned offset;
    bool rated, coarse; // a rate is given, or a step that may have to be found again
    bool fine;          // levels are so large that halves may be written

    uint32_t bound() const { return rated || fine ? kLargestBound : kBound; }

    Format format() const { return format_of(dtype); }
    size_t total() const { return dtype == FEWBITS_FLOAT64 ? 8 : 4; }
    size_t scales() const { return count > 0 ? total() : 0; }
    size_t key() const { return dithered ? 16 : 0; }

    fewbits_unit unit(void *values, const Buffer (&sections)[3]) const {
        fewbits_unit unit{};
        unit.kind = FEWBITS_TRELLIS;
        unit.dtype = static_cast<uint8_t>(dtype);
        unit.option = static_cast<uint8_t>(dithered + 2 * fitted + 4 * states);
        unit.levels = static_cast<uint16_t>(bound() - 1);
        unit.factors[0] = coarse ? 3 : fine ? 1e-5 : 0.1;
        if (rated) { // from 2^-20 to 2^1
            unit.factors[0] = 1.5;
            unit.block = (32768 - 64 * 20) | uint64_t{32768 + 64} << 16;
        }
        unit.factors[1] = 0.96;
        unit.values = values;
        unit.count = count;
        unit.key[2] = 5;
        for (size_t i = 0; i < 3; ++i) {
            unit.sections[i] = sections[i].data();
            unit.sizes[i] = sections[i].size();
        }
        return unit;
    }
};

struct Read {
    int status;
    std::vector<uint8_t> values, sums;
    uint64_t nonfinite;
    bool operator==(const Read &) const = default;
};

std::vector<uint8_t> bytes_of(const Buffer &buffer, size_t size) {
    return {buffer.data(), buffer.data() + size};
}

Read read(const Case &c, const Sections &from) {
    const Buffer sections[] = {{from.scales, c.offset}, {from.codes, c.offset + 1}, {from.key, 3u}};
    const Buffer values(c.count * c.format().item(), c.offset), totals(c.count * c.total(), 0);
    fewbits_unit unit = c.unit(values.data(), sections);
    const int status = run(fewbits_decode, unit);
    std::fill_n(totals.data(), totals.size(), uint8_t{0x3F});
    fewbits_unit adding = c.unit(totals.data(), sections);
    REQUIRE(run(fewbits_accumulate, adding) == status);
    if (status != FEWBITS_OK) { // whatever was written by then
        return {status, {}, {}, 0};
    }
    REQUIRE(equal(unit.tally, adding.tally));
    return {status, bytes_of(values, values.size()), bytes_of(totals, totals.size()),
            unit.tally.nonfinite};
}

int check_read(const Case &c, const Sections &from) {
    Read results[2];
    with_each_table([&](int table) { results[table] = read(c, from); });
    REQUIRE(results[0] == results[1]);
    return results[0].status;
}

Sections check_written(const Case &c, ConstBytes values) {
    Sections written[2];
    with_each_table([&](int table) {
        const Buffer from(values, c.offset);
        const Buffer sections[] = {{c.scales(), c.offset},
                                   {fewbits_coded_size(c.count, c.bound(), 1), c.offset},
                                   {c.key(), 1u}};
        fewbits_unit unit = c.unit(from.data(), sections);
        REQUIRE(run(fewbits_encode, unit) == FEWBITS_OK);
        written[table] = {bytes_of(sections[0], sections[0].size()),
                          bytes_of(sections[1], unit.sizes[1]),
                          bytes_of(sections[2], sections[2].size())};
    });
    REQUIRE(written[0] == written[1]);
    REQUIRE(check_read(c, written[0]) == FEWBITS_OK);
    return written[0];
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const uint8_t control = input.byte(), shape = input.byte(), damage = input.byte();
    Case c = {1 + (shape & 3),
              1 + (shape >> 2) % 3,
              (control & 1) != 0,
              (control & 3) == 2,
              input.number(2) % ((control & 8) != 0 ? 1200u : 140u), // up to eight lanes
              static_cast<unsigned>(control >> 4 & 7),
              (shape & 128) != 0,
              false,
              false};
    c.coarse = c.fitted && (shape & 64) != 0;
    c.fine = !c.fitted && !c.rated && (shape & 64) != 0;
    if ((shape & 0x30) == 0x30 && (control & 8) != 0) { // all lanes, and tables without a choice
        c.count += 4000;
    }
    if ((control & 128) != 0) {
        const Sections any = {std::vector<uint8_t>(c.scales(), damage < 128 ? 0x3C : damage),
                              section_from(input.rest(), (damage & 1) != 0),
                              std::vector<uint8_t>(c.key(), damage)};
        check_read(c, any);
        return 0;
    }
    const size_t place = input.number(2);
    Sections own = check_written(c, values_from(input.rest(), c.count, c.format()));
    if (damage != 0 && !own.codes.empty()) {
        own.codes[place % own.codes.size()] ^= damage;
        check_read(c, own);
    }
    return 0;
}
