// The packets of in-network aggregation: their header, and where it is checked.
#pragma once

#include <bit>
#include <cstring>

#include "switch/seal.h"

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
    uint32_t idle; // milliseconds, of a welcome
    uint64_t nonce;
    uint64_t sequence;
    uint8_t
        tag[kTagSize]; // of all other bytes of the packet, in order; without a key their CRC-32C
};
static_assert(sizeof(SwitchHeader) == FEWBITS_SWITCH_HEADER);
constexpr size_t kTagged = sizeof(SwitchHeader) - kTagSize; // bytes of a header before its tag

// What is known of a packet's tag before the packet is looked at.
enum class TagState : uint8_t { unchecked, right, wrong };

namespace { // internal linkage: see random.h

constexpr uint8_t kSwitchMagic[4] = {'f', 'w', 'b', 's'};
constexpr uint8_t kSwitchVersion = 2;
constexpr uint16_t kEveryone = 0xFFFF;

// The largest code of a worker: n * 2^(most - 1) <= 2^63 - 1.
inline uint32_t switch_most(uint32_t workers) {
    return 64 - static_cast<uint32_t>(std::bit_width(workers));
}

// Tags of packets without a key are checksums.
[[maybe_unused]] void switch_tag(const SwitchHeader &header, const SealKey *key, ConstBytes payload,
                                 uint8_t tag[kTagSize]) {
    const ConstBytes head{reinterpret_cast<const uint8_t *>(&header), kTagged};
    if (key != nullptr) {
        const Sealing one{key, head, payload, tag};
        return seal_tags({&one, 1});
    }
    const uint32_t crc = kernels().common.crc32c(kernels().common.crc32c(0, head), payload);
    std::memset(tag, 0, kTagSize);
    std::memcpy(tag, &crc, sizeof(crc));
}

[[maybe_unused]] bool has_codes(uint8_t kind) {
    return kind == FEWBITS_SWITCH_CODES || kind == FEWBITS_SWITCH_SUM;
}

// Whether the bytes can be a packet of this protocol; its header then. The tag comes next.
[[maybe_unused]] bool read_switch(ConstBytes packet, SwitchHeader &header) {
    if (packet.size() < sizeof(header)) {
        return false;
    }
    std::memcpy(&header, packet.data(), sizeof(header));
    return std::memcmp(header.magic, kSwitchMagic, 4) == 0 && header.version == kSwitchVersion;
}

[[maybe_unused]] bool is_sealed(const SwitchHeader &header, const SealKey *key, ConstBytes payload,
                                TagState known) {
    if (known != TagState::unchecked) {
        return known == TagState::right;
    }
    uint8_t tag[kTagSize];
    switch_tag(header, key, payload, tag);
    return same_tag(tag, header.tag);
}

[[maybe_unused]] bool is_formed(const SwitchHeader &header, ConstBytes payload) {
    return header.kind >= FEWBITS_SWITCH_JOIN && header.kind <= FEWBITS_SWITCH_ALIVE &&
           payload.size() == (has_codes(header.kind) ? header.count : 0);
}

[[maybe_unused]] void name_switch(SwitchHeader &header) {
    std::memcpy(header.magic, kSwitchMagic, 4);
    header.version = kSwitchVersion;
}

[[maybe_unused]] void seal_switch(SwitchHeader &header, const SealKey *key, ConstBytes payload) {
    name_switch(header);
    switch_tag(header, key, payload, header.tag);
}

} // namespace
} // namespace fewbits
