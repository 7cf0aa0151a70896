// The arithmetic of in-network aggregation with AVX2, integers only: the bits of
// portable/switch.cpp.
#if defined(__AVX2__)

#include "avx2/avx2.h"

namespace fewbits {
namespace {

// ---- a worker's values to codes ----

struct EncodeLimits {
    Vector magnitude = pinned(0x7FFFFFFFu), low, high, base;

    explicit EncodeLimits(const SwitchSpan &span)
        : low(pinned(span.lowest << 23)), high(pinned(span.lowest + span.most - 1)),
          base(pinned(span.lowest - 1)) {}
};

// Eight codes in 32-bit lanes; `rare` is not zero where the portable kernel must do them.
inline Vector encode_eight(const uint32_t *from, Words &source, const EncodeLimits &limits,
                           Vector &rare) {
    const Vector bits = load(from);
    const Vector magnitude = _mm256_and_si256(bits, limits.magnitude);
    const Vector zero = _mm256_cmpeq_epi32(magnitude, _mm256_setzero_si256());
    const Vector word = _mm256_srli_epi32(source.next(), 9);
    const Vector exponent = _mm256_srli_epi32(_mm256_add_epi32(magnitude, word), 23);
    const Vector below = _mm256_andnot_si256(zero, _mm256_cmpgt_epi32(limits.low, magnitude));
    rare = _mm256_or_si256(rare, _mm256_or_si256(below, _mm256_cmpgt_epi32(exponent, limits.high)));
    const Vector sign = _mm256_slli_epi32(_mm256_srli_epi32(bits, 31), 7);
    const Vector code = _mm256_or_si256(_mm256_sub_epi32(exponent, limits.base), sign);
    return _mm256_andnot_si256(zero, code);
}

inline Vector to_bytes(Vector a, Vector b, Vector c, Vector d) {
    const Vector mixed = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
    return _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

void encode(std::span<const uint32_t> values, const Stream &stream, const SwitchSpan &span,
            uint8_t *codes, fewbits_switch_tally &tally) {
    const EncodeLimits limits(span);
    for (size_t start = 0; start < values.size(); start += kBlock) {
        const size_t count = std::min(kBlock, values.size() - start);
        const uint64_t first = stream.first + start;
        const size_t whole = crosses_segment(first, count) ? 0 : count / kGroup * kGroup;
        Words source(stream, first);
        for (size_t i = start; i < start + whole; i += kGroup) {
            fetch_ahead<4 * kGroup>(values.data() + i);
            Vector rare = _mm256_setzero_si256();
            const Vector a = encode_eight(values.data() + i, source, limits, rare);
            const Vector b = encode_eight(values.data() + i + 8, source, limits, rare);
            const Vector c = encode_eight(values.data() + i + 16, source, limits, rare);
            const Vector d = encode_eight(values.data() + i + 24, source, limits, rare);
            if (any(rare)) [[unlikely]] {
                portable_switching.encode(values.subspan(i, kGroup), stream.from(i), span,
                                          codes + i, tally);
            } else {
                store(codes + i, to_bytes(a, b, c, d));
            }
        }
        const size_t rest = start + whole;
        portable_switching.encode(values.subspan(rest, count - whole), stream.from(rest), span,
                                  codes + rest, tally);
    }
}

// ---- codes to integers ----

bool check(std::span<const uint8_t> codes, uint32_t most) {
    const Vector mask = _mm256_set1_epi8(kSwitchMagnitude);
    const Vector minus_zero = _mm256_set1_epi8(static_cast<char>(kSwitchSign));
    const Vector limit = _mm256_set1_epi8(static_cast<char>(most));
    Vector bad = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 32 <= codes.size(); i += 32) {
        const Vector code = load(codes.data() + i);
        const Vector large = _mm256_cmpgt_epi8(_mm256_and_si256(code, mask), limit);
        bad = _mm256_or_si256(bad, _mm256_or_si256(large, _mm256_cmpeq_epi8(code, minus_zero)));
    }
    return !any(bad) && portable_switching.check(codes.subspan(i), most);
}

// Four codes, 0 or plus or minus 2^(code - 1), in 64-bit lanes. Shifts by 64 or more give 0, and so
// does the code 0, whose shift is 2^64 - 1.
inline Vector integers(const uint8_t *from) {
    const Vector code = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(load_as<int>(from)));
    const Vector one = _mm256_set1_epi64x(1);
    const Vector shift =
        _mm256_sub_epi64(_mm256_and_si256(code, _mm256_set1_epi64x(kSwitchMagnitude)), one);
    const Vector power = _mm256_sllv_epi64(one, shift);
    const Vector minus = _mm256_cmpgt_epi64(code, _mm256_set1_epi64x(kSwitchMagnitude));
    return _mm256_sub_epi64(_mm256_xor_si256(power, minus), minus);
}

void set(std::span<const uint8_t> codes, int64_t *sums) {
    size_t i = 0;
    for (; i + 4 <= codes.size(); i += 4) {
        store(sums + i, integers(codes.data() + i));
    }
    portable_switching.set(codes.subspan(i), sums + i);
}

void add(std::span<const uint8_t> codes, int64_t *sums) {
    size_t i = 0;
    for (; i + 4 <= codes.size(); i += 4) {
        store(sums + i, _mm256_add_epi64(load(sums + i), integers(codes.data() + i)));
    }
    portable_switching.add(codes.subspan(i), sums + i);
}

// ---- sums to codes ----

// All bits below the top one set, and it too.
inline Vector filled(Vector x) {
    x = _mm256_or_si256(x, _mm256_srli_epi64(x, 1));
    x = _mm256_or_si256(x, _mm256_srli_epi64(x, 2));
    x = _mm256_or_si256(x, _mm256_srli_epi64(x, 4));
    x = _mm256_or_si256(x, _mm256_srli_epi64(x, 8));
    x = _mm256_or_si256(x, _mm256_srli_epi64(x, 16));
    return _mm256_or_si256(x, _mm256_srli_epi64(x, 32));
}

inline Vector count_ones(Vector x) {
    const Vector table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, //
                                          0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const Vector nibble = _mm256_set1_epi8(15);
    const Vector low = _mm256_shuffle_epi8(table, _mm256_and_si256(x, nibble));
    const Vector high =
        _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(x, 4), nibble));
    return _mm256_sad_epu8(_mm256_add_epi8(low, high), _mm256_setzero_si256());
}

// Four codes in 64-bit lanes.
inline Vector round_four(const int64_t *from, Words &source) {
    const Vector sum = load(from);
    const Vector zero = _mm256_setzero_si256();
    const Vector minus = _mm256_cmpgt_epi64(zero, sum);
    const Vector magnitude = _mm256_sub_epi64(_mm256_xor_si256(sum, minus), minus);
    const Vector ones = filled(magnitude);
    const Vector draw = _mm256_and_si256(source.next(), _mm256_srli_epi64(ones, 1));
    // A carry out of the top bit leaves nothing but the next bit outside of `ones`.
    const Vector over = _mm256_andnot_si256(ones, _mm256_add_epi64(magnitude, draw));
    const Vector carry = _mm256_andnot_si256(_mm256_cmpeq_epi64(over, zero), _mm256_set1_epi64x(1));
    const Vector code = _mm256_add_epi64(count_ones(ones), carry);
    return _mm256_or_si256(code, _mm256_and_si256(minus, _mm256_set1_epi64x(kSwitchSign)));
}

void round(std::span<const int64_t> sums, const Stream &stream, uint8_t *codes) {
    constexpr size_t group = 16;
    for (size_t start = 0; start < sums.size(); start += kBlock) {
        const size_t count = std::min(kBlock, sums.size() - start);
        const uint64_t first = 2 * (stream.first + start);
        const size_t whole = crosses_segment(first, 2 * count) ? 0 : count / group * group;
        Words source(stream, first);
        for (size_t i = start; i < start + whole; i += group) {
            const Vector a = round_four(sums.data() + i, source);
            const Vector b = round_four(sums.data() + i + 4, source);
            const Vector c = round_four(sums.data() + i + 8, source);
            const Vector d = round_four(sums.data() + i + 12, source);
            // Bytes 0 and 8 of each half: pairs of vectors share a half's first 4 bytes.
            const Vector ab = _mm256_or_si256(a, _mm256_slli_epi64(b, 8));
            const Vector cd = _mm256_or_si256(c, _mm256_slli_epi64(d, 8));
            const Vector all_four = _mm256_or_si256(ab, _mm256_slli_epi64(cd, 16));
            // Lane j holds elements j, 4 + j, 8 + j, 12 + j.
            const Vector order =
                _mm256_setr_epi8(0, 8, -1, -1, 1, 9, -1, -1, 2, 10, -1, -1, 3, 11, -1, -1, //
                                 -1, -1, 0, 8, -1, -1, 1, 9, -1, -1, 2, 10, -1, -1, 3, 11);
            const Vector spread = _mm256_shuffle_epi8(all_four, order);
            _mm_storeu_si128(
                reinterpret_cast<__m128i *>(codes + i),
                _mm_or_si128(_mm256_castsi256_si128(spread), _mm256_extracti128_si256(spread, 1)));
        }
        const size_t rest = start + whole;
        portable_switching.round(sums.subspan(rest, count - whole), stream.from(rest),
                                 codes + rest);
    }
}

} // namespace

constinit const SwitchKernels avx2_switching = {
    .encode = encode,
    .check = check,
    .set = set,
    .add = add,
    .round = round,
    .decode = nullptr, // one load a value: nothing to gain
};

} // namespace fewbits

#endif
