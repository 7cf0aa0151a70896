// The AVX2 table: checksum, random words and casts; avx2_natural.cpp and avx2_coded.cpp have the
// rest.
#include "kernels.h"

#if defined(__AVX2__)

#include <algorithm>

#include "avx2.h"
#include "crc.h"
#include "dithering.h"
#include "spherical.h"
#include "steps.h"
#include "switch.h"

namespace fewbits {
namespace {

// ---- CRC-32C: three independent chains hide the latency of the instruction ----

constexpr size_t kCrcLane = 2048;
constexpr CrcShiftTable kCrcShift = crc_shift_table(kCrcLane);

uint32_t shift_crc(uint64_t crc) {
    return kCrcShift[0][crc & 255] ^ kCrcShift[1][(crc >> 8) & 255] ^
           kCrcShift[2][(crc >> 16) & 255] ^ kCrcShift[3][(crc >> 24) & 255];
}

uint32_t crc32c(uint32_t crc, ConstBytes data) {
    uint64_t a = static_cast<uint32_t>(~crc);
    const uint8_t *at = data.data();
    size_t left = data.size();
    for (; left >= 3 * kCrcLane; at += 3 * kCrcLane, left -= 3 * kCrcLane) {
        uint64_t b = 0;
        uint64_t c = 0;
        for (size_t i = 0; i < kCrcLane; i += 8) {
            a = _mm_crc32_u64(a, load_as<uint64_t>(at + i));
            b = _mm_crc32_u64(b, load_as<uint64_t>(at + kCrcLane + i));
            c = _mm_crc32_u64(c, load_as<uint64_t>(at + 2 * kCrcLane + i));
        }
        a = shift_crc(shift_crc(a) ^ b) ^ c;
    }
    for (; left >= 8; at += 8, left -= 8) {
        a = _mm_crc32_u64(a, load_as<uint64_t>(at));
    }
    for (; left > 0; ++at, --left) {
        a = _mm_crc32_u8(static_cast<uint32_t>(a), *at);
    }
    return ~static_cast<uint32_t>(a);
}

void words(const Stream &stream, std::span<uint32_t> out) {
    for (size_t start = 0; start < out.size(); start += kBlock) {
        const uint64_t first = stream.first + start;
        const auto block = out.subspan(start, std::min(kBlock, out.size() - start));
        const size_t whole = crosses_segment(first, block.size()) ? 0 : block.size() / 8 * 8;
        Words source(stream, first);
        for (size_t i = 0; i < whole; i += 8) {
            store(&block[i], source.next());
        }
        scalar_kernels.words(stream.from(start + whole), block.subspan(whole));
    }
}

// ---- casts: eight elements at a time; a vector with a rare value goes to the scalar table ----

// Whole vectors through `convert`, which returns false to decline; the rest through `rare`.
template <class From, class To, class Convert>
void cast_vectors(In<typename From::Bits> input, Out<typename To::Bits> output,
                  fewbits_tally &tally, Cast<From, To> rare, Convert convert) {
    constexpr size_t step = kGroup;
    const size_t whole = input.size() / step * step;
    for (size_t i = 0; i < whole; i += step) {
        if (!convert(input.data() + i, output.data() + i)) {
            rare(input.subspan(i, step), output.subspan(i, step), tally);
        }
    }
    rare(input.subspan(whole), output.subspan(whole), tally);
}

template <class Bits> Vector above(Vector bits, Bits limit) { // lanes whose magnitude is greater
    if constexpr (sizeof(Bits) == 8) {
        const Vector magnitude = _mm256_and_si256(bits, _mm256_set1_epi64x(INT64_MAX));
        return _mm256_cmpgt_epi64(magnitude, _mm256_set1_epi64x(static_cast<long long>(limit)));
    } else if constexpr (sizeof(Bits) == 4) {
        const Vector magnitude = _mm256_and_si256(bits, all(0x7FFFFFFFu));
        return _mm256_cmpgt_epi32(magnitude, all(limit));
    } else {
        const Vector magnitude = _mm256_and_si256(bits, _mm256_set1_epi16(0x7FFF));
        return _mm256_cmpgt_epi16(magnitude, _mm256_set1_epi16(static_cast<short>(limit)));
    }
}

template <class F>
void copy(In<typename F::Bits> input, Out<typename F::Bits> output, fewbits_tally &tally) {
    using Bits = typename F::Bits;
    cast_vectors<F, F>(input, output, tally, scalar_kernels.of<F>().copy,
                       [](const Unaligned<Bits> *from, Unaligned<Bits> *to) {
                           Vector rare = _mm256_setzero_si256();
                           for (size_t i = 0; i < kGroup; i += 32 / sizeof(Bits)) {
                               const Vector bits = load(from + i);
                               rare = _mm256_or_si256(rare, above<Bits>(bits, F::infinity - 1));
                               store(to + i, bits);
                           }
                           return !any(rare);
                       });
}

void float32_to_float16(In<uint32_t> input, Out<uint16_t> output, fewbits_tally &tally) {
    constexpr uint32_t overflow = 0x477FEFFFu; // above this, 65520 and more round to infinity
    cast_vectors<Float32, Float16>(
        input, output, tally, scalar_kernels.float32_to_float16,
        [](const Unaligned<uint32_t> *from, Unaligned<uint16_t> *to) {
            Vector rare = _mm256_setzero_si256();
            for (size_t i = 0; i < kGroup; i += 8) {
                const Vector bits = load(from + i);
                rare = _mm256_or_si256(rare, above<uint32_t>(bits, overflow));
                const __m128i half =
                    _mm256_cvtps_ph(_mm256_castsi256_ps(bits), _MM_FROUND_TO_NEAREST_INT);
                _mm_storeu_si128(reinterpret_cast<__m128i *>(to + i), half);
            }
            return !any(rare);
        });
}

void float32_to_bfloat16(In<uint32_t> input, Out<uint16_t> output, fewbits_tally &tally) {
    constexpr uint32_t overflow = 0x7F7F7FFFu; // above this the rounding reaches infinity
    cast_vectors<Float32, Bfloat16>(
        input, output, tally, scalar_kernels.float32_to_bfloat16,
        [](const Unaligned<uint32_t> *from, Unaligned<uint16_t> *to) {
            Vector rare = _mm256_setzero_si256();
            for (size_t i = 0; i < kGroup; i += 16) {
                Vector rounded[2];
                for (size_t j = 0; j < 2; ++j) {
                    const Vector bits = load(from + i + 8 * j);
                    rare = _mm256_or_si256(rare, above<uint32_t>(bits, overflow));
                    const Vector odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), all(1));
                    const Vector up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, all(0x7FFF)));
                    rounded[j] = _mm256_srli_epi32(up, 16);
                }
                store(to + i,
                      _mm256_permute4x64_epi64(_mm256_packus_epi32(rounded[0], rounded[1]), 0xD8));
            }
            return !any(rare);
        });
}

void float16_to_float32(In<uint16_t> input, Out<uint32_t> output, fewbits_tally &tally) {
    cast_vectors<Float16, Float32>(
        input, output, tally, scalar_kernels.float16_to_float32,
        [](const Unaligned<uint16_t> *from, Unaligned<uint32_t> *to) {
            Vector rare = _mm256_setzero_si256();
            for (size_t i = 0; i < kGroup; i += 16) {
                const Vector bits = load(from + i);
                rare = _mm256_or_si256(rare, above<uint16_t>(bits, Float16::infinity - 1));
                store(to + i, _mm256_castps_si256(_mm256_cvtph_ps(_mm256_castsi256_si128(bits))));
                store(to + i + 8,
                      _mm256_castps_si256(_mm256_cvtph_ps(_mm256_extracti128_si256(bits, 1))));
            }
            return !any(rare);
        });
}

void bfloat16_to_float32(In<uint16_t> input, Out<uint32_t> output, fewbits_tally &tally) {
    cast_vectors<Bfloat16, Float32>(input, output, tally, scalar_kernels.bfloat16_to_float32,
                                    [](const Unaligned<uint16_t> *from, Unaligned<uint32_t> *to) {
                                        Vector rare = _mm256_setzero_si256();
                                        for (size_t i = 0; i < kGroup; i += 8) {
                                            const Vector bits = load_values<Bfloat16>(from + i);
                                            rare = _mm256_or_si256(
                                                rare, above<uint32_t>(bits, Float32::infinity - 1));
                                            store(to + i, bits);
                                        }
                                        return !any(rare);
                                    });
}

// Packing by width is not hot: the fused kernels have their own.
void pack(std::span<const uint16_t> codes, int width, Bytes packed) {
    scalar_kernels.pack(codes, width, packed);
}

// The low end of every 64-bit field holds eight codes of `width` bits, at most 8; they move apart
// to a byte each.
struct Spreader {
    Vector masks[3];
    __m128i shifts[3];

    explicit Spreader(int width) {
        for (int i = 0; i < 3; ++i) { // four codes to each half, then two to each quarter, then one
            const int codes = 4 >> i;
            const uint64_t low = (uint64_t{1} << (codes * width)) - 1;
            masks[i] = i == 0   ? _mm256_set1_epi64x(static_cast<long long>(low))
                       : i == 1 ? _mm256_set1_epi32(static_cast<int>(low))
                                : _mm256_set1_epi16(static_cast<short>(low));
            shifts[i] = _mm_cvtsi32_si128(codes * (8 - width));
        }
    }

    Vector spread(Vector x) const {
        for (int i = 0; i < 3; ++i) {
            const Vector high = _mm256_sll_epi64(x, shifts[i]);
            const Vector upper = _mm256_sll_epi64(masks[i], _mm_cvtsi32_si128(32 >> i));
            x = _mm256_or_si256(_mm256_and_si256(x, masks[i]), _mm256_and_si256(high, upper));
        }
        return x;
    }
};

// Groups of 32 codes of at most 8 bits, as long as whole words can be read; the rest goes to the
// portable kernel.
fewbits_status unpack(ConstBytes packed, int width, uint32_t bound, std::span<uint16_t> codes) {
    const auto step = static_cast<size_t>(width);
    size_t done = 0;
    Vector largest = _mm256_setzero_si256();
    if (width <= 8) {
        const Spreader spreader(width);
        for (; done + kGroup <= codes.size() && done / 8 * step + 3 * step + 8 <= packed.size();
             done += kGroup) {
            const uint8_t *const from = packed.data() + done / 8 * step;
            const auto field = [&](size_t i) { return load_as<long long>(from + i * step); };
            const Vector bytes =
                spreader.spread(_mm256_setr_epi64x(field(0), field(1), field(2), field(3)));
            largest = _mm256_max_epu8(largest, bytes);
            store(&codes[done], _mm256_cvtepu8_epi16(_mm256_castsi256_si128(bytes)));
            store(&codes[done + 16], _mm256_cvtepu8_epi16(_mm256_extracti128_si256(bytes, 1)));
        }
    }
    const fewbits_status rest =
        scalar_kernels.unpack(packed.subspan(done / 8 * step), width, bound, codes.subspan(done));
    uint8_t each[kGroup];
    store(each, largest);
    const bool small = *std::max_element(std::begin(each), std::end(each)) < bound;
    return rest == FEWBITS_OK && !small ? FEWBITS_BAD_CODE : rest;
}

template <class F>
constexpr FormatKernels<F> format = {NaturalAvx2<F>::encode, NaturalAvx2<F>::decode,
                                     NaturalAvx2<F>::accumulate, copy<F>};

// Constant-initialised: no instruction of this file may run before dispatch.cpp has asked the
// processor.
constinit const Kernels table = {
    .crc32c = crc32c,
    .words = words,
    .pack = pack,
    .unpack = unpack,
    .count_symbols = CodedAvx2::count_symbols,
    .rans_encode = CodedAvx2::rans_encode,
    .rans_decode = CodedAvx2::rans_decode,
    .nonzero = CodedAvx2::nonzero,
    .join_bits = CodedAvx2::join_bits,
    .spread_bits = CodedAvx2::spread_bits,
    .join_bytes = CodedAvx2::join_bytes,
    .spread_bytes = CodedAvx2::spread_bytes,
    .count_keys = StagesAvx2::count_keys,
    .gather_keys = StagesAvx2::gather_keys,
    .hadamard32 = StagesAvx2::hadamard32,
    .hadamard64 = StagesAvx2::hadamard64,
    .norm_terms = DitherAvx2::norm_terms,
    .dither = DitherAvx2::dither,
    .undither = DitherAvx2::undither,
    .steps = &avx2_steps,
    .sphere_fill = SphereAvx2::fill,
    .sphere_next = SphereAvx2::next,
    .switching = &avx2_switch,
    .formats = {format<Float32>, format<Float64>, format<Float16>, format<Bfloat16>},
    .float32_to_float16 = float32_to_float16,
    .float32_to_bfloat16 = float32_to_bfloat16,
    .float16_to_float32 = float16_to_float32,
    .bfloat16_to_float32 = bfloat16_to_float32,
};

} // namespace

constinit const Kernels *const avx2_kernels = &table;

} // namespace fewbits

#else

namespace fewbits {
constinit const Kernels *const avx2_kernels = nullptr;
} // namespace fewbits

#endif
