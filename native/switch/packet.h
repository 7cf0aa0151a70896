// The packets of in-network aggregation: their header, and where it is checked.
#pragma once

#include <bit>
#include <cstring>

#include "kernels.h"
#include "switch/arithmetic.h"

namespace fewbits {

// As it is on the wire; the core is little endian only.
struct SwitchHeader {
    uint8_t magic[4];
    uint8_t version;
    uint8_t kind;
    uint16_t flags;
    uint64_t job;
    uint16_t workers;
    uint16_t worker;
    uint32_t slot;
    uint64_t round;
    uint32_t key[4];
    uint64_t first;
    uint32_t count;
    uint32_t crc; // of all other bytes of the packet, in order
};
static_assert(sizeof(SwitchHeader) == FEWBITS_SWITCH_HEADER);

namespace { // internal linkage: see random.h

constexpr uint8_t kSwitchMagic[4] = {'f', 'w', 'b', 's'};
constexpr uint8_t kSwitchVersion = 1;
constexpr uint16_t kEveryone = 0xFFFF;

// The largest code of a worker: n * 2^(most - 1) <= 2^63 - 1.
inline uint32_t switch_most(uint32_t workers) {
    return 64 - static_cast<uint32_t>(std::bit_width(workers));
}

inline uint32_t switch_crc(const SwitchHeader &header, const uint8_t *payload, size_t size) {
    const auto *bytes = reinterpret_cast<const uint8_t *>(&header);
    const uint32_t crc = kernels().common.crc32c(0, {bytes, sizeof(header) - sizeof(header.crc)});
    return kernels().common.crc32c(crc, {payload, size});
}

[[maybe_unused]] bool has_codes(uint8_t kind) {
    return kind == FEWBITS_SWITCH_CODES || kind == FEWBITS_SWITCH_SUM;
}

// Whether the bytes are a packet of this protocol; its header then.
[[maybe_unused]] bool parse_switch(const uint8_t *packet, size_t size, SwitchHeader &header) {
    if (size < sizeof(header)) {
        return false;
    }
    std::memcpy(&header, packet, sizeof(header));
    const bool known = header.kind >= FEWBITS_SWITCH_JOIN && header.kind <= FEWBITS_SWITCH_LEAVE;
    const size_t payload = size - sizeof(header);
    return std::memcmp(header.magic, kSwitchMagic, 4) == 0 && header.version == kSwitchVersion &&
           known && payload == (has_codes(header.kind) ? header.count : 0) &&
           header.crc == switch_crc(header, packet + sizeof(header), payload);
}

[[maybe_unused]] void seal_switch(SwitchHeader &header, const uint8_t *payload, size_t size) {
    std::memcpy(header.magic, kSwitchMagic, 4);
    header.version = kSwitchVersion;
    header.crc = switch_crc(header, payload, size);
}

} // namespace
} // namespace fewbits
