// Tags of packets: BLAKE2s as a tree of eight leaves and a root, each of them keyed.
#pragma once

#include "kernels.h"

namespace fewbits {

constexpr size_t kTagSize = FEWBITS_SWITCH_TAG;
constexpr size_t kKeySize = FEWBITS_SWITCH_KEY;

// The nodes of the tree after the key's block, so that no packet pays for it.
struct SealKey {
    LeafWords begun;
    LeafWords empty; // leaves whose only block it is
    uint32_t root[kHashWords];

    void set(const uint8_t key[kKeySize]);
};

// A tag to be made, of `head`, then `body`.
struct Sealing {
    const SealKey *key;
    ConstBytes head, body;
    uint8_t *tag;
};

// Together, which takes half the time of one after the other.
void seal_tags(std::span<const Sealing> all);

// The key of one direction of one job on one aggregator, or anything else that must be new.
void switch_subkey(const uint8_t root[kKeySize], uint64_t job, uint64_t nonce, uint32_t side,
                   uint8_t out[kKeySize]);

namespace { // internal linkage: see random.h

// In a time that does not tell where they differ.
[[maybe_unused]] bool same_tag(const uint8_t a[kTagSize], const uint8_t b[kTagSize]) {
    uint64_t left[2];
    uint64_t right[2];
    std::memcpy(left, a, kTagSize);
    std::memcpy(right, b, kTagSize);
    return ((left[0] ^ right[0]) | (left[1] ^ right[1])) == 0;
}

} // namespace
} // namespace fewbits
