// What the fuzz targets share: choices taken from the input, and buffers that end where their
// allocation ends, so that the address sanitizer sees a read of one byte too many.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "fewbits.h"

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);    \
            std::abort();                                                                          \
        }                                                                                          \
    } while (false)

namespace fuzz {

using ConstBytes = std::span<const uint8_t>;

// Memory of exactly `size` bytes at an address that is `offset` beyond a multiple of 8.
class Buffer {
  public:
    Buffer(size_t size, unsigned offset)
        : memory_(new uint8_t[size + offset % 8]), data_(memory_.get() + offset % 8), size_(size) {
        std::memset(data_, 0xA5, size);
    }
    Buffer(ConstBytes bytes, unsigned offset) : Buffer(bytes.size(), offset) {
        std::copy(bytes.begin(), bytes.end(), data_);
    }

    uint8_t *data() const { return data_; }
    size_t size() const { return size_; }
    ConstBytes bytes() const { return {data_, size_}; }
    bool operator==(const Buffer &other) const {
        return std::ranges::equal(bytes(), other.bytes());
    }

  private:
    std::unique_ptr<uint8_t[]> memory_;
    uint8_t *data_;
    size_t size_;
};

// The input as a sequence of numbers; zeros after its end.
class Input {
  public:
    Input(const uint8_t *data, size_t size) : left_(data, size) {}

    uint64_t number(size_t width) {
        uint64_t value = 0;
        const size_t taken = std::min(width, left_.size());
        if (taken > 0) {
            std::memcpy(&value, left_.data(), taken);
        }
        left_ = left_.subspan(taken);
        return value;
    }
    uint8_t byte() { return static_cast<uint8_t>(number(1)); }
    ConstBytes rest() const { return left_; }

  private:
    ConstBytes left_;
};

// A float format as its bit fields.
struct Format {
    int exponent;
    int mantissa;

    size_t item() const { return static_cast<size_t>(1 + exponent + mantissa) / 8; }
    uint64_t top() const { return (uint64_t{1} << exponent) - 1; }
    uint64_t infinity() const { return top() << mantissa; }
    uint64_t sign() const { return uint64_t{1} << (exponent + mantissa); }
    uint64_t quiet_nan() const { return infinity() | uint64_t{1} << (mantissa - 1); }
    bool finite(uint64_t bits) const { return (bits & ~sign()) < infinity(); }
};

inline Format format_of(int dtype) {
    constexpr Format formats[] = {{8, 23}, {11, 52}, {5, 10}, {8, 7}};
    return formats[dtype - FEWBITS_FLOAT32];
}

// The exact value of finite bits.
inline double number_of(uint64_t bits, const Format &format) {
    const uint64_t magnitude = bits & ~format.sign();
    const int code = static_cast<int>(magnitude >> format.mantissa);
    const uint64_t fraction = magnitude & ((uint64_t{1} << format.mantissa) - 1);
    const uint64_t whole = code == 0 ? fraction : fraction | uint64_t{1} << format.mantissa;
    const int bias = static_cast<int>(format.top() >> 1);
    const double value =
        std::ldexp(static_cast<double>(whole), std::max(code, 1) - bias - format.mantissa);
    return bits != magnitude ? -value : value;
}

// The bits of the nearest value, ties to even; the largest one for what is beyond it.
inline uint64_t nearest(double value, const Format &format) {
    const double magnitude = std::abs(value);
    int exponent = 0;
    std::frexp(magnitude, &exponent);
    const int bias = static_cast<int>(format.top() >> 1);
    exponent = std::max(exponent - 1, 1 - bias);
    const double steps = std::nearbyint(std::ldexp(magnitude, format.mantissa - exponent));
    const uint64_t base = static_cast<uint64_t>(exponent + bias - 1) << format.mantissa;
    const uint64_t bits = steps == 0 ? 0 : base + static_cast<uint64_t>(steps);
    return std::min(bits, format.infinity() - 1) | (std::signbit(value) ? format.sign() : 0);
}

inline uint64_t element(const uint8_t *values, size_t index, size_t item) {
    uint64_t bits = 0;
    std::memcpy(&bits, values + index * item, item);
    return bits;
}

// Field `index` of `width` bits (at most 16) in a packed plane.
inline uint32_t field(ConstBytes plane, size_t index, int width) {
    const size_t bit = index * static_cast<size_t>(width);
    uint64_t word = 0;
    for (size_t i = 0; i < 3 && bit / 8 + i < plane.size(); ++i) {
        word |= uint64_t{plane[bit / 8 + i]} << (8 * i);
    }
    return static_cast<uint32_t>((word >> (bit % 8)) & ((uint64_t{1} << width) - 1));
}

// Whether the bits after the last field are zero.
inline bool padding_is_zero(ConstBytes plane, size_t count, int width) {
    const size_t used = count * static_cast<size_t>(width) % 8;
    return used == 0 || plane.empty() || (plane.back() >> used) == 0;
}

inline size_t packed_size(size_t count, int width) {
    return (count * static_cast<size_t>(width) + 7) / 8;
}

constexpr int kPortable = 0; // the portable table's number
// The table that the core has picked at load, which is compared with the portable one. FEWBITS_SIMD
// names another.
inline const int kPicked = fewbits_simd();

inline void use_table(int simd) { REQUIRE(fewbits_use_simd(simd) == FEWBITS_OK); }

// `call(0)` with the portable table, `call(1)` with the one that was picked.
template <class Call> void with_each_table(Call call) {
    use_table(kPortable);
    call(0);
    use_table(kPicked);
    call(1);
}

// One unit through a function that takes a table of them.
inline int run(int (*function)(fewbits_unit *, size_t, size_t *), fewbits_unit &unit) {
    size_t failed = SIZE_MAX;
    const int status = function(&unit, 1, &failed);
    REQUIRE(failed == (status == FEWBITS_OK ? SIZE_MAX : 0));
    return status;
}

// The random words of a dither.
struct Dither {
    const uint32_t *key;
    uint64_t first;
};

// What the coder alone says of a section of signed codes, which a dither may have rounded.
struct SignedCodes {
    int status;
    std::vector<uint16_t> sizes;
    std::vector<uint8_t> signs;

    SignedCodes(size_t count, uint32_t bound, ConstBytes data,
                const std::optional<Dither> &dither = {})
        : sizes(count), signs(packed_size(count, 1) + 1) {
        status = dither ? fewbits_dithered_decode(data.data(), data.size(), bound, dither->key,
                                                  dither->first, sizes.data(), signs.data(), count)
                        : fewbits_coded_decode(data.data(), data.size(), bound, sizes.data(),
                                               signs.data(), count);
    }
    bool negative(size_t i) const { return field(signs, i, 1) != 0; }
};

// The rest of an input as a section; `one`: as a block of the right length.
inline std::vector<uint8_t> section_from(ConstBytes rest, bool one) {
    std::vector<uint8_t> section(rest.begin(), rest.end());
    if (one) {
        const auto length = static_cast<uint8_t>(std::min<size_t>(rest.size(), 255));
        section.resize(length);
        section.insert(section.begin(), {length, 0, 0});
    }
    return section;
}

// Values of few kinds, as an input tells, of any size or (`near`) of sizes alike.
inline std::vector<uint8_t> values_from(ConstBytes rest, size_t count, const Format &format) {
    std::vector<uint8_t> bytes(count * format.item());
    uint64_t mix = 1;
    for (size_t i = 0; i < count; ++i) {
        const uint8_t kind = rest.empty() ? uint8_t{10} : rest[i % rest.size()];
        mix = (mix + kind) * 6364136223846793005u + 1442695040888963407u;
        const uint64_t rare[] = {0, 1, format.infinity() - 1, format.infinity(),
                                 format.quiet_nan()};
        const uint64_t any = 1 + mix % (format.infinity() - 1);
        const uint64_t middle = (format.top() >> 1) - 3;
        const uint64_t near = (middle << format.mantissa) + any % (uint64_t{6} << format.mantissa);
        const uint64_t bits = kind < 5 ? rare[kind] : kind < 10 ? any : near;
        const uint64_t whole = bits | (mix >> 63) * format.sign();
        std::memcpy(bytes.data() + i * format.item(), &whole, format.item());
    }
    return bytes;
}

inline bool equal(const fewbits_tally &a, const fewbits_tally &b) {
    return a.saturated == b.saturated && a.nonfinite == b.nonfinite;
}

} // namespace fuzz
