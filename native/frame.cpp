// Reads the structure of a frame (docs/format.md). Every read goes through Reader, which cannot
// leave the buffer.
#include <algorithm>
#include <bit>
#include <cstring>

#include "fewbits.h"
#include "kernels.h"

namespace fewbits {
namespace {

constexpr uint8_t kMagic[4] = {'f', 'e', 'w', 'b'};
constexpr uint8_t kVersion = 1;
constexpr uint8_t kNewestVersion = 4;
constexpr uint8_t kWidthMask = 0x03;
constexpr uint8_t kNonfinite = 0x04;
constexpr size_t kFixed = 10;
constexpr size_t kCrc = 4;

struct Failure {
    int status;
    uint64_t first = 0;
    uint64_t second = 0;
};

class Reader {
  public:
    explicit Reader(ConstBytes data) : data_(data) {}

    size_t at() const { return at_; }
    bool has(size_t count) const { return data_.size() - at_ >= count; }

    // Callers have asked has(width).
    uint64_t number(size_t width) {
        uint64_t value = 0;
        std::memcpy(&value, data_.data() + at_, width);
        at_ += width;
        return value;
    }

  private:
    ConstBytes data_;
    size_t at_ = 0;
};

size_t parameter_size(uint8_t type) {
    switch (type) {
    case FEWBITS_PARAMETER_CHOICE:
        return 1;
    case FEWBITS_PARAMETER_INTEGER:
    case FEWBITS_PARAMETER_FLOAT:
        return 8;
    case FEWBITS_PARAMETER_KEY:
        return 16;
    default:
        return 0;
    }
}

bool is_canonical_float(uint64_t bits) {
    return (bits & ~Float64::sign) < Float64::infinity && bits != Float64::sign;
}

class Parser {
  public:
    Parser(ConstBytes data, uint64_t max_elements, fewbits_frame &frame)
        : reader_(data), size_(data.size()), max_elements_(max_elements), frame_(frame) {}

    Failure run() {
        for (auto step : {&Parser::fixed, &Parser::extents, &Parser::stages, &Parser::sections}) {
            const Failure failure = (this->*step)();
            if (failure.status != FEWBITS_OK) {
                return failure;
            }
        }
        return {FEWBITS_OK};
    }

  private:
    Failure too_short(size_t more) const {
        return {FEWBITS_FRAME_SHORT, reader_.at() + more + kCrc, size_};
    }
    bool has(size_t count) const {
        return reader_.has(count + kCrc);
    } // the checksum is never part of a field

    Failure fixed() {
        if (!has(kFixed)) {
            return too_short(kFixed);
        }
        uint8_t magic[4];
        for (uint8_t &byte : magic) {
            byte = static_cast<uint8_t>(reader_.number(1));
        }
        if (!std::equal(magic, magic + 4, kMagic)) {
            return {FEWBITS_FRAME_MAGIC};
        }
        frame_.version = static_cast<uint8_t>(reader_.number(1));
        const auto flags = static_cast<uint8_t>(reader_.number(1));
        frame_.dtype = static_cast<uint8_t>(reader_.number(1));
        frame_.dimensions = static_cast<uint8_t>(reader_.number(1));
        frame_.stages = static_cast<uint8_t>(reader_.number(1));
        frame_.sections = static_cast<uint8_t>(reader_.number(1));
        frame_.nonfinite = (flags & kNonfinite) != 0;
        width_ = size_t{1} << (flags & kWidthMask);
        return judge_fixed(flags);
    }

    Failure judge_fixed(uint8_t flags) const {
        if (frame_.version < kVersion || frame_.version > kNewestVersion) {
            return {FEWBITS_FRAME_VERSION, frame_.version};
        }
        if ((flags & ~(kWidthMask | kNonfinite)) != 0) {
            return {FEWBITS_FRAME_FLAGS, flags};
        }
        if (frame_.dtype < FEWBITS_FLOAT32 || frame_.dtype > FEWBITS_BFLOAT16) {
            return {FEWBITS_FRAME_DTYPE, frame_.dtype};
        }
        if (frame_.dimensions > FEWBITS_MAX_DIMENSIONS) {
            return {FEWBITS_FRAME_DIMENSIONS, frame_.dimensions};
        }
        if (frame_.stages < 1 || frame_.stages > FEWBITS_MAX_STAGES) {
            return {FEWBITS_FRAME_STAGES, frame_.stages};
        }
        if (frame_.sections > FEWBITS_MAX_SECTIONS) {
            return {FEWBITS_FRAME_SECTIONS, frame_.sections};
        }
        return {FEWBITS_OK};
    }

    uint64_t word() {
        const uint64_t value = reader_.number(width_);
        widest_ = std::max(widest_, value);
        return value;
    }

    // The limit holds for the product of the extents that are not 0: an empty vector's shape is
    // bounded too.
    Failure extents() {
        if (!has(frame_.dimensions * width_)) {
            return too_short(frame_.dimensions * width_);
        }
        uint64_t volume = 1;
        bool empty = false;
        bool overflow = false;
        for (size_t i = 0; i < frame_.dimensions; ++i) {
            const uint64_t extent = word();
            frame_.shape[i] = extent;
            empty = empty || extent == 0;
            const uint64_t factor = std::max<uint64_t>(extent, 1);
            overflow = overflow || volume > UINT64_MAX / factor;
            volume = overflow ? UINT64_MAX : volume * factor;
        }
        if (overflow || volume > max_elements_) {
            return {FEWBITS_FRAME_ELEMENTS, volume, max_elements_};
        }
        frame_.elements = empty ? 0 : volume;
        return {FEWBITS_OK};
    }

    Failure stages() {
        for (uint8_t stage = 0; stage < frame_.stages; ++stage) {
            if (!has(3)) {
                return too_short(3);
            }
            frame_.codes[stage] = static_cast<uint16_t>(reader_.number(2));
            const uint64_t count = reader_.number(1);
            int previous = -1;
            for (uint64_t i = 0; i < count; ++i) {
                const Failure failure = parameter(stage, previous);
                if (failure.status != FEWBITS_OK) {
                    return failure;
                }
                previous = frame_.parameter[frame_.parameters - 1].number;
            }
        }
        return {FEWBITS_OK};
    }

    Failure parameter(uint8_t stage, int previous) {
        if (!has(2)) {
            return too_short(2);
        }
        const auto number = static_cast<uint8_t>(reader_.number(1));
        const auto type = static_cast<uint8_t>(reader_.number(1));
        const size_t size = parameter_size(type);
        if (size == 0 || number <= previous || frame_.parameters == FEWBITS_MAX_PARAMETERS) {
            return {FEWBITS_FRAME_PARAMETER, stage, number};
        }
        if (!has(size)) {
            return too_short(size);
        }
        fewbits_parameter &entry = frame_.parameter[frame_.parameters++];
        entry = {stage, number, type, {}};
        for (size_t at = 0; at < size; at += 8) {
            const uint64_t value = reader_.number(std::min<size_t>(size, 8));
            std::memcpy(entry.value + at, &value, 8);
            if (type == FEWBITS_PARAMETER_FLOAT && !is_canonical_float(value)) {
                return {FEWBITS_FRAME_PARAMETER, stage, number};
            }
        }
        return {FEWBITS_OK};
    }

    // What is beyond 64 bits stays at the largest number, and no buffer is so long.
    static uint64_t sum(uint64_t a, uint64_t b) { return b > UINT64_MAX - a ? UINT64_MAX : a + b; }

    Failure sections() {
        if (!has(frame_.sections * width_)) {
            return too_short(frame_.sections * width_);
        }
        for (size_t i = 0; i < frame_.sections; ++i) {
            frame_.lengths[i] = word();
        }
        const uint64_t least = widest_ >> 32 ? 8 : widest_ >> 16 ? 4 : widest_ >> 8 ? 2 : 1;
        if (width_ != least) {
            return {FEWBITS_FRAME_WIDTH, width_, least};
        }
        uint64_t end = reader_.at();
        for (size_t i = 0; i < frame_.sections; ++i) {
            frame_.offsets[i] = end;
            end = sum(end, frame_.lengths[i]);
        }
        if (const uint64_t declared = sum(end, kCrc); declared != size_) {
            return {FEWBITS_FRAME_LENGTH, declared, size_};
        }
        return {FEWBITS_OK};
    }

    Reader reader_;
    size_t size_;
    uint64_t max_elements_;
    fewbits_frame &frame_;
    size_t width_ = 1;
    uint64_t widest_ = 0;
};

} // namespace
} // namespace fewbits

extern "C" int fewbits_frame_parse(const uint8_t *data, size_t size, uint64_t max_elements,
                                   fewbits_frame *frame, uint64_t detail[2]) {
    *frame = {};
    const fewbits::Failure failure = fewbits::Parser({data, size}, max_elements, *frame).run();
    detail[0] = failure.first;
    detail[1] = failure.second;
    if (failure.status == FEWBITS_OK) {
        std::memcpy(&frame->crc, data + size - fewbits::kCrc, fewbits::kCrc);
    }
    return failure.status;
}
