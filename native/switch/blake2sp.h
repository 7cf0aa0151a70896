// BLAKE2s (RFC 7693) and its tree BLAKE2sp: eight leaves hash every eighth block, a root hashes
// the leaves. Eight leaves fill a vector. The reference is src/fewbits/reference/sealing.py.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fewbits {

constexpr size_t kHashBlock = 64;
constexpr size_t kHashLeaves = 8;
constexpr size_t kHashStride = kHashLeaves * kHashBlock; // one block of each leaf
constexpr size_t kHashWords = 8;

// The states of all leaves: word w of leaf i is at w * 8 + i.
using LeafWords = uint32_t[kHashWords * kHashLeaves];

// What a stride is to each leaf, as the algorithm's words.
struct LeafMarks {
    uint32_t count[kHashLeaves]; // bytes hashed with it
    uint32_t last[kHashLeaves];  // all bits: its last block
    uint32_t live[kHashLeaves];  // all bits: it has a block in this stride
};

struct HashKernels {
    // Full strides, none of them the last of any leaf; `done` bytes of each leaf came before.
    void (*strides)(uint32_t *words, const uint8_t *data, size_t count, uint32_t done);
    // One stride with marks.
    void (*marked)(uint32_t *words, const uint8_t *data, const LeafMarks &marks);
    // One block of one state of eight words.
    void (*block)(uint32_t *words, const uint8_t *data, uint32_t count, bool last, bool last_node);
    // `strides` and `marked` for two messages of the same length; their states follow each other.
    void (*two_strides)(uint32_t *words, const uint8_t *const *data, size_t count,
                        uint32_t done) = nullptr;
    void (*two_marked)(uint32_t *words, const uint8_t *const *data,
                       const LeafMarks &marks) = nullptr;
    // The two blocks after the key's of up to eight roots, which lie like the leaves of two
    // strides.
    void (*roots)(uint32_t *words, const uint8_t *data, size_t count) = nullptr;
};

namespace { // internal linkage: see random.h

[[maybe_unused]] constexpr uint32_t kHashStart[kHashWords] = {
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};

[[maybe_unused]] constexpr uint8_t kHashOrder[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

// Half a round on a state of sixteen words of any kind. It has four chains, one for each word of
// the first row; `turned` is how many places a row is ahead of the row above. The chains' steps
// stand side by side, or else the processor would see one chain at a time. Words of the message are
// added first: the others come later. `Own` adds, mixes and turns words.
template <class Own, int turned, class Word>
[[gnu::always_inline]] inline void hash_half(Word *v, const Word *message, const uint8_t *order) {
    Word *const a = v;
    const auto b = [v](int i) -> Word & { return v[4 + (i + turned) % 4]; };
    const auto c = [v](int i) -> Word & { return v[8 + (i + 2 * turned) % 4]; };
    const auto d = [v](int i) -> Word & { return v[12 + (i + 3 * turned) % 4]; };
    const auto each = [](auto step)
                          __attribute__((always_inline)) { step(0), step(1), step(2), step(3); };
    each([&](int i) { a[i] = Own::add(a[i], message[order[2 * i]]); });
    each([&](int i) { a[i] = Own::add(a[i], b(i)); });
    each([&](int i) { d(i) = Own::mix(d(i), a[i]); });
    each([&](int i) { d(i) = Own::template turn<16>(d(i)); });
    each([&](int i) { c(i) = Own::add(c(i), d(i)); });
    each([&](int i) { b(i) = Own::mix(b(i), c(i)); });
    each([&](int i) { a[i] = Own::add(a[i], message[order[2 * i + 1]]); });
    each([&](int i) { b(i) = Own::template turn<12>(b(i)); });
    each([&](int i) { a[i] = Own::add(a[i], b(i)); });
    each([&](int i) { d(i) = Own::mix(d(i), a[i]); });
    each([&](int i) { d(i) = Own::template turn<8>(d(i)); });
    each([&](int i) { c(i) = Own::add(c(i), d(i)); });
    each([&](int i) { b(i) = Own::mix(b(i), c(i)); });
    each([&](int i) { b(i) = Own::template turn<7>(b(i)); });
}

template <class Own, class Word>
[[gnu::always_inline]] inline void hash_rounds(Word *v, const Word *message) {
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
        hash_half<Own, 0>(v, message, kHashOrder[round]);
        hash_half<Own, 1>(v, message, kHashOrder[round] + 8);
    }
}

} // namespace
} // namespace fewbits
