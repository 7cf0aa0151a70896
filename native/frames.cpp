// Whole frames of single units: sections, header and checksum in one call. What a header may hold
// is for the caller and for frame.cpp to know; here its words are put in and compared.
#include <algorithm>
#include <cstring>
#include <span>

#include "coded.h"
#include "fewbits.h"
#include "kernels.h"

namespace fewbits {
namespace {

constexpr size_t kVersion = 4; // the places of these numbers in a header
constexpr size_t kFlags = 5;
constexpr size_t kDimensions = 7;
constexpr size_t kSections = 9;
constexpr size_t kFixed = 10;
constexpr size_t kCrc = 4;
constexpr size_t kMostSections = 3;
constexpr uint8_t kWidthMask = 0x03;
constexpr uint8_t kNonfinite = 0x04;
constexpr size_t kStages = 3 * FEWBITS_MAX_STAGES + 18 * FEWBITS_MAX_PARAMETERS; // bytes at most
constexpr size_t kLongest = kFixed + 8 * (FEWBITS_MAX_DIMENSIONS + kMostSections) + kStages;

size_t width_of(uint8_t flags) { return size_t{1} << (flags & kWidthMask); }

uint64_t word_at(const uint8_t *from, size_t width) {
    uint64_t value = 0;
    std::memcpy(&value, from, width);
    return value;
}

// The header of the largest frame, in parts.
class Template {
  public:
    explicit Template(const fewbits_recipe &recipe)
        : header_(recipe.header), size_(recipe.header_size), coded_(recipe.coded),
          width_(width_of(header_[kFlags])) {}

    static bool is_one(const fewbits_recipe &recipe) {
        if (recipe.header_size < kFixed || recipe.header[kDimensions] > FEWBITS_MAX_DIMENSIONS ||
            recipe.header[kSections] > kMostSections) {
            return false;
        }
        const uint64_t *const sizes = recipe.unit.sizes;
        if (std::any_of(sizes + recipe.header[kSections], sizes + kMostSections,
                        [](uint64_t size) { return size != 0; })) {
            return false;
        }
        const size_t least = Template(recipe).words() * width_of(recipe.header[kFlags]) + kFixed;
        return recipe.header_size >= least && recipe.header_size - least <= kStages;
    }

    size_t sections() const { return header_[kSections]; }
    // The header's size with words of this width.
    size_t size(size_t width) const { return size_ - words() * width_ + words() * width; }

    // The width of words for the shape and these lengths, as a power of two.
    int log_width(const uint64_t *lengths) const {
        uint64_t widest = 0;
        for (size_t i = 0; i < dimensions(); ++i) {
            widest = std::max(widest, extent(i));
        }
        for (size_t i = 0; i < sections(); ++i) {
            widest = std::max(widest, lengths[i]);
        }
        return widest >> 32 ? 3 : widest >> 16 ? 2 : widest >> 8 ? 1 : 0;
    }

    // The header of a frame with these sections, in size(1 << log) bytes.
    void write(const fewbits_unit &unit, int log, bool nonfinite, uint8_t *out) const {
        const size_t width = size_t{1} << log;
        std::memcpy(out, header_, kFixed);
        out[kVersion] = version(unit);
        out[kFlags] = static_cast<uint8_t>(log | (nonfinite ? kNonfinite : 0));
        out += kFixed;
        for (size_t i = 0; i < dimensions(); ++i, out += width) {
            const uint64_t own = extent(i);
            std::memcpy(out, &own, width);
        }
        const size_t stages = size_ - kFixed - words() * width_;
        std::memcpy(out, header_ + kFixed + dimensions() * width_, stages);
        out += stages;
        for (size_t i = 0; i < sections(); ++i, out += width) {
            std::memcpy(out, &unit.sizes[i], width);
        }
    }

  private:
    size_t dimensions() const { return header_[kDimensions]; }
    size_t words() const { return dimensions() + sections(); }
    uint64_t extent(size_t i) const { return word_at(header_ + kFixed + i * width_, width_); }

    // The oldest version that has what the sections say.
    uint8_t version(const fewbits_unit &unit) const {
        uint8_t needed = header_[kVersion];
        for (size_t i = 0; i < sections(); ++i) {
            if ((coded_ >> i & 1) != 0) {
                needed = std::max(needed, coded_version({unit.sections[i], unit.sizes[i]}));
            }
        }
        return needed;
    }

    const uint8_t *header_;
    size_t size_;
    uint64_t coded_;
    size_t width_;
};

fewbits_unit unit_of(const fewbits_message &message) {
    fewbits_unit unit = message.recipe->unit;
    unit.values = message.values;
    std::memcpy(unit.key, message.key, sizeof unit.key);
    return unit;
}

void place(fewbits_unit &unit, size_t sections, uint8_t *at) {
    for (size_t i = 0; i < sections; ++i) {
        unit.sections[i] = at;
        at += unit.sizes[i];
    }
}

int write(fewbits_message &message) {
    const fewbits_recipe &recipe = *message.recipe;
    if (!Template::is_one(recipe)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const Template header(recipe);
    fewbits_unit unit = unit_of(message);
    uint64_t room = recipe.header_size + kCrc;
    for (size_t i = 0; i < header.sections(); ++i) {
        if (unit.sizes[i] > message.size) {
            return FEWBITS_BAD_SIZE;
        }
        room += unit.sizes[i];
    }
    if (message.size < room) {
        return FEWBITS_BAD_SIZE;
    }
    place(unit, header.sections(), message.frame + recipe.header_size);
    size_t failed = 0;
    const int status = fewbits_encode(&unit, 1, &failed);
    if (status != FEWBITS_OK) {
        return status;
    }
    const int log = header.log_width(unit.sizes);
    const size_t start = header.size(size_t{1} << log);
    if (start > recipe.header_size) {
        return FEWBITS_BAD_ARGUMENT; // it is not the header of the largest frame
    }
    header.write(unit, log, unit.tally.nonfinite != 0, message.frame);
    uint8_t *at = message.frame + start;
    // Coded sections are shorter than their room: what follows moves forward.
    for (size_t i = 0; i < header.sections(); ++i) {
        if (at != unit.sections[i]) {
            std::memmove(at, unit.sections[i], unit.sizes[i]);
        }
        at += unit.sizes[i];
    }
    const size_t sealed = static_cast<size_t>(at - message.frame);
    const uint32_t crc = fewbits_crc32c(0, message.frame, sealed);
    std::memcpy(at, &crc, kCrc);
    message.size = sealed + kCrc;
    message.tally = unit.tally;
    return FEWBITS_OK;
}

// Whether the frame has the recipe's header and the unit's lengths; sets sections and lengths.
bool is_of(const fewbits_recipe &recipe, std::span<uint8_t> frame, fewbits_unit &unit) {
    const Template header(recipe);
    if (frame.size() < kFixed + kCrc) {
        return false;
    }
    const size_t width = width_of(frame[kFlags]);
    const size_t start = header.size(width);
    if (frame.size() - kCrc < start) {
        return false;
    }
    uint64_t room = frame.size() - kCrc - start;
    for (size_t i = 0; i < header.sections(); ++i) {
        const uint64_t length =
            word_at(frame.data() + start - (header.sections() - i) * width, width);
        if (length < recipe.least[i] || length > unit.sizes[i] || length > room) {
            return false;
        }
        unit.sizes[i] = length;
        room -= length;
    }
    const int log = header.log_width(unit.sizes);
    if (room != 0 || size_t{1} << log != width) {
        return false;
    }
    place(unit, header.sections(), frame.data() + start);
    uint8_t expected[kLongest];
    header.write(unit, log, false, expected);
    return std::memcmp(expected, frame.data(), start) == 0;
}

int read(fewbits_message &message) {
    if (!Template::is_one(*message.recipe)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const std::span<uint8_t> frame = {message.frame, message.size};
    fewbits_unit unit = unit_of(message);
    if (!is_of(*message.recipe, frame, unit)) {
        return FEWBITS_OTHER_FRAME;
    }
    const size_t sealed = frame.size() - kCrc;
    if (fewbits_crc32c(0, frame.data(), sealed) != word_at(frame.data() + sealed, kCrc)) {
        return FEWBITS_OTHER_FRAME;
    }
    size_t failed = 0;
    const int status = fewbits_decode(&unit, 1, &failed);
    message.tally = unit.tally;
    return status == FEWBITS_OK && unit.tally.nonfinite != 0 ? int{FEWBITS_OTHER_FRAME} : status;
}

int each(fewbits_message *messages, size_t count, size_t *failed, int (*work)(fewbits_message &)) {
    for (size_t i = 0; i < count; ++i) {
        const int status = work(messages[i]);
        if (status != FEWBITS_OK) {
            *failed = i;
            return status;
        }
    }
    return FEWBITS_OK;
}

} // namespace
} // namespace fewbits

extern "C" {

int fewbits_frames_write(fewbits_message *messages, size_t count, size_t *failed) {
    return fewbits::each(messages, count, failed, fewbits::write);
}

int fewbits_frames_read(fewbits_message *messages, size_t count, size_t *failed) {
    return fewbits::each(messages, count, failed, fewbits::read);
}
}
