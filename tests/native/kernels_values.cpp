// Calls of the kernels that read or write numbers: what they make of one case.
#include <bit>

#include "compared.h"
#include "dithering.h"
#include "sign.h"
#include "spherical.h"
#include "steps.h"

namespace compared {
namespace {

template <class T> T *aligned(uint8_t *memory) { return reinterpret_cast<T *>(memory); }

template <class Bits> Out<Bits> room(Case &own, size_t size) {
    return output<Bits>(own.odd_memory(size * sizeof(Bits)), size);
}

// ---- casts ----

// Both bytes of a 16-bit number count on, so that long vectors have every pattern.
template <class F> In<typename F::Bits> cast_input(Case &own) {
    if constexpr (sizeof(typename F::Bits) == 2) {
        if (own.count > 65536) {
            const auto out = output<uint16_t>(own.odd_memory(2 * own.count), own.count);
            for (size_t i = 0; i < own.count; ++i) {
                out[i] = static_cast<uint16_t>(i);
            }
            return {out.data(), own.count};
        }
    }
    return own.numbers<F>(own.count);
}

template <class From, class To, Cast<From, To> CastKernels::*kernel> void cast(Case &own) {
    const auto input = cast_input<From>(own);
    const auto out = room<typename To::Bits>(own, own.count);
    fewbits_tally tally = {0, 0};
    (own.kernels.casts.*kernel)(input, out, tally);
    own.put_memory(out.data());
    own.put(tally);
}

// ---- natural compression ----

struct Planes {
    Bytes exponents, signs;

    Planes(Case &own, int width)
        : exponents(own.memory(packed_size(own.count, width)), packed_size(own.count, width)),
          signs(own.memory(packed_size(own.count, 1)), packed_size(own.count, 1)) {}
};

// The planes of some numbers, written by the portable table's kernel through `kernels`.
template <class F> void encode(Case &own, const Planes &planes, fewbits_tally &tally) {
    const auto input = cast_input<F>(own);
    const auto rounding = own.random.chance(2) ? FEWBITS_NEAREST : FEWBITS_STOCHASTIC;
    own.kernels.template natural<F>().encode(input, own.stream(), rounding, planes.exponents,
                                             planes.signs, tally);
}

template <class F> void natural_encode(Case &own) {
    const Planes planes(own, F::exponent);
    fewbits_tally tally = {0, 0};
    encode<F>(own, planes, tally);
    own.put_memory(planes.exponents.data());
    own.put_memory(planes.signs.data());
    own.put(tally);
}

// Planes that an encoder wrote, or with a flipped bit, which may be refused: then values mean
// nothing.
template <class F, bool Add> void natural_read(Case &own) {
    using Value = std::conditional_t<Add, typename NaturalKernels<F>::Total, typename F::Bits>;
    const Planes planes(own, F::exponent);
    fewbits_tally tally = {0, 0};
    encode<F>(own, planes, tally);
    if (own.count > 0 && own.random.chance(4)) {
        const Bytes &plane = own.random.chance(2) ? planes.exponents : planes.signs;
        plane[own.random.below(plane.size())] ^= static_cast<uint8_t>(1u << own.random.below(8));
    }
    const auto out = room<Value>(own, own.count);
    std::memset(static_cast<void *>(out.data()), 0x3E, own.count * sizeof(Value));
    fewbits_status status;
    tally = {0, 0};
    if constexpr (Add) {
        status = own.kernels.template natural<F>().accumulate(planes.exponents, planes.signs, out,
                                                              tally);
    } else {
        status =
            own.kernels.template natural<F>().decode(planes.exponents, planes.signs, out, tally);
    }
    own.put(status);
    if (status == FEWBITS_OK) {
        own.put_memory(out.data());
        own.put(tally);
    }
}

// ---- dithering ----

void norm_terms(Case &own) {
    const auto input = own.numbers<Float32>(own.count);
    for (const auto norm : {FEWBITS_NORM_1, FEWBITS_NORM_2, FEWBITS_NORM_MAX}) {
        double sum = 0;
        uint32_t largest = 0;
        own.kernels.dithering.norm_terms(input, norm, sum, largest);
        // Where only the largest counts, the sum means nothing.
        own.put(norm == FEWBITS_NORM_MAX ? 0.0 : sum);
        own.put(largest);
    }
}

struct Dithered {
    DitherShape shape;
    In<uint32_t> values;
    float scale;

    explicit Dithered(Case &own, uint32_t most = 1000)
        : shape{static_cast<uint32_t>(1 + own.random.below(own.random.chance(2) ? 7 : most)),
                own.random.chance(2)},
          values(own.numbers<Float32>(own.count)) {
        shape.levels = std::min(shape.levels, shape.natural ? 126u : most);
        uint32_t largest = 0;
        double sum = 0;
        own.kernels.dithering.norm_terms(values, FEWBITS_NORM_MAX, sum, largest);
        scale = std::bit_cast<float>(largest);
        scale = own.random.chance(4) && scale < 0x1p100f ? scale * 1.25f : scale; // never less
    }
};

void dither(Case &own) {
    const Dithered given(own);
    const size_t size = packed_size(own.count, given.shape.width());
    const Bytes packed{own.memory(size), size};
    fewbits_tally tally = {0, 0};
    own.kernels.dithering.dither(given.values, own.stream(), given.scale, given.shape, packed,
                                 tally);
    own.put_memory(packed.data());
    own.put(tally);
}

void dither_levels(Case &own) {
    const Dithered given(own, DitherRatios::most_levels);
    uint8_t *const levels = own.memory(own.count);
    uint8_t *const signs = own.memory(packed_size(own.count, 1));
    fewbits_tally tally = {0, 0};
    own.kernels.dithering.dither_levels(given.values, own.stream(), given.scale, given.shape,
                                        levels, signs, tally);
    own.put_memory(levels);
    own.put_memory(signs);
    own.put(tally);
}

template <bool Coded> void undither(Case &own) {
    DitherShape shape{static_cast<uint32_t>(1 + own.random.below(own.random.chance(2) ? 6 : 126)),
                      own.random.chance(2)};
    const DitherRatios ratios(shape, Coded);
    const float scale = std::bit_cast<float>(own.random.number<Float32>() % Float32::infinity);
    const auto out = room<uint32_t>(own, own.count);
    if constexpr (Coded) {
        uint8_t *const levels = own.memory(own.count);
        const uint8_t *const signs = own.mask(own.count);
        for (size_t i = 0; i < own.count; ++i) {
            levels[i] = static_cast<uint8_t>(own.random.below(ratios.count));
        }
        own.kernels.dithering.undither_levels(levels, signs, scale, ratios, out);
    } else {
        auto *const codes = aligned<uint16_t>(own.memory(2 * own.count));
        for (size_t i = 0; i < own.count; ++i) {
            codes[i] = static_cast<uint16_t>(own.random.below(ratios.count));
        }
        own.kernels.dithering.undither({codes, own.count}, scale, ratios, out);
    }
    own.put_memory(out.data());
}

// ---- signs ----

template <class F> void scan(Case &own) {
    const auto input = own.numbers<F>(own.count);
    uint8_t *const signs = own.memory(packed_size(own.count, 1));
    const SignTerms terms = own.kernels.sign.template scan<F>()(input, signs);
    own.put_memory(signs);
    own.put(terms);
}

template <class F,
          void (*SignKernels::*kernel)(const uint8_t *, typename F::Bits, Out<typename F::Bits>)>
void fill(Case &own) {
    const uint8_t *const signs = own.mask(own.count);
    const auto out = room<typename F::Bits>(own, own.count);
    const auto scale = own.random.number<F>();
    (own.kernels.sign.*kernel)(signs, static_cast<typename F::Bits>(scale & (F::sign - 1)), out);
    own.put_memory(out.data());
}

template <class F, class Total, void (*SignKernels::*kernel)(const uint8_t *, Total, Out<Total>)>
void add(Case &own) {
    const uint8_t *const signs = own.mask(own.count);
    const auto start = own.numbers<F>(own.count);
    const auto out = room<Total>(own, own.count);
    std::memcpy(static_cast<void *>(out.data()), start.data(), own.count * sizeof(Total));
    const auto scale =
        static_cast<typename F::Bits>(own.random.number<F>() & (F::sign - 1)) % F::infinity;
    (own.kernels.sign.*kernel)(signs, std::bit_cast<Total>(scale), out);
    own.put_memory(out.data());
}

// ---- sparse dithering ----

StepRun run_of(Case &own) {
    constexpr fewbits_step_rounding roundings[] = {FEWBITS_STEP_NEAREST, FEWBITS_STEP_STOCHASTIC,
                                                   FEWBITS_STEP_SUBTRACTIVE};
    const auto values = own.numbers<Float32>(own.count);
    const auto rounding = roundings[own.random.below(3)];
    const uint32_t wild = own.random.number<Float32>() % Float32::infinity;
    const auto tame =
        static_cast<uint32_t>((120 + own.random.below(9)) << 23 | own.random.below(1 << 23));
    const float step = std::bit_cast<float>(own.random.chance(6) && wild != 0 ? wild : tame);
    return {values, own.stream(), step, rounding};
}

void quantise(Case &own) {
    const StepRun run = run_of(own);
    uint8_t *const codes = own.memory(own.count);
    uint8_t *const signs = own.memory(packed_size(own.count, 1));
    fewbits_tally tally = {0, 0};
    own.put(own.kernels.steps.quantise(run, codes, signs, tally));
    for (size_t i = 0; i < own.count; ++i) { // signs of zeros mean nothing
        const auto bit = static_cast<uint8_t>(1u << (i % 8));
        signs[i / 8] = static_cast<uint8_t>(codes[i] == 0 ? signs[i / 8] & ~bit : signs[i / 8]);
    }
    own.put_memory(codes);
    own.put_memory(signs);
    own.put(tally);
}

uint8_t *small_codes(Case &own, size_t bound) {
    uint8_t *const codes = own.memory(own.count);
    for (size_t i = 0; i < own.count; ++i) {
        codes[i] = static_cast<uint8_t>(own.random.below(own.random.chance(9) ? bound : 3));
    }
    return codes;
}

void sums(Case &own) {
    const auto values = own.numbers<Float32>(own.count);
    for (size_t i = 0; i < own.count; ++i) { // a value that is not finite has the code 0
        auto &value = const_cast<Unaligned<uint32_t> &>(values[i]);
        value = (value & ~Float32::sign) >= Float32::infinity ? 0 : uint32_t{value};
    }
    const size_t count = std::min<size_t>(own.count, 65536); // of a run
    own.put(own.kernels.steps.sums(values.first(count), small_codes(own, 255)));
}

void dequantise(Case &own) {
    const StepRun run = run_of(own);
    const uint8_t *const codes = small_codes(own, 255);
    uint8_t *const signs = own.mask(own.count);
    for (size_t i = 0; i < own.count; ++i) { // zeros have no sign
        const auto bit = static_cast<uint8_t>(1u << (i % 8));
        signs[i / 8] = static_cast<uint8_t>(codes[i] == 0 ? signs[i / 8] & ~bit : signs[i / 8]);
    }
    const auto out = room<uint32_t>(own, own.count);
    own.kernels.steps.dequantise(run, codes, signs, out);
    own.put_memory(out.data());
}

// ---- directions ----

void make_tile(Case &own, SphereTile &tile, const int16_t *table) {
    tile.width = 1 + own.random.below(own.random.chance(2) ? 16 : 512);
    tile.count = std::min(std::bit_floor(kSpherePairs / tile.width), kSphereTile);
    tile.count = std::min(tile.count, size_t{8} << own.random.below(6));
    Stream stream = own.stream(); // a tile's words are within a segment
    stream.first = stream.first << 32 | own.random.below(1 << 20);
    own.kernels.spherical.fill(table, stream, tile);
}

const int16_t *normal_table(Case &own) {
    auto *const table = aligned<int16_t>(own.memory(2 * kSphereWays));
    for (size_t i = 0; i < kSphereWays; ++i) {
        table[i] = static_cast<int16_t>(static_cast<int64_t>(i * 2654435761u >> 7 & 0x3FF) - 512);
    }
    return table;
}

void sphere_fill(Case &own) {
    static SphereTile tile;
    make_tile(own, tile, normal_table(own));
    own.put(tile.pairs, tile.width * tile.count * sizeof(int32_t));
}

void sphere_next(Case &own) {
    static SphereTile tile;
    make_tile(own, tile, normal_table(own));
    auto *const block = aligned<int32_t>(own.memory(4 * tile.width));
    for (size_t i = 0; i < tile.width; ++i) {
        const auto coordinate = [&] { return static_cast<int16_t>(own.random.below(2048) - 1024); };
        const int16_t even = coordinate();
        block[i] = pair(even, coordinate());
    }
    const auto most = static_cast<int32_t>(512 * 1024 * tile.width / 8);
    for (size_t t = 0; t < tile.count; ++t) {
        const auto part = static_cast<int32_t>(own.random.below(static_cast<size_t>(most)));
        int32_t product = 0; // just not enough
        for (size_t j = 0; j < tile.width; ++j) {
            const int32_t other = tile.pairs[j * tile.count + t];
            product += low(other) * low(block[j]) + high(other) * high(block[j]);
        }
        tile.need[t] = own.random.chance(5) ? -part / 8 : own.random.chance(3) ? product : part;
    }
    for (size_t from = 0; from <= tile.count; ++from) {
        own.put(own.kernels.spherical.next(tile, block, from));
    }
}

} // namespace

#define NATURAL(F, group)                                                                          \
    CHECK(group.encode, natural_encode<F>), CHECK(group.decode, (natural_read<F, false>)),         \
        CHECK(group.accumulate, (natural_read<F, true>))
#define CAST(From, To, entry) CHECK(casts.entry, (cast<From, To, &CastKernels::entry>))

std::vector<Check> value_checks() {
    return {
        NATURAL(Float32, natural_float32),
        NATURAL(Float64, natural_float64),
        NATURAL(Float16, natural_float16),
        NATURAL(Bfloat16, natural_bfloat16),
        CAST(Float32, Float32, float32),
        CAST(Float64, Float64, float64),
        CAST(Float16, Float16, float16),
        CAST(Bfloat16, Bfloat16, bfloat16),
        CAST(Float32, Float16, float32_to_float16),
        CAST(Float32, Bfloat16, float32_to_bfloat16),
        CAST(Float16, Float32, float16_to_float32),
        CAST(Bfloat16, Float32, bfloat16_to_float32),
        CHECK(dithering.norm_terms, norm_terms),
        CHECK(dithering.dither, dither),
        CHECK(dithering.undither, undither<false>),
        CHECK(dithering.dither_levels, dither_levels),
        CHECK(dithering.undither_levels, undither<true>),
        CHECK(sign.scan_float32, scan<Float32>),
        CHECK(sign.scan_float64, scan<Float64>),
        CHECK(sign.scan_float16, scan<Float16>),
        CHECK(sign.scan_bfloat16, scan<Bfloat16>),
        CHECK(sign.fill16, (fill<Bfloat16, &SignKernels::fill16>)),
        CHECK(sign.fill32, (fill<Float32, &SignKernels::fill32>)),
        CHECK(sign.fill64, (fill<Float64, &SignKernels::fill64>)),
        CHECK(sign.add32, (add<Float32, float, &SignKernels::add32>)),
        CHECK(sign.add64, (add<Float64, double, &SignKernels::add64>)),
        CHECK(steps.quantise, quantise),
        CHECK(steps.sums, sums),
        CHECK(steps.dequantise, dequantise),
        CHECK(spherical.fill, sphere_fill),
        CHECK(spherical.next, sphere_next),
    };
}

} // namespace compared
