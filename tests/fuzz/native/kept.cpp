// Units of which the largest values travel: any bytes give what their places and their values give
// alone, or an error; what is encoded leaves what is lost, and both tables have the same bits.
#include <vector>

#include "harness.h"

using namespace fuzz;

namespace {

struct Case {
    int dtype;
    size_t item, count, kept;
    Buffer places, exponents, signs;

    fewbits_unit unit(const Buffer &values) const {
        fewbits_unit unit{};
        unit.kind = FEWBITS_NATURAL;
        unit.dtype = static_cast<uint8_t>(dtype);
        unit.values = values.data();
        unit.count = count;
        unit.kept = kept;
        size_t at = 0;
        for (const Buffer *section : {&places, &exponents, &signs}) {
            unit.sections[at] = section->data();
            unit.sizes[at++] = section->size();
        }
        return unit;
    }
};

void check_decoding(const Case &c) {
    std::vector<uint32_t> places(c.kept);
    int status =
        fewbits_places_decode(c.places.data(), c.places.size(), c.count, places.data(), c.kept);
    const Buffer alone(c.kept * c.item, 0);
    fewbits_unit inner = c.unit(alone);
    inner.count = c.kept;
    inner.kept = 0;
    std::copy_n(inner.sections + 1, 2, inner.sections);
    std::copy_n(inner.sizes + 1, 2, inner.sizes);
    inner.sizes[2] = 0;
    const int values = run(fewbits_decode, inner);
    status = status == FEWBITS_OK ? values : status;
    with_each_table([&](int) {
        const Buffer all(c.count * c.item, 1);
        fewbits_unit unit = c.unit(all);
        REQUIRE(run(fewbits_decode, unit) == status);
        if (status != FEWBITS_OK) {
            return;
        }
        Buffer wanted(c.count * c.item, 0);
        std::memset(wanted.data(), 0, wanted.size());
        for (size_t i = 0; i < c.kept; ++i) {
            std::memcpy(wanted.data() + places[i] * c.item, alone.data() + i * c.item, c.item);
        }
        REQUIRE(all == wanted);
        REQUIRE(unit.tally.nonfinite == inner.tally.nonfinite);
    });
}

void check_encoding(const Case &c, ConstBytes rest) {
    Buffer values(c.count * c.item, 0);
    for (size_t i = 0; i < values.size() && !rest.empty(); ++i) {
        values.data()[i] = rest[i * 7 % rest.size()];
    }
    const bool remains = c.item >= 4;
    std::vector<Buffer> left;
    std::vector<std::vector<uint8_t>> bytes;
    with_each_table([&](int) {
        left.emplace_back(values.bytes(), 2);
        fewbits_unit unit = c.unit(left.back());
        unit.remains = remains;
        REQUIRE(run(fewbits_encode, unit) == FEWBITS_OK);
        bytes.emplace_back();
        for (const Buffer *section : {&c.places, &c.exponents, &c.signs}) {
            bytes.back().insert(bytes.back().end(), section->bytes().begin(),
                                section->bytes().end());
        }
    });
    REQUIRE(left[0] == left[1] && bytes[0] == bytes[1]);
    const Buffer decoded(values.size(), 0);
    fewbits_unit unit = c.unit(decoded);
    REQUIRE(run(fewbits_decode, unit) == FEWBITS_OK);
    for (size_t i = 0; i < c.count && c.dtype == FEWBITS_FLOAT32; ++i) {
        float value, sent, lost;
        std::memcpy(&value, values.data() + 4 * i, 4);
        std::memcpy(&sent, decoded.data() + 4 * i, 4);
        std::memcpy(&lost, left[0].data() + 4 * i, 4);
        REQUIRE(lost == value - sent || (lost != lost && value - sent != value - sent));
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const uint8_t control = input.byte();
    const int dtype = FEWBITS_FLOAT32 + (control & 3);
    const size_t kept = 1 + input.byte() % 40;
    const size_t count = 2 * kept + input.number(2) % 400;
    const Format format = format_of(dtype);
    const Case c = {dtype,
                    format.item(),
                    count,
                    kept,
                    Buffer(static_cast<size_t>(fewbits_places_size(count, kept)), control >> 4),
                    Buffer(packed_size(kept, format.exponent), control >> 5),
                    Buffer(packed_size(kept, 1), control >> 6)};
    const ConstBytes rest = input.rest();
    if ((control & 4) != 0) { // places that some encoder writes
        std::vector<uint32_t> places(kept);
        for (size_t i = 0; i < kept; ++i) {
            places[i] = static_cast<uint32_t>(i * (count / kept));
        }
        REQUIRE(fewbits_places_encode(places.data(), kept, count, c.places.data(),
                                      c.places.size()) == FEWBITS_OK);
    }
    size_t at = 0;
    for (const Buffer *section : {&c.exponents, &c.signs, &c.places}) {
        for (size_t i = 0; i < section->size() && (section != &c.places || (control & 4) == 0);
             ++i) {
            section->data()[i] = at < rest.size() ? rest[at++] : uint8_t{0};
        }
    }
    check_decoding(c);
    check_encoding(c, rest);
    return 0;
}
