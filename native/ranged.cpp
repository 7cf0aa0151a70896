// Sets of places as wire version 1 has them, a range coder of gaps, which is only read;
// src/fewbits/coding/subsets.py is the specification.
#include "places.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace fewbits {
namespace {

constexpr int kPrecision = 16;
constexpr uint64_t kLeast = uint64_t{1} << 56;
constexpr uint64_t kOne = uint64_t{1} << 62;

struct Digits {
    uint32_t chance[33];
    int count;

    Digits(uint64_t d, uint64_t n) : chance{}, count(static_cast<int>(std::bit_width(d - n))) {
        using Wide = unsigned __int128;
        auto theta = static_cast<uint64_t>((Wide{d - n} << 62) / d);
        for (int j = 0; j < count; ++j) {
            const Wide whole = Wide{theta} << kPrecision;
            const Wide one = kOne + theta;
            chance[j] = std::max(1u, static_cast<uint32_t>((whole + one - 1) / one));
            theta = static_cast<uint64_t>(Wide{theta} * theta >> 62);
        }
    }
};

class RangeReader {
  public:
    explicit RangeReader(ConstBytes data) : data_(data) {
        for (int i = 0; i < 8; ++i) {
            code_ = code_ << 8 | next();
        }
        in_range_ = code_ < range_; // stays so, once it is
    }

    bool get(uint32_t chance) {
        const uint64_t bound = (range_ >> kPrecision) * chance;
        const bool digit = code_ < bound;
        code_ -= digit ? 0 : bound;
        range_ = digit ? bound : range_ - bound;
        while (range_ < kLeast) {
            code_ = code_ << 8 | next();
            range_ <<= 8;
        }
        return digit;
    }

    // Whether an encoder writes these bytes. After the last digit it writes one more byte, such
    // that the number is the smallest in its range, and zeros up to the end of the section.
    bool canonical() const {
        const size_t end = at_ - 7; // eight bytes are in the window, of which the first is written
        return in_range_ && code_ < kLeast && end <= data_.size() &&
               std::ranges::all_of(data_.subspan(end), [](uint8_t byte) { return byte == 0; });
    }

  private:
    uint8_t next() {
        const uint8_t byte = at_ < data_.size() ? data_[at_] : uint8_t{0};
        ++at_;
        return byte;
    }

    ConstBytes data_;
    size_t at_ = 0;
    uint64_t code_ = 0;
    uint64_t range_ = ~uint64_t{0};
    bool in_range_;
};

int read_ranged(ConstBytes data, uint64_t d, std::span<uint32_t> places) {
    const Digits digits(d, places.size());
    RangeReader reader(data);
    uint64_t place = 0;
    for (uint32_t &found : places) {
        uint64_t gap = 0;
        for (int j = digits.count - 1; j >= 0; --j) {
            gap = gap << 1 | uint64_t{reader.get(digits.chance[j])};
        }
        place += gap;
        if (place >= d) {
            return FEWBITS_BAD_PLACES;
        }
        found = static_cast<uint32_t>(place++);
    }
    return reader.canonical() ? FEWBITS_OK : FEWBITS_BAD_PLACES;
}

} // namespace
} // namespace fewbits

using namespace fewbits;

extern "C" {

int fewbits_ranged_decode(const uint8_t *data, size_t size, uint64_t d, uint32_t *places,
                          size_t n) {
    if (n == 0 || n >= d || d > kMostPlaces) {
        return FEWBITS_BAD_ARGUMENT;
    }
    return read_ranged({data, size}, d, {places, n});
}
}
