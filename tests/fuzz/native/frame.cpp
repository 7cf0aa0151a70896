// Parsing of a frame's structure: nothing outside the bytes is read, what is accepted lies inside
// them, and writing it again gives the same bytes.
#include <vector>

#include "harness.h"

using namespace fuzz;

namespace {

constexpr size_t kCrc = 4;
constexpr uint8_t kNewestVersion = 4;

// The parser leaves the checksum to its caller, so its last byte is free to choose these two: a
// golden frame is a seed as it is.
uint64_t limit_from(uint8_t choice) {
    constexpr uint64_t limits[] = {uint64_t{1} << 28, 0, 1, 1000, uint64_t{1} << 62, UINT64_MAX};
    return limits[(choice >> 3) % 6];
}

class Writer {
  public:
    void number(uint64_t value, size_t width) {
        for (size_t i = 0; i < width; ++i) {
            bytes.push_back(static_cast<uint8_t>(value >> (8 * i)));
        }
    }
    std::vector<uint8_t> bytes;
};

size_t width_of(const fewbits_frame &frame) {
    uint64_t widest = 0;
    for (size_t i = 0; i < frame.dimensions; ++i) {
        widest = std::max(widest, frame.shape[i]);
    }
    for (size_t i = 0; i < frame.sections; ++i) {
        widest = std::max(widest, frame.lengths[i]);
    }
    return widest >> 32 ? 8 : widest >> 16 ? 4 : widest >> 8 ? 2 : 1;
}

void write_stage(Writer &out, const fewbits_frame &frame, size_t stage) {
    constexpr size_t sizes[] = {0, 1, 8, 8, 16};
    const std::span entries(frame.parameter, frame.parameters);
    const auto own = [&](const fewbits_parameter &entry) { return entry.stage == stage; };
    out.number(frame.codes[stage], 2);
    out.number(static_cast<uint64_t>(std::ranges::count_if(entries, own)), 1);
    for (const fewbits_parameter &entry : entries) {
        if (own(entry)) {
            out.number(entry.number, 1);
            out.number(entry.type, 1);
            out.bytes.insert(out.bytes.end(), entry.value, entry.value + sizes[entry.type]);
        }
    }
}

std::vector<uint8_t> header_bytes(const fewbits_frame &frame) {
    const size_t width = width_of(frame);
    const uint64_t log = width == 8 ? 3 : width / 2;
    Writer out;
    out.bytes = {'f', 'e', 'w', 'b'};
    for (const uint64_t value :
         {uint64_t{frame.version}, log | (frame.nonfinite ? 4u : 0u), uint64_t{frame.dtype},
          uint64_t{frame.dimensions}, uint64_t{frame.stages}, uint64_t{frame.sections}}) {
        out.number(value, 1);
    }
    for (size_t i = 0; i < frame.dimensions; ++i) {
        out.number(frame.shape[i], width);
    }
    for (size_t stage = 0; stage < frame.stages; ++stage) {
        write_stage(out, frame, stage);
    }
    for (size_t i = 0; i < frame.sections; ++i) {
        out.number(frame.lengths[i], width);
    }
    return out.bytes;
}

void check_elements(const fewbits_frame &frame, uint64_t limit) {
    uint64_t volume = 1; // of the extents that are not 0
    bool empty = false;
    for (size_t i = 0; i < frame.dimensions; ++i) {
        empty = empty || frame.shape[i] == 0;
        REQUIRE(!__builtin_mul_overflow(volume, std::max<uint64_t>(frame.shape[i], 1), &volume));
    }
    REQUIRE(volume <= limit);
    REQUIRE(frame.elements == (empty ? 0 : volume));
}

void check_accepted(const fewbits_frame &frame, ConstBytes bytes, uint64_t limit) {
    REQUIRE(frame.version >= 1 && frame.version <= kNewestVersion && frame.nonfinite <= 1);
    REQUIRE(frame.dtype >= 1 && frame.dtype <= 4);
    REQUIRE(frame.dimensions <= FEWBITS_MAX_DIMENSIONS && frame.sections <= FEWBITS_MAX_SECTIONS);
    REQUIRE(frame.stages >= 1 && frame.stages <= FEWBITS_MAX_STAGES);
    REQUIRE(frame.parameters <= FEWBITS_MAX_PARAMETERS);
    check_elements(frame, limit);
    const std::vector<uint8_t> header = header_bytes(frame);
    REQUIRE(header.size() + kCrc <= bytes.size());
    REQUIRE(std::ranges::equal(header, bytes.first(header.size())));
    uint64_t end = header.size();
    for (size_t i = 0; i < frame.sections; ++i) {
        REQUIRE(frame.offsets[i] == end);
        REQUIRE(frame.lengths[i] <= bytes.size() - kCrc - end);
        end += frame.lengths[i];
    }
    REQUIRE(end + kCrc == bytes.size());
    REQUIRE(std::memcmp(&frame.crc, bytes.data() + end, kCrc) == 0);
}

// An accepted frame with a byte more or a byte less is refused, and so is every cut of its header.
void check_lengths(const fewbits_frame &frame, ConstBytes bytes, unsigned offset) {
    std::vector<uint8_t> longer(bytes.begin(), bytes.end());
    longer.push_back(0);
    fewbits_frame other;
    uint64_t detail[2];
    const Buffer more(longer, offset);
    REQUIRE(fewbits_frame_parse(more.data(), more.size(), UINT64_MAX, &other, detail) ==
            FEWBITS_FRAME_LENGTH);
    const size_t header = header_bytes(frame).size();
    for (size_t size = 0; size < bytes.size(); size += size < header + kCrc ? 1 : 37) {
        const Buffer cut(bytes.first(size), offset);
        const int status = fewbits_frame_parse(cut.data(), size, UINT64_MAX, &other, detail);
        REQUIRE(status == (size < header + kCrc ? FEWBITS_FRAME_SHORT : FEWBITS_FRAME_LENGTH));
        REQUIRE(detail[0] > size && detail[1] == size);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t choice = size == 0 ? 0 : data[size - 1];
    const Buffer bytes({data, size}, choice & 7);
    const uint64_t limit = limit_from(choice);
    fewbits_frame frame;
    uint64_t detail[2];
    std::memset(&frame, 0xA5, sizeof frame); // whatever was there before must not matter
    const int status = fewbits_frame_parse(bytes.data(), size, limit, &frame, detail);
    if (status == FEWBITS_OK) {
        check_accepted(frame, bytes.bytes(), limit);
        check_lengths(frame, bytes.bytes(), choice & 7);
    } else {
        REQUIRE(status >= FEWBITS_FRAME_SHORT && status <= FEWBITS_FRAME_LENGTH);
        REQUIRE(status != FEWBITS_FRAME_SHORT || (detail[0] > detail[1] && detail[1] == size));
        REQUIRE(status != FEWBITS_FRAME_ELEMENTS ||
                ((detail[0] > limit || detail[0] == UINT64_MAX) && detail[1] == limit));
        REQUIRE(status != FEWBITS_FRAME_LENGTH || (detail[0] != size && detail[1] == size));
    }
    return 0;
}
