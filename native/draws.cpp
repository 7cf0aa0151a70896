// Values at random places, taken from a vector or put back: those whose words reach a threshold.
// The places are never listed; their words are made again where they are needed.
#include "draws.h"

#include <bit>
#include <cmath>
#include <limits>

#include "places.h"
#include "rows.h"

namespace fewbits {
namespace {

constexpr size_t kChunk = 4096; // words made at once
constexpr size_t kMasks = kChunk / kMaskBits;

bool in_one_segment(uint64_t first, size_t count) {
    return first <= kMostPlaces && count <= kMostPlaces - first;
}

// Calls `use(start, size, masks)` for every chunk; a bit says whether a word is `low` or more.
template <class Use> int each_chunk(const Stream &stream, size_t count, uint32_t low, Use use) {
    uint32_t masks[kMasks];
    for (size_t start = 0; start < count; start += kChunk) {
        const size_t size = std::min(kChunk, count - start);
        const size_t used = pieces_of(size, kMaskBits);
        kernels().stages.draws_mask(stream.from(start), low, {masks, used});
        if (size % kMaskBits != 0) {
            masks[used - 1] &= (1u << size % kMaskBits) - 1;
        }
        const int status = use(start, size, std::span<const uint32_t>{masks, used});
        if (status != FEWBITS_OK) {
            return status;
        }
    }
    return FEWBITS_OK;
}

// Calls `use(place)` for every bit.
template <class Use> void each_place(std::span<const uint32_t> masks, Use use) {
    for (size_t number = 0; number < masks.size(); ++number) {
        for (uint32_t left = masks[number]; left != 0; left &= left - 1) {
            use(number * kMaskBits + static_cast<size_t>(std::countr_zero(left)));
        }
    }
}

size_t bits_of(std::span<const uint32_t> masks) {
    size_t count = 0;
    for (const uint32_t mask : masks) {
        count += static_cast<size_t>(std::popcount(mask));
    }
    return count;
}

template <class F> uint64_t nonfinite_of(In<typename F::Bits> values) {
    using Bits = typename F::Bits;
    Bits bad = 0; // as wide as the values, so that it is counted in vectors; a chunk fits
    for (const Bits value : values) {
        bad = static_cast<Bits>(bad + ((value & (F::sign - 1)) >= F::infinity));
    }
    return bad;
}

// Products in float64, rounded once; what is beyond the largest number becomes it.
template <class F>
void write_products(const double *products, size_t count, typename F::Bits *out, int dtype,
                    fewbits_tally &tally) {
    bool ordinary = sizeof(typename F::Bits) == 4;
    if constexpr (sizeof(typename F::Bits) == 4) {
        for (size_t i = 0; i < count; ++i) {
            const auto rounded = std::bit_cast<uint32_t>(static_cast<float>(products[i]));
            out[i] = rounded;
            ordinary &= (rounded & (F::sign - 1)) < F::infinity;
        }
    }
    if (!ordinary) {
        fewbits_tally own{};
        cast_any(FEWBITS_FLOAT64, products, dtype, out, count, own);
        tally.saturated += own.saturated;
    }
}

template <>
void write_products<Float64>(const double *products, size_t count, uint64_t *out, int,
                             fewbits_tally &tally) {
    constexpr double most = std::numeric_limits<double>::max();
    for (size_t i = 0; i < count; ++i) {
        // `out` holds the values themselves.
        const bool beyond = std::isinf(products[i]) && std::isfinite(std::bit_cast<double>(out[i]));
        tally.saturated += beyond;
        out[i] = std::bit_cast<uint64_t>(beyond ? std::copysign(most, products[i]) : products[i]);
    }
}

template <class F> double as_double(typename F::Bits bits) {
    if constexpr (sizeof(bits) == 8) {
        return std::bit_cast<double>(bits);
    } else if constexpr (sizeof(bits) == 4) {
        return std::bit_cast<float>(bits);
    } else {
        return 0; // widened in vectors
    }
}

template <class F>
void multiply_kept(typename F::Bits *kept, size_t count, double factor, int dtype,
                   fewbits_tally &tally) {
    double products[kChunk];
    if constexpr (sizeof(typename F::Bits) == 2) {
        float wide[kChunk];
        fewbits_tally ignored{};
        const auto widen = F::exponent == 5 ? kernels().casts.float16_to_float32
                                            : kernels().casts.bfloat16_to_float32;
        widen(input<uint16_t>(kept, count), output<uint32_t>(wide, count), ignored);
        for (size_t i = 0; i < count; ++i) {
            products[i] = static_cast<double>(wide[i]) * factor;
        }
    } else {
        for (size_t i = 0; i < count; ++i) {
            products[i] = as_double<F>(kept[i]) * factor;
        }
    }
    write_products<F>(products, count, kept, dtype, tally);
}

template <class F>
int take(const fewbits_draws &how, const void *from, void *to, uint64_t kept,
         fewbits_tally &tally) {
    using Bits = typename F::Bits;
    const auto values = input<Bits>(from, how.count);
    const auto out = output<Bits>(to, kept);
    const Stream stream{{how.key[0], how.key[1], how.key[2], how.key[3]}, how.first};
    size_t taken = 0;
    const int status =
        each_chunk(stream, how.count, how.low,
                   [&](size_t start, size_t size, std::span<const uint32_t> masks) -> int {
                       const auto chunk = values.subspan(start, size);
                       tally.nonfinite += nonfinite_of<F>(chunk);
                       Bits own[kChunk];
                       size_t found = 0;
                       each_place(masks, [&](size_t place) { own[found++] = chunk[place]; });
                       if (found > out.size() - taken) {
                           return FEWBITS_BAD_SIZE;
                       }
                       multiply_kept<F>(own, found, how.factor, how.dtype, tally);
                       std::memcpy(out.data() + taken, own, found * sizeof(Bits));
                       taken += found;
                       return FEWBITS_OK;
                   });
    return status != FEWBITS_OK || taken == out.size() ? status : int{FEWBITS_BAD_SIZE};
}

template <class F> struct Put {
    using Bits = typename F::Bits;
    using Total = typename NaturalKernels<F>::Total;

    static void write(std::span<const uint32_t> masks, In<Bits> handed, Out<Bits> out) {
        std::memset(out.data(), 0, out.size_bytes());
        size_t taken = 0;
        each_place(masks, [&](size_t place) { out[place] = static_cast<Bits>(handed[taken++]); });
    }

    static void add(std::span<const uint32_t> masks, In<Bits> handed, Out<Total> totals) {
        Total terms[kChunk];
        fewbits_tally ignored{};
        if constexpr (sizeof(Bits) == 2) {
            const auto widen = F::exponent == 5 ? kernels().casts.float16_to_float32
                                                : kernels().casts.bfloat16_to_float32;
            widen(handed, output<uint32_t>(terms, handed.size()), ignored);
        } else {
            std::memcpy(terms, handed.data(), handed.size_bytes());
        }
        size_t taken = 0;
        each_place(masks, [&](size_t place) { totals[place] = totals[place] + terms[taken++]; });
    }
};

template <class F>
int put(const fewbits_draws &how, const void *from, uint64_t kept, bool add, void *to,
        fewbits_tally &tally) {
    using Bits = typename F::Bits;
    using Total = typename NaturalKernels<F>::Total;
    const auto handed = input<Bits>(from, kept);
    const Stream stream{{how.key[0], how.key[1], how.key[2], how.key[3]}, how.first};
    size_t taken = 0;
    const int status = each_chunk(
        stream, how.count, how.low,
        [&](size_t start, size_t size, std::span<const uint32_t> masks) -> int {
            const size_t found = bits_of(masks);
            if (found > handed.size() - taken) {
                return FEWBITS_BAD_SIZE;
            }
            const auto own = handed.subspan(taken, found);
            tally.nonfinite += nonfinite_of<F>(own);
            if (add) {
                Put<F>::add(masks, own, output<Total>(to, how.count).subspan(start, size));
            } else {
                Put<F>::write(masks, own, output<Bits>(to, how.count).subspan(start, size));
            }
            taken += found;
            return FEWBITS_OK;
        });
    return status != FEWBITS_OK || taken == handed.size() ? status : int{FEWBITS_BAD_SIZE};
}

} // namespace
} // namespace fewbits

using namespace fewbits;

extern "C" {

int fewbits_draws_near(const uint32_t key[4], uint64_t first, size_t count, uint32_t low,
                       uint32_t high, uint32_t *near, size_t room, uint64_t counts[2]) {
    if (low > high || !in_one_segment(first, count)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const Stream stream{{key[0], key[1], key[2], key[3]}, first};
    const DrawCounts found = kernels().stages.draws_near(stream, count, {low, high}, {near, room});
    counts[0] = found.above;
    counts[1] = found.within;
    return FEWBITS_OK;
}

int fewbits_draws_take(const fewbits_draws *how, const void *values, void *out, uint64_t kept,
                       fewbits_tally *tally) {
    if (!in_one_segment(how->first, how->count)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    *tally = {};
    return with_format(how->dtype,
                       [&]<class F>(F) -> int { return take<F>(*how, values, out, kept, *tally); });
}

int fewbits_draws_put(const fewbits_draws *how, const void *handed, uint64_t kept, int add,
                      void *out, fewbits_tally *tally) {
    if (!in_one_segment(how->first, how->count) || add < 0 || add > 1) {
        return FEWBITS_BAD_ARGUMENT;
    }
    *tally = {};
    return with_format(how->dtype, [&]<class F>(F) -> int {
        return put<F>(*how, handed, kept, add == 1, out, *tally);
    });
}
}
