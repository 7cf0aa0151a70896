// Natural compression with NEON, in groups of 16 elements. Tails, groups with a rare value and
// blocks in which the random stream changes its segment go to the portable table.
//
// A power of two of any format is known by its top 16 bits, so decoding makes those, eight a
// vector.
#if defined(__aarch64__)

#include <algorithm>
#include <type_traits>

#include "neon/neon.h"

namespace fewbits {
namespace {

// The addend of so many mantissa bits that carries only above 1.5 * 2^a: ties go down.
template <int mantissa> constexpr uint64_t kHalf = (uint64_t{1} << (mantissa - 1)) - 1;

// ---- codes narrower than their fields, moved together and apart by shifts that insert ----

// Eight float16 exponents of 5 bits: bytes <-> the low 40 bits of each half.
uint64x2_t join_float16(uint8x16_t codes) {
    const uint16x8_t own = vreinterpretq_u16_u8(codes);
    const uint32x4_t two = vreinterpretq_u32_u16(vsliq_n_u16(own, vshrq_n_u16(own, 8), 5));
    const uint64x2_t four = vreinterpretq_u64_u32(vsliq_n_u32(two, vshrq_n_u32(two, 16), 10));
    return vsliq_n_u64(four, vshrq_n_u64(four, 32), 20);
}
uint8x16_t split_float16(uint64x2_t x) {
    const uint64x2_t low = vandq_u64(x, vdupq_n_u64(0xFFFFF));
    const uint32x4_t four = vreinterpretq_u32_u64(vsliq_n_u64(low, vshrq_n_u64(x, 20), 32));
    const uint32x4_t lower = vandq_u32(four, vdupq_n_u32(0x3FF));
    const uint16x8_t two = vreinterpretq_u16_u32(vsliq_n_u32(lower, vshrq_n_u32(four, 10), 16));
    const uint16x8_t lowest = vandq_u16(two, vdupq_n_u16(0x1F));
    return vreinterpretq_u8_u16(vsliq_n_u16(lowest, vshrq_n_u16(two, 5), 8));
}

// Eight float64 exponents of 11 bits: 16-bit fields <-> the low 44 bits of each half.
uint64x2_t join_float64(uint16x8_t codes) {
    const uint32x4_t own = vreinterpretq_u32_u16(codes);
    const uint64x2_t two = vreinterpretq_u64_u32(vsliq_n_u32(own, vshrq_n_u32(own, 16), 11));
    return vsliq_n_u64(two, vshrq_n_u64(two, 32), 22);
}
uint16x8_t split_float64(uint64x2_t x) {
    const uint64x2_t low = vandq_u64(x, vdupq_n_u64(0x3FFFFF));
    const uint32x4_t two = vreinterpretq_u32_u64(vsliq_n_u64(low, vshrq_n_u64(x, 22), 32));
    const uint32x4_t lower = vandq_u32(two, vdupq_n_u32(0x7FF));
    return vreinterpretq_u16_u32(vsliq_n_u32(lower, vshrq_n_u32(two, 11), 16));
}

// ---- the codes of a group ----

// One a byte.
template <class F> struct Codes {
    uint8x16_t bytes;

    explicit Codes(uint8x16_t codes) : bytes(codes) {}
    explicit Codes(const uint8_t *from) {
        if constexpr (F::exponent == 8) {
            bytes = load(from);
        } else {
            uint64_t fields[2] = {};
            std::memcpy(&fields[0], from, 5);
            std::memcpy(&fields[1], from + 5, 5);
            bytes = split_float16(load64(fields));
        }
    }

    void put(uint8_t *to) const {
        if constexpr (F::exponent == 8) {
            store(to, bytes);
        } else {
            uint64_t fields[2];
            store64(fields, join_float16(bytes));
            std::memcpy(to, &fields[0], 5);
            std::memcpy(to + 5, &fields[1], 5);
        }
    }
    uint8x16_t equal(uint32_t code) const {
        return vceqq_u8(bytes, vdupq_n_u8(static_cast<uint8_t>(code)));
    }
    uint32_t largest() const { return vmaxvq_u8(bytes); }
    uint16x8_t low() const { return vmovl_u8(vget_low_u8(bytes)); }
    uint16x8_t high() const { return vmovl_high_u8(bytes); }
};

// One in 16 bits.
template <> struct Codes<Float64> {
    uint16x8_t fields[2];

    Codes(uint16x8_t first, uint16x8_t second) : fields{first, second} {}
    explicit Codes(const uint8_t *from) {
        for (uint16x8_t &own : fields) {
            const uint64x2_t halves = {load_as<uint64_t>(from), load_as<uint64_t>(from + 3) >> 20};
            own = split_float64(vandq_u64(halves, vdupq_n_u64((uint64_t{1} << 44) - 1)));
            from += 11;
        }
    }

    void put(uint8_t *to) const {
        for (const uint16x8_t &own : fields) {
            const uint64x2_t halves = join_float64(own);
            const uint64_t low = vgetq_lane_u64(halves, 0);
            const uint64_t high = vgetq_lane_u64(halves, 1);
            const uint64_t first = low | high << 44;
            const uint64_t rest = high >> 20;
            std::memcpy(to, &first, 8);
            std::memcpy(to + 8, &rest, 3);
            to += 11;
        }
    }
    uint8x16_t equal(uint32_t code) const {
        const uint16x8_t wanted = vdupq_n_u16(static_cast<uint16_t>(code));
        return vmovn_high_u16(vmovn_u16(vceqq_u16(fields[0], wanted)),
                              vceqq_u16(fields[1], wanted));
    }
    uint32_t largest() const { return vmaxvq_u16(vmaxq_u16(fields[0], fields[1])); }
    uint16x8_t low() const { return fields[0]; }
    uint16x8_t high() const { return fields[1]; }
};

// ---- encoding ----

// float32, and the 16-bit formats in the upper half of 32 bits: their low mantissa bits are zero,
// so a wider draw carries exactly when its top bits do.
template <class F, bool Random>
Codes<F> round_group(const Unaligned<typename F::Bits> *from, Words &source, uint8x16_t &signs)
    requires(sizeof(typename F::Bits) <= 4)
{
    constexpr int mantissa = std::is_same_v<F, Float16> ? 26 : 23;
    uint32x4_t bits[4];
    uint32x4_t codes[4];
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; ++j) {
        if constexpr (sizeof(typename F::Bits) == 4) {
            bits[j] = load32(from + 4 * j);
        } else {
            const uint16x4_t halves =
                vreinterpret_u16_u64(vdup_n_u64(load_as<uint64_t>(from + 4 * j)));
            bits[j] = vshlq_n_u32(vmovl_u16(halves), 16);
        }
        const uint32x4_t addend =
            Random ? vshrq_n_u32(source.next(), 32 - mantissa) : vdupq_n_u32(kHalf<mantissa>);
        codes[j] = vshrq_n_u32(vaddq_u32(magnitudes(bits[j]), addend), mantissa);
    }
    signs = signs_of(bits);
    return Codes<F>(to_bytes(codes)); // saturating: a NaN's carry cannot wrap around
}

// The top half of four values, and their codes.
template <bool Random>
uint32x4_t round_four(const Unaligned<uint64_t> *from, Words &source, uint32x4_t &codes) {
    uint64x2_t bits[2];
    uint64x2_t rounded[2];
    for (size_t j = 0; j < 2; ++j) {
        bits[j] = load64(from + 2 * j);
        const uint64x2_t addend =
            Random ? vshrq_n_u64(vreinterpretq_u64_u32(source.next()), 12) : vdupq_n_u64(kHalf<52>);
        const uint64x2_t magnitude = vandq_u64(bits[j], vdupq_n_u64(~Float64::sign));
        rounded[j] = vshrq_n_u64(vaddq_u64(magnitude, addend), 52);
    }
    codes = vmovn_high_u64(vmovn_u64(rounded[0]), rounded[1]);
    return vshrn_high_n_u64(vshrn_n_u64(bits[0], 32), bits[1], 32);
}

template <class F, bool Random>
Codes<F> round_group(const Unaligned<uint64_t> *from, Words &source, uint8x16_t &signs)
    requires std::is_same_v<F, Float64>
{
    uint32x4_t tops[4];
    uint32x4_t codes[4];
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; ++j) {
        tops[j] = round_four<Random>(from + 4 * j, source, codes[j]);
    }
    signs = signs_of(tops);
    return {vmovn_high_u32(vmovn_u32(codes[0]), codes[1]),
            vmovn_high_u32(vmovn_u32(codes[2]), codes[3])};
}

// False: a value may be above the largest power or not finite, so the portable table must encode
// the group over what was written here.
template <class F, bool Random>
bool encode_group(const Unaligned<typename F::Bits> *from, Words &source, uint8_t *exponents,
                  uint8_t *signs) {
    uint8x16_t negative;
    const Codes<F> codes = round_group<F, Random>(from, source, negative);
    codes.put(exponents);
    const auto plane =
        static_cast<uint16_t>(bits_of(vbicq_u8(negative, codes.equal(0)))); // a zero has no sign
    std::memcpy(signs, &plane, 2);
    return codes.largest() < F::top_code - 1;
}

// ---- the loops over groups ----

// The planes of the elements [start, start + count), start a multiple of a group.
template <class F, class Byte>
std::span<Byte> exponents_at(std::span<Byte> plane, size_t start, size_t count) {
    return plane.subspan(packed_size(start, F::exponent), packed_size(count, F::exponent));
}
template <class Byte> std::span<Byte> signs_at(std::span<Byte> plane, size_t start, size_t count) {
    return plane.subspan(start / 8, packed_size(count, 1));
}

template <class F, bool Random>
void encode_groups(In<typename F::Bits> values, const Stream &stream, fewbits_rounding rounding,
                   Bytes exponents, Bytes signs, fewbits_tally &tally) {
    constexpr uint64_t draws = F::mantissa > 32 ? 2 : 1; // words an element
    const auto one_by_one = [&](size_t start, size_t count) {
        portable_natural<F>().encode(values.subspan(start, count), stream.from(start), rounding,
                                     exponents_at<F>(exponents, start, count),
                                     signs_at(signs, start, count), tally);
    };
    for (size_t start = 0; start < values.size(); start += kBlock) {
        const size_t count = std::min(kBlock, values.size() - start);
        const uint64_t first = (stream.first + start) * draws;
        const size_t whole = crosses_segment(first, count * draws) ? 0 : count / kGroup * kGroup;
        Words source(stream, first);
        for (size_t i = start; i < start + whole; i += kGroup) {
            uint8_t *const codes = exponents.data() + i / 8 * F::exponent;
            if (!encode_group<F, Random>(values.data() + i, source, codes, signs.data() + i / 8))
                [[unlikely]] {
                one_by_one(i, kGroup);
            }
        }
        if (whole < count) {
            one_by_one(start + whole, count - whole);
        }
    }
}

// ---- decoding ----

// The top 16 bits of eight values; `negative` has ones in the bytes of those below 0.
template <class F> uint16x8_t tops_of(uint16x8_t codes, uint8x8_t negative) {
    const int16x8_t signs = vmovl_s8(vreinterpret_s8_u8(negative));
    return vorrq_u16(vshlq_n_u16(codes, 15 - F::exponent),
                     vandq_u16(vreinterpretq_u16_s16(signs), vdupq_n_u16(0x8000)));
}

// Calls `use(place, vector)` with vectors of the values of these top bits.
template <class Bits, class Use> void widened(uint16x8_t tops, size_t place, Use use) {
    const uint16x8_t zero = vdupq_n_u16(0);
    if constexpr (sizeof(Bits) == 2) {
        use(place, tops);
    } else {
        const uint32x4_t halves[2] = {vreinterpretq_u32_u16(vzip1q_u16(zero, tops)),
                                      vreinterpretq_u32_u16(vzip2q_u16(zero, tops))};
        for (size_t j = 0; j < 2; ++j) {
            if constexpr (sizeof(Bits) == 4) {
                use(place + 4 * j, halves[j]);
            } else {
                const uint32x4_t none = vdupq_n_u32(0);
                use(place + 4 * j, vreinterpretq_u64_u32(vzip1q_u32(none, halves[j])));
                use(place + 4 * j + 2, vreinterpretq_u64_u32(vzip2q_u32(none, halves[j])));
            }
        }
    }
}

template <class F> struct Decode {
    using Bits = typename F::Bits;
    static void eight(uint16x8_t codes, uint8x8_t negative, Unaligned<Bits> *to) {
        widened<Bits>(tops_of<F>(codes, negative), 0, [&](size_t place, auto bits) {
            store(to + place, reinterpret_cast<uint8x16_t>(bits));
        });
    }
};

template <class F> struct Accumulate {
    using Total = typename NaturalKernels<F>::Total;
    using Wide = std::conditional_t<std::is_same_v<Total, double>, Float64, Float32>;
    static void eight(uint16x8_t codes, uint8x8_t negative, Unaligned<Total> *to) {
        if constexpr (std::is_same_v<F, Float16>) { // move to float32's bias; code 0 stays 0
            const uint16x8_t moved = vaddq_u16(codes, vdupq_n_u16(127 - 15));
            codes = vbicq_u16(moved, vceqzq_u16(codes));
        }
        widened<typename Wide::Bits>(
            tops_of<Wide>(codes, negative), 0, [&](size_t place, auto bits) {
                const uint8x16_t own = load(to + place);
                if constexpr (std::is_same_v<Total, double>) {
                    const float64x2_t sum =
                        vaddq_f64(vreinterpretq_f64_u8(own), vreinterpretq_f64_u64(bits));
                    store(to + place, vreinterpretq_u8_f64(sum));
                } else {
                    const float32x4_t sum =
                        vaddq_f32(vreinterpretq_f32_u8(own), vreinterpretq_f32_u32(bits));
                    store(to + place, vreinterpretq_u8_f32(sum));
                }
            });
    }
};

// `Work` is Decode<F> or Accumulate<F>; `rare` the portable function of the same meaning.
template <class F, class Work, class Value, class Rare>
fewbits_status decode_groups(ConstBytes exponents, ConstBytes signs, Out<Value> out,
                             fewbits_tally &tally, Rare rare) {
    const size_t whole = out.size() / kGroup * kGroup;
    for (size_t i = 0; i < whole; i += kGroup) {
        const Codes<F> codes(exponents.data() + i / 8 * F::exponent);
        const uint8x16_t negative = mask_of(signs.data() + i / 8);
        const uint8x16_t wrong = vandq_u8(negative, codes.equal(0));
        if (!any(vorrq_u8(codes.equal(F::top_code), wrong))) [[likely]] {
            Work::eight(codes.low(), vget_low_u8(negative), out.data() + i);
            Work::eight(codes.high(), vget_high_u8(negative), out.data() + i + 8);
            continue;
        }
        const auto status = rare(exponents_at<F>(exponents, i, kGroup), signs_at(signs, i, kGroup),
                                 out.subspan(i, kGroup), tally);
        if (status != FEWBITS_OK) {
            return status;
        }
    }
    const size_t tail = out.size() - whole;
    return rare(exponents_at<F>(exponents, whole, tail), signs_at(signs, whole, tail),
                out.subspan(whole), tally);
}

template <class F>
void encode(In<typename F::Bits> values, const Stream &stream, fewbits_rounding rounding,
            Bytes exponents, Bytes signs, fewbits_tally &tally) {
    const auto run = rounding == FEWBITS_NEAREST ? encode_groups<F, false> : encode_groups<F, true>;
    run(values, stream, rounding, exponents, signs, tally);
}

template <class F>
fewbits_status decode(ConstBytes exponents, ConstBytes signs, Out<typename F::Bits> values,
                      fewbits_tally &tally) {
    return decode_groups<F, Decode<F>>(exponents, signs, values, tally,
                                       portable_natural<F>().decode);
}

template <class F>
fewbits_status accumulate(ConstBytes exponents, ConstBytes signs,
                          Out<typename NaturalKernels<F>::Total> totals, fewbits_tally &tally) {
    return decode_groups<F, Accumulate<F>>(exponents, signs, totals, tally,
                                           portable_natural<F>().accumulate);
}

} // namespace

constinit const NaturalKernels<Float32> neon_natural_float32 = {encode<Float32>, decode<Float32>,
                                                                accumulate<Float32>};
constinit const NaturalKernels<Float64> neon_natural_float64 = {encode<Float64>, decode<Float64>,
                                                                accumulate<Float64>};
constinit const NaturalKernels<Float16> neon_natural_float16 = {encode<Float16>, decode<Float16>,
                                                                accumulate<Float16>};
constinit const NaturalKernels<Bfloat16> neon_natural_bfloat16 = {
    encode<Bfloat16>, decode<Bfloat16>, accumulate<Bfloat16>};

} // namespace fewbits

#endif
