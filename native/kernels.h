// The kernels that each instruction set may provide, in groups, and the float formats they work on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "fewbits.h"
#include "switch/arithmetic.h"
#include "switch/blake2sp.h"

namespace fewbits {

using Bytes = std::span<uint8_t>;
using ConstBytes = std::span<const uint8_t>;

// A value at any address: sections and callers' arrays start where they like.
template <class T> struct Unaligned {
    unsigned char bytes[sizeof(T)];

    operator T() const {
        T value;
        std::memcpy(&value, bytes, sizeof(T));
        return value;
    }
    Unaligned &operator=(T value) {
        std::memcpy(bytes, &value, sizeof(T));
        return *this;
    }
};
template <class T> using In = std::span<const Unaligned<T>>;
template <class T> using Out = std::span<Unaligned<T>>;

template <class T> In<T> input(const void *values, size_t count) {
    return {static_cast<const Unaligned<T> *>(values), count};
}
template <class T> Out<T> output(void *values, size_t count) {
    return {static_cast<Unaligned<T> *>(values), count};
}

// A random stream: 128 bits of key and the index of the first element's draw.
struct Stream {
    uint32_t key[4];
    uint64_t first;

    Stream from(uint64_t element) const {
        return {{key[0], key[1], key[2], key[3]}, first + element};
    }
};

// A float format as bit fields. `largest_power` is the greatest finite power of two.
template <class BitsType, int ExponentBits, int MantissaBits> struct Format {
    using Bits = BitsType;
    static constexpr int exponent = ExponentBits;
    static constexpr int mantissa = MantissaBits;
    static constexpr uint64_t one = 1;
    static constexpr uint32_t top_code = (1u << ExponentBits) - 1; // NaN and infinity
    static constexpr Bits sign = static_cast<Bits>(one << (ExponentBits + MantissaBits));
    static constexpr Bits infinity = static_cast<Bits>(uint64_t{top_code} << MantissaBits);
    static constexpr Bits largest_power = static_cast<Bits>(uint64_t{top_code - 1} << MantissaBits);
    static constexpr Bits quiet_nan = static_cast<Bits>(infinity | (one << (MantissaBits - 1)));
};
using Float32 = Format<uint32_t, 8, 23>;
using Float64 = Format<uint64_t, 11, 52>;
using Float16 = Format<uint16_t, 5, 10>;
using Bfloat16 = Format<uint16_t, 8, 7>;

// In which a format's values are summed, divided and scaled.
template <class F> using Wide = std::conditional_t<sizeof(typename F::Bits) == 8, double, float>;

// One of four values, by a float format.
template <class F>
constexpr const auto &of_format(const auto &float32, const auto &float64, const auto &float16,
                                const auto &bfloat16) {
    if constexpr (std::is_same_v<F, Float32>) {
        return float32;
    } else if constexpr (std::is_same_v<F, Float64>) {
        return float64;
    } else if constexpr (std::is_same_v<F, Float16>) {
        return float16;
    } else {
        return bfloat16;
    }
}

constexpr size_t packed_size(size_t count, int width) {
    const size_t bits = static_cast<size_t>(width);
    return (count / 8) * bits +
           ((count % 8) * bits + 7) / 8; // cannot overflow before count * 2 does
}

template <class From, class To>
using Cast = void (*)(In<typename From::Bits> input, Out<typename To::Bits> output,
                      fewbits_tally &tally);

using Histogram = uint32_t[256];
constexpr int kKeyBits = 12; // of a key that one pass counts
using KeyCounts = uint64_t[1 << kKeyBits];
// The keys whose bits above shift + kKeyBits are `prefix`.
template <class Bits> struct KeyRange {
    int shift;
    Bits prefix;
};
// The keys from `low` to `high`.
template <class Bits> struct KeyBand {
    Bits low;
    Bits high;
};
struct RansEncodeTable; // rans.h
struct RansDecodeTable;
struct PathTables; // trellis.h
struct NearLevels;
struct PathValues;
struct LevelStats;
struct DitherShape; // dithering.h
struct DitherRatios;
struct SignTerms;                  // sign.h
template <class F> struct StepRun; // steps.h
struct StepSums;
struct SphereTile; // spherical.h
struct SphereDirection;
struct DrawRange; // draws.h
struct DrawCounts;

// ---- groups of kernels: function pointers and nothing else, null where a table has none ----

struct CommonKernels {
    uint32_t (*crc32c)(uint32_t crc, ConstBytes data);
    void (*words)(const Stream &stream, std::span<uint32_t> out);
    void (*pack)(std::span<const uint16_t> codes, int width, Bytes packed);
    fewbits_status (*unpack)(ConstBytes packed, int width, uint32_t bound,
                             std::span<uint16_t> codes);
};

// The natural operator on one float format. The planes hold exactly packed_size(count, exponent)
// and packed_size(count, 1) bytes: units.cpp has checked. Totals are float32, or float64 for
// float64.
template <class F> struct NaturalKernels {
    using Bits = typename F::Bits;
    using Total = Wide<F>;
    using Code = std::conditional_t<(F::exponent > 8), uint16_t, uint8_t>;
    void (*encode)(In<Bits> values, const Stream &stream, fewbits_rounding rounding,
                   Bytes exponents, Bytes signs, fewbits_tally &tally);
    fewbits_status (*decode)(ConstBytes exponents, ConstBytes signs, Out<Bits> values,
                             fewbits_tally &tally);
    fewbits_status (*accumulate)(ConstBytes exponents, ConstBytes signs, Out<Total> totals,
                                 fewbits_tally &tally);
    // The same with one exponent a byte, or a word where they are wider. Null where exponents have
    // 8 bits.
    void (*encode_codes)(In<Bits> values, const Stream &stream, fewbits_rounding rounding,
                         Code *exponents, uint8_t *signs, fewbits_tally &tally) = nullptr;
    fewbits_status (*decode_codes)(const Code *exponents, const uint8_t *signs, Out<Bits> values,
                                   fewbits_tally &tally) = nullptr;
    fewbits_status (*accumulate_codes)(const Code *exponents, const uint8_t *signs,
                                       Out<Total> totals, fewbits_tally &tally) = nullptr;
};

// A cast from a format to itself is a copy that counts what is not finite.
struct CastKernels {
    Cast<Float32, Float32> float32;
    Cast<Float64, Float64> float64;
    Cast<Float16, Float16> float16;
    Cast<Bfloat16, Bfloat16> bfloat16;
    Cast<Float32, Float64> float32_to_float64;
    Cast<Float32, Float16> float32_to_float16;
    Cast<Float32, Bfloat16> float32_to_bfloat16;
    Cast<Float64, Float32> float64_to_float32;
    Cast<Float64, Float16> float64_to_float16;
    Cast<Float64, Bfloat16> float64_to_bfloat16;
    Cast<Float16, Float32> float16_to_float32;
    Cast<Float16, Float64> float16_to_float64;
    Cast<Float16, Bfloat16> float16_to_bfloat16;
    Cast<Bfloat16, Float32> bfloat16_to_float32;
    Cast<Bfloat16, Float64> bfloat16_to_float64;
    Cast<Bfloat16, Float16> bfloat16_to_float16;

    template <class From, class To> Cast<From, To> between() const {
        return of_format<From>(
            of_format<To>(float32, float32_to_float64, float32_to_float16, float32_to_bfloat16),
            of_format<To>(float64_to_float32, float64, float64_to_float16, float64_to_bfloat16),
            of_format<To>(float16_to_float32, float16_to_float64, float16, float16_to_bfloat16),
            of_format<To>(bfloat16_to_float32, bfloat16_to_float64, bfloat16_to_float16, bfloat16));
    }
};

constexpr size_t kSlack = 8;

// Memory that the caller reads or writes next, `each` bytes for a symbol. The coder's loops wait
// for their own results, and memory is idle meanwhile: they may fetch it.
struct Ahead {
    const void *at = nullptr;
    size_t each = 0;
};
// Of values, one for each symbol; nothing where there are none.
template <class T, size_t extent> Ahead ahead_of(std::span<T, extent> values) {
    return {values.data(), values.empty() ? 0 : sizeof(T)};
}

struct RansBlock; // abreast.h

// The loops of the entropy coder; rans.h has their meaning. There are as many states as lanes.
struct CoderKernels {
    void (*count_symbols)(ConstBytes symbols, Histogram &counts); // adds to the counts
    // Words end at the end of `room`; the result is where they begin, null if it is too small.
    uint8_t *(*encode)(ConstBytes symbols, const RansEncodeTable &table, std::span<uint32_t> states,
                       Bytes room, Ahead ahead);
    // `data` begins with the words; the result is where they end, null if there are not enough.
    const uint8_t *(*decode)(ConstBytes data, const RansDecodeTable &table,
                             std::span<uint32_t> states, Bytes symbols, Ahead ahead);
    // Null where it would gain nothing. Two blocks or more of equally many symbols, a multiple of
    // their lanes; false, and nothing is changed, where they must be decoded one by one.
    bool (*decode_abreast)(std::span<RansBlock> blocks);
    // Marks the symbols that are not 0, one bit each, and counts them.
    size_t (*nonzero)(ConstBytes symbols, Bytes mask);
    // Bits of a plane where the mask has ones, to and from a string without gaps.
    void (*join_bits)(ConstBytes plane, ConstBytes mask, Bytes joined);
    void (*spread_bits)(ConstBytes joined, ConstBytes mask, Bytes plane);
    // The same for whole bytes. `joined` has kSlack bytes more, which may be written or read.
    void (*join_bytes)(ConstBytes codes, ConstBytes mask, Bytes joined);
    void (*spread_bytes)(ConstBytes joined, ConstBytes mask, Bytes codes);
};

} // namespace fewbits

#include "kernels_tables.h"

namespace fewbits {

// Selection and rotation; select.h has the meaning. Keys are values without the bits outside of
// `mask`.
struct StageKernels {
    void (*count_keys)(In<uint32_t> values, uint32_t mask, KeyRange<uint32_t> among,
                       KeyCounts &counts); // adds to the counts
    size_t (*gather_keys)(In<uint32_t> values, uint32_t mask, uint32_t threshold, size_t ties,
                          std::span<uint32_t> places);
    // Both may write kSlack elements more than there are values.
    size_t (*near_keys)(In<uint32_t> values, uint32_t mask, KeyBand<uint32_t> band, uint32_t *near,
                        uint64_t &above);
    size_t (*take_keys)(In<uint32_t> values, uint32_t mask, uint32_t threshold, uint64_t &ties,
                        uint32_t *places, uint32_t *taken);
    // The Walsh-Hadamard transform in place, times `scale`; the size is a power of two.
    void (*hadamard32)(std::span<float> values, float scale);
    void (*hadamard64)(std::span<double> values, double scale);
    // Copies values, with the signs of a stream unless it is null; returns the bits of the largest
    // magnitude.
    uint32_t (*signed32)(In<uint32_t> values, const Stream *stream, Out<uint32_t> out);
    uint64_t (*signed64)(In<uint64_t> values, const Stream *stream, Out<uint64_t> out);
    // How many words of one segment lie above a range and in it; those are stored while there is
    // room.
    DrawCounts (*draws_near)(const Stream &stream, size_t count, DrawRange range,
                             std::span<uint32_t> near);
    // One bit for each word of one segment: whether it is `low` or more.
    void (*draws_mask)(const Stream &stream, uint32_t low, std::span<uint32_t> masks);
};

// Dithering of one float format. A scale of 0 makes every level 0.
template <class F> struct DitherKernels {
    using Bits = typename F::Bits;
    // The sum of a piece's terms in a fixed order, and its largest magnitude; values that are not
    // finite count as 0.
    void (*norm_terms)(In<Bits> values, fewbits_norm norm, double &sum, Bits &largest);
    // Elements that share a scale to packed codes.
    void (*dither)(In<Bits> values, const Stream &stream, Wide<F> scale, const DitherShape &shape,
                   Bytes packed, fewbits_tally &tally);
    // Codes that share a scale to values.
    void (*undither)(std::span<const uint16_t> codes, Wide<F> scale, const DitherRatios &ratios,
                     Out<Bits> values);
    // The same for at most 127 levels, one a byte, and a plane of signs; 0 and NaN, levels + 1,
    // have none.
    void (*dither_levels)(In<Bits> values, const Stream &stream, Wide<F> scale,
                          const DitherShape &shape, uint8_t *levels, uint8_t *signs,
                          fewbits_tally &tally);
    void (*undither_levels)(const uint8_t *levels, const uint8_t *signs, Wide<F> scale,
                            const DitherRatios &ratios, Out<Bits> values);
    // Elements that share a scale to codes, one a word.
    void (*dither_codes)(In<Bits> values, const Stream &stream, Wide<F> scale,
                         const DitherShape &shape, uint16_t *codes, fewbits_tally &tally);
    // Of float64 only: the sum of terms of values times 2^-shift, for the largest magnitude's
    // `shift`; nothing overflows.
    double (*scaled_terms)(In<Bits> values, fewbits_norm norm, int shift);
};

// Signs times a scale. `signs` is a plane of one bit for each value.
struct SignKernels {
    // The signs of a run of values, zeros behind the last one, and what the run adds to a mean.
    // float64 has no sum: its values must be scaled first.
    SignTerms (*scan_float32)(In<uint32_t> values, uint8_t *signs);
    SignTerms (*scan_float64)(In<uint64_t> values, uint8_t *signs);
    SignTerms (*scan_float16)(In<uint16_t> values, uint8_t *signs);
    SignTerms (*scan_bfloat16)(In<uint16_t> values, uint8_t *signs);
    // The scale's bits with these signs.
    void (*fill16)(const uint8_t *signs, uint16_t scale, Out<uint16_t> values);
    void (*fill32)(const uint8_t *signs, uint32_t scale, Out<uint32_t> values);
    void (*fill64)(const uint8_t *signs, uint64_t scale, Out<uint64_t> values);
    void (*add32)(const uint8_t *signs, float scale, Out<float> totals);
    void (*add64)(const uint8_t *signs, double scale, Out<double> totals);

    template <class F> auto scan() const {
        if constexpr (std::is_same_v<F, Float32>) {
            return scan_float32;
        } else if constexpr (std::is_same_v<F, Float64>) {
            return scan_float64;
        } else if constexpr (std::is_same_v<F, Float16>) {
            return scan_float16;
        } else {
            return scan_bfloat16;
        }
    }
};

// Sparse dithering of one float format.
template <class F> struct StepKernels {
    using Bits = typename F::Bits;
    // Codes without their signs, one a byte, those above 254 as 255, and a plane of signs; signs of
    // zeros mean nothing. Returns the largest byte. Values that are not finite are counted, and
    // have the code 0.
    uint32_t (*quantise)(const StepRun<F> &run, uint8_t *codes, uint8_t *signs,
                         fewbits_tally &tally);
    StepSums (*sums)(In<Bits> values, const uint8_t *codes); // of float64: shifted_sums
    // The reverse; values of the run are written. Zeros have no sign.
    void (*dequantise)(const StepRun<F> &run, const uint8_t *codes, const uint8_t *signs,
                       Out<Bits> values);
    // Of float64 only: sums with values times 2^-shift.
    StepSums (*shifted_sums)(In<Bits> values, const uint8_t *codes, int shift) = nullptr;
};

// The spherical operator.
struct SphereKernels {
    // Random directions from the stream's first word on, with a table of kSphereWays numbers.
    void (*fill)(const int16_t *table, const Stream &stream, SphereTile &tile);
    // The first direction from `from` on whose inner product with a block is above its threshold.
    size_t (*next)(const SphereTile &tile, const int32_t *block, size_t from);
    // A direction's coordinates with signs, scaled to a length.
    void (*place)(const SphereDirection &direction, double *y);
};

// ---- tables ----

// One slot for each group.
template <template <class> class Slot> struct Groups {
    Slot<CommonKernels> common{};
    Slot<CastKernels> casts{};
    Slot<NaturalKernels<Float32>> natural_float32{};
    Slot<NaturalKernels<Float64>> natural_float64{};
    Slot<NaturalKernels<Float16>> natural_float16{};
    Slot<NaturalKernels<Bfloat16>> natural_bfloat16{};
    Slot<CoderKernels> coder{};
    Slot<PhaseKernels> phases{};
    Slot<TrellisKernels> trellis{};
    Slot<StageKernels> stages{};
    Slot<DitherKernels<Float32>> dithering_float32{};
    Slot<DitherKernels<Float64>> dithering_float64{};
    Slot<DitherKernels<Float16>> dithering_float16{};
    Slot<DitherKernels<Bfloat16>> dithering_bfloat16{};
    Slot<SignKernels> sign{};
    Slot<StepKernels<Float32>> steps_float32{};
    Slot<StepKernels<Float64>> steps_float64{};
    Slot<StepKernels<Float16>> steps_float16{};
    Slot<StepKernels<Bfloat16>> steps_bfloat16{};
    Slot<SphereKernels> spherical{};
    Slot<SwitchKernels> switching{}; // in-network aggregation
    Slot<HashKernels> sealing{};     // its packets' tags
    Slot<ProductKernels<float>> products32{};
    Slot<ProductKernels<double>> products64{};

    template <class F> const Slot<NaturalKernels<F>> &natural() const {
        return of_format<F>(natural_float32, natural_float64, natural_float16, natural_bfloat16);
    }
    template <class F> const Slot<StepKernels<F>> &steps() const {
        return of_format<F>(steps_float32, steps_float64, steps_float16, steps_bfloat16);
    }
    template <class F> const Slot<DitherKernels<F>> &dithering() const {
        return of_format<F>(dithering_float32, dithering_float64, dithering_float16,
                            dithering_bfloat16);
    }
};
template <class Group> using GroupValue = Group;
template <class Group> using GroupPointer = const Group *;

// What an instruction set provides: a null group, or a null entry of a group, is left to the next
// lower table that runs here, at last to the portable one, which has everything.
using Table = Groups<GroupPointer>;
extern const Table portable_table;
extern const Table *const avx2_table; // null where the compiler cannot make it
extern const Table *const avx512bw_table;
extern const Table *const avx512_table;
extern const Table *const neon_table;

// A table without gaps.
using Kernels = Groups<GroupValue>;
// The one in use; dispatch.cpp picks it once, at load.
const Kernels &kernels();

// Any of the sixteen casts.
void cast_any(int from, const void *input, int to, void *output, size_t count,
              fewbits_tally &tally);

} // namespace fewbits
