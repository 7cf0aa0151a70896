// Whole frames in one call: what is written parses and comes back, room that is too small is left
// alone, and of any bytes exactly those are read that parser, checksum and decoder accept.
#include <vector>

#include "harness.h"

using namespace fuzz;

namespace {

constexpr size_t kCrc = 4;
constexpr size_t kDimensions = 7; // where the header says how many there are
constexpr size_t kKind = 3;       // where a coded section says how its one block is written
constexpr uint8_t kRevised = 8;   // the first kind of version 2

void append(std::vector<uint8_t> &out, uint64_t value, size_t width) {
    for (size_t i = 0; i < width; ++i) {
        out.push_back(static_cast<uint8_t>(value >> (8 * i)));
    }
}

// An operator with its largest header.
struct Case {
    fewbits_recipe recipe{};
    std::vector<uint8_t> header;
    size_t sections = 0, item = 0, room = 0;

    Case(uint8_t control, const std::vector<uint64_t> &shape) {
        fewbits_unit &unit = recipe.unit;
        unit.dtype = static_cast<uint8_t>(FEWBITS_FLOAT32 + (control & 3));
        const Format format = format_of(unit.dtype);
        item = format.item();
        unit.count = 1;
        for (const uint64_t extent : shape) {
            unit.count *= extent;
        }
        choose(control >> 2 & 3, format);
        header = {'f',        'e',
                  'w',        'b',
                  1,          0,
                  unit.dtype, static_cast<uint8_t>(shape.size()),
                  1,          static_cast<uint8_t>(sections)};
        uint64_t widest = *std::max_element(shape.begin(), shape.end());
        widest = std::max(widest, *std::max_element(unit.sizes, unit.sizes + 3));
        header[5] = widest >> 16 ? 2 : widest >> 8 ? 1 : 0;
        const size_t width = size_t{1} << header[5];
        for (const uint64_t extent : shape) {
            append(header, extent, width);
        }
        append(header, 4, 2); // a code, and no parameters
        append(header, 0, 1);
        for (size_t i = 0; i < sections; ++i) {
            append(header, unit.sizes[i], width);
        }
        recipe.header = header.data();
        recipe.header_size = header.size();
        room = header.size() + unit.sizes[0] + unit.sizes[1] + kCrc;
    }

    void choose(int operation, Format format) {
        fewbits_unit &unit = recipe.unit;
        unit.kind = operation == 3 ? FEWBITS_CAST : FEWBITS_NATURAL;
        sections = operation == 0 ? 2 : 1;
        if (operation == 3) {
            unit.option = FEWBITS_FLOAT16;
            unit.sizes[0] = recipe.least[0] = 2 * unit.count;
        } else if (operation == 0) {
            unit.sizes[0] = recipe.least[0] = packed_size(unit.count, format.exponent);
            unit.sizes[1] = recipe.least[1] = packed_size(unit.count, 1);
        } else {
            unit.option = FEWBITS_CODED;
            recipe.coded = 1;
            const auto bound = static_cast<uint32_t>(format.top() + 1);
            unit.sizes[0] = fewbits_coded_size(unit.count, bound, 1);
        }
    }
};

int run_one(int (*function)(fewbits_message *, size_t, size_t *), fewbits_message &message) {
    size_t failed = SIZE_MAX;
    const int status = function(&message, 1, &failed);
    REQUIRE(failed == (status == FEWBITS_OK ? SIZE_MAX : 0));
    return status;
}

// The only version that a frame with this section may have.
uint8_t needed_version(const Case &c, ConstBytes section) {
    return c.recipe.coded != 0 && section.size() > kKind && section[kKind] >= kRevised ? 2 : 1;
}

// What the functions for single steps make of a frame; its values are in `out` if it is accepted.
bool accepted(const Case &c, const Buffer &frame, const Buffer &out) {
    fewbits_frame parsed;
    uint64_t detail[2];
    const size_t size = frame.size();
    if (fewbits_frame_parse(frame.data(), size, c.recipe.unit.count, &parsed, detail) !=
        FEWBITS_OK) {
        return false;
    }
    fewbits_unit unit = c.recipe.unit;
    bool same = parsed.sections == c.sections && parsed.dtype == unit.dtype && !parsed.nonfinite &&
                parsed.dimensions == c.header[kDimensions] && parsed.stages == 1 &&
                parsed.codes[0] == 4 && parsed.parameters == 0 &&
                fewbits_crc32c(0, frame.data(), size - kCrc) == parsed.crc;
    const size_t width = size_t{1} << c.header[5];
    for (size_t i = 0; i < parsed.dimensions && same; ++i) {
        same = element(c.header.data() + 10, i, width) == parsed.shape[i];
    }
    for (size_t i = 0; i < c.sections && same; ++i) {
        same = parsed.lengths[i] >= c.recipe.least[i] && parsed.lengths[i] <= unit.sizes[i];
        unit.sections[i] = frame.data() + parsed.offsets[i];
        unit.sizes[i] = parsed.lengths[i];
    }
    same = same && parsed.version == needed_version(c, {unit.sections[0], unit.sizes[0]});
    unit.values = out.data();
    return same && run(fewbits_decode, unit) == FEWBITS_OK && unit.tally.nonfinite == 0;
}

void check_reading(const Case &c, const Buffer &frame) {
    const Buffer expected(c.recipe.unit.count * c.item, 1);
    const Buffer found(c.recipe.unit.count * c.item, 3);
    const bool sound = accepted(c, frame, expected);
    const std::vector<uint8_t> before(frame.bytes().begin(), frame.bytes().end());
    fewbits_message message{&c.recipe, found.data(), {}, frame.data(), frame.size(), {}};
    REQUIRE((run_one(fewbits_frames_read, message) == FEWBITS_OK) == sound);
    REQUIRE(!sound || found == expected);
    REQUIRE(std::ranges::equal(before, frame.bytes()));
}

std::vector<uint8_t> written(const Case &c, const Buffer &values, const uint32_t key[4]) {
    const Buffer room(c.room, 5);
    fewbits_message message{&c.recipe, values.data(), {}, room.data(), c.room, {}};
    std::copy_n(key, 4, message.key);
    REQUIRE(run_one(fewbits_frames_write, message) == FEWBITS_OK && message.size <= c.room);
    REQUIRE((room.data()[5] >> 2 & 1) == (message.tally.nonfinite != 0));
    const Buffer small(c.room - 1, 5);
    fewbits_message other = message;
    other.frame = small.data();
    other.size = small.size();
    REQUIRE(run_one(fewbits_frames_write, other) == FEWBITS_BAD_SIZE);
    const Buffer frame(room.bytes().first(message.size), 2);
    const Buffer decoded(c.recipe.unit.count * c.item, 0);
    REQUIRE(accepted(c, frame, decoded) == (message.tally.nonfinite == 0));
    check_reading(c, frame);
    return {frame.bytes().begin(), frame.bytes().end()};
}

void seal(std::vector<uint8_t> &frame) {
    if (frame.size() >= kCrc) {
        const uint32_t crc = fewbits_crc32c(0, frame.data(), frame.size() - kCrc);
        std::memcpy(frame.data() + frame.size() - kCrc, &crc, kCrc);
    }
}

// A header that contradicts the unit must not lead outside the room.
void check_wrong_recipe(Case c, const Buffer &values, uint8_t at, uint8_t value) {
    c.header[at % c.header.size()] = value;
    const Buffer room(c.room, 4);
    fewbits_message message{&c.recipe, values.data(), {}, room.data(), c.room, {}};
    c.recipe.header = c.header.data();
    run_one(fewbits_frames_write, message);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const uint8_t control = input.byte();
    std::vector<uint64_t> shape = {1 + input.number(2) % 400};
    if ((control & 16) != 0) {
        shape.push_back(1 + input.byte() % 3);
    }
    const Case c(control, shape);
    uint32_t key[4];
    for (uint32_t &word : key) {
        word = static_cast<uint32_t>(input.number(4));
    }
    const uint8_t at = input.byte(), value = input.byte();
    const uint64_t edits = input.number(8);
    const Buffer values(c.recipe.unit.count * c.item, 6);
    for (size_t i = 0; i < values.size(); ++i) {
        const ConstBytes rest = input.rest();
        values.data()[i] = rest.empty() ? static_cast<uint8_t>(i % 61)
                                        : static_cast<uint8_t>(rest[i % rest.size()]);
    }
    std::vector<uint8_t> frame = written(c, values, key);
    // Some changed bytes near the front or the end, a cut or a byte more, sealed again or not.
    for (size_t i = 0; i < 2; ++i) {
        const auto place = static_cast<size_t>(edits >> (16 * i) & 255);
        const auto change = static_cast<uint8_t>(edits >> (16 * i + 8));
        const size_t from =
            (control & 32) != 0 ? frame.size() - 1 - place % frame.size() : place % frame.size();
        frame[from] = static_cast<uint8_t>(frame[from] ^ change);
    }
    frame.resize(frame.size() + (edits >> 40 & 3) -
                 std::min<size_t>(frame.size(), edits >> 44 & 1));
    if ((control & 64) != 0) {
        seal(frame);
    }
    check_reading(c, Buffer(frame, 7));
    check_wrong_recipe(c, values, at, value);
    return 0;
}
