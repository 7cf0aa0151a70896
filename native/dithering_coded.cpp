// Dithering fused with the entropy coder, for float32.
#include <algorithm>

#include "dithering.h"

namespace fewbits {
namespace {

constexpr size_t kTermPiece = 4096; // values that are decoded before they are added

// One coded block.
struct LevelBlock {
    uint8_t levels[kCodedBlock];
    uint8_t signs[kCodedBlock / 8];
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

} // namespace

CodedShape coded_levels(const DitherShape &shape, uint64_t count) {
    return {count, shape.levels + 2, true};
}

size_t dither_coded(In<uint32_t> values, const Stream &stream, const DitherBlocks &blocks,
                    uint8_t *out, fewbits_tally &tally) {
    CodedWriter writer(coded_levels(blocks.shape, values.size()), out);
    LevelBlock codes;
    for (size_t start = 0; start < values.size(); start += kCodedBlock) {
        const size_t count = std::min(kCodedBlock, values.size() - start);
        each_run(count, blocks.block_size, [&](size_t first, size_t size) {
            const size_t at = start + first;
            kernels().dithering.dither_levels(values.subspan(at, size), stream.from(at),
                                              blocks.scale_of(at), blocks.shape,
                                              codes.levels + first, codes.signs + first / 8, tally);
        });
        writer.write({count, codes.levels, nullptr, codes.signs});
    }
    return writer.size();
}

int undither_coded(ConstBytes section, const DitherBlocks &blocks, Out<uint32_t> values, bool add,
                   fewbits_tally &tally) {
    CodedReader reader(coded_levels(blocks.shape, values.size()), section);
    const DitherRatios ratios(blocks.shape, true);
    const auto nan = static_cast<uint8_t>(blocks.shape.levels + 1);
    LevelBlock codes;
    int fault = FEWBITS_OK;
    int status = reader.open();
    for (size_t start = 0; start < values.size() && status == FEWBITS_OK; start += kCodedBlock) {
        const size_t count = std::min(kCodedBlock, values.size() - start);
        status = reader.read({count, codes.levels, nullptr, codes.signs});
        if (status != FEWBITS_OK) {
            break;
        }
        bool level = false;
        const bool sign = signed_nan(codes, count, nan, tally);
        each_run(count, add ? std::min(blocks.block_size, kTermPiece) : blocks.block_size,
                 [&](size_t first, size_t size) {
                     const float scale = blocks.scale_of(start + first);
                     const uint8_t *const levels = codes.levels + first;
                     level |= scale == 0.0f && std::any_of(levels, levels + size, [&](uint8_t own) {
                                  return own != 0 && own != nan;
                              });
                     const auto there = values.subspan(start + first, size);
                     Unaligned<uint32_t> terms[kTermPiece];
                     const auto own = add ? Out<uint32_t>{terms, size} : there;
                     kernels().dithering.undither_levels(levels, codes.signs + first / 8, scale,
                                                         ratios, own);
                     if (add) {
                         add_terms(there, own);
                     }
                 });
        if (sign && (fault == FEWBITS_OK || blocks.scales.size() == 1)) {
            fault = FEWBITS_BAD_SIGN;
        } else if (level && fault == FEWBITS_OK) {
            fault = FEWBITS_BAD_LEVEL;
        }
    }
    return status != FEWBITS_OK ? status : fault;
}

} // namespace fewbits
