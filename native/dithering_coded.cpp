// Dithering fused with the entropy coder.
#include <algorithm>

#include "dithering.h"

namespace fewbits {
namespace {

// One coded block.
struct LevelBlock {
    uint8_t levels[kCodedBlock];
    uint8_t signs[kCodedBlock / 8];

    bool negative(size_t i) const { return (signs[i / 8] >> (i % 8) & 1) != 0; }
};

// The same for more than 127 levels, whose kernels have codes of both signs, one a word.
struct ManyLevels : LevelBlock {
    uint16_t words[kCodedBlock];
    uint16_t codes[kCodedBlock];

    void to_levels(size_t count, uint32_t most) {
        std::fill_n(signs, packed_size(count, 1), uint8_t{0});
        for (size_t i = 0; i < count; ++i) {
            const bool above = codes[i] > most;
            const bool negative = above && codes[i] <= 2 * most;
            words[i] = static_cast<uint16_t>(above ? codes[i] - most : codes[i]);
            levels[i] = static_cast<uint8_t>(words[i]);
            signs[i / 8] = static_cast<uint8_t>(signs[i / 8] | negative << (i % 8));
        }
    }
    // NaN has no sign here: it was refused, or will be.
    void to_codes(size_t count, uint32_t most, bool wide) {
        for (size_t i = 0; i < count; ++i) {
            const uint32_t level = wide ? words[i] : levels[i];
            const bool above = level > most || negative(i);
            codes[i] = static_cast<uint16_t>(level > most ? 2 * most + 1
                                             : above      ? level + most
                                                          : level);
        }
    }
};

// Calls `use(first, size)` for the runs of a coded block that share a scale.
template <class Use> void each_run(size_t count, size_t block_size, Use use) {
    const size_t run = std::min(block_size, kCodedBlock);
    for (size_t first = 0; first < count; first += run) {
        use(first, std::min(run, count - first));
    }
}

// Whether a value that is not finite has a sign; counts them.
bool signed_nan(const LevelBlock &block, size_t count, uint8_t nan, fewbits_tally &tally) {
    bool found = false;
    const uint8_t *at = block.levels;
    const uint8_t *const end = block.levels + count;
    while (at < end && (at = static_cast<const uint8_t *>(
                            std::memchr(at, nan, static_cast<size_t>(end - at)))) != nullptr) {
        const auto i = static_cast<size_t>(at - block.levels);
        found |= (block.signs[i / 8] >> (i % 8) & 1) != 0;
        ++tally.nonfinite;
        ++at;
    }
    return found;
}

// One level a byte.
template <class F> struct FewReader {
    using Bits = typename F::Bits;
    const DitherShape &shape;
    const DitherRatios ratios{shape, true};
    LevelBlock block;

    explicit FewReader(const DitherShape &own) : shape(own) {}

    CodesOut room(size_t count) { return {count, block.levels, nullptr, block.signs}; }
    bool sees_signed_nan(size_t count, fewbits_tally &tally) {
        return signed_nan(block, count, static_cast<uint8_t>(shape.levels + 1), tally);
    }
    bool has_level(size_t first, size_t size) const {
        const uint8_t *const own = block.levels + first;
        const uint32_t nan = shape.levels + 1;
        return std::any_of(own, own + size, [&](uint8_t x) { return x != 0 && x != nan; });
    }
    void values(size_t first, Wide<F> scale, Out<Bits> out) const {
        kernels().dithering<F>().undither_levels(block.levels + first, block.signs + first / 8,
                                                 scale, ratios, out);
    }
};

// More than 127 levels.
template <class F> struct ManyReader {
    using Bits = typename F::Bits;
    const DitherShape &shape;
    const DitherRatios ratios{shape};
    ManyLevels block;

    explicit ManyReader(const DitherShape &own) : shape(own) {}

    CodesOut room(size_t count) { return {count, block.levels, block.words, block.signs}; }
    bool sees_signed_nan(size_t count, fewbits_tally &tally) {
        const bool wide = shape.levels + 2 > 256;
        bool found = false;
        for (size_t i = 0; i < count; ++i) {
            const bool nan = (wide ? block.words[i] : block.levels[i]) == shape.levels + 1;
            found |= nan && block.negative(i);
            tally.nonfinite += nan;
        }
        block.to_codes(count, shape.levels, wide);
        return found;
    }
    bool has_level(size_t first, size_t size) const {
        const uint16_t *const own = block.codes + first;
        const uint32_t nan = 2 * shape.levels + 1;
        return std::any_of(own, own + size, [&](uint16_t x) { return x != 0 && x != nan; });
    }
    void values(size_t first, Wide<F> scale, Out<Bits> out) const {
        kernels().dithering<F>().undither({block.codes + first, out.size()}, scale, ratios, out);
    }
};

template <class F, class Reader>
int undither_with(ConstBytes section, const DitherBlocks<F> &blocks, size_t total, void *values,
                  bool add, fewbits_tally &tally) {
    using Bits = typename F::Bits;
    CodedReader coder(coded_levels(blocks.shape, total), section);
    Reader codes(blocks.shape);
    const size_t each = add ? sizeof(Wide<F>) : sizeof(Bits);
    int fault = FEWBITS_OK;
    int status = coder.open();
    for (size_t start = 0; start < total && status == FEWBITS_OK; start += kCodedBlock) {
        const size_t count = std::min(kCodedBlock, total - start);
        CodesOut room = codes.room(count);
        room.ahead = {static_cast<const uint8_t *>(values) + start * each, each};
        status = coder.read(room);
        if (status != FEWBITS_OK) {
            break;
        }
        bool level = false;
        const bool sign = codes.sees_signed_nan(count, tally);
        each_run(count, add ? std::min(blocks.block_size, kTermPiece) : blocks.block_size,
                 [&](size_t first, size_t size) {
                     const Wide<F> scale = blocks.scale_of(start + first);
                     level |= scale == 0 && codes.has_level(first, size);
                     if (!add) {
                         const auto all = output<Bits>(values, total);
                         return codes.values(first, scale, all.subspan(start + first, size));
                     }
                     Unaligned<Bits> terms[kTermPiece];
                     codes.values(first, scale, {terms, size});
                     add_terms<F>(output<Wide<F>>(values, total).subspan(start + first, size),
                                  {terms, size});
                 });
        if (sign && (fault == FEWBITS_OK || blocks.scales.number == 1)) {
            fault = FEWBITS_BAD_SIGN;
        } else if (level && fault == FEWBITS_OK) {
            fault = FEWBITS_BAD_LEVEL;
        }
    }
    return status != FEWBITS_OK ? status : fault;
}

} // namespace

CodedShape coded_levels(const DitherShape &shape, uint64_t count) {
    return {count, shape.levels + 2, true};
}

template <class F>
void dither_coded(In<typename F::Bits> values, const Stream &stream, const DitherShape &shape,
                  size_t block_size, std::span<const typename F::Bits> scales, CodedWriter &writer,
                  fewbits_tally &tally) {
    const auto &kernel = kernels().dithering<F>();
    const auto each = [&](auto use) {
        each_run(values.size(), block_size, [&](size_t first, size_t size) {
            use(first, values.subspan(first, size), stream.from(first),
                widened<F>(scales[first / block_size]));
        });
    };
    if (shape.levels <= DitherRatios::most_levels) {
        LevelBlock codes;
        each([&](size_t first, auto own, const Stream &from, Wide<F> scale) {
            kernel.dither_levels(own, from, scale, shape, codes.levels + first,
                                 codes.signs + first / 8, tally);
        });
        writer.write({values.size(), codes.levels, nullptr, codes.signs});
        return;
    }
    ManyLevels codes;
    each([&](size_t first, auto own, const Stream &from, Wide<F> scale) {
        kernel.dither_codes(own, from, scale, shape, codes.codes + first, tally);
    });
    codes.to_levels(values.size(), shape.levels);
    writer.write({values.size(), codes.levels, codes.words, codes.signs});
}

template <class F>
int undither_coded(ConstBytes section, const DitherBlocks<F> &blocks, size_t count, void *values,
                   bool add, fewbits_tally &tally) {
    const auto run = blocks.shape.levels <= DitherRatios::most_levels
                         ? undither_with<F, FewReader<F>>
                         : undither_with<F, ManyReader<F>>;
    return run(section, blocks, count, values, add, tally);
}

#define INSTANCES(F)                                                                               \
    template void dither_coded<F>(In<F::Bits>, const Stream &, const DitherShape &, size_t,        \
                                  std::span<const F::Bits>, CodedWriter &, fewbits_tally &);       \
    template int undither_coded<F>(ConstBytes, const DitherBlocks<F> &, size_t, void *, bool,      \
                                   fewbits_tally &)
INSTANCES(Float32);
INSTANCES(Float64);
INSTANCES(Float16);
INSTANCES(Bfloat16);
#undef INSTANCES

} // namespace fewbits
