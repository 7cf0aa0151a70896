// Packets of in-network aggregation with any content and a right checksum or tag.
#pragma once

#include <vector>

#include "harness.h"
#include "switch/fewbits_switch.h"

namespace fuzz {

using Packet = std::vector<uint8_t>;

constexpr size_t kTagAt = FEWBITS_SWITCH_HEADER - FEWBITS_SWITCH_TAG;
constexpr uint64_t kJob = 77;
constexpr uint8_t kSecret[FEWBITS_SWITCH_KEY] = {1, 2, 3, 4, 5, 6, 7, 8, 9};

struct Fields {
    uint8_t kind = 0;
    uint8_t flags = 0;
    uint16_t workers = 1;
    uint16_t worker = 0;
    uint32_t slot = 0;
    uint64_t round = 0;
    uint64_t first = 0;
    uint32_t count = 0;
    uint64_t nonce = 0;
    uint64_t sequence = 0;
};

template <class T> void put(Packet &packet, size_t at, T value) {
    std::memcpy(packet.data() + at, &value, sizeof(value));
}

template <class T> T got(const uint8_t *packet, size_t at) {
    T value;
    std::memcpy(&value, packet + at, sizeof(value));
    return value;
}

// Put the tag of one side right, or without a key the checksum.
inline void seal(Packet &packet, bool keyed, uint32_t side) {
    Packet bytes(packet.begin(), packet.begin() + kTagAt);
    bytes.insert(bytes.end(), packet.begin() + FEWBITS_SWITCH_HEADER, packet.end());
    std::memset(packet.data() + kTagAt, 0, FEWBITS_SWITCH_TAG);
    if (!keyed) {
        return put(packet, kTagAt, fewbits_crc32c(0, bytes.data(), bytes.size()));
    }
    uint8_t key[FEWBITS_SWITCH_KEY];
    const auto job = got<uint64_t>(bytes.data(), 8);
    const auto nonce = got<uint64_t>(bytes.data(), 64);
    REQUIRE(fewbits_switch_subkey(kSecret, job, nonce, side, key) == FEWBITS_OK);
    REQUIRE(fewbits_switch_tag(key, bytes.data(), bytes.size(), packet.data() + kTagAt) ==
            FEWBITS_OK);
}

inline Packet packet(const Fields &own, ConstBytes codes) {
    Packet made(FEWBITS_SWITCH_HEADER);
    std::memcpy(made.data(), "fwbs\2", 5);
    made[5] = own.kind;
    made[6] = own.flags;
    put(made, 8, kJob);
    put(made, 16, own.workers);
    put(made, 18, own.worker);
    put(made, 20, own.slot);
    put(made, 24, own.round);
    put(made, 48, own.first);
    put(made, 56, own.count);
    put(made, 64, own.nonce);
    put(made, 72, own.sequence);
    made.insert(made.end(), codes.begin(), codes.end());
    return made;
}

// Parts of header and codes replaced, the length changed, and mostly sealed again.
inline void spoil(Packet &made, Input &input, bool keyed, uint32_t side) {
    const uint8_t choice = input.byte();
    for (uint8_t edits = input.byte() % 6; edits > 0; --edits) {
        const uint8_t place = input.byte();
        made[place % made.size()] = input.byte();
    }
    if (choice % 4 == 1) {
        const ConstBytes rest = input.rest();
        made.resize(FEWBITS_SWITCH_HEADER);
        made.insert(made.end(), rest.begin(), rest.end());
        put(made, 56, static_cast<uint32_t>(rest.size()));
    }
    if (choice % 4 == 2) {
        made.resize(std::max<size_t>(FEWBITS_SWITCH_HEADER, made.size() - input.byte() % 8));
    }
    if (choice < 240) {
        seal(made, keyed, side);
    }
}

} // namespace fuzz
