// The NEON table: checksum, random words and unpacking here, every other group in its own file.
// Every aarch64 processor has NEON; the checksum's instructions came a little later, and a
// processor without them runs the portable table.
#include "kernels.h"

#if defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)

#include <arm_acle.h>

#include <algorithm>

#include "crc.h"
#include "neon/neon.h"

namespace fewbits {
namespace {

// ---- CRC-32C: three independent chains hide the latency of the instruction ----

constexpr size_t kCrcLane = 256; // bytes
constexpr CrcShiftTable kCrcShift = crc_shift_table(kCrcLane);

uint32_t shift_crc(uint32_t crc) {
    return kCrcShift[0][crc & 255] ^ kCrcShift[1][(crc >> 8) & 255] ^
           kCrcShift[2][(crc >> 16) & 255] ^ kCrcShift[3][crc >> 24];
}

uint32_t crc32c(uint32_t crc, ConstBytes data) {
    uint32_t a = ~crc;
    const uint8_t *at = data.data();
    size_t left = data.size();
    for (; left >= 3 * kCrcLane; at += 3 * kCrcLane, left -= 3 * kCrcLane) {
        uint32_t b = 0;
        uint32_t c = 0;
        for (size_t i = 0; i < kCrcLane; i += 8) {
            a = __crc32cd(a, load_as<uint64_t>(at + i));
            b = __crc32cd(b, load_as<uint64_t>(at + kCrcLane + i));
            c = __crc32cd(c, load_as<uint64_t>(at + 2 * kCrcLane + i));
        }
        a = shift_crc(shift_crc(a) ^ b) ^ c;
    }
    for (; left >= 8; at += 8, left -= 8) {
        a = __crc32cd(a, load_as<uint64_t>(at));
    }
    for (; left > 0; ++at, --left) {
        a = __crc32cb(a, *at);
    }
    return ~a;
}

void words(const Stream &stream, std::span<uint32_t> out) {
    for (size_t start = 0; start < out.size(); start += kBlock) {
        const uint64_t first = stream.first + start;
        const auto block = out.subspan(start, std::min(kBlock, out.size() - start));
        const size_t whole = crosses_segment(first, block.size()) ? 0 : block.size() / 4 * 4;
        Words source(stream, first);
        for (size_t i = 0; i < whole; i += 4) {
            store32(block.data() + i, source.next());
        }
        portable_common.words(stream.from(start + whole), block.subspan(whole));
    }
}

// ---- unpacking ----

// The low end of both 64-bit fields holds eight codes of `width` bits, at most 8; they move apart
// to a byte each.
struct Spreader {
    uint64x2_t masks[3], uppers[3];
    int64x2_t shifts[3];

    explicit Spreader(int width) {
        for (int i = 0; i < 3; ++i) { // four codes to each half, then two to each quarter, then one
            const int codes = 4 >> i;
            const uint64_t low = (uint64_t{1} << (codes * width)) - 1;
            const uint64_t each = i == 0   ? low
                                  : i == 1 ? low | low << 32
                                           : (low | low << 16) | (low | low << 16) << 32;
            masks[i] = vdupq_n_u64(each);
            uppers[i] = vdupq_n_u64(each << (32 >> i));
            shifts[i] = vdupq_n_s64(codes * (8 - width));
        }
    }

    uint8x16_t spread(uint64x2_t x) const {
        for (int i = 0; i < 3; ++i) {
            const uint64x2_t high = vandq_u64(vshlq_u64(x, shifts[i]), uppers[i]);
            x = vorrq_u64(vandq_u64(x, masks[i]), high);
        }
        return vreinterpretq_u8_u64(x);
    }
};

// Groups of 16 codes of at most 8 bits, as long as whole words can be read; the rest goes to the
// portable kernel.
fewbits_status unpack(ConstBytes packed, int width, uint32_t bound, std::span<uint16_t> codes) {
    const auto step = static_cast<size_t>(width);
    size_t done = 0;
    uint8x16_t largest = vdupq_n_u8(0);
    if (width <= 8) {
        const Spreader spreader(width);
        for (; done + kGroup <= codes.size() && done / 8 * step + step + 8 <= packed.size();
             done += kGroup) {
            const uint8_t *const from = packed.data() + done / 8 * step;
            const uint64x2_t fields = {load_as<uint64_t>(from), load_as<uint64_t>(from + step)};
            const uint8x16_t bytes = spreader.spread(fields);
            largest = vmaxq_u8(largest, bytes);
            store16(codes.data() + done, vmovl_u8(vget_low_u8(bytes)));
            store16(codes.data() + done + 8, vmovl_high_u8(bytes));
        }
    }
    const fewbits_status rest =
        portable_common.unpack(packed.subspan(done / 8 * step), width, bound, codes.subspan(done));
    const bool small = vmaxvq_u8(largest) < bound;
    return rest == FEWBITS_OK && !small ? FEWBITS_BAD_CODE : rest;
}

} // namespace

// Packing is not here: where it is hot, it is part of a larger kernel.
constinit const CommonKernels neon_common = {
    .crc32c = crc32c,
    .words = words,
    .pack = nullptr,
    .unpack = unpack,
};

namespace {

// All tables and groups are constants: no instruction of this folder may run before dispatch.cpp
// has asked the processor.
constinit const Table table = {
    .common = &neon_common,
    .casts = &neon_casts,
    .natural_float32 = &neon_natural_float32,
    .natural_float64 = &neon_natural_float64,
    .natural_float16 = &neon_natural_float16,
    .natural_bfloat16 = &neon_natural_bfloat16,
    .coder = &neon_coder,
    .trellis = &neon_trellis,
    .stages = &neon_stages,
    .dithering_float32 = &neon_dithering_float32,
    .sign = &neon_sign,
    .steps_float32 = &neon_steps_float32,
    .spherical = &neon_spherical,
    .switching = &neon_switching,
    .sealing = &neon_sealing,
};

} // namespace

constinit const Table *const neon_table = &table;

} // namespace fewbits

#else

namespace fewbits {
constinit const Table *const neon_table = nullptr;
} // namespace fewbits

#endif
