// Which places of a vector a stage keeps, and how they are written down.
#include <bit>
#include <cstring>
#include <limits>

#include "select.h"

namespace fewbits {
namespace {

// ---- selection: the threshold is found by its bits, twelve at a time ----

template <class Bits>
void select(In<Bits> values, Bits mask, Bits infinity, std::span<uint32_t> places,
            uint64_t &nonfinite) {
    constexpr int width = 8 * sizeof(Bits);
    Bits prefix = 0;
    size_t wanted = places.size(); // among the keys that begin with the prefix
    nonfinite = 0;
    int shift = width;
    while (shift > 0) {
        const int next = std::max(0, shift - kKeyBits);
        // The last pass may count bits that the prefix already has.
        const int known = next + kKeyBits;
        KeyCounts counts = {};
        const Bits head = known < width ? static_cast<Bits>((prefix << shift) >> known) : Bits{0};
        if constexpr (sizeof(Bits) == 4) {
            kernels().count_keys(values, mask, {next, head}, counts);
        } else {
            count_any<Bits>(values, mask, {next, head}, counts);
        }
        if (shift == width && infinity != 0) {
            for (size_t bin = infinity >> next; bin < std::size(counts); ++bin) {
                nonfinite += counts[bin];
            }
        }
        // Keys above the prefix have been taken already; skip them if this pass counted them again.
        const size_t bins = size_t{1} << (shift - next);
        const size_t base = shift == width
                                ? 0
                                : static_cast<size_t>((uint64_t{prefix} << (shift - next)) &
                                                      (std::size(counts) - 1));
        size_t bin = base + bins - 1;
        while (counts[bin] < wanted) {
            wanted -= counts[bin];
            --bin;
        }
        prefix = static_cast<Bits>(
            (static_cast<uint64_t>(shift == width ? 0 : prefix) << (shift - next)) | (bin - base));
        shift = next;
        if (counts[bin] == wanted) {
            wanted = std::numeric_limits<size_t>::max(); // all of them
            break;
        }
    }
    const Bits threshold = static_cast<Bits>(static_cast<uint64_t>(prefix) << shift);
    if constexpr (sizeof(Bits) == 4) {
        kernels().gather_keys(values, mask, threshold, wanted, places);
    } else {
        gather_any<Bits>(values, mask, threshold, wanted, places);
    }
}

template <class F>
void select_magnitudes(const void *values, size_t count, std::span<uint32_t> places,
                       uint64_t &nonfinite) {
    using Bits = typename F::Bits;
    select<Bits>(input<Bits>(values, count), static_cast<Bits>(F::sign - 1), F::infinity, places,
                 nonfinite);
}

// ---- places: a range coder of gaps; src/fewbits/coding/subsets.py is the specification ----

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

class RangeWriter {
  public:
    explicit RangeWriter(Bytes out) : out_(out) {}

    void put(bool digit, uint32_t chance) {
        const uint64_t bound = (range_ >> kPrecision) * chance;
        if (digit) {
            range_ = bound;
        } else {
            add(bound);
            range_ -= bound;
        }
        while (range_ < kLeast) {
            shift();
            range_ <<= 8;
        }
    }

    // False if the places do not fit, which no ascending ones do.
    bool end() {
        add(kLeast - 1);
        shift();
        if (full_) {
            return false;
        }
        std::memset(out_.data() + at_, 0, out_.size() - at_);
        return true;
    }

  private:
    void shift() {
        if (at_ < out_.size()) {
            out_[at_++] = static_cast<uint8_t>(low_ >> 56);
        } else {
            full_ = true;
        }
        low_ <<= 8;
    }

    void add(uint64_t amount) {
        low_ += amount;
        if (low_ < amount) {
            size_t i = at_;
            while (i > 0 && ++out_[--i] == 0) {
            }
        }
    }

    Bytes out_;
    size_t at_ = 0;
    uint64_t low_ = 0;
    uint64_t range_ = ~uint64_t{0};
    bool full_ = false;
};

class RangeReader {
  public:
    explicit RangeReader(ConstBytes data) : data_(data) {
        for (int i = 0; i < 8; ++i) {
            code_ = code_ << 8 | next();
        }
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

  private:
    uint8_t next() { return at_ < data_.size() ? data_[at_++] : uint8_t{0}; }

    ConstBytes data_;
    size_t at_ = 0;
    uint64_t code_ = 0;
    uint64_t range_ = ~uint64_t{0};
};

} // namespace
} // namespace fewbits

using namespace fewbits;

extern "C" {

int fewbits_select(const void *values, int dtype, size_t count, uint32_t *places, size_t k,
                   uint64_t *nonfinite) {
    if (k > count || uint64_t{count} > uint64_t{1} << 32 || (k == 0 && count > 0)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const std::span<uint32_t> chosen{places, k};
    *nonfinite = 0;
    if (count == 0) {
        return FEWBITS_OK;
    }
    switch (dtype) {
    case 0:
        select<uint32_t>(input<uint32_t>(values, count), ~uint32_t{0}, 0, chosen, *nonfinite);
        return FEWBITS_OK;
    case FEWBITS_FLOAT32:
        select_magnitudes<Float32>(values, count, chosen, *nonfinite);
        return FEWBITS_OK;
    case FEWBITS_FLOAT64:
        select_magnitudes<Float64>(values, count, chosen, *nonfinite);
        return FEWBITS_OK;
    case FEWBITS_FLOAT16:
        select_magnitudes<Float16>(values, count, chosen, *nonfinite);
        return FEWBITS_OK;
    case FEWBITS_BFLOAT16:
        select_magnitudes<Bfloat16>(values, count, chosen, *nonfinite);
        return FEWBITS_OK;
    default:
        return FEWBITS_BAD_ARGUMENT;
    }
}

int fewbits_places_encode(const uint32_t *places, size_t n, uint64_t d, uint8_t *out, size_t size) {
    if (n == 0 || n >= d || d > uint64_t{1} << 32) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const Digits digits(d, n);
    RangeWriter writer({out, size});
    uint64_t least = 0;
    for (size_t i = 0; i < n; ++i) {
        if (places[i] < least || places[i] >= d) {
            return FEWBITS_BAD_ARGUMENT;
        }
        const uint64_t gap = places[i] - least;
        least = uint64_t{places[i]} + 1;
        for (int j = digits.count - 1; j >= 0; --j) {
            writer.put((gap >> j & 1) != 0, digits.chance[j]);
        }
    }
    return writer.end() ? FEWBITS_OK : FEWBITS_BAD_SIZE;
}

int fewbits_places_decode(const uint8_t *data, size_t size, uint64_t d, uint32_t *places,
                          size_t n) {
    if (n == 0 || n >= d || d > uint64_t{1} << 32) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const Digits digits(d, n);
    RangeReader reader({data, size});
    uint64_t place = 0;
    for (size_t i = 0; i < n; ++i) {
        uint64_t gap = 0;
        for (int j = digits.count - 1; j >= 0; --j) {
            gap = gap << 1 | uint64_t{reader.get(digits.chance[j])};
        }
        place += gap;
        if (place >= d) {
            return FEWBITS_BAD_PLACES;
        }
        places[i] = static_cast<uint32_t>(place++);
    }
    return FEWBITS_OK;
}
}
