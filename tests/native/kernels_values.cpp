// Calls of the kernels that read or write numbers: what they make of one case.
#include <bit>
#include <cmath>

#include "compared.h"
#include "dithering.h"
#include "formats.h"
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

// One exponent a byte or a word; `signs` is a plane.
template <class F> struct Spelled {
    using Code = typename NaturalKernels<F>::Code;
    Code *exponents;
    uint8_t *signs;

    explicit Spelled(Case &own)
        : exponents(aligned<Code>(own.memory(own.count * sizeof(Code)))),
          signs(own.memory(packed_size(own.count, 1))) {}
    void encode(Case &own, fewbits_tally &tally) const {
        const auto input = cast_input<F>(own);
        const auto rounding = own.random.chance(2) ? FEWBITS_NEAREST : FEWBITS_STOCHASTIC;
        own.kernels.template natural<F>().encode_codes(input, own.stream(), rounding, exponents,
                                                       signs, tally);
    }
};

template <class F> void natural_encode_codes(Case &own) {
    const Spelled<F> codes(own);
    fewbits_tally tally = {0, 0};
    codes.encode(own, tally);
    own.put_memory(reinterpret_cast<uint8_t *>(codes.exponents));
    own.put_memory(codes.signs);
    own.put(tally);
}

template <class F, bool Add> void natural_read_codes(Case &own) {
    using Value = std::conditional_t<Add, typename NaturalKernels<F>::Total, typename F::Bits>;
    const Spelled<F> codes(own);
    fewbits_tally tally = {0, 0};
    codes.encode(own, tally);
    if (own.count > 0 && own.random.chance(4)) { // a sign where there may be none is refused
        const size_t at = own.random.below(own.count);
        codes.signs[at / 8] ^= static_cast<uint8_t>(1u << (at % 8));
    }
    const auto out = room<Value>(own, own.count);
    std::memset(static_cast<void *>(out.data()), 0x3E, own.count * sizeof(Value));
    fewbits_status status;
    tally = {0, 0};
    const auto &kernels = own.kernels.template natural<F>();
    if constexpr (Add) {
        status = kernels.accumulate_codes(codes.exponents, codes.signs, out, tally);
    } else {
        status = kernels.decode_codes(codes.exponents, codes.signs, out, tally);
    }
    own.put(status);
    if (status == FEWBITS_OK) {
        own.put_memory(out.data());
        own.put(tally);
    }
}

// ---- dithering ----

template <class F> void norm_terms(Case &own) {
    const auto input = own.numbers<F>(own.count);
    for (const auto norm : {FEWBITS_NORM_1, FEWBITS_NORM_2, FEWBITS_NORM_MAX}) {
        double sum = 0;
        typename F::Bits largest = 0;
        own.kernels.template dithering<F>().norm_terms(input, norm, sum, largest);
        // Where only the largest counts, the sum means nothing.
        own.put(norm == FEWBITS_NORM_MAX ? 0.0 : sum);
        own.put(largest);
    }
}

void scaled_terms(Case &own) {
    const auto input = own.numbers<Float64>(own.count);
    for (const auto norm : {FEWBITS_NORM_1, FEWBITS_NORM_2}) {
        const int shift = own.random.chance(2) ? 1024 : static_cast<int>(own.random.below(1024));
        own.put(own.kernels.dithering_float64.scaled_terms(input, norm, shift));
    }
}

template <class F> struct Dithered {
    DitherShape shape;
    In<typename F::Bits> values;
    Wide<F> scale;

    explicit Dithered(Case &own, uint32_t most = 1000)
        : shape{static_cast<uint32_t>(1 + own.random.below(own.random.chance(2) ? 7 : most)),
                own.random.chance(2)},
          values(own.numbers<F>(own.count)) {
        // Levels are normal numbers of the format.
        shape.levels = std::min(shape.levels, shape.natural ? F::exponent == 5 ? 14u : 126u : most);
        typename F::Bits largest = 0;
        double sum = 0;
        own.kernels.template dithering<F>().norm_terms(values, FEWBITS_NORM_MAX, sum, largest);
        // Never less than the largest, often exactly it; powers of two more are of the format.
        const bool more = own.random.chance(4) && largest < F::infinity / 2;
        scale = widened<F>(largest) * (more ? Wide<F>{2} : Wide<F>{1});
    }
};

template <class F> void dither(Case &own) {
    const Dithered<F> given(own);
    const size_t size = packed_size(own.count, given.shape.width());
    const Bytes packed{own.memory(size), size};
    fewbits_tally tally = {0, 0};
    own.kernels.template dithering<F>().dither(given.values, own.stream(), given.scale, given.shape,
                                               packed, tally);
    own.put_memory(packed.data());
    own.put(tally);
}

template <class F> void dither_levels(Case &own) {
    const Dithered<F> given(own, DitherRatios::most_levels);
    uint8_t *const levels = own.memory(own.count);
    uint8_t *const signs = own.memory(packed_size(own.count, 1));
    fewbits_tally tally = {0, 0};
    own.kernels.template dithering<F>().dither_levels(given.values, own.stream(), given.scale,
                                                      given.shape, levels, signs, tally);
    own.put_memory(levels);
    own.put_memory(signs);
    own.put(tally);
}

template <class F> void dither_codes(Case &own) {
    const Dithered<F> given(own);
    auto *const codes = aligned<uint16_t>(own.memory(2 * own.count));
    fewbits_tally tally = {0, 0};
    own.kernels.template dithering<F>().dither_codes(given.values, own.stream(), given.scale,
                                                     given.shape, codes, tally);
    own.put_memory(reinterpret_cast<uint8_t *>(codes));
    own.put(tally);
}

template <class F, bool Coded> void undither(Case &own) {
    DitherShape shape{static_cast<uint32_t>(1 + own.random.below(own.random.chance(2) ? 6 : 126)),
                      own.random.chance(2)};
    const DitherRatios ratios(shape, Coded);
    const auto any = static_cast<typename F::Bits>(own.random.number<F>() & (F::sign - 1));
    const Wide<F> scale = widened<F>(static_cast<typename F::Bits>(any % F::infinity));
    const auto out = room<typename F::Bits>(own, own.count);
    const auto &kernels = own.kernels.template dithering<F>();
    if constexpr (Coded) {
        uint8_t *const levels = own.memory(own.count);
        const uint8_t *const signs = own.mask(own.count);
        for (size_t i = 0; i < own.count; ++i) {
            levels[i] = static_cast<uint8_t>(own.random.below(ratios.count));
        }
        kernels.undither_levels(levels, signs, scale, ratios, out);
    } else {
        auto *const codes = aligned<uint16_t>(own.memory(2 * own.count));
        for (size_t i = 0; i < own.count; ++i) {
            codes[i] = static_cast<uint16_t>(own.random.below(ratios.count));
        }
        kernels.undither({codes, own.count}, scale, ratios, out);
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

template <class F> StepRun<F> run_of(Case &own) {
    constexpr fewbits_step_rounding roundings[] = {FEWBITS_STEP_NEAREST, FEWBITS_STEP_STOCHASTIC,
                                                   FEWBITS_STEP_SUBTRACTIVE};
    using W = std::conditional_t<sizeof(typename F::Bits) == 8, Float64, Float32>; // of a step
    constexpr uint64_t one = W::top_code >> 1;
    const auto values = own.numbers<F>(own.count);
    const auto rounding = roundings[own.random.below(3)];
    const auto wild = static_cast<typename W::Bits>(own.random.number<W>() % W::infinity);
    const auto tame = static_cast<typename W::Bits>((one - 7 + own.random.below(9)) << W::mantissa |
                                                    own.random.below(1 << 23));
    const auto step = std::bit_cast<Wide<F>>(own.random.chance(6) && wild != 0 ? wild : tame);
    return {values, own.stream(), step, rounding};
}

template <class F> void quantise(Case &own) {
    const StepRun<F> run = run_of<F>(own);
    uint8_t *const codes = own.memory(own.count);
    uint8_t *const signs = own.memory(packed_size(own.count, 1));
    fewbits_tally tally = {0, 0};
    own.put(own.kernels.template steps<F>().quantise(run, codes, signs, tally));
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

template <class F, bool Shifted> void sums(Case &own) {
    const auto values = own.numbers<F>(own.count);
    for (size_t i = 0; i < own.count; ++i) { // a value that is not finite has the code 0
        auto &value = const_cast<Unaligned<typename F::Bits> &>(values[i]);
        const typename F::Bits bits = value;
        value = (bits & (F::sign - 1)) >= F::infinity ? typename F::Bits{0} : bits;
    }
    const size_t count = std::min<size_t>(own.count, 65536); // of a run
    const uint8_t *const codes = small_codes(own, 255);
    const auto &kernels = own.kernels.template steps<F>();
    if constexpr (Shifted) {
        const int shift = own.random.chance(2) ? 1024 : static_cast<int>(own.random.below(1024));
        own.put(kernels.shifted_sums(values.first(count), codes, shift));
    } else {
        own.put(kernels.sums(values.first(count), codes));
    }
}

template <class F> void dequantise(Case &own) {
    const StepRun<F> run = run_of<F>(own);
    const uint8_t *const codes = small_codes(own, 255);
    uint8_t *const signs = own.mask(own.count);
    for (size_t i = 0; i < own.count; ++i) { // zeros have no sign
        const auto bit = static_cast<uint8_t>(1u << (i % 8));
        signs[i / 8] = static_cast<uint8_t>(codes[i] == 0 ? signs[i / 8] & ~bit : signs[i / 8]);
    }
    const auto out = room<typename F::Bits>(own, own.count);
    own.kernels.template steps<F>().dequantise(run, codes, signs, out);
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

void sphere_place(Case &own) {
    static int16_t table[kSphereWays];
    for (auto &entry : table) {
        entry = static_cast<int16_t>(own.random.below(2048) - 1024);
    }
    const size_t size = 1 + own.count % 512;
    auto *const flips = aligned<uint32_t>(own.memory(4 * ((size + 31) / 32)));
    for (size_t i = 0; i < (size + 31) / 32; ++i) {
        flips[i] = static_cast<uint32_t>(own.random.bits());
    }
    auto *const y = aligned<double>(own.memory(8 * size));
    const double by = own.random.chance(2) ? 1.0 : 0x1p-900;
    own.kernels.spherical.place({table, own.stream(), size, flips, 0.75, by}, y);
    own.put_memory(y);
}

// ---- products with thin factors ----

enum class Product { left, right, settle };

// Finite numbers of several magnitudes, right before a page that cannot be touched.
template <class T> T *some(Case &own, size_t count) {
    T *const out = aligned<T>(own.memory(count * sizeof(T)));
    for (size_t i = 0; i < count; ++i) {
        const auto whole = static_cast<int32_t>(own.random.bits());
        out[i] = std::ldexp(static_cast<T>(whole), -static_cast<int>(own.random.below(40)));
    }
    return out;
}

template <class T, Product product> void products(Case &own) {
    const size_t rows = 1 + own.random.below(9);
    const size_t columns = own.count;
    const size_t stride = columns + own.random.below(3);
    const size_t lanes = kLane * (1 + own.random.below(3));
    const size_t last = (rows - 1) * stride + columns; // what lies behind the last row is not read
    const T *const memory = own.random.chance(2) ? nullptr : some<T>(own, last);
    T *const values = some<T>(own, last);
    const ProductMatrix<T> matrix = {values, memory, rows, columns, stride};
    const auto &kernels = [&]() -> const ProductKernels<T> & {
        if constexpr (sizeof(T) == sizeof(float)) {
            return own.kernels.products32;
        } else {
            return own.kernels.products64;
        }
    }();
    if constexpr (product == Product::settle) {
        const size_t rank = 1 + own.random.below(lanes);
        const ProductFactors<T> factors = {some<T>(own, rows * lanes), some<T>(own, rank * columns),
                                           some<T>(own, rank * columns), rank, lanes};
        T *const remains = some<T>(own, last);
        kernels.settle(matrix, factors, values, remains);
        own.put_memory(values);
        own.put_memory(remains);
    } else if constexpr (product == Product::left) {
        const T *const basis = some<T>(own, columns * lanes);
        T *const out = some<T>(own, rows * lanes);
        kernels.left(matrix, basis, lanes, out);
        own.put_memory(out);
    } else {
        const T *const left = some<T>(own, rows * lanes);
        T *const out = some<T>(own, columns * lanes);
        kernels.right(matrix, left, lanes, out);
        own.put_memory(out);
    }
}

} // namespace

#define NATURAL(F, group)                                                                          \
    CHECK(group.encode, natural_encode<F>), CHECK(group.decode, (natural_read<F, false>)),         \
        CHECK(group.accumulate, (natural_read<F, true>))
#define CODES(F, group)                                                                            \
    CHECK(group.encode_codes, natural_encode_codes<F>),                                            \
        CHECK(group.decode_codes, (natural_read_codes<F, false>)),                                 \
        CHECK(group.accumulate_codes, (natural_read_codes<F, true>))
#define DITHERING(F, group)                                                                        \
    CHECK(group.norm_terms, norm_terms<F>), CHECK(group.dither, dither<F>),                        \
        CHECK(group.undither, (undither<F, false>)), CHECK(group.dither_levels, dither_levels<F>), \
        CHECK(group.undither_levels, (undither<F, true>)),                                         \
        CHECK(group.dither_codes, dither_codes<F>)
#define STEPS(F, group) CHECK(group.quantise, quantise<F>), CHECK(group.dequantise, dequantise<F>)
#define CAST(From, To, entry) CHECK(casts.entry, (cast<From, To, &CastKernels::entry>))
#define PRODUCTS(T, group)                                                                         \
    CHECK(group.left, (products<T, Product::left>)),                                               \
        CHECK(group.right, (products<T, Product::right>)),                                         \
        CHECK(group.settle, (products<T, Product::settle>))

std::vector<Check> value_checks() {
    return {
        NATURAL(Float32, natural_float32),
        NATURAL(Float64, natural_float64),
        NATURAL(Float16, natural_float16),
        NATURAL(Bfloat16, natural_bfloat16),
        CODES(Float64, natural_float64),
        CODES(Float16, natural_float16),
        CAST(Float32, Float32, float32),
        CAST(Float64, Float64, float64),
        CAST(Float16, Float16, float16),
        CAST(Bfloat16, Bfloat16, bfloat16),
        CAST(Float32, Float64, float32_to_float64),
        CAST(Float32, Float16, float32_to_float16),
        CAST(Float32, Bfloat16, float32_to_bfloat16),
        CAST(Float64, Float32, float64_to_float32),
        CAST(Float64, Float16, float64_to_float16),
        CAST(Float64, Bfloat16, float64_to_bfloat16),
        CAST(Float16, Float32, float16_to_float32),
        CAST(Float16, Float64, float16_to_float64),
        CAST(Float16, Bfloat16, float16_to_bfloat16),
        CAST(Bfloat16, Float32, bfloat16_to_float32),
        CAST(Bfloat16, Float64, bfloat16_to_float64),
        CAST(Bfloat16, Float16, bfloat16_to_float16),
        DITHERING(Float32, dithering_float32),
        DITHERING(Float64, dithering_float64),
        DITHERING(Float16, dithering_float16),
        DITHERING(Bfloat16, dithering_bfloat16),
        CHECK(dithering_float64.scaled_terms, scaled_terms),
        CHECK(sign.scan_float32, scan<Float32>),
        CHECK(sign.scan_float64, scan<Float64>),
        CHECK(sign.scan_float16, scan<Float16>),
        CHECK(sign.scan_bfloat16, scan<Bfloat16>),
        CHECK(sign.fill16, (fill<Bfloat16, &SignKernels::fill16>)),
        CHECK(sign.fill32, (fill<Float32, &SignKernels::fill32>)),
        CHECK(sign.fill64, (fill<Float64, &SignKernels::fill64>)),
        CHECK(sign.add32, (add<Float32, float, &SignKernels::add32>)),
        CHECK(sign.add64, (add<Float64, double, &SignKernels::add64>)),
        STEPS(Float32, steps_float32),
        STEPS(Float16, steps_float16),
        STEPS(Bfloat16, steps_bfloat16),
        CHECK(steps_float32.sums, (sums<Float32, false>)),
        CHECK(steps_float16.sums, (sums<Float16, false>)),
        CHECK(steps_bfloat16.sums, (sums<Bfloat16, false>)),
        STEPS(Float64, steps_float64),
        CHECK(steps_float64.shifted_sums, (sums<Float64, true>)),
        CHECK(spherical.fill, sphere_fill),
        CHECK(spherical.next, sphere_next),
        CHECK(spherical.place, sphere_place),
        PRODUCTS(float, products32),
        PRODUCTS(double, products64),
    };
}

} // namespace compared
