// Which places of a vector a stage keeps, and how they are written down.
#pragma once

#include "kernels.h"

namespace fewbits {

constexpr uint64_t kMostPlaces = uint64_t{1} << 32; // that 32 bits can number

// The places of the largest keys, ascending, of equal ones the first; and how many are at least
// `infinity`, or 0 without one. At least one place, and not more than values.
template <class Bits>
void select(In<Bits> values, Bits mask, Bits infinity, std::span<uint32_t> places,
            uint64_t &nonfinite);

template <class F>
void select_magnitudes(In<typename F::Bits> values, std::span<uint32_t> places,
                       uint64_t &nonfinite) {
    using Bits = typename F::Bits;
    select<Bits>(values, static_cast<Bits>(F::sign - 1), F::infinity, places, nonfinite);
}

// The shape of a section of n places below d; src/fewbits/coding/places.py has its meaning.
struct PlaceShape {
    uint64_t d;
    uint64_t n;
    uint64_t zeros; // in the string of bits
    int low;        // bits of each place that are packed

    PlaceShape(uint64_t d, uint64_t n) : d(d), n(n), zeros(d - n), low(0) {
        for (; (zeros + 1) / 2 > n; zeros /= 2) {
            ++low;
        }
    }

    static bool possible(uint64_t d, uint64_t n) { return n > 0 && n < d && d <= kMostPlaces; }
    uint64_t low_bytes() const { return (n * static_cast<uint64_t>(low) + 7) / 8; }
    uint64_t bytes() const { return low_bytes() + (n + zeros + 7) / 8; }
};

// Bits in ascending order into memory that was zero. Several may write to one memory at the same
// time, each from where another one ends: words that two may share are written by atomic bytes.
class BitSink {
  public:
    explicit BitSink(uint8_t *out) : out_(out) {}
    ~BitSink() { share(); }
    BitSink(const BitSink &) = delete;
    BitSink &operator=(const BitSink &) = delete;

    // The bits of `value`, which has at most 32, from bit `at` on.
    void put(uint64_t value, uint64_t at) {
        if (at / 64 != word_) {
            flush(at / 64);
        }
        held_ |= value << at % 64;
        if (at % 64 > 32 && value >> (64 - at % 64) != 0) {
            flush(at / 64 + 1);
            held_ = value >> (64 - at % 64);
        }
    }

  private:
    void flush(uint64_t next) {
        if (held_ != 0 && !first_) {
            std::memcpy(out_ + 8 * word_, &held_, 8); // no other one has bits here
        } else if (held_ != 0) {
            share();
            first_ = false;
        }
        word_ = next;
        held_ = 0;
    }
    void share();

    uint8_t *out_;
    uint64_t word_ = ~uint64_t{0};
    uint64_t held_ = 0;
    bool first_ = true;
};

// Writes places from number `index` on into a section that was zero.
class PlaceWriter {
  public:
    PlaceWriter(const PlaceShape &shape, uint8_t *section, uint64_t index)
        : low_(shape.low), index_(index), lows_(section), highs_(section + shape.low_bytes()) {}

    void put(uint64_t place) {
        const uint64_t number = place - index_;
        const uint64_t low = number & ((uint64_t{1} << low_) - 1);
        if (low_ != 0) {
            lows_.put(low, index_ * static_cast<uint64_t>(low_));
        }
        highs_.put(1, (number >> low_) + index_);
        ++index_;
    }

  private:
    int low_;
    uint64_t index_;
    BitSink lows_;
    BitSink highs_;
};

// Reads them back, from any number on. Whatever the bytes are, it does not leave them.
class PlaceReader {
  public:
    PlaceReader(const PlaceShape &shape, const uint8_t *section);

    // Go on with this place, which must not lie before the current one. False if there is none.
    bool seek(uint64_t index);
    // The next ones, in ascending order and below d; false if there are none such.
    bool read(std::span<uint32_t> places);
    // Whether only zeros follow, and follow the low bits.
    bool ends() const;
    uint64_t index() const { return index_; }

  private:
    uint64_t string_word(uint64_t number) const;
    uint64_t low_bits(uint64_t index) const;
    bool next_word();

    PlaceShape shape_;
    const uint8_t *section_;
    uint64_t low_size_;
    uint64_t string_size_;
    uint64_t index_ = 0;
    uint64_t word_ = 0;  // the number of the string's word
    uint64_t ones_ = 0;  // its ones that were not read
    uint64_t least_ = 0; // the next place is not below it
};

// Ascending places below d <= kMostPlaces, at least one and not all. Reading refuses what writing
// does not write.
int write_places(std::span<const uint32_t> places, uint64_t d, Bytes out);
int read_places(ConstBytes data, uint64_t d, std::span<uint32_t> places);

} // namespace fewbits
