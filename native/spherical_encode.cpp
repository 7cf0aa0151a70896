// Blocks of values to radii and directions, some at a time; src/fewbits/reference/spherical.py is
// the specification.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "rows.h"
#include "spherical.h"

namespace fewbits {
namespace {

constexpr size_t kTogether = 1 << 15; // values whose directions are searched together, at most
constexpr double kLength = 32000;     // of the rounded blocks, which are 16-bit integers

double power_of_two(int exponent) { return std::ldexp(1.0, exponent); }

// Some blocks of one group on their way to what is sent.
struct Blocks {
    const fewbits_spherical &how;
    size_t count;
    uint64_t first;           // number of the first value in the vector
    double values[kTogether]; // divided by a power of two; with signs for the search
    double norms[kSphereGroup];
    double factors[kSphereGroup]; // the sent radii, divided like the values
    double need[kSphereGroup];
    int exponents[kSphereGroup];
    bool finite[kSphereGroup];
    int16_t rounded[kTogether + kSphereGroup];
    int32_t found[kSphereGroup];

    Blocks(const fewbits_spherical &shape, size_t blocks, uint64_t start)
        : how(shape), count(blocks), first(start) {}

    size_t size() const { return how.size; }

    // Reads values, counts what is not finite or too large, and divides each block so that its
    // largest magnitude is below 1 and at least 1/2.
    void load(const uint8_t *from, fewbits_tally &tally) {
        if (how.dtype == FEWBITS_FLOAT32) {
            const auto given = input<float>(from, count * size());
            std::copy(given.begin(), given.end(), values);
        } else {
            fewbits_tally ignored{};
            cast_any(how.dtype, from, FEWBITS_FLOAT64, values, count * size(), ignored);
        }
        for (size_t block = 0; block < count; ++block) {
            double *const own = values + block * size();
            double largest = 0;
            uint64_t bad = 0;
            for (size_t i = 0; i < size(); ++i) {
                const double magnitude = std::abs(own[i]);
                const bool good = std::isfinite(magnitude);
                bad += !good;
                tally.saturated += good && magnitude > how.high;
                largest = good ? std::max(largest, magnitude) : largest;
            }
            tally.nonfinite += bad;
            finite[block] = bad == 0;
            divide(block, own, bad == 0 ? largest : 0);
        }
    }

    void divide(size_t block, double *own, double largest) {
        int exponent = 0;
        static_cast<void>(std::frexp(largest, &exponent));
        exponents[block] = exponent;
        // One product rounds once; a second factor only makes small numbers larger.
        const double by = power_of_two(std::min(-exponent, 1023));
        const double more = power_of_two(std::max(-exponent - 1023, 0));
        double sum = 0;
        for (size_t i = 0; i < size(); ++i) {
            own[i] = largest > 0 ? own[i] * by * more : 0;
            sum += own[i] * own[i];
        }
        norms[block] = std::sqrt(sum);
    }

    uint16_t radius(size_t block) {
        const int drop = 52 - how.radius_bits;
        uint64_t addend = uint64_t{1} << (drop - 1);
        if (how.scale == kSphereUnbiased) {
            const uint64_t number = 2 * (first / how.block + block);
            const uint64_t low = word_at(how.radii_key, number);
            addend = (uint64_t{word_at(how.radii_key, number + 1)} << 32 | low) >> (64 - drop);
        }
        const uint64_t level = (std::bit_cast<uint64_t>(norms[block]) + addend) >> drop;
        factors[block] = std::bit_cast<double>(level << drop);
        const int64_t offset = int64_t{exponents[block]} - how.least_exponent - 1023;
        return static_cast<uint16_t>(static_cast<int64_t>(level) + (offset << how.radius_bits) + 1);
    }

    // The least product with a direction of length 1; infinite where there is none.
    double needed(size_t block) const {
        double cosine = how.cosine;
        if (how.scale == 0) {
            const double ratio = factors[block] / norms[block] * cosine;
            cosine = (1 - how.room * how.room + ratio * ratio) / (2 * ratio);
        }
        return cosine < 1 ? cosine * norms[block] : INFINITY;
    }

    void prepare(uint16_t *radii) {
        SphereSigns signs(how.key);
        const size_t padded = size() + size() % 2;
        for (size_t block = 0; block < count; ++block) {
            const bool live = norms[block] > 0;
            radii[block] =
                live ? radius(block) : static_cast<uint16_t>(finite[block] ? 0 : how.nan_code);
            need[block] = live ? needed(block) : INFINITY;
            const bool possible = std::isfinite(need[block]);
            const double factor = possible ? kLength * how.cosine / need[block] : 0;
            double *const own = values + block * size();
            int16_t *const to = rounded + block * padded;
            to[padded - 1] = 0;
            for (size_t i = 0; i < size(); ++i) {
                const uint64_t flip = uint64_t{signs.at(first + block * size() + i)} << 63;
                own[i] = std::bit_cast<double>(std::bit_cast<uint64_t>(own[i]) ^ flip);
                // In the sum the last bit counts ones: the nearest integer.
                to[i] = static_cast<int16_t>((own[i] * factor + 0x1.8p52) - 0x1.8p52);
            }
        }
    }

    void search(const int16_t *table, uint32_t group) {
        // Rounding a block moves its product with a direction of length 1 by at most half a root of
        // the size; 1 is far more than the rounding of floats.
        const double slope = kLength * how.cosine - std::sqrt(static_cast<double>(size())) / 2 - 1;
        const fewbits_sphere task = {
            {how.key[0], how.key[1], how.key[2], how.key[3]}, group, how.size, how.limit, 0, slope};
        search_group(table, task, {values, rounded, need}, found, count);
    }

    // Codes from 1 of the values of a block without a direction.
    void grid(size_t block, uint16_t *codes) {
        const double last = how.steps;
        const double step = factors[block] * (1 + power_of_two(-how.radius_bits));
        SphereSigns signs(how.key);
        for (size_t i = 0; i < size(); ++i) {
            const uint64_t element = first + block * size() + i;
            const double value = values[block * size() + i];
            const double own = signs.at(element) ? -value : value;
            const double position = (own / step + 1) / 2 * last;
            const double code =
                how.scale == kSphereUnbiased
                    ? std::floor(position + (word_at(how.escapes_key, element) + 0.5) / 0x1p32)
                    : std::nearbyint(position);
            codes[i] = static_cast<uint16_t>(1 + std::clamp(code, 0.0, last));
        }
    }
};

size_t item_of(int dtype) {
    return dtype == FEWBITS_FLOAT64 ? 8 : dtype == FEWBITS_FLOAT32 ? 4 : 2;
}

} // namespace
} // namespace fewbits

using namespace fewbits;

extern "C" {

uint64_t fewbits_spherical_live(const void *values, int dtype, size_t count, size_t block) {
    uint64_t live = 0;
    with_format(dtype, [&]<class F>(F) -> int {
        using Bits = typename F::Bits;
        const auto all = input<Bits>(values, block == 0 ? 0 : count);
        for (size_t start = 0; start < all.size(); start += block) {
            Bits largest = 0;
            for (const Bits value : all.subspan(start, std::min(block, all.size() - start))) {
                largest = std::max(largest, static_cast<Bits>(value & (F::sign - 1)));
            }
            live += largest > 0 && largest < F::infinity;
        }
        return FEWBITS_OK;
    });
    return live;
}

int fewbits_spherical_encode(const int16_t *table, const fewbits_spherical *how, const void *values,
                             size_t blocks, uint16_t *radii, int32_t *indices, uint16_t *escapes,
                             uint64_t counts[3]) {
    if (!is_spherical(*how) || how->size == 0 || how->size > how->block) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const size_t size = how->size;
    const size_t most = std::clamp<size_t>(kTogether / size, 1, kSphereGroup);
    fewbits_tally tally{};
    uint64_t all_escaped = 0;
    for (size_t at = 0, count = 0; at < blocks; at += count) {
        const uint64_t place = how->place + at;
        count =
            std::min({most, blocks - at, kSphereGroup - static_cast<size_t>(place % kSphereGroup)});
        Blocks own(*how, count, how->first + at * size);
        own.load(static_cast<const uint8_t *>(values) + at * size * item_of(how->dtype), tally);
        own.prepare(radii + at);
        own.search(table, static_cast<uint32_t>(how->group + place / kSphereGroup));
        for (size_t block = 0; block < count; ++block) {
            uint16_t *const codes = escapes + (at + block) * size;
            const bool escaped = own.norms[block] > 0 && own.found[block] < 0;
            std::fill_n(codes, size, uint16_t{0});
            if (escaped) {
                own.grid(block, codes);
            }
            all_escaped += escaped;
            indices[at + block] = escaped ? static_cast<int32_t>(how->limit) : own.found[block];
        }
    }
    counts[0] = tally.saturated;
    counts[1] = tally.nonfinite;
    counts[2] = all_escaped;
    return FEWBITS_OK;
}

int fewbits_rice_append(const int32_t *numbers, size_t count, int parameter, uint8_t *out,
                        size_t size, uint64_t at[2]) {
    if (parameter < 0 || parameter > 22) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const auto width = static_cast<uint64_t>(parameter);
    // At most 56 bits, byte by byte: the last ones may be at the end of the section.
    const auto put = [&](uint64_t bit, uint64_t bits) {
        bits <<= bit % 8;
        for (uint64_t byte = bit / 8; bits != 0; ++byte, bits >>= 8) {
            out[byte] = static_cast<uint8_t>(out[byte] | (bits & 0xFF));
        }
    };
    for (size_t i = 0; i < count; ++i) {
        if (numbers[i] < 0) {
            continue;
        }
        const auto number = static_cast<uint64_t>(numbers[i]);
        const uint64_t quotient = number >> parameter;
        if (at[0] + width > 8 * uint64_t{size} || at[1] + quotient + 1 > 8 * uint64_t{size}) {
            return FEWBITS_BAD_SIZE;
        }
        put(at[0], number & ((uint64_t{1} << parameter) - 1));
        for (uint64_t done = 0; done < quotient; done += 32) {
            put(at[1] + done, (uint64_t{1} << std::min<uint64_t>(32, quotient - done)) - 1);
        }
        at[0] += width;
        at[1] += quotient + 1;
    }
    return FEWBITS_OK;
}
}
