// Blocks with several tables, of dithered codes or of levels on paths: what a writer makes of them.
// The choice is made in integers only, as everywhere.
#pragma once

#include <numeric>

#include "coded_tables.h"
#include "phases.h"
#include "trellis.h"

namespace fewbits {
namespace { // internal linkage: see random.h

constexpr uint32_t kLarge = 4;     // codes from here on are large
constexpr size_t kLargeShare = 16; // more than this part of them, and phases say little

constexpr size_t kFewEscapes = 256;
constexpr size_t kLargeLevels = 2; // more than this part of levels, and one table does

// Symbols of a block with several tables, these and what they cost.
class TablesForm {
  public:
    // `codes.bytes` are there, or levels.
    TablesForm(const CodedShape &shape, const CodesIn &codes) : shape_(shape), codes_(codes) {
        if (codes.path != nullptr) {
            fold_levels(*codes.path);
        } else {
            uint8_t phases[kCodedBlock];
            const ConstBytes bytes = {codes.bytes, codes.count};
            kernels().phases.find(*codes.dither, {phases, codes.count});
            kernels().phases.fold(bytes, codes.signs, {phases, codes.count},
                                  {symbols_, codes.count});
        }
        kernels().coder.count_symbols({symbols_, codes.count}, counts_);
        choose_tables();
    }

    uint64_t cost() const { return cost_; } // in 256ths of a bit, signs included
    size_t tables_size() const { return tables_size_; }
    // Whether so many have no symbol that a block of halves may be shorter.
    bool many_escapes() const { return escaped_ * kFewEscapes > codes_.count; }

    // The block, or null where it is not smaller than `raw` bytes.
    uint8_t *write(size_t raw, uint8_t *to) const {
        const size_t lanes = size_t{1} << lanes_;
        const size_t head = 3 + tables_size_;
        const size_t fixed =
            head + 4 * lanes + packed_size(escaped_, shape_.width()) + packed_size(escaped_, 1);
        if (fixed >= raw) {
            return nullptr;
        }
        uint32_t states[kMaxLanes];
        std::fill_n(states, lanes, kRansLow);
        const Bytes room = {to + head + 4 * lanes, raw - 1 - fixed};
        uint8_t *const words = kernels().coder.encode({symbols_, codes_.count}, encode_,
                                                      {states, lanes}, room, codes_.ahead);
        if (words == nullptr) {
            return nullptr;
        }
        const auto size = static_cast<size_t>(room.data() + room.size() - words);
        std::memmove(room.data(), words, size);
        to[0] = kRans;
        to[1] = static_cast<uint8_t>(lanes_ | coarse_ << 3 | kPhased);
        to[2] = static_cast<uint8_t>(number_);
        std::memcpy(to + 3, tables_, tables_size_);
        std::memcpy(to + head, states, 4 * lanes);
        return write_escapes(room.data() + size);
    }

  private:
    const CodedShape &shape_;
    const CodesIn &codes_;
    uint8_t symbols_[kCodedBlock];
    Histogram counts_ = {};
    RansEncodeTable encode_ = {};
    uint8_t tables_[kPhaseTables * kLargestTable];
    size_t tables_size_ = 0;
    size_t escaped_ = 0;
    int lanes_ = 0; // log2
    int coarse_ = kMostCoarse;
    uint64_t cost_ = 0;
    size_t number_ = kPhaseTables;   // of tables
    uint32_t escape_ = kPhaseEscape; // the first escape

    size_t each() const { return 256 / number_; } // symbols of a table

    void fold_levels(const Path &path) {
        const size_t large = path.stats.large;
        number_ = 2;
        if (large * kLargeLevels > codes_.count) {
            number_ = 1;
        } else if (path.words != nullptr && large * kLargeShare <= codes_.count) {
            number_ = 4;
        }
        escape_ = static_cast<uint32_t>(each()) - 2;
        const int shift = path_shift(number_);
        if (path.near != nullptr) {
            const uint8_t *const tops = path.words != nullptr ? path.near->tops : nullptr;
            kernels().trellis.near_fold({path.near->levels, codes_.count}, tops, shift, escape_,
                                        symbols_);
        } else {
            kernels().trellis.fold({path.levels, codes_.count}, path.words, shift, escape_,
                                   symbols_);
        }
    }

    void choose_tables() {
        const size_t each = this->each();
        Histogram own[kPhaseTables] = {};
        size_t totals[kPhaseTables];
        size_t common = 0;
        for (size_t table = 0; table < number_; ++table) {
            const uint32_t *const counted = counts_ + table * each;
            std::copy(counted, counted + each, own[table]);
            common += *std::max_element(counted, counted + each);
            escaped_ += std::accumulate(counted + escape_, counted + each, size_t{0});
            auto used = each - static_cast<size_t>(std::count(counted, counted + each, 0u));
            if (used < 2) { // a table has two symbols or more
                ++own[table][0];
                ++own[table][1];
                used = static_cast<size_t>(256 - std::count(own[table], own[table] + 256, 0u));
            }
            totals[table] = std::accumulate(own[table], own[table] + each, size_t{0});
            coarse_ = std::min(coarse_, RansPlan::coarseness(totals[table], used));
        }
        for (size_t table = 0; table < number_; ++table) {
            const RansPlan plan(own[table], totals[table], coarse_);
            add_table(plan, table, counts_ + table * each);
        }
        lanes_ = codes_.path != nullptr ? path_lanes_log2(codes_.count)
                                        : lanes_log2(codes_.count, codes_.count - common);
        const auto width = static_cast<size_t>(shape_.width()) + 1;
        const size_t bits = 8 + 8 * tables_size_ + (size_t{24} << lanes_) + escaped_ * width;
        cost_ += 256 * uint64_t{bits};
    }

    void add_table(const RansPlan &plan, size_t table, const uint32_t *counted) {
        const size_t each = this->each();
        std::memcpy(tables_ + tables_size_, plan.table, plan.table_size);
        tables_size_ += plan.table_size;
        Histogram really = {};
        std::copy(counted, counted + each, really);
        cost_ += plan.symbols_cost(really);
        for (uint32_t symbol = 0, first = 0; symbol < each; ++symbol) {
            if (plan.frequencies[symbol] > 0) {
                encode_.set(static_cast<uint8_t>(table * each + symbol), plan.frequencies[symbol],
                            first);
                first += plan.frequencies[symbol];
            }
        }
    }

    // Of an escaped code, which is not 0 unless it is a level.
    int32_t signed_code(size_t i) const {
        if (codes_.path != nullptr) {
            return codes_.path->level(i);
        }
        const int32_t code = codes_.words != nullptr ? codes_.words[i] : codes_.bytes[i];
        return (codes_.signs[i / 8] >> (i % 8) & 1) != 0 ? -code : code;
    }

    // Magnitudes, then signs.
    uint8_t *write_escapes(uint8_t *to) const {
        if (escaped_ == 0) {
            return to;
        }
        BitWriter magnitudes(to);
        BitWriter signs(to + packed_size(escaped_, shape_.width()));
        for (size_t i = 0; i < codes_.count; ++i) {
            if (symbols_[i] % each() >= escape_) {
                const int32_t code = signed_code(i);
                magnitudes.put(static_cast<uint32_t>(std::abs(code)), shape_.width());
                signs.put(code < 0, 1);
            }
        }
        magnitudes.end();
        return signs.end();
    }
};

// Magnitudes and signs of levels.
struct LevelPlanes {
    uint8_t bytes[kCodedBlock];
    uint16_t words[kCodedBlock];
    uint8_t signs[kMostPlane] = {};

    LevelPlanes(const int32_t *levels, size_t count, int halvings = 0) {
        for (size_t i = 0; i < count; ++i) {
            const int32_t level = levels[i] >> halvings;
            const auto magnitude = static_cast<uint32_t>(std::abs(level));
            words[i] = static_cast<uint16_t>(magnitude);
            bytes[i] = static_cast<uint8_t>(std::min(magnitude, kEscape));
            signs[i / 8] = static_cast<uint8_t>(signs[i / 8] | (level < 0) << (i % 8));
        }
    }
    CodesIn codes(size_t count) const { return {count, bytes, words, signs}; }
};

} // namespace
} // namespace fewbits
