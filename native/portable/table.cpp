// The portable table: checksum, random words and packing here, every other group in its own file.
// Every other table must give the same bits.
#include <array>

#include "portable/packing.h"
#include "portable/portable.h"
#include "random.h"

namespace fewbits {
namespace {

// ---- CRC-32C, eight bytes a step through eight tables ----

constexpr auto crc_tables = [] {
    std::array<std::array<uint32_t, 256>, 8> tables{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0u);
        }
        tables[0][byte] = crc;
    }
    for (size_t byte = 0; byte < 256; ++byte) {
        for (size_t t = 1; t < 8; ++t) {
            tables[t][byte] = (tables[t - 1][byte] >> 8) ^ tables[0][tables[t - 1][byte] & 255];
        }
    }
    return tables;
}();

uint32_t crc32c(uint32_t crc, ConstBytes data) {
    crc = ~crc;
    size_t i = 0;
    for (; i + 8 <= data.size(); i += 8) {
        uint32_t next = 0;
        for (size_t byte = 0; byte < 8; ++byte) {
            const uint32_t mixed = byte < 4 ? (crc >> (8 * byte)) & 255 : 0;
            next ^= crc_tables[7 - byte][data[i + byte] ^ mixed];
        }
        crc = next;
    }
    for (; i < data.size(); ++i) {
        crc = (crc >> 8) ^ crc_tables[0][(crc ^ data[i]) & 255];
    }
    return ~crc;
}

void words(const Stream &stream, std::span<uint32_t> out) {
    uint64_t index = stream.first;
    for (size_t i = 0; i < out.size();) {
        const Segment segment(stream.key, static_cast<uint32_t>(index >> 32));
        do {
            out[i++] = segment.word(static_cast<uint32_t>(index++));
        } while (i < out.size() && static_cast<uint32_t>(index) != 0);
    }
}

} // namespace

constinit const CommonKernels portable_common = {crc32c, words, pack, unpack};

constinit const Table portable_table = {
    .common = &portable_common,
    .casts = &portable_casts,
    .natural_float32 = &portable_natural_float32,
    .natural_float64 = &portable_natural_float64,
    .natural_float16 = &portable_natural_float16,
    .natural_bfloat16 = &portable_natural_bfloat16,
    .coder = &portable_coder,
    .phases = &portable_phases,
    .trellis = &portable_trellis,
    .stages = &portable_stages,
    .dithering_float32 = &portable_dithering_float32,
    .dithering_float64 = &portable_dithering_float64,
    .dithering_float16 = &portable_dithering_float16,
    .dithering_bfloat16 = &portable_dithering_bfloat16,
    .sign = &portable_sign,
    .steps_float32 = &portable_steps_float32,
    .steps_float64 = &portable_steps_float64,
    .steps_float16 = &portable_steps_float16,
    .steps_bfloat16 = &portable_steps_bfloat16,
    .spherical = &portable_spherical,
    .switching = &portable_switching,
    .sealing = &portable_sealing,
    .products32 = &portable_products32,
    .products64 = &portable_products64,
};

} // namespace fewbits
