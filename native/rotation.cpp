// The randomised Walsh-Hadamard rotation of blocks; src/fewbits/reference/rotation.py is the
// specification.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "select.h"

namespace fewbits {
namespace {

constexpr size_t kLargestBlock = 1 << 16;
constexpr size_t kWords = 4096; // random words made at once
constexpr int kHeadroom = 16;

template <class T> struct Arithmetic;
template <> struct Arithmetic<float> {
    using Format = Float32;
    static constexpr int bias = 127;
    static constexpr float half_root = 0x1.6a09e6p-1f;
    static void transform(std::span<float> values, float scale) {
        kernels().stages.hadamard32(values, scale);
    }
};
template <> struct Arithmetic<double> {
    using Format = Float64;
    static constexpr int bias = 1023;
    static constexpr double half_root = 0x1.6a09e667f3bcdp-1;
    static void transform(std::span<double> values, double scale) {
        kernels().stages.hadamard64(values, scale);
    }
};

template <class T> T inverse_root(size_t size) {
    const int exponent = static_cast<int>(std::bit_width(size)) - 1;
    const T odd = exponent % 2 ? Arithmetic<T>::half_root : T{1};
    return std::ldexp(odd, -(exponent / 2));
}

template <class T> void flip_signs(std::span<T> values, const Stream &stream) {
    using Bits = typename Arithmetic<T>::Format::Bits;
    uint32_t words[kWords];
    for (size_t start = 0; start < values.size(); start += kWords) {
        const size_t count = std::min(kWords, values.size() - start);
        kernels().common.words(stream.from(start), {words, count});
        for (size_t i = 0; i < count; ++i) {
            const Bits sign = static_cast<Bits>(words[i] >> 31) << (8 * sizeof(Bits) - 1);
            values[start + i] = std::bit_cast<T>(std::bit_cast<Bits>(values[start + i]) ^ sign);
        }
    }
}

// False if a value is not finite; the block is then left as it is.
template <class T> bool rotate_block(std::span<T> values, fewbits_tally &tally) {
    using F = typename Arithmetic<T>::Format;
    using Bits = typename F::Bits;
    Bits largest = 0;
    for (const T value : values) {
        largest = std::max(largest, static_cast<Bits>(std::bit_cast<Bits>(value) & (F::sign - 1)));
    }
    if (largest >= F::infinity) {
        return false;
    }
    const T scale = inverse_root<T>(values.size());
    const bool huge =
        std::bit_cast<T>(largest) >= std::ldexp(T{1}, Arithmetic<T>::bias - kHeadroom);
    if (!huge) {
        Arithmetic<T>::transform(values, scale);
        return true;
    }
    multiply(values, std::ldexp(T{1}, -kHeadroom));
    Arithmetic<T>::transform(values, scale);
    constexpr T most = std::numeric_limits<T>::max();
    const T limit = std::ldexp(most, -kHeadroom);
    for (T &value : values) {
        const bool beyond = std::abs(value) > limit;
        tally.saturated += beyond;
        value = beyond ? std::copysign(most, value) : value * std::ldexp(T{1}, kHeadroom);
    }
    return true;
}

template <class F, class T>
void widen(const void *values, size_t count, std::span<T> into, fewbits_tally &tally) {
    if constexpr (sizeof(typename F::Bits) == sizeof(T)) {
        std::memcpy(into.data(), values, count * sizeof(T));
    } else if constexpr (F::exponent == 5) {
        kernels().casts.float16_to_float32(input<uint16_t>(values, count),
                                           output<uint32_t>(into.data(), count), tally);
    } else {
        kernels().casts.bfloat16_to_float32(input<uint16_t>(values, count),
                                            output<uint32_t>(into.data(), count), tally);
    }
}

template <class F, class T>
void narrow(std::span<const T> from, void *values, fewbits_tally &tally) {
    const size_t count = from.size();
    if constexpr (sizeof(typename F::Bits) == sizeof(T)) {
        std::memcpy(values, from.data(), count * sizeof(T));
    } else if constexpr (F::exponent == 5) {
        kernels().casts.float32_to_float16(input<uint32_t>(from.data(), count),
                                           output<uint16_t>(values, count), tally);
    } else {
        kernels().casts.float32_to_bfloat16(input<uint32_t>(from.data(), count),
                                            output<uint16_t>(values, count), tally);
    }
}

template <class F, class T>
void rotate(const void *values, size_t count, size_t block, Stream stream, bool inverse, void *out,
            fewbits_tally &tally) {
    using Bits = typename F::Bits;
    alignas(64) T work[kLargestBlock];
    const auto *from = static_cast<const uint8_t *>(values);
    auto *to = static_cast<uint8_t *>(out);
    for (size_t start = 0, size = block; start < count; start += size) {
        while (size > count - start) {
            size /= 2;
        }
        const std::span<T> own{work, size};
        fewbits_tally ignored{};
        fewbits_tally clipped{};
        widen<F, T>(from + start * sizeof(Bits), size, own, ignored);
        if (!inverse) {
            flip_signs(own, stream.from(start));
        }
        uint8_t *place = to + start * sizeof(Bits);
        if (!rotate_block(own, clipped)) {
            auto bad = output<Bits>(place, size);
            for (auto &value : bad) {
                value = F::quiet_nan;
            }
            tally.nonfinite += size;
            continue;
        }
        if (inverse) {
            flip_signs(own, stream.from(start));
        }
        fewbits_tally rounding{}; // to 16 bits, where what was clipped is clipped again
        narrow<F, T>(own, place, rounding);
        tally.saturated += sizeof(Bits) == sizeof(T) ? clipped.saturated : rounding.saturated;
    }
}

} // namespace
} // namespace fewbits

using namespace fewbits;

extern "C" {

int fewbits_rotate(const void *values, int dtype, size_t count, size_t block, const uint32_t key[4],
                   int inverse, void *out, fewbits_tally *tally) {
    if (!std::has_single_bit(block) || block > kLargestBlock || inverse < 0 || inverse > 1) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const Stream stream{{key[0], key[1], key[2], key[3]}, 0};
    const bool back = inverse == 1;
    *tally = {};
    switch (dtype) {
    case FEWBITS_FLOAT32:
        rotate<Float32, float>(values, count, block, stream, back, out, *tally);
        return FEWBITS_OK;
    case FEWBITS_FLOAT64:
        rotate<Float64, double>(values, count, block, stream, back, out, *tally);
        return FEWBITS_OK;
    case FEWBITS_FLOAT16:
        rotate<Float16, float>(values, count, block, stream, back, out, *tally);
        return FEWBITS_OK;
    case FEWBITS_BFLOAT16:
        rotate<Bfloat16, float>(values, count, block, stream, back, out, *tally);
        return FEWBITS_OK;
    default:
        return FEWBITS_BAD_ARGUMENT;
    }
}
}
