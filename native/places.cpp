// Sets of places, the code of Elias and Fano; src/fewbits/coding/places.py is the specification.
#include "places.h"

#include <algorithm>
#include <atomic>
#include <bit>

namespace fewbits {
namespace {

// Eight bytes from `at` on, zeros behind the end.
uint64_t word_at(const uint8_t *data, uint64_t size, uint64_t at) {
    uint64_t word = 0;
    if (at + 8 <= size) {
        std::memcpy(&word, data + at, 8);
    } else if (at < size) {
        std::memcpy(&word, data + at, size - at);
    }
    return word;
}

} // namespace

void BitSink::share() {
    for (uint64_t i = 0; held_ != 0; ++i, held_ >>= 8) {
        if (const auto byte = static_cast<uint8_t>(held_); byte != 0) {
            std::atomic_ref(out_[8 * word_ + i]).fetch_or(byte, std::memory_order_relaxed);
        }
    }
}

PlaceReader::PlaceReader(const PlaceShape &shape, const uint8_t *section)
    : shape_(shape), section_(section), low_size_(shape.low_bytes()),
      string_size_(shape.bytes() - shape.low_bytes()), ones_(string_word(0)) {}

uint64_t PlaceReader::string_word(uint64_t number) const {
    return word_at(section_ + low_size_, string_size_, 8 * number);
}

uint64_t PlaceReader::low_bits(uint64_t index) const {
    const uint64_t at = index * static_cast<uint64_t>(shape_.low);
    const uint64_t word = word_at(section_, low_size_ + string_size_, at / 8);
    return word >> at % 8 & ((uint64_t{1} << shape_.low) - 1);
}

bool PlaceReader::next_word() {
    if (8 * (word_ + 1) >= string_size_) {
        return false;
    }
    ones_ = string_word(++word_);
    return true;
}

bool PlaceReader::seek(uint64_t index) {
    uint64_t skip = index - index_;
    index_ = index;
    for (uint64_t held = 0; (held = static_cast<uint64_t>(std::popcount(ones_))) <= skip;) {
        skip -= held;
        if (!next_word()) {
            return false;
        }
    }
    for (; skip > 0; --skip) {
        ones_ &= ones_ - 1;
    }
    return true;
}

bool PlaceReader::read(std::span<uint32_t> places) {
    const uint64_t most = shape_.d - shape_.n;
    bool good = true;
    for (uint32_t &place : places) {
        while (ones_ == 0) {
            if (!next_word()) {
                return false;
            }
        }
        const uint64_t at = 64 * word_ + static_cast<uint64_t>(std::countr_zero(ones_));
        ones_ &= ones_ - 1;
        // Never negative: there are at least as many bits before this one as ones.
        const uint64_t number = (at - index_) << shape_.low | low_bits(index_);
        const uint64_t found = number + index_;
        good &= number <= most && found >= least_;
        least_ = found + 1;
        place = static_cast<uint32_t>(found);
        ++index_;
    }
    return good;
}

bool PlaceReader::ends() const {
    uint64_t rest = ones_;
    for (uint64_t word = word_ + 1; 8 * word < string_size_; ++word) {
        rest |= string_word(word);
    }
    const uint64_t used = shape_.n * static_cast<uint64_t>(shape_.low);
    return rest == 0 && (used % 8 == 0 || section_[used / 8] >> used % 8 == 0);
}

int write_places(std::span<const uint32_t> places, uint64_t d, Bytes out) {
    const PlaceShape shape(d, places.size());
    if (out.size() != shape.bytes()) {
        return FEWBITS_BAD_SIZE;
    }
    std::memset(out.data(), 0, out.size());
    PlaceWriter writer(shape, out.data(), 0);
    uint64_t least = 0;
    for (const uint32_t place : places) {
        if (place < least || place >= d) {
            return FEWBITS_BAD_ARGUMENT;
        }
        least = uint64_t{place} + 1;
        writer.put(place);
    }
    return FEWBITS_OK;
}

int read_places(ConstBytes data, uint64_t d, std::span<uint32_t> places) {
    const PlaceShape shape(d, places.size());
    if (data.size() != shape.bytes()) {
        return FEWBITS_BAD_SIZE;
    }
    PlaceReader reader(shape, data.data());
    return reader.read(places) && reader.ends() ? FEWBITS_OK : FEWBITS_BAD_PLACES;
}

} // namespace fewbits

using namespace fewbits;

extern "C" {

uint64_t fewbits_places_size(uint64_t d, uint64_t n) {
    return PlaceShape::possible(d, n) ? PlaceShape(d, n).bytes() : 0;
}

int fewbits_places_encode(const uint32_t *places, size_t n, uint64_t d, uint8_t *out, size_t size) {
    if (!PlaceShape::possible(d, n)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    return write_places({places, n}, d, {out, size});
}

int fewbits_places_decode(const uint8_t *data, size_t size, uint64_t d, uint32_t *places,
                          size_t n) {
    if (!PlaceShape::possible(d, n)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    return read_places({data, size}, d, {places, n});
}
}
