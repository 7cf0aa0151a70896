// Tags of packets and keys of jobs. Compiled for general registers alone, like the state.
#include "switch/seal.h"

#include <algorithm>

namespace fewbits {
namespace {

constexpr uint32_t kEvery = UINT32_MAX;

// The algorithm's parameters in the first and the fourth word: lengths of digest and key, the
// tree's shape; a node's depth and the length of the leaves' digests.
constexpr uint32_t kTree = 16 | 32 << 8 | 8 << 16 | 2 << 24;
constexpr uint32_t kLine = 32 | 32 << 8 | 1 << 16 | 1 << 24;
constexpr uint32_t kInner = 16u << 24;

// The bytes of a packet, as strides.
class Message {
  public:
    Message(ConstBytes head, ConstBytes body) : head_(head), body_(body) {}

    size_t size() const { return head_.size() + body_.size(); }
    // Consecutive strides from the one after the first on, where they lie.
    const uint8_t *inside() const { return body_.data() + (kHashStride - head_.size()); }
    // Any stride, filled up with zeros.
    const uint8_t *copied(size_t stride) {
        const size_t from = stride * kHashStride;
        const size_t count = std::min(kHashStride, size() - from);
        const size_t split = from < head_.size() ? std::min(head_.size() - from, count) : 0;
        if (split > 0) {
            std::memcpy(room_, head_.data() + from, split);
        }
        if (count > split) {
            std::memcpy(room_ + split, body_.data() + (from + split - head_.size()), count - split);
        }
        std::memset(room_ + count, 0, kHashStride - count);
        return room_;
    }

  private:
    ConstBytes head_, body_;
    alignas(64) uint8_t room_[kHashStride];
};

// All leaves' blocks, of which `rest` bytes of a last stride are left to come after `full` others.
void hash_leaves(uint32_t *words, Message &message, size_t full, size_t rest) {
    const HashKernels &own = kernels().sealing;
    if (full > 1) {
        own.strides(words, message.copied(0), 1, kHashBlock);
    }
    if (full > 2) {
        own.strides(words, message.inside(), full - 2, 2 * kHashBlock);
    }
    LeafMarks marks;
    const auto before = static_cast<uint32_t>((1 + full) * kHashBlock);
    if (full > 0) {
        for (size_t leaf = 0; leaf < kHashLeaves; ++leaf) {
            marks.count[leaf] = before;
            marks.last[leaf] = leaf * kHashBlock >= rest ? kEvery : 0;
            marks.live[leaf] = kEvery;
        }
        own.marked(words, message.copied(full - 1), marks);
    }
    if (rest > 0) {
        for (size_t leaf = 0; leaf < kHashLeaves; ++leaf) {
            const size_t from = std::min(rest, leaf * kHashBlock);
            marks.count[leaf] = before + static_cast<uint32_t>(std::min(kHashBlock, rest - from));
            marks.last[leaf] = kEvery;
            marks.live[leaf] = from < rest ? kEvery : 0;
        }
        own.marked(words, message.copied(full), marks);
    }
}

} // namespace

void SealKey::set(const uint8_t key[kKeySize]) {
    uint8_t blocks[kHashStride] = {};
    LeafMarks marks;
    for (size_t leaf = 0; leaf < kHashLeaves; ++leaf) {
        std::memcpy(blocks + leaf * kHashBlock, key, kKeySize);
        for (size_t word = 0; word < kHashWords; ++word) {
            begun[word * kHashLeaves + leaf] = kHashStart[word];
        }
        begun[leaf] ^= kTree;
        begun[2 * kHashLeaves + leaf] ^= static_cast<uint32_t>(leaf);
        begun[3 * kHashLeaves + leaf] ^= kInner;
        marks.count[leaf] = kHashBlock;
        marks.last[leaf] = marks.live[leaf] = kEvery;
    }
    std::memcpy(empty, begun, sizeof(begun));
    kernels().sealing.marked(empty, blocks, marks);
    kernels().sealing.strides(begun, blocks, 1, 0);
    std::memcpy(root, kHashStart, sizeof(root));
    root[0] ^= kTree;
    root[3] ^= kInner | 1 << 16;
    kernels().sealing.block(root, blocks, kHashBlock, false, false);
}

void seal_tag(const SealKey &key, ConstBytes head, ConstBytes body, uint8_t tag[kTagSize]) {
    Message message(head, body);
    const size_t full = message.size() / kHashStride;
    const size_t rest = message.size() % kHashStride;
    LeafWords words;
    std::memcpy(words, key.begun, sizeof(words));
    hash_leaves(words, message, full, rest);
    uint32_t digests[kHashLeaves][kTagSize / sizeof(uint32_t)];
    for (size_t leaf = 0; leaf < kHashLeaves; ++leaf) {
        const uint32_t *from = full == 0 && leaf * kHashBlock >= rest ? key.empty : words;
        for (size_t word = 0; word < kTagSize / sizeof(uint32_t); ++word) {
            digests[leaf][word] = from[word * kHashLeaves + leaf];
        }
    }
    uint32_t root[kHashWords];
    std::memcpy(root, key.root, sizeof(root));
    const auto *bytes = reinterpret_cast<const uint8_t *>(digests);
    kernels().sealing.block(root, bytes, 2 * kHashBlock, false, false);
    kernels().sealing.block(root, bytes + kHashBlock, 3 * kHashBlock, true, true);
    std::memcpy(tag, root, kTagSize);
}

void switch_subkey(const uint8_t root[kKeySize], uint64_t job, uint64_t nonce, uint32_t side,
                   uint8_t out[kKeySize]) {
    uint32_t words[kHashWords];
    std::memcpy(words, kHashStart, sizeof(words));
    words[0] ^= kLine;
    uint8_t block[kHashBlock] = {};
    std::memcpy(block, root, kKeySize);
    kernels().sealing.block(words, block, kHashBlock, false, false);
    std::memcpy(block, "fewbits switch 2", 16);
    std::memcpy(block + 16, &job, 8);
    std::memcpy(block + 24, &nonce, 8);
    std::memcpy(block + 32, &side, 4);
    kernels().sealing.block(words, block, kHashBlock + 36, true, false);
    std::memcpy(out, words, kKeySize);
}

} // namespace fewbits

using namespace fewbits;

extern "C" {

int fewbits_switch_tag(const uint8_t key[kKeySize], const uint8_t *data, size_t size,
                       uint8_t tag[kTagSize]) {
    SealKey own;
    own.set(key);
    seal_tag(own, {}, {data, size}, tag);
    return FEWBITS_OK;
}

int fewbits_switch_subkey(const uint8_t root[kKeySize], uint64_t job, uint64_t nonce, uint32_t side,
                          uint8_t out[kKeySize]) {
    switch_subkey(root, job, nonce, side, out);
    return FEWBITS_OK;
}

} // extern "C"
