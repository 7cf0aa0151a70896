// Blocks of few symbols decoded side by side. A block alone waits for its own states most of the
// time; four fill the time of one. A state is two halves of 16 bits, so that a vector has half of
// each of 32 lanes, and what a slot stands for is looked up in registers.
#if defined(__AVX512VBMI2__)

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "abreast.h"
#include "avx512bw/avx512.h"
#include "rans.h"

namespace fewbits {
namespace {

#define FEWBITS_INLINE [[gnu::always_inline]] inline

constexpr size_t kAcross = 32;        // lanes of a block
constexpr size_t kTurn = 2 * kAcross; // bytes that a turn may use, and looks at
constexpr size_t kFew = 32;           // symbols
constexpr uint32_t kCell = 16;        // slots
constexpr uint32_t kCells = kRansTotal / kCell;
constexpr uint32_t kEdge = 64; // slots at either end that are looked up one by one

Wide all_halves(uint32_t x) { return _mm512_set1_epi16(static_cast<int16_t>(x)); }

// Symbols by their rank among those that occur. A cell has the rank of its first slot; the rank of
// another slot is that or the next. Symbols that are rarer than a cell is wide are usually the
// first and the last ones, whose slots have their ranks one by one.
class FewSymbols {
  public:
    // False where there are more symbols, or a cell has parts of three.
    bool set(const RansDecodeTable &table) {
        uint8_t cells[kCells], edge[2 * kEdge], symbols[2 * kFew] = {}, ranks[256];
        uint16_t last[kFew] = {}, start[kFew] = {}, frequency[kFew] = {};
        size_t used = 0;
        for (uint32_t slot = 0; slot < kRansTotal; ++used) {
            const uint32_t entry = table.slots[slot];
            const uint32_t next = slot + (entry & (kRansTotal - 1));
            const bool within = slot % kCell != 0 && next % kCell != 0;
            const bool edges = slot < kEdge || slot >= kRansTotal - kEdge;
            if (used == kFew || (within && slot / kCell == next / kCell && !edges)) {
                return false;
            }
            ranks[entry >> 24] = static_cast<uint8_t>(used);
            symbols[used] = static_cast<uint8_t>(entry >> 24);
            last[used] = static_cast<uint16_t>(next - 1);
            start[used] = static_cast<uint16_t>(slot);
            frequency[used] = static_cast<uint16_t>(16 * (next - slot));
            for (uint32_t i = (slot + kCell - 1) / kCell; i * kCell < next; ++i) {
                cells[i] = static_cast<uint8_t>(used);
            }
            slot = next;
        }
        for (uint32_t i = 0; i < 2 * kEdge; ++i) {
            edge[i] = ranks[table.slots[(i - kEdge) % kRansTotal] >> 24];
        }
        for (size_t i = 0; i < 4; ++i) {
            cells_[i] = load_wide(cells + 64 * i);
        }
        edge_[0] = load_wide(edge);
        edge_[1] = load_wide(edge + 64);
        symbols_ = load_wide(symbols);
        last_ = load_wide(last);
        start_ = load_wide(start);
        frequency_ = load_wide(frequency);
        return true;
    }

    // Of the slots in the low 12 bits of `low`; upper bytes are anything.
    FEWBITS_INLINE Wide ranks(Wide low, Wide slot) const {
        const Wide cell = _mm512_srli_epi16(low, 4);
        const Wide lower = _mm512_permutex2var_epi8(cells_[0], cell, cells_[1]);
        const Wide upper = _mm512_permutex2var_epi8(cells_[2], cell, cells_[3]);
        const Wide near = _mm512_add_epi16(low, all_halves(kEdge));
        const Wide edge = _mm512_permutex2var_epi8(edge_[0], near, edge_[1]);
        const __mmask32 above = _mm512_test_epi16_mask(low, all_halves(kRansTotal / 2));
        const __mmask32 edges = _mm512_testn_epi16_mask(near, all_halves(kRansTotal - 2 * kEdge));
        const Wide first =
            _mm512_mask_mov_epi16(_mm512_mask_mov_epi16(lower, above, upper), edges, edge);
        const Wide left = _mm512_sub_epi16(_mm512_permutexvar_epi16(first, last_), slot);
        return _mm512_add_epi16(first, _mm512_srli_epi16(left, 15)); // the next if it is negative
    }
    FEWBITS_INLINE Wide start(Wide ranks) const { return _mm512_permutexvar_epi16(ranks, start_); }
    FEWBITS_INLINE Wide frequency(Wide ranks) const { // times 16
        return _mm512_permutexvar_epi16(ranks, frequency_);
    }
    FEWBITS_INLINE Vector symbols(Wide ranks) const {
        return _mm512_cvtepi16_epi8(_mm512_permutexvar_epi8(ranks, symbols_));
    }

  private:
    Wide cells_[4], edge_[2], symbols_, last_, start_, frequency_;
};

// The halves of 32 states.
struct Halves {
    Wide low, high;

    explicit Halves(std::span<const uint32_t> states) {
        const Wide first = load_wide(states.data());
        const Wide second = load_wide(&states[kAcross / 2]);
        low = both(_mm512_cvtepi32_epi16(first), _mm512_cvtepi32_epi16(second));
        high = both(_mm512_cvtepi32_epi16(_mm512_srli_epi32(first, 16)),
                    _mm512_cvtepi32_epi16(_mm512_srli_epi32(second, 16)));
    }
    void store_to(std::span<uint32_t> states) const {
        const auto sixteen = [&](Vector lower, Vector upper) {
            return _mm512_or_si512(_mm512_cvtepu16_epi32(lower),
                                   _mm512_slli_epi32(_mm512_cvtepu16_epi32(upper), 16));
        };
        store_wide(states.data(),
                   sixteen(_mm512_castsi512_si256(low), _mm512_castsi512_si256(high)));
        store_wide(&states[kAcross / 2],
                   sixteen(_mm512_extracti64x4_epi64(low, 1), _mm512_extracti64x4_epi64(high, 1)));
    }
};

// A block on its way.
struct Reading {
    FewSymbols table;
    Halves x;
    const uint8_t *from, *end;
    uint8_t *to;

    bool has_turn() const { return static_cast<size_t>(end - from) >= kTurn; }

    // Each lane gives a symbol. With x = 2^16 high + low and f the frequency, f * (x / 4096) is
    // 16 f * high + f * (low / 4096).
    FEWBITS_INLINE void turn() {
        const Wide slot = _mm512_and_si512(x.low, all_halves(kRansTotal - 1));
        const Wide ranks = table.ranks(x.low, slot);
        const Wide frequency = table.frequency(ranks);
        const Wide place = _mm512_sub_epi16(slot, table.start(ranks));
        const Wide rest = _mm512_add_epi16( // below 2^16
            _mm512_mullo_epi16(_mm512_srli_epi16(frequency, 4), _mm512_srli_epi16(x.low, 12)),
            place);
        const Wide product = _mm512_mullo_epi16(x.high, frequency);
        const Wide upper = _mm512_mulhi_epu16(x.high, frequency);
        const Wide low = _mm512_add_epi16(product, rest);
        constexpr int carries = 0xD4; // of product + rest = low, in each place
        const Wide carry =
            _mm512_srli_epi16(_mm512_ternarylogic_epi32(product, rest, low, carries), 15);
        // Below 2^15 nothing carries, and no part has the top bit.
        const Wide top = all_halves(1u << 15);
        __mmask32 needs = _mm512_testn_epi16_mask(upper, upper);
        needs = _mm512_mask_testn_epi16_mask(needs, _mm512_or_si512(product, rest), top);
        needs = _mm512_mask_testn_epi16_mask(needs, low, top);
        const Wide words = load_wide(from);
        from += 2 * std::popcount(static_cast<uint32_t>(needs));
        x.high = _mm512_mask_mov_epi16(_mm512_add_epi16(upper, carry), needs, low);
        x.low = _mm512_mask_expand_epi16(low, needs, words);
        store(to, table.symbols(ranks));
        to += kAcross;
    }

    // What is left, `count` symbols; false where there are not enough words.
    bool finish(size_t count) {
        for (; count > 0 && has_turn(); count -= kAcross) {
            turn();
        }
        uint8_t last[2 * kTurn] = {}; // the last words, and zeros beyond
        const auto left = static_cast<size_t>(end - from);
        std::memcpy(last, from, std::min(left, kTurn));
        const uint8_t *const before = std::exchange(from, last);
        for (; count > 0 && from <= last + left; count -= kAcross) {
            turn();
        }
        const auto used = static_cast<size_t>(from - last);
        from = before + std::min(used, left);
        return count == 0 && used <= left;
    }
};

template <size_t number> bool decode_some(std::span<RansBlock> blocks) {
    std::array<FewSymbols, number> tables;
    for (size_t j = 0; j < number; ++j) {
        if (!tables[j].set(*blocks[j].table)) {
            return false;
        }
    }
    const auto begin = [&](size_t j) -> Reading {
        const RansBlock &own = blocks[j];
        return {tables[j], Halves(own.states), own.data.data(), own.data.data() + own.data.size(),
                own.symbols.data()};
    };
    auto each = [&]<size_t... j>(std::index_sequence<j...>) {
        return std::array<Reading, number>{begin(j)...};
    }(std::make_index_sequence<number>());
    const auto go_on = [&] {
        bool all = true;
        for (const Reading &one : each) {
            all &= one.has_turn();
        }
        return all;
    };
    const size_t count = blocks[0].symbols.size();
    size_t i = 0;
    for (; i < count && go_on(); i += kAcross) {
#pragma GCC unroll 4
        for (size_t j = 0; j < number; ++j) {
            fetch_turn(blocks[j].ahead, i, kAcross);
            each[j].turn();
        }
    }
    for (size_t j = 0; j < number; ++j) {
        const bool whole = each[j].finish(count - i);
        blocks[j].end = whole ? each[j].from : nullptr;
        each[j].x.store_to(blocks[j].states);
    }
    return true;
}

} // namespace

bool avx512_decode_abreast(std::span<RansBlock> blocks) {
    switch (blocks.size()) {
    case 2:
        return decode_some<2>(blocks);
    case 3:
        return decode_some<3>(blocks);
    default:
        return decode_some<4>(blocks);
    }
}

} // namespace fewbits

#endif
