// The randomised Walsh-Hadamard rotation of blocks.
#include "rotation.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace fewbits {
namespace {

constexpr int kHeadroom = 16;

template <class T> struct Arithmetic;
template <> struct Arithmetic<float> {
    using Format = Float32;
    static constexpr int bias = 127;
    static constexpr float half_root = 0x1.6a09e6p-1f;
    static auto transform() { return kernels().stages.hadamard32; }
    static auto copy_signed() { return kernels().stages.signed32; }
};
template <> struct Arithmetic<double> {
    using Format = Float64;
    static constexpr int bias = 1023;
    static constexpr double half_root = 0x1.6a09e667f3bcdp-1;
    static auto transform() { return kernels().stages.hadamard64; }
    static auto copy_signed() { return kernels().stages.signed64; }
};

template <class T> T inverse_root(size_t size) {
    const int exponent = static_cast<int>(std::bit_width(size)) - 1;
    const T odd = exponent % 2 ? Arithmetic<T>::half_root : T{1};
    return std::ldexp(odd, -(exponent / 2));
}

// One block of float32 or float64, without signs; all values are finite.
template <class T> void transform(std::span<T> values, T largest, fewbits_tally &tally) {
    const T scale = inverse_root<T>(values.size());
    if (largest < std::ldexp(T{1}, Arithmetic<T>::bias - kHeadroom)) {
        Arithmetic<T>::transform()(values, scale);
        return;
    }
    for (T &value : values) {
        value *= std::ldexp(T{1}, -kHeadroom);
    }
    Arithmetic<T>::transform()(values, scale);
    constexpr T most = std::numeric_limits<T>::max();
    const T limit = std::ldexp(most, -kHeadroom);
    for (T &value : values) {
        const bool beyond = std::abs(value) > limit;
        tally.saturated += beyond;
        value = beyond ? std::copysign(most, value) : value * std::ldexp(T{1}, kHeadroom);
    }
}

template <class F> void widen(const void *values, std::span<float> into) {
    fewbits_tally ignored{};
    const auto kernel =
        F::exponent == 5 ? kernels().casts.float16_to_float32 : kernels().casts.bfloat16_to_float32;
    kernel(input<uint16_t>(values, into.size()), output<uint32_t>(into.data(), into.size()),
           ignored);
}

template <class F> void narrow(std::span<const float> from, void *values, fewbits_tally &tally) {
    const auto kernel =
        F::exponent == 5 ? kernels().casts.float32_to_float16 : kernels().casts.float32_to_bfloat16;
    kernel(input<uint32_t>(from.data(), from.size()), output<uint16_t>(values, from.size()), tally);
}

// Values that are not finite make their whole block NaN.
template <class F> void spoil(const void *values, size_t size, void *out, Rotated &met) {
    using Bits = typename F::Bits;
    for (const Bits value : input<Bits>(values, size)) {
        met.given += (value & (F::sign - 1)) >= F::infinity;
    }
    for (Unaligned<Bits> &value : output<Bits>(out, size)) {
        value = F::quiet_nan;
    }
    met.tally.nonfinite += size;
}

template <class F>
void rotate_block(const void *values, size_t size, const Stream &stream, bool inverse, void *out,
                  RotationFloat<F> *work, Rotated &met) {
    using T = RotationFloat<F>;
    using Wide = typename Arithmetic<T>::Format::Bits;
    constexpr bool same = sizeof(typename F::Bits) == sizeof(T);
    const auto copy_signed = Arithmetic<T>::copy_signed();
    const std::span<T> own{work, size};
    if constexpr (!same) {
        widen<F>(values, own);
    }
    const void *const from = same ? values : work;
    const Wide largest =
        copy_signed(input<Wide>(from, size), inverse ? nullptr : &stream, output<Wide>(work, size));
    if (largest >= Arithmetic<T>::Format::infinity) {
        spoil<F>(values, size, out, met);
        return;
    }
    fewbits_tally clipped{};
    transform(own, std::bit_cast<T>(largest), clipped);
    if constexpr (same) {
        met.tally.saturated += clipped.saturated;
        if (inverse) {
            copy_signed(input<Wide>(work, size), &stream, output<Wide>(out, size));
        } else if (out != work) {
            std::memcpy(out, work, size * sizeof(T));
        }
    } else {
        if (inverse) {
            copy_signed(input<Wide>(work, size), &stream, output<Wide>(work, size));
        }
        fewbits_tally rounding{}; // what was clipped is clipped again
        narrow<F>(own, out, rounding);
        met.tally.saturated += rounding.saturated;
    }
}

} // namespace

template <class F>
void rotate_blocks(const void *values, size_t count, size_t block, const Stream &stream,
                   bool inverse, void *out, RotationFloat<F> *work, Rotated &met) {
    constexpr size_t item = sizeof(typename F::Bits);
    const bool there = out == static_cast<void *>(work);
    for (size_t start = 0, size = block; start < count; start += size) {
        while (size > count - start) {
            size /= 2;
        }
        rotate_block<F>(static_cast<const uint8_t *>(values) + start * item, size,
                        stream.from(start), inverse, static_cast<uint8_t *>(out) + start * item,
                        there ? work + start : work, met);
    }
}

template void rotate_blocks<Float32>(const void *, size_t, size_t, const Stream &, bool, void *,
                                     float *, Rotated &);
template void rotate_blocks<Float64>(const void *, size_t, size_t, const Stream &, bool, void *,
                                     double *, Rotated &);
template void rotate_blocks<Float16>(const void *, size_t, size_t, const Stream &, bool, void *,
                                     float *, Rotated &);
template void rotate_blocks<Bfloat16>(const void *, size_t, size_t, const Stream &, bool, void *,
                                      float *, Rotated &);

} // namespace fewbits

using namespace fewbits;

extern "C" int fewbits_rotate(const void *values, int dtype, size_t count, fewbits_rotation *how,
                              int inverse, void *out) {
    if (!is_rotation(*how) || how->first % how->block != 0 || inverse < 0 || inverse > 1) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const Stream stream{{how->key[0], how->key[1], how->key[2], how->key[3]}, how->first};
    return with_format(dtype, [&]<class F>(F) -> int {
        alignas(64) RotationFloat<F> work[kLargestRotation];
        Rotated met{};
        rotate_blocks<F>(values, count, how->block, stream, inverse == 1, out, work, met);
        how->tally = met.tally;
        how->given = met.given;
        return FEWBITS_OK;
    });
}
