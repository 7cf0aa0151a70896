// Natural compression with AVX2, in groups of 32 elements. Tails, groups with a rare value and
// blocks in which the random stream changes its segment go to the portable table.
#if defined(__AVX2__)

#include <algorithm>
#include <type_traits>

#include "avx2/avx2.h"

namespace fewbits {
namespace {

// ---- narrow codes: 16-bit or 8-bit fields of a word, moved together and apart ----

template <int Width> uint64_t join16(uint64_t x) { // 4 codes in 16-bit fields -> 4 * Width bits
    constexpr uint64_t one = (uint64_t{1} << Width) - 1;
    constexpr uint64_t two = (uint64_t{1} << 2 * Width) - 1;
    x = (x & (one | one << 32)) | ((x >> (16 - Width)) & ((one | one << 32) << Width));
    return (x & two) | ((x >> (32 - 2 * Width)) & (two << 2 * Width));
}

template <int Width> uint64_t split16(uint64_t x) {
    constexpr uint64_t one = (uint64_t{1} << Width) - 1;
    constexpr uint64_t two = (uint64_t{1} << 2 * Width) - 1;
    x = (x & two) | ((x & (two << 2 * Width)) << (32 - 2 * Width));
    return (x & (one | one << 32)) | ((x & ((one | one << 32) << Width)) << (16 - Width));
}

// 32 float16 exponents in four steps: eight bytes of every 64-bit field <-> its low 40 bits. A mask
// has the codes that stay, `by` is how far the others move.
struct Fives {
    uint64_t stay, move; // where the moving codes are when they are together
    int by;

    Vector join(Vector x) const {
        return _mm256_or_si256(_mm256_and_si256(x, wide(stay)),
                               _mm256_and_si256(_mm256_srli_epi64(x, by), wide(move)));
    }
    Vector split(Vector x) const {
        return _mm256_or_si256(_mm256_and_si256(x, wide(stay)),
                               _mm256_slli_epi64(_mm256_and_si256(x, wide(move)), by));
    }
    static Vector wide(uint64_t x) { return _mm256_set1_epi64x(static_cast<long long>(x)); }
};
constexpr Fives kOnes = {0x001F001F001F001F, 0x03E003E003E003E0, 3};
constexpr Fives kTwos = {0x000003FF000003FF, 0x000FFC00000FFC00, 6};
constexpr Fives kFours = {0x00000000000FFFFF, 0x000000FFFFF00000, 12};

Vector join_float16(Vector bytes) { return kFours.join(kTwos.join(kOnes.join(bytes))); }
Vector split_float16(Vector fields) { return kOnes.split(kTwos.split(kFours.split(fields))); }

// ---- natural compression, 32-bit containers ----

// float32, and the 16-bit formats in the upper half of 32 bits: their low mantissa bits are zero,
// so a wider draw carries exactly when its top bits do.
template <class F> constexpr int kMantissa = std::is_same_v<F, Float16> ? 26 : 23;

// Four vectors of eight small integers -> 32 bytes in order.
Vector narrow_to_bytes(Vector a, Vector b, Vector c, Vector d) {
    const Vector mixed = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
    return _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// Exponents: packed, or one a byte (a word for float64).
enum class Plane { packed, plain };
template <class F, Plane plane> constexpr size_t offset_of(size_t element) {
    return plane == Plane::packed ? element / 8 * F::exponent : element * (F::exponent > 8 ? 2 : 1);
}

// 32 codes, one a byte, to the exponent plane.
template <class F, Plane plane> void store_codes(uint8_t *to, Vector bytes) {
    if constexpr (F::exponent == 8 || plane == Plane::plain) {
        store(to, bytes);
    } else {
        uint64_t fields[4];
        store(fields, join_float16(bytes));
        for (size_t i = 0; i < 3; ++i) { // each over the zeros of the one before
            std::memcpy(to + 5 * i, &fields[i], 8);
        }
        std::memcpy(to + 15, &fields[3], 5);
    }
}

uint32_t where(Vector byte_mask) { return static_cast<uint32_t>(_mm256_movemask_epi8(byte_mask)); }

template <class F, bool Random, int j>
Vector encode_eight(const Unaligned<typename F::Bits> *from, Words &source, uint32_t &signs) {
    constexpr int mantissa = kMantissa<F>;
    const Vector bits = load_values<F>(from + 8 * j);
    const Vector magnitude = _mm256_and_si256(bits, all(0x7FFFFFFFu));
    const Vector addend =
        Random ? _mm256_srli_epi32(source.next(), 32 - mantissa) : all((1u << (mantissa - 1)) - 1);
    signs |= static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(bits))) << (8 * j);
    return _mm256_srli_epi32(_mm256_add_epi32(magnitude, addend), mantissa);
}

// False: a value may be above the largest power or not finite, so the portable table must encode
// the group over what was written here.
template <class F, bool Random, Plane plane>
bool encode_group(const Unaligned<typename F::Bits> *from, Words &source, uint8_t *exponents,
                  uint8_t *signs)
    requires(sizeof(typename F::Bits) <= 4)
{
    uint32_t sign_bits = 0;
    const Vector first = encode_eight<F, Random, 0>(from, source, sign_bits);
    const Vector second = encode_eight<F, Random, 1>(from, source, sign_bits);
    const Vector third = encode_eight<F, Random, 2>(from, source, sign_bits);
    const Vector fourth = encode_eight<F, Random, 3>(from, source, sign_bits);
    // Saturating: a NaN's carry cannot wrap around.
    const Vector codes = narrow_to_bytes(first, second, third, fourth);
    const Vector top = _mm256_set1_epi8(static_cast<char>(F::top_code - 1));
    const Vector rare = _mm256_cmpeq_epi8(_mm256_max_epu8(codes, top), codes);
    store_codes<F, plane>(exponents, codes);
    sign_bits &= ~where(_mm256_cmpeq_epi8(codes, _mm256_setzero_si256())); // a zero has no sign
    std::memcpy(signs, &sign_bits, 4);
    return !any(rare);
}

// ---- natural compression, float64 ----

template <bool Random, int j>
Vector encode_four(const Unaligned<uint64_t> *from, Words &source, uint32_t &signs) {
    const Vector bits = load(from + 4 * j);
    const Vector magnitude = _mm256_and_si256(bits, _mm256_set1_epi64x(INT64_MAX));
    const Vector addend =
        Random ? _mm256_srli_epi64(source.next(), 12) : _mm256_set1_epi64x((1LL << 51) - 1);
    signs |= static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(bits))) << (4 * j);
    return _mm256_srli_epi64(_mm256_add_epi64(magnitude, addend), 52);
}

// Codes of elements 16 * half to 16 * half + 15, in 16-bit fields.
template <bool Random, int half>
Vector encode_sixteen(const Unaligned<uint64_t> *from, Words &source, uint32_t &signs) {
    constexpr int j = 4 * half;
    const Vector first = encode_four<Random, j>(from, source, signs);
    const Vector second = encode_four<Random, j + 1>(from, source, signs);
    const Vector third = encode_four<Random, j + 2>(from, source, signs);
    const Vector fourth = encode_four<Random, j + 3>(from, source, signs);
    const Vector mixed =
        _mm256_packus_epi32(_mm256_packus_epi32(first, second), _mm256_packus_epi32(third, fourth));
    return _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// 16 codes to 22 bytes.
void store_codes64(uint8_t *to, Vector codes) {
    uint64_t fields[4];
    store(fields, codes);
    for (size_t i = 0; i < 4; i += 2, to += 11) {
        const uint64_t low = join16<11>(fields[i]);
        const uint64_t high = join16<11>(fields[i + 1]);
        const uint64_t first = low | high << 44;
        const uint64_t rest = high >> 20;
        std::memcpy(to, &first, 8);
        std::memcpy(to + 8, &rest, 3);
    }
}

template <class F, bool Random, Plane plane>
bool encode_group(const Unaligned<uint64_t> *from, Words &source, uint8_t *exponents,
                  uint8_t *signs)
    requires std::is_same_v<F, Float64>
{
    uint32_t sign_bits = 0;
    const Vector low = encode_sixteen<Random, 0>(from, source, sign_bits);
    const Vector high = encode_sixteen<Random, 1>(from, source, sign_bits);
    if constexpr (plane == Plane::plain) {
        store(exponents, low);
        store(exponents + 32, high);
    } else {
        store_codes64(exponents, low);
        store_codes64(exponents + 22, high);
    }
    const Vector zero = _mm256_setzero_si256();
    const Vector zeros =
        _mm256_packs_epi16(_mm256_cmpeq_epi16(low, zero), _mm256_cmpeq_epi16(high, zero));
    sign_bits &= ~where(_mm256_permute4x64_epi64(zeros, 0xD8));
    std::memcpy(signs, &sign_bits, 4);
    const Vector largest = _mm256_max_epu16(low, high);
    const Vector top = _mm256_set1_epi16(static_cast<short>(F::top_code - 1));
    return !any(_mm256_cmpeq_epi16(_mm256_max_epu16(largest, top), largest));
}

// ---- the loops over groups ----

// The planes of the elements [start, start + count), start a multiple of a group.
template <class F, class Byte>
std::span<Byte> exponents_of(std::span<Byte> plane, size_t start, size_t count) {
    return plane.subspan(packed_size(start, F::exponent), packed_size(count, F::exponent));
}
template <class Byte> std::span<Byte> signs_of(std::span<Byte> plane, size_t start, size_t count) {
    return plane.subspan(start / 8, packed_size(count, 1));
}

// `rare(start, count)` encodes elements one by one.
template <class F, bool Random, Plane plane, class Rare>
void encode_groups(In<typename F::Bits> values, const Stream &stream, uint8_t *exponents,
                   uint8_t *signs, Rare rare) {
    constexpr uint64_t draws = F::mantissa > 32 ? 2 : 1; // words an element
    for (size_t start = 0; start < values.size(); start += kBlock) {
        const size_t count = std::min(kBlock, values.size() - start);
        const uint64_t first = (stream.first + start) * draws;
        const size_t whole = crosses_segment(first, count * draws) ? 0 : count / kGroup * kGroup;
        Words source(stream, first);
        for (size_t i = start; i < start + whole; i += kGroup) {
            fetch_ahead<kGroup * sizeof(values[0])>(values.data() + i);
            uint8_t *const codes = exponents + offset_of<F, plane>(i);
            if (!encode_group<F, Random, plane>(values.data() + i, source, codes, signs + i / 8)) {
                rare(i, kGroup);
            }
        }
        if (whole < count) {
            rare(start + whole, count - whole);
        }
    }
}

// ---- natural decoding ----

// The codes of a group, one a byte (one a 16-bit field for float64), and where they are zero or not
// finite.
template <class F> struct Codes {
    Vector bytes;
    template <Plane plane> static Codes from(const uint8_t *at) {
        if constexpr (F::exponent == 8 || plane == Plane::plain) {
            return {load(at)};
        } else { // 20 bytes; what is above 40 bits of a field is dropped
            const auto field = [&](size_t byte) { return load_as<long long>(at + byte); };
            const auto last = static_cast<long long>(load_as<uint64_t>(at + 12) >> 24);
            return {split_float16(_mm256_setr_epi64x(field(0), field(5), field(10), last))};
        }
    }
    static uint32_t where(Vector mask) { return static_cast<uint32_t>(_mm256_movemask_epi8(mask)); }
    uint32_t zeros() const { return where(_mm256_cmpeq_epi8(bytes, _mm256_setzero_si256())); }
    uint32_t tops() const {
        return where(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(static_cast<char>(F::top_code))));
    }
    // Codes 8j to 8j + 7 in 32-bit lanes.
    template <int j> Vector lanes() const {
        const __m128i half = _mm256_extracti128_si256(bytes, j / 2);
        return _mm256_cvtepu8_epi32(j % 2 ? _mm_srli_si128(half, 8) : half);
    }
};

template <> struct Codes<Float64> {
    Vector low, high; // 16 codes each
    template <Plane plane> static Codes from(const uint8_t *at) {
        if constexpr (plane == Plane::plain) {
            return {load(at), load(at + 32)};
        }
        uint64_t fields[8];
        for (size_t i = 0; i < 4; ++i, at += 11) {
            fields[2 * i] = split16<11>(load_as<uint64_t>(at));
            fields[2 * i + 1] = split16<11>(load_as<uint64_t>(at + 3) >> 20);
        }
        return {load(fields), load(fields + 4)};
    }
    uint32_t where(uint16_t code) const {
        const Vector value = _mm256_set1_epi16(static_cast<short>(code));
        const Vector mixed =
            _mm256_packs_epi16(_mm256_cmpeq_epi16(low, value), _mm256_cmpeq_epi16(high, value));
        return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_permute4x64_epi64(mixed, 0xD8)));
    }
    uint32_t zeros() const { return where(0); }
    uint32_t tops() const { return where(Float64::top_code); }
    // Codes 4j to 4j + 3 in 64-bit lanes.
    template <int j> Vector lanes() const {
        const __m128i half = _mm256_extracti128_si256(j < 4 ? low : high, j / 2 % 2);
        return _mm256_cvtepu16_epi64(j % 2 ? _mm_srli_si128(half, 8) : half);
    }
};

// Bits 8j to 8j + 7 of the signs, each as the top bit of a 32-bit lane.
template <int j> Vector sign_lanes(uint32_t signs) {
    const Vector shifts =
        _mm256_sub_epi32(all(31 - 8 * j), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    return _mm256_and_si256(_mm256_sllv_epi32(all(signs), shifts), all(0x80000000u));
}

// Bits 4j to 4j + 3, each as the top bit of a 64-bit lane.
template <int j> Vector sign_lanes64(uint32_t signs) {
    const Vector shifts =
        _mm256_sub_epi64(_mm256_set1_epi64x(63 - 4 * j), _mm256_setr_epi64x(0, 1, 2, 3));
    const Vector spread = _mm256_sllv_epi64(_mm256_set1_epi64x(signs), shifts);
    return _mm256_and_si256(spread, _mm256_set1_epi64x(INT64_MIN));
}

template <class F> struct Decode {
    using Bits = typename F::Bits;
    template <int j> static Vector lanes(const Codes<F> &codes, uint32_t signs) {
        return _mm256_or_si256(_mm256_slli_epi32(codes.template lanes<j>(), kMantissa<F>),
                               sign_lanes<j>(signs));
    }
    template <int j> static void pair(const Codes<F> &codes, uint32_t signs, Unaligned<Bits> *to) {
        const Vector a = lanes<j>(codes, signs);
        const Vector b = lanes<j + 1>(codes, signs);
        if constexpr (sizeof(Bits) == 4) {
            store(to + 8 * j, a);
            store(to + 8 * j + 8, b);
        } else {
            const Vector mixed =
                _mm256_packus_epi32(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16));
            store(to + 8 * j, _mm256_permute4x64_epi64(mixed, 0xD8));
        }
    }
    static void group(const Codes<F> &codes, uint32_t signs, Unaligned<Bits> *to) {
        pair<0>(codes, signs, to);
        pair<2>(codes, signs, to);
    }
};

template <> struct Decode<Float64> {
    template <int j> static Vector lanes(const Codes<Float64> &codes, uint32_t signs) {
        return _mm256_or_si256(_mm256_slli_epi64(codes.lanes<j>(), 52), sign_lanes64<j>(signs));
    }
    template <int j = 0>
    static void group(const Codes<Float64> &codes, uint32_t signs, Unaligned<uint64_t> *to) {
        store(to + 4 * j, lanes<j>(codes, signs));
        if constexpr (j < 7) {
            group<j + 1>(codes, signs, to);
        }
    }
};

template <class F> struct Accumulate {
    template <int j = 0>
    static void group(const Codes<F> &codes, uint32_t signs, Unaligned<float> *to) {
        Vector bits = codes.template lanes<j>();
        if constexpr (std::is_same_v<F, Float16>) { // move to float32's bias; code 0 stays 0
            const Vector zero = _mm256_cmpeq_epi32(bits, _mm256_setzero_si256());
            bits = _mm256_andnot_si256(zero, _mm256_add_epi32(bits, all(127 - 15)));
        }
        bits = _mm256_or_si256(_mm256_slli_epi32(bits, 23), sign_lanes<j>(signs));
        _mm256_storeu_ps(reinterpret_cast<float *>(to + 8 * j),
                         _mm256_add_ps(_mm256_loadu_ps(reinterpret_cast<float *>(to + 8 * j)),
                                       _mm256_castsi256_ps(bits)));
        if constexpr (j < 3) {
            group<j + 1>(codes, signs, to);
        }
    }
};

template <> struct Accumulate<Float64> {
    template <int j = 0>
    static void group(const Codes<Float64> &codes, uint32_t signs, Unaligned<double> *to) {
        const Vector bits = Decode<Float64>::lanes<j>(codes, signs);
        _mm256_storeu_pd(reinterpret_cast<double *>(to + 4 * j),
                         _mm256_add_pd(_mm256_loadu_pd(reinterpret_cast<double *>(to + 4 * j)),
                                       _mm256_castsi256_pd(bits)));
        if constexpr (j < 7) {
            group<j + 1>(codes, signs, to);
        }
    }
};

// `Work` is Decode<F> or Accumulate<F>; `rare(start, count)` does the same one by one.
template <class F, class Work, Plane plane, class Value, class Rare>
fewbits_status decode_groups(const uint8_t *exponents, const uint8_t *signs, Out<Value> out,
                             Rare rare) {
    const size_t whole = out.size() / kGroup * kGroup;
    for (size_t i = 0; i < whole; i += kGroup) {
        fetch_ahead<kGroup * sizeof(out[0])>(out.data() + i);
        const auto codes = Codes<F>::template from<plane>(exponents + offset_of<F, plane>(i));
        const auto sign_bits = load_as<uint32_t>(signs + i / 8);
        if ((codes.tops() | (sign_bits & codes.zeros())) == 0) [[likely]] {
            Work::group(codes, sign_bits, out.data() + i);
            continue;
        }
        const fewbits_status status = rare(i, kGroup);
        if (status != FEWBITS_OK) {
            return status;
        }
    }
    return rare(whole, out.size() - whole);
}

template <class F>
void encode(In<typename F::Bits> values, const Stream &stream, fewbits_rounding rounding,
            Bytes exponents, Bytes signs, fewbits_tally &tally) {
    const auto rare = [&](size_t start, size_t count) {
        portable_natural<F>().encode(values.subspan(start, count), stream.from(start), rounding,
                                     exponents_of<F>(exponents, start, count),
                                     signs_of(signs, start, count), tally);
    };
    const auto run = rounding == FEWBITS_NEAREST
                         ? encode_groups<F, false, Plane::packed, decltype(rare)>
                         : encode_groups<F, true, Plane::packed, decltype(rare)>;
    run(values, stream, exponents.data(), signs.data(), rare);
}

// `Work` is Decode<F> or Accumulate<F>, `kernel` the portable one of the same meaning.
template <class F, class Work, class Value, class Kernel>
fewbits_status read_packed(ConstBytes exponents, ConstBytes signs, Out<Value> out,
                           fewbits_tally &tally, Kernel kernel) {
    const auto rare = [&](size_t start, size_t count) {
        return kernel(exponents_of<F>(exponents, start, count), signs_of(signs, start, count),
                      out.subspan(start, count), tally);
    };
    return decode_groups<F, Work, Plane::packed>(exponents.data(), signs.data(), out, rare);
}

template <class F>
fewbits_status decode(ConstBytes exponents, ConstBytes signs, Out<typename F::Bits> values,
                      fewbits_tally &tally) {
    return read_packed<F, Decode<F>>(exponents, signs, values, tally, portable_natural<F>().decode);
}

template <class F>
fewbits_status accumulate(ConstBytes exponents, ConstBytes signs, Out<Wide<F>> totals,
                          fewbits_tally &tally) {
    return read_packed<F, Accumulate<F>>(exponents, signs, totals, tally,
                                         portable_natural<F>().accumulate);
}

// ---- one code a byte or a word ----

template <class F> using CodeOf = typename NaturalKernels<F>::Code;

template <class F>
void encode_codes(In<typename F::Bits> values, const Stream &stream, fewbits_rounding rounding,
                  CodeOf<F> *exponents, uint8_t *signs, fewbits_tally &tally) {
    const auto rare = [&](size_t start, size_t count) {
        portable_natural<F>().encode_codes(values.subspan(start, count), stream.from(start),
                                           rounding, exponents + start, signs + start / 8, tally);
    };
    const auto run = rounding == FEWBITS_NEAREST
                         ? encode_groups<F, false, Plane::plain, decltype(rare)>
                         : encode_groups<F, true, Plane::plain, decltype(rare)>;
    run(values, stream, reinterpret_cast<uint8_t *>(exponents), signs, rare);
}

template <class F, class Work, class Value, class Kernel>
fewbits_status read_codes(const CodeOf<F> *exponents, const uint8_t *signs, Out<Value> out,
                          fewbits_tally &tally, Kernel kernel) {
    const auto rare = [&](size_t start, size_t count) {
        return kernel(exponents + start, signs + start / 8, out.subspan(start, count), tally);
    };
    return decode_groups<F, Work, Plane::plain>(reinterpret_cast<const uint8_t *>(exponents), signs,
                                                out, rare);
}

template <class F>
fewbits_status decode_codes(const CodeOf<F> *exponents, const uint8_t *signs,
                            Out<typename F::Bits> values, fewbits_tally &tally) {
    return read_codes<F, Decode<F>>(exponents, signs, values, tally,
                                    portable_natural<F>().decode_codes);
}

template <class F>
fewbits_status accumulate_codes(const CodeOf<F> *exponents, const uint8_t *signs,
                                Out<Wide<F>> totals, fewbits_tally &tally) {
    return read_codes<F, Accumulate<F>>(exponents, signs, totals, tally,
                                        portable_natural<F>().accumulate_codes);
}

} // namespace

constinit const NaturalKernels<Float32> avx2_natural_float32 = {encode<Float32>, decode<Float32>,
                                                                accumulate<Float32>};
constinit const NaturalKernels<Float64> avx2_natural_float64 = {
    encode<Float64>,       decode<Float64>,       accumulate<Float64>,
    encode_codes<Float64>, decode_codes<Float64>, accumulate_codes<Float64>};
constinit const NaturalKernels<Float16> avx2_natural_float16 = {
    encode<Float16>,       decode<Float16>,       accumulate<Float16>,
    encode_codes<Float16>, decode_codes<Float16>, accumulate_codes<Float16>};
constinit const NaturalKernels<Bfloat16> avx2_natural_bfloat16 = {
    encode<Bfloat16>, decode<Bfloat16>, accumulate<Bfloat16>};

} // namespace fewbits

#endif
