// Writes blocks of codes: the choice of each block's form and table. The choice is made in integers
// only, so that every machine writes the same bytes. The loops over symbols are kernels.
#include <algorithm>
#include <numeric>
#include <optional>

#include "coded_gaps_form.h"
#include "coded_phases.h"
#include "coded_plain.h"

namespace fewbits {
namespace {

constexpr size_t kSureTables = 4096; // from so many levels on tables are best,
constexpr size_t kManyZeros = 8;     // unless more than 7/8 of them are 0

// One form's kind and body, or null where it is not smaller than the raw block. `symbols` are those
// of the codes.
uint8_t *write_rans(const CodedShape &shape, const CodesIn &codes, ConstBytes symbols,
                    const RansPlan &plan, size_t escaped, uint32_t base, uint8_t *to) {
    uint8_t head[4 + kLargestTable] = {kRans, static_cast<uint8_t>(plan.lanes | plan.coarse << 3)};
    uint8_t *head_end = head + 2;
    if (shape.wide()) {
        *head_end++ = static_cast<uint8_t>(base);
        *head_end++ = static_cast<uint8_t>(base >> 8);
    }
    std::memcpy(head_end, plan.table, plan.table_size);
    const auto head_size = static_cast<size_t>(head_end - head) + plan.table_size;
    const size_t lanes = plan.lane_count();
    const size_t fixed = head_size + 4 * lanes + packed_size(escaped, shape.width());
    const size_t raw = 1 + packed_size(codes.count, shape.width());
    if (fixed >= raw) {
        return nullptr;
    }
    uint32_t states[kMaxLanes];
    std::fill_n(states, lanes, kRansLow);
    // The words may take what keeps the block one byte smaller than the raw one. They are written
    // downwards from there and then moved to their place.
    const Bytes room = {to + head_size + 4 * lanes, raw - 1 - fixed};
    uint8_t *const words =
        kernels().coder.encode(symbols, plan.encode_table(), {states, lanes}, room, codes.ahead);
    if (words == nullptr) {
        return nullptr;
    }
    const size_t words_size = static_cast<size_t>(room.data() + room.size() - words);
    std::memmove(room.data(), words, words_size);
    std::memcpy(to, head, head_size);
    std::memcpy(to + head_size, states, 4 * lanes);
    uint8_t *const end = room.data() + words_size;
    return escaped > 0 ? write_escapes(shape, codes, symbols, end) : end;
}

// Which codes of a block are not 0: a bit for each code.
struct Mask {
    size_t count;
    size_t nonzero;
    uint8_t bits[kMostPlane];

    explicit Mask(ConstBytes symbols)
        : count(symbols.size()), nonzero(kernels().coder.nonzero(symbols, plane())) {}
    Bytes plane() { return {bits, packed_size(count, 1)}; }
    ConstBytes plane() const { return {bits, packed_size(count, 1)}; }
};

// A block's symbols, one a code, and how often each occurs.
struct Symbols {
    ConstBytes each;
    uint32_t base;
    Histogram counts = {};

    // Counts those at few places one by one, if there are places; all others are 0.
    Symbols(ConstBytes symbols, uint32_t first, const Places *few) : each(symbols), base(first) {
        if (few == nullptr) {
            kernels().coder.count_symbols(each, counts);
            return;
        }
        counts[0] = static_cast<uint32_t>(each.size() - few->count);
        for (size_t i = 0; i < few->count; ++i) {
            ++counts[each[few->each[i]]];
        }
    }
    // Those of codes that are not 0, in the same order.
    Symbols(ConstBytes dense, const Symbols &all) : each(dense), base(all.base) {
        std::copy(all.counts, all.counts + 256, counts);
        counts[0] = 0;
    }

    size_t escaped(const CodedShape &shape) const { return shape.wide() ? counts[kEscape] : 0; }
    uint64_t cost(const CodedShape &shape, const RansPlan &plan) const {
        const auto width = static_cast<uint64_t>(shape.width());
        return plan.cost(counts) + 256 * width * (plan.equal ? 0 : escaped(shape));
    }
};

// A block that is not sparse, in the smallest of its forms.
uint8_t *write_alike(const CodedShape &shape, const CodesIn &codes, const Symbols &symbols,
                     const RansPlan &plan, uint8_t *to) {
    uint8_t *end = nullptr;
    if (!plan.equal) {
        const size_t escaped = symbols.escaped(shape);
        end = write_rans(shape, codes, symbols.each, plan, escaped, symbols.base, to);
    } else if (packed_size(codes.count, shape.width()) >= 2) {
        end = write_constant(code_at(shape, codes, 0), to);
    }
    if (end == nullptr) {
        to[0] = kRaw;
        end = write_raw(shape, codes, to + 1);
    }
    return end;
}

// The mask as a block of bytes, then the codes that are not 0.
struct MaskedForm {
    CodedShape plane;
    CodesIn codes;
    Symbols symbols;
    RansPlan plan;

    MaskedForm(ConstBytes mask, const Places *bytes)
        : plane{mask.size(), 256, false}, codes{mask.size(), mask.data(), nullptr, nullptr},
          symbols(mask, 1, bytes), plan(symbols.counts, mask.size()) {}

    uint64_t cost() const { return symbols.cost(plane, plan); }
    uint8_t *write(uint8_t *to) const {
        *to++ = kMasked;
        uint8_t *const end = write_alike(plane, codes, symbols, plan, to + kLengthSize);
        const auto length = static_cast<uint32_t>(end - to) - static_cast<uint32_t>(kLengthSize);
        std::memcpy(to, &length, kLengthSize);
        return end;
    }
};

// The signs of the codes that are not 0.
uint8_t *write_signs(const Mask &mask, const uint8_t *signs, uint8_t *to) {
    const size_t size = packed_size(mask.nonzero, 1);
    if (mask.nonzero < mask.count) {
        kernels().coder.join_bits({signs, mask.plane().size()}, mask.plane(), {to, size});
    } else {
        std::memcpy(to, signs, size);
        to[size - 1] = static_cast<uint8_t>(to[size - 1] & mask.bits[size - 1]); // no bits beyond
    }
    return to + size;
}

// The bytes of a mask that are not 0, few as the codes are.
void find_bytes(const Places &codes, Places &bytes) {
    for (size_t i = 0; i < codes.count; ++i) {
        const uint32_t byte = codes.each[i] / 8;
        if (bytes.count == 0 || bytes.each[bytes.count - 1] != byte) {
            bytes.each[bytes.count++] = byte;
        }
    }
}

// What costs more than this, signs included, is not written.
struct Limit {
    uint64_t cost = UINT64_MAX;
    uint64_t signs = 0; // what the signs cost

    bool exceeded(uint64_t without_signs) const { return without_signs + signs > cost; }
};

// A block with many zeros and some codes that are none, in the form that costs least, the first
// among equals; null where that is beyond the limit. Forms without the zeros are made apart,
// because one may turn out larger than a raw block.
[[gnu::noinline]] uint8_t *write_many_zeros(const CodedShape &shape, const CodesIn &codes,
                                            const Symbols &symbols, const RansPlan &plan,
                                            const Mask &mask, const Places *few, Limit limit,
                                            uint8_t *to) {
    uint8_t dense[kCodedBlock + kSlack];
    uint16_t words[kMostGaps];
    const Symbols rest({dense, mask.nonzero}, symbols);
    const RansPlan rest_plan(rest.counts, mask.nonzero);
    const uint64_t rest_cost = rest.cost(shape, rest_plan);
    uint64_t least = symbols.cost(shape, plan);
    std::optional<MaskedForm> masked;
    std::optional<GapsForm> gaps;
    if (!shape.wide()) {
        Places bytes;
        if (few != nullptr) {
            find_bytes(*few, bytes);
        }
        masked.emplace(mask.plane(), few == nullptr ? nullptr : &bytes);
        const uint64_t cost = masked->cost() + rest_cost;
        if (cost < least) {
            least = cost;
        } else {
            masked.reset();
        }
    }
    if (few != nullptr) {
        gaps.emplace(codes.count, *few);
        const uint64_t cost = gaps->cost() + rest_cost;
        if (cost < least) {
            least = cost;
        } else {
            gaps.reset();
        }
    }
    if (limit.exceeded(least)) {
        return nullptr;
    }
    if (!masked && !gaps) {
        return write_alike(shape, codes, symbols, plan, to);
    }
    uint8_t other[1 + kLengthSize + 1 + kMostPlane + 1 + kCodedBlock];
    const bool also_words = gaps && in_words(shape, codes);
    uint8_t *end;
    if (gaps) {
        for (size_t i = 0; i < mask.nonzero; ++i) {
            dense[i] = symbols.each[few->each[i]];
            words[i] = also_words ? codes.words[few->each[i]] : uint16_t{0};
        }
        end = gaps->write(other);
    } else {
        kernels().coder.join_bytes(symbols.each, mask.plane(), {dense, mask.nonzero + kSlack});
        end = masked->write(other);
    }
    const CodesIn others = {mask.nonzero, dense, also_words ? words : nullptr, nullptr};
    const auto size = static_cast<size_t>(write_alike(shape, others, rest, rest_plan, end) - other);
    if (size > packed_size(codes.count, shape.width())) {
        to[0] = kRaw;
        return write_raw(shape, codes, to + 1);
    }
    std::memcpy(to, other, size);
    return to + size;
}

// A block without its signs, in the cheapest form that has no phases; null beyond the limit.
uint8_t *write_plain(const CodedShape &shape, const CodesIn &codes, const Symbols &symbols,
                     const RansPlan &plan, const Mask &mask, const Places *few, Limit limit,
                     uint8_t *to) {
    if (!plan.equal && (codes.count - mask.nonzero) * kZerosShare >= codes.count) {
        return write_many_zeros(shape, codes, symbols, plan, mask, few, limit, to);
    }
    return limit.exceeded(symbols.cost(shape, plan)) ? nullptr
                                                     : write_alike(shape, codes, symbols, plan, to);
}

uint8_t *write_tables(const CodedShape &shape, const CodesIn &codes, const Symbols &symbols,
                      const RansPlan &plan, const Mask &mask, const Places *few, uint8_t *to);

size_t large_codes(const CodesIn &codes, const Symbols &symbols) {
    if (codes.words == nullptr) {
        return static_cast<size_t>(
            std::accumulate(symbols.counts + kLarge, symbols.counts + 256, uint64_t{0}));
    }
    return static_cast<size_t>(std::count_if(codes.bytes, codes.bytes + codes.count,
                                             [](uint8_t code) { return code >= kLarge; }));
}

// A block with its signs. What few places take on the stack is not touched for other blocks.
uint8_t *write_codes(const CodedShape &shape, const CodesIn &codes, ConstBytes each, uint32_t base,
                     const Mask &mask, const Places *few, uint8_t *to) {
    const Symbols symbols(each, base, few);
    const RansPlan plan(symbols.counts, codes.count);
    if (codes.dither != nullptr && !plan.equal &&
        large_codes(codes, symbols) * kLargeShare <= codes.count) {
        return write_tables(shape, codes, symbols, plan, mask, few, to);
    }
    if (codes.path != nullptr && !plan.equal) {
        return write_tables(shape, codes, symbols, plan, mask, few, to);
    }
    uint8_t *const end = write_plain(shape, codes, symbols, plan, mask, few, {}, to);
    return shape.is_signed ? write_signs(mask, codes.signs, end) : end;
}

[[gnu::noinline]] uint8_t *write_tables(const CodedShape &shape, const CodesIn &codes,
                                        const Symbols &symbols, const RansPlan &plan,
                                        const Mask &mask, const Places *few, uint8_t *to) {
    const TablesForm form(shape, codes);
    const Limit limit = {form.cost(), 256 * uint64_t{mask.nonzero}};
    uint8_t *plain = write_plain(shape, codes, symbols, plan, mask, few, limit, to);
    if (plain == nullptr) {
        const size_t codes_size = packed_size(codes.count, shape.width());
        uint8_t *const end = form.write(1 + codes_size + packed_size(mask.nonzero, 1), to);
        if (end != nullptr) {
            return end;
        }
        to[0] = kRaw;
        plain = write_raw(shape, codes, to + 1);
    }
    return write_signs(mask, codes.signs, plain);
}

[[gnu::noinline]] uint8_t *write_few(const CodedShape &shape, const CodesIn &codes, ConstBytes each,
                                     uint32_t base, const Mask &mask, uint8_t *to) {
    Places places;
    places.find(mask.plane());
    return write_codes(shape, codes, each, base, mask, &places, to);
}

uint8_t *write_block(const CodedShape &shape, const CodesIn &codes, uint8_t *to) {
    uint8_t scratch[kCodedBlock]; // the symbols of a block of words
    const bool words = in_words(shape, codes);
    const uint32_t base = words ? write_symbols(shape, codes, scratch) : 1;
    const ConstBytes each = {words ? scratch : codes.bytes, codes.count};
    const Mask mask(each);
    const bool few = mask.nonzero > 0 && mask.nonzero * kGapShare <= codes.count;
    return few ? write_few(shape, codes, each, base, mask, to)
               : write_codes(shape, codes, each, base, mask, nullptr, to);
}

// Halves of levels, or null where these are not smaller than so many bytes.
[[gnu::noinline]] uint8_t *write_halves(const CodedShape &shape, const CodesIn &levels,
                                        size_t others, uint8_t *to) {
    const LevelPlanes planes(levels.path->spread(levels.count), levels.count, 1);
    uint8_t block[1 + 2 * kCodedBlock + kMostPlane];
    const auto size =
        static_cast<size_t>(write_block(shape, planes.codes(levels.count), block) - block);
    if (1 + size >= others) {
        return nullptr;
    }
    to[0] = kHalves;
    std::memcpy(to + 1, block, size);
    return to + 1 + size;
}

// Levels, unless tables are sure to be the best for them.
[[gnu::noinline]] uint8_t *write_other_levels(const CodedShape &shape, const CodesIn &levels,
                                              bool raw, uint8_t *to) {
    const LevelPlanes planes(levels.path->spread(levels.count), levels.count);
    CodesIn codes = planes.codes(levels.count);
    if (!raw) {
        codes.path = levels.path;
        return write_block(shape, codes, to);
    }
    const Mask mask({planes.bytes, levels.count});
    to[0] = kRaw;
    return write_signs(mask, planes.signs, write_raw(shape, codes, to + 1));
}

uint8_t *write_levels(const CodedShape &shape, const CodesIn &levels, uint8_t *to) {
    const LevelStats &stats = levels.path->stats;
    const bool tables = levels.count >= kSureTables && !stats.equal() &&
                        stats.zeros * kManyZeros <= levels.count * (kManyZeros - 1);
    if (tables) {
        const size_t raw = 1 + packed_size(levels.count, shape.width()) +
                           packed_size(levels.count - stats.zeros, 1);
        const TablesForm form(shape, levels);
        uint8_t *end = form.write(raw, to);
        if (form.many_escapes()) {
            const size_t others = end != nullptr ? static_cast<size_t>(end - to) : raw;
            uint8_t *const halves = write_halves(shape, levels, others, to);
            end = halves != nullptr ? halves : end;
        }
        if (end != nullptr) {
            return end;
        }
    }
    return write_other_levels(shape, levels, tables, to);
}

uint8_t *write_any(const CodedShape &shape, const CodesIn &codes, uint8_t *to) {
    return codes.path != nullptr ? write_levels(shape, codes, to) : write_block(shape, codes, to);
}

} // namespace

bool CodedWriter::write(const CodesIn &codes) {
    const size_t signs = shape_.is_signed ? packed_size(codes.count, 1) : 0;
    if (capacity_ - size() < kLengthSize + 1 + packed_size(codes.count, shape_.width()) + signs) {
        return write_apart(codes);
    }
    finish(write_any(shape_, codes, at_ + kLengthSize));
    return true;
}

[[gnu::noinline]] bool CodedWriter::write_apart(const CodesIn &codes) {
    uint8_t block[1 + 2 * kCodedBlock + kMostPlane];
    const auto block_size = static_cast<size_t>(write_any(shape_, codes, block) - block);
    if (capacity_ - size() < kLengthSize + block_size) {
        return false;
    }
    std::memcpy(at_ + kLengthSize, block, block_size);
    finish(at_ + kLengthSize + block_size);
    return true;
}

void CodedWriter::write_equal(uint8_t code, size_t count, const uint8_t *signs) {
    if (packed_size(count, shape_.width()) < 2) { // codes of a fixed width are shorter
        uint8_t bytes[16];
        std::memset(bytes, code, count);
        write({count, bytes, nullptr, signs});
        return;
    }
    uint8_t *const block = at_ + kLengthSize;
    uint8_t *const end = write_constant(code, block);
    const size_t size = packed_size(count, 1);
    std::memcpy(end, signs, size);
    finish(end + size);
}

void CodedWriter::finish(uint8_t *end) {
    const auto length = static_cast<uint32_t>(end - at_ - static_cast<ptrdiff_t>(kLengthSize));
    std::memcpy(at_, &length, kLengthSize);
    at_ = end;
}

} // namespace fewbits
