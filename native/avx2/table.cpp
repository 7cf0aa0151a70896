// The AVX2 table: checksum, random words and unpacking here, every other group in its own file.
#include "kernels.h"

#if defined(__AVX2__)

#include <algorithm>

#include "avx2/avx2.h"
#include "crc.h"

namespace fewbits {
namespace {

// ---- CRC-32C: three independent chains hide the latency of the instruction ----

// Near enough that the processor's prefetching sees one stream: chains 2048 bytes apart ran at half
// the speed on memory that is not in the cache.
constexpr size_t kCrcLane = 256;
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
        portable_common.words(stream.from(start + whole), block.subspan(whole));
    }
}

// ---- unpacking ----

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
        portable_common.unpack(packed.subspan(done / 8 * step), width, bound, codes.subspan(done));
    uint8_t each[kGroup];
    store(each, largest);
    const bool small = *std::max_element(std::begin(each), std::end(each)) < bound;
    return rest == FEWBITS_OK && !small ? FEWBITS_BAD_CODE : rest;
}

} // namespace

// Packing is not here: where it is hot, it is part of a larger kernel.
constinit const CommonKernels avx2_common = {
    .crc32c = crc32c,
    .words = words,
    .pack = nullptr,
    .unpack = unpack,
};

namespace {

// All tables and groups are constants: no instruction of this folder may run before dispatch.cpp
// has asked the processor.
constinit const Table table = {
    .common = &avx2_common,
    .casts = &avx2_casts,
    .natural_float32 = &avx2_natural_float32,
    .natural_float64 = &avx2_natural_float64,
    .natural_float16 = &avx2_natural_float16,
    .natural_bfloat16 = &avx2_natural_bfloat16,
    .coder = &avx2_coder,
    .phases = &avx2_phases,
    .trellis = &avx2_trellis,
    .stages = &avx2_stages,
    .dithering_float32 = &avx2_dithering_float32,
    .dithering_float64 = &avx2_dithering_float64,
    .dithering_float16 = &avx2_dithering_float16,
    .dithering_bfloat16 = &avx2_dithering_bfloat16,
    .sign = &avx2_sign,
    .steps_float32 = &avx2_steps_float32,
    .steps_float64 = &avx2_steps_float64,
    .steps_float16 = &avx2_steps_float16,
    .steps_bfloat16 = &avx2_steps_bfloat16,
    .spherical = &avx2_spherical,
    .switching = &avx2_switching,
    .sealing = &avx2_sealing,
    .products32 = &avx2_products32,
    .products64 = &avx2_products64,
};

} // namespace

constinit const Table *const avx2_table = &table;

} // namespace fewbits

#else

namespace fewbits {
constinit const Table *const avx2_table = nullptr;
} // namespace fewbits

#endif
