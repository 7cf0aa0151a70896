// An aggregator's state and how it lies in the caller's memory.
#pragma once

#include "switch/packet.h"

namespace fewbits {

struct SwitchAddress {
    uint8_t size;
    uint8_t bytes[FEWBITS_SWITCH_ADDRESS];

    bool is(const uint8_t *from, size_t from_size) const {
        return size == from_size && std::memcmp(bytes, from, from_size) == 0;
    }
};

// What has come from a worker with a right tag.
struct SwitchSequence {
    uint64_t control; // the last join, sign of life or leave
    uint64_t codes;   // the highest of packets of codes
    uint64_t window;  // a bit for each of those and the 63 before it

    // Whether codes of this number are new.
    bool is_new(uint64_t sequence) const {
        return sequence > codes ||
               (codes - sequence < 64 && (window >> (codes - sequence) & 1) == 0);
    }
    void take(uint64_t sequence) {
        if (sequence > codes) {
            window = sequence - codes < 64 ? window << (sequence - codes) : 0;
            codes = sequence;
        }
        window |= uint64_t{1} << (codes - sequence);
    }
};

struct SwitchJob {
    uint64_t id;      // 0: none
    uint64_t nonce;   // ours, which no other job has
    uint64_t last;    // when its last packet came
    uint64_t present; // a bit for each worker that has joined
    uint32_t chunk;   // codes that its packets hold at most
    uint32_t over;    // 1: a worker has left
    SwitchAddress workers[FEWBITS_SWITCH_WORKERS];
    SwitchSequence sequences[FEWBITS_SWITCH_WORKERS];
    SealKey up, down;
};

// One of a slot's two chunks: the one that is summed now, or the one before it, whose sum some
// worker may still have to ask for again.
struct SwitchVersion {
    uint64_t round;
    uint64_t seen; // a bit for each worker whose codes are in the sum
    uint64_t first;
    uint32_t key[4];
    uint32_t count;
    uint16_t flags;
    uint16_t complete;
};

struct SwitchSlot {
    uint64_t begun; // rounds
    SwitchVersion versions[2];
};

struct SwitchState {
    fewbits_switch_setup setup;
    SwitchJob job, next; // the one that is served, and one whose workers are gathering
    uint64_t gathered;   // jobs
    uint64_t fresh;      // the nonce of the next one
};

// The key of packets to a job that the state has; null for others and without keys.
const SealKey *switch_up_key(const SwitchState &state, const SwitchHeader &header);

// fewbits_switch_packet for a caller that has many packets: it may know whether a tag is right,
// which no state changes, and may seal sums itself (`seals` is false) when it sends them.
void switch_packet(uint8_t *memory, ConstBytes packet, TagState tag, ConstBytes from, uint64_t now,
                   bool seals, fewbits_switch_statistics &statistics,
                   fewbits_switch_action &action);

namespace { // internal linkage: see random.h

constexpr size_t padded(size_t size) { return (size + 63) / 64 * 64; }

// Offsets of the parts of a state.
struct SwitchPlaces {
    size_t slots, registers, sums, version, total;

    explicit SwitchPlaces(const fewbits_switch_setup &setup)
        : slots(padded(sizeof(SwitchState))),
          registers(slots + padded(setup.slots * sizeof(SwitchSlot))),
          sums(padded(setup.chunk * sizeof(int64_t))),
          version(sums + padded(sizeof(SwitchHeader) + setup.chunk)),
          total(registers + 2 * setup.slots * version) {}

    size_t of_sums(uint32_t slot, uint64_t round) const {
        return registers + (2 * size_t{slot} + (round & 1)) * version;
    }
    size_t of_packet(uint32_t slot, uint64_t round) const { return of_sums(slot, round) + sums; }
};

[[maybe_unused]] bool is_setup(const fewbits_switch_setup &setup) {
    return setup.workers >= 1 && setup.workers <= FEWBITS_SWITCH_WORKERS && setup.slots >= 1 &&
           setup.slots <= FEWBITS_SWITCH_SLOTS && setup.chunk >= 1 &&
           setup.chunk <= FEWBITS_SWITCH_CHUNK;
}

} // namespace
} // namespace fewbits
