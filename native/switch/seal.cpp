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
    // A stride, filled up with zeros. One that the body has whole is where it lies, and the next
    // ones of that kind follow it; another is copied into the only room.
    const uint8_t *at(size_t stride) {
        const size_t from = stride * kHashStride;
        if (from >= head_.size() && from + kHashStride <= size()) {
            return body_.data() + (from - head_.size());
        }
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

using Words = LeafWords[2];

// The leaves of one message or of two of the same length.
struct Leaves {
    Message messages[2];
    size_t count; // of messages
    Words &words;

    // `number` strides from this one on.
    void strides(size_t stride, size_t number, uint32_t done) {
        const HashKernels &own = kernels().sealing;
        if (count == 2) {
            const uint8_t *const data[] = {messages[0].at(stride), messages[1].at(stride)};
            own.two_strides(words[0], data, number, done);
        } else {
            own.strides(words[0], messages[0].at(stride), number, done);
        }
    }
    void marked(size_t stride, const LeafMarks &marks) {
        const HashKernels &own = kernels().sealing;
        if (count == 2) {
            const uint8_t *const data[] = {messages[0].at(stride), messages[1].at(stride)};
            own.two_marked(words[0], data, marks);
        } else {
            own.marked(words[0], messages[0].at(stride), marks);
        }
    }
};

// All leaves' blocks, of which `rest` bytes of a last stride are left to come after `full` others.
void hash_leaves(Leaves &leaves, size_t full, size_t rest) {
    if (full > 1) {
        leaves.strides(0, 1, kHashBlock);
    }
    if (full > 2) {
        leaves.strides(1, full - 2, 2 * kHashBlock);
    }
    LeafMarks marks;
    const auto before = static_cast<uint32_t>((1 + full) * kHashBlock);
    if (full > 0) {
        for (size_t leaf = 0; leaf < kHashLeaves; ++leaf) {
            marks.count[leaf] = before;
            marks.last[leaf] = leaf * kHashBlock >= rest ? kEvery : 0;
            marks.live[leaf] = kEvery;
        }
        leaves.marked(full - 1, marks);
    }
    if (rest > 0) {
        for (size_t leaf = 0; leaf < kHashLeaves; ++leaf) {
            const size_t from = std::min(rest, leaf * kHashBlock);
            marks.count[leaf] = before + static_cast<uint32_t>(std::min(kHashBlock, rest - from));
            marks.last[leaf] = kEvery;
            marks.live[leaf] = from < rest ? kEvery : 0;
        }
        leaves.marked(full, marks);
    }
}

size_t size_of(const Sealing &one) { return one.head.size() + one.body.size(); }

// What the roots of up to eight packets hash: digests of leaves, a block of each packet, then
// another of each.
struct Roots {
    alignas(64) uint8_t data[2 * kHashStride] = {};
    LeafWords words = {};

    void set(size_t place, const Sealing &one, const uint32_t *leaves) {
        const size_t size = size_of(one);
        for (size_t leaf = 0; leaf < kHashLeaves; ++leaf) {
            const bool empty = size < kHashStride && leaf * kHashBlock >= size;
            const uint32_t *const from = empty ? one.key->empty : leaves;
            uint32_t digest[kTagSize / sizeof(uint32_t)];
            for (size_t word = 0; word < std::size(digest); ++word) {
                digest[word] = from[word * kHashLeaves + leaf];
            }
            uint8_t *const to = data + leaf / 4 * kHashStride + place * kHashBlock;
            std::memcpy(to + leaf % 4 * kTagSize, digest, kTagSize);
        }
        for (size_t word = 0; word < kHashWords; ++word) {
            words[word * kHashLeaves + place] = one.key->root[word];
        }
    }
    void get(size_t place, uint8_t *tag) const {
        for (size_t word = 0; word < kTagSize / sizeof(uint32_t); ++word) {
            std::memcpy(tag + word * sizeof(uint32_t), &words[word * kHashLeaves + place],
                        sizeof(uint32_t));
        }
    }
};

// At most eight.
void seal_some(std::span<const Sealing> some) {
    Roots roots;
    for (size_t i = 0; i < some.size();) {
        const bool two = i + 1 < some.size() && size_of(some[i]) == size_of(some[i + 1]);
        const Sealing &one = some[i];
        const Sealing &other = some[i + (two ? 1 : 0)];
        Words words;
        std::memcpy(words[0], one.key->begun, sizeof(LeafWords));
        std::memcpy(words[1], other.key->begun, sizeof(LeafWords));
        Leaves leaves{{{one.head, one.body}, {other.head, other.body}}, two ? 2u : 1u, words};
        hash_leaves(leaves, size_of(one) / kHashStride, size_of(one) % kHashStride);
        for (size_t j = 0; j < leaves.count; ++j, ++i) {
            roots.set(i, some[i], words[j]);
        }
    }
    kernels().sealing.roots(roots.words, roots.data, some.size());
    for (size_t i = 0; i < some.size(); ++i) {
        roots.get(i, some[i].tag);
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

void seal_tags(std::span<const Sealing> all) {
    for (size_t at = 0; at < all.size(); at += kHashLeaves) {
        seal_some(all.subspan(at, std::min(kHashLeaves, all.size() - at)));
    }
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
    const Sealing one{&own, {}, {data, size}, tag};
    seal_tags({&one, 1});
    return FEWBITS_OK;
}

int fewbits_switch_subkey(const uint8_t root[kKeySize], uint64_t job, uint64_t nonce, uint32_t side,
                          uint8_t out[kKeySize]) {
    switch_subkey(root, job, nonce, side, out);
    return FEWBITS_OK;
}

} // extern "C"
