// Which k of many keys are the largest, and the Walsh-Hadamard transform: portable code, with
// internal linkage because it is compiled for several instruction sets (see random.h).
#pragma once

#include <algorithm>

#include "kernels.h"

namespace fewbits {
namespace {

template <class Bits>
[[maybe_unused]] void count_any(In<Bits> values, Bits mask, KeyRange<Bits> among,
                                KeyCounts &counts) {
    constexpr Bits low = (1 << kKeyBits) - 1;
    const int above = among.shift + kKeyBits;
    const bool all = above >= static_cast<int>(8 * sizeof(Bits));
    for (const Bits value : values) {
        const Bits key = value & mask;
        if (all || static_cast<Bits>(key >> above) == among.prefix) {
            ++counts[(key >> among.shift) & low];
        }
    }
}

// The places of keys above the threshold, and of the first `ties` that equal it, until `places` is
// full; the result is how many there are.
template <class Bits>
[[maybe_unused]] size_t gather_any(In<Bits> values, Bits mask, Bits threshold, size_t ties,
                                   std::span<uint32_t> places, size_t first = 0) {
    size_t found = 0;
    for (size_t i = first; i < values.size() && found < places.size(); ++i) {
        const Bits key = values[i] & mask;
        const bool tie = key == threshold && ties > 0;
        ties -= tie;
        places[found] = static_cast<uint32_t>(i);
        found += key > threshold || tie;
    }
    return found;
}

// The keys from `low` to `high`, in order, and how many are above; `near` has room for every value.
template <class Bits>
[[maybe_unused]] size_t near_any(In<Bits> values, Bits mask, KeyBand<Bits> band, Bits *near,
                                 uint64_t &above) {
    size_t found = 0;
    for (const Bits value : values) {
        const Bits key = value & mask;
        near[found] = key;
        found += key >= band.low && key <= band.high;
        above += key > band.high;
    }
    return found;
}

// The values whose keys are above the threshold, and the first `ties` that equal it, and their
// places; both have room for every value.
template <class Bits>
[[maybe_unused]] size_t take_any(In<Bits> values, Bits mask, Bits threshold, uint64_t &ties,
                                 uint32_t *places, Bits *taken) {
    size_t found = 0;
    for (size_t i = 0; i < values.size(); ++i) {
        const Bits value = values[i];
        const Bits key = value & mask;
        const bool equal = key == threshold && ties > 0;
        ties -= equal;
        places[found] = static_cast<uint32_t>(i);
        taken[found] = value;
        found += key > threshold || equal;
    }
    return found;
}

// One level of the transform, or two at once. Every sum has the operands that the specification
// gives it, so the order of the levels changes no bit.
template <class T> void butterflies(T *values, size_t size, size_t h) {
    for (size_t start = 0; start < size; start += 2 * h) {
        T *first = values + start;
        T *second = first + h;
        for (size_t i = 0; i < h; ++i) {
            const T a = first[i];
            const T b = second[i];
            first[i] = a + b;
            second[i] = a - b;
        }
    }
}

template <class T> void double_butterflies(T *values, size_t size, size_t h) {
    for (size_t start = 0; start < size; start += 4 * h) {
        T *p = values + start;
        for (size_t i = 0; i < h; ++i) {
            const T a = p[i] + p[i + h];
            const T b = p[i] - p[i + h];
            const T c = p[i + 2 * h] + p[i + 3 * h];
            const T d = p[i + 2 * h] - p[i + 3 * h];
            p[i] = a + c;
            p[i + h] = b + d;
            p[i + 2 * h] = a - c;
            p[i + 3 * h] = b - d;
        }
    }
}

// Levels from h on; parts that fit the first cache are finished before the next one is begun.
template <class T> [[maybe_unused]] void levels(T *values, size_t size, size_t h) {
    constexpr size_t near = 16384 / sizeof(T);
    if (size > near) {
        for (size_t start = 0; start < size; start += near) {
            levels(values + start, near, h);
        }
        h = near;
    }
    for (; 4 * h <= size; h *= 4) {
        double_butterflies(values, size, h);
    }
    if (2 * h <= size) {
        butterflies(values, size, h);
    }
}

template <class T> [[maybe_unused]] void multiply(std::span<T> values, T scale) {
    for (T &value : values) {
        value *= scale;
    }
}

} // namespace
} // namespace fewbits
