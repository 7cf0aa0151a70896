// The C interface of sparse dithering: whole multiples of a step, fused with the entropy coder, so
// that a block of codes never leaves the cache.
#include "steps.h"

#include "coded.h"
#include "fewbits.h"

namespace fewbits {
namespace {

template <class Code> bool has_nonzero(const Code *codes, size_t count) {
    return codes[0] != 0 || std::memcmp(codes, codes + 1, sizeof(Code) * (count - 1)) != 0;
}

size_t nonfinite(In<uint32_t> values) {
    size_t found = 0;
    for (const uint32_t bits : values) {
        found += (bits & ~Float32::sign) >= Float32::infinity;
    }
    return found;
}

// Codes of one coded block.
struct StepBlock {
    uint8_t bytes[kCodedBlock];
    uint16_t words[kCodedBlock];
    uint8_t signs[kCodedBlock / 8];
};

// A vector in coded blocks, and these in runs that share a scale.
class Runs {
  public:
    Runs(const fewbits_steps &how, In<uint32_t> scales, size_t count)
        : how_(how), scales_(scales), count_(count) {}

    struct Place {
        size_t number; // of the run in the vector
        size_t first;  // in the block
        size_t size;
    };
    // Calls `use(run, place)` for the runs of the block that begins at `block`.
    template <class Use> void each(size_t block, In<uint32_t> values, Use use) const {
        const size_t size = std::min(count_ - block, kCodedBlock);
        for (size_t first = 0; first < size; first += how_.run) {
            const Place place = {(block + first) / how_.run, first,
                                 std::min<size_t>(how_.run, size - first)};
            const uint32_t scale = scales_[place.number];
            const StepRun run = {
                values.empty() ? values : values.subspan(block + first, place.size),
                {{how_.key[0], how_.key[1], how_.key[2], how_.key[3]}, how_.first + block + first},
                std::bit_cast<float>(scale),
                static_cast<fewbits_step_rounding>(how_.rounding)};
            use(run, place);
        }
    }

  private:
    const fewbits_steps &how_;
    In<uint32_t> scales_;
    size_t count_;
};
using Place = Runs::Place;

// A block's codes as bytes; returns the largest.
uint32_t quantise_bytes(const Runs &runs, size_t block, In<uint32_t> values, StepBlock &codes,
                        fewbits_tally &tally) {
    uint32_t largest = 0;
    runs.each(block, values, [&](const StepRun &run, const Place &at) {
        uint8_t *const bytes = codes.bytes + at.first;
        uint8_t *const signs = codes.signs + at.first / 8;
        if (run.step > 0.0f) {
            largest = std::max(largest, kernels().steps.quantise(run, bytes, signs, tally));
        } else {
            // A run of zeros and values that are not finite has no scale either.
            tally.nonfinite += nonfinite(run.values);
            std::fill_n(bytes, at.size, uint8_t{0});
            std::fill_n(signs, packed_size(at.size, 1), uint8_t{0});
        }
    });
    return largest;
}

// The same as words, for blocks with codes that need more than a byte.
uint32_t quantise_words(const Runs &runs, size_t block, In<uint32_t> values, StepBlock &codes) {
    uint32_t largest = 0;
    fewbits_tally counted = {0, 0}; // by quantise_bytes
    runs.each(block, values, [&](const StepRun &run, const Place &at) {
        uint16_t *const words = codes.words + at.first;
        std::fill_n(words, at.size, uint16_t{0});
        each_code(run, 0, run.step > 0.0f ? at.size : 0, counted, [&](size_t i, int32_t code) {
            const auto magnitude = static_cast<uint32_t>(std::abs(code));
            largest = std::max(largest, magnitude);
            words[i] = static_cast<uint16_t>(magnitude);
        });
    });
    return largest;
}

int encode(In<uint32_t> values, const fewbits_steps &how, In<uint32_t> scales, double *sums,
           CodedWriter &writer, fewbits_tally &tally) {
    const CodedShape shape = {values.size(), how.bound, true};
    const Runs runs(how, scales, values.size());
    StepBlock codes;
    for (size_t block = 0; block < values.size(); block += kCodedBlock) {
        uint32_t largest = quantise_bytes(runs, block, values, codes, tally);
        const bool words = largest > kLastSmall;
        if (words) {
            largest = quantise_words(runs, block, values, codes);
        }
        if (largest >= how.bound) {
            return FEWBITS_BAD_ARGUMENT;
        }
        runs.each(block, values, [&](const StepRun &run, const Place &at) {
            StepSums own = {0.0, static_cast<double>(has_nonzero(codes.bytes + at.first, at.size))};
            if (how.fit != 0) {
                own = words ? step_sums(run.values, codes.words + at.first)
                            : kernels().steps.sums(run.values, codes.bytes + at.first);
            }
            sums[2 * at.number] = own.products;
            sums[2 * at.number + 1] = own.squares;
        });
        writer.write({shape.block_count(block / kCodedBlock), codes.bytes,
                      words ? codes.words : nullptr, codes.signs});
    }
    return FEWBITS_OK;
}

int decode(CodedReader &reader, const fewbits_steps &how, In<uint32_t> scales, uint8_t *some,
           Out<uint32_t> values) {
    const Runs runs(how, scales, values.size());
    const bool wide = how.bound > 256;
    StepBlock codes;
    int status = reader.open();
    for (size_t block = 0; block < values.size() && status == FEWBITS_OK; block += kCodedBlock) {
        bool small = !wide;
        const size_t count = std::min(kCodedBlock, values.size() - block);
        status = reader.read({count, codes.bytes, codes.words, codes.signs, &small});
        if (status != FEWBITS_OK) {
            break;
        }
        runs.each(block, {}, [&](const StepRun &run, const Place &at) {
            const auto own = values.subspan(block + at.first, at.size);
            const uint8_t *const signs = codes.signs + at.first / 8;
            some[at.number] = small ? has_nonzero(codes.bytes + at.first, at.size)
                                    : has_nonzero(codes.words + at.first, at.size);
            if (!std::isfinite(run.step)) {
                std::fill(own.begin(), own.end(), Float32::quiet_nan);
            } else if (small) {
                kernels().steps.dequantise(run, codes.bytes + at.first, signs, own);
            } else {
                dequantise_exactly(run, 0, at.size, codes.words + at.first, signs, own);
            }
        });
    }
    return status;
}

// Runs of whole bytes of signs that do not cross the end of a coded block.
bool valid(const fewbits_steps &how) {
    return how.rounding <= FEWBITS_STEP_SUBTRACTIVE && how.fit <= 1 && how.bound >= 2 &&
           how.bound <= 65536 && how.run >= 8 && kCodedBlock % how.run == 0;
}

bool fits(const fewbits_steps &how, size_t count, size_t runs) {
    return count <= SIZE_MAX / 32 && runs == count / how.run + (count % how.run != 0);
}

} // namespace
} // namespace fewbits

using namespace fewbits;

extern "C" {

int fewbits_steps_encode(const uint32_t *values, size_t count, const fewbits_steps *how,
                         const uint32_t *scales, double *sums, size_t runs, uint8_t *out,
                         size_t capacity, size_t *written, fewbits_tally *tally) {
    if (!valid(*how)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const CodedShape shape = {count, how->bound, true};
    if (!fits(*how, count, runs) || capacity < shape.largest()) {
        return FEWBITS_BAD_SIZE;
    }
    *tally = {0, 0};
    CodedWriter writer(shape, out);
    const int status = encode(input<uint32_t>(values, count), *how, input<uint32_t>(scales, runs),
                              sums, writer, *tally);
    *written = writer.size();
    return status;
}

int fewbits_steps_decode(const uint8_t *data, size_t size, const fewbits_steps *how,
                         const uint32_t *scales, uint8_t *some, size_t runs, uint32_t *values,
                         size_t count) {
    if (!valid(*how)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    if (!fits(*how, count, runs)) {
        return FEWBITS_BAD_SIZE;
    }
    CodedReader reader({count, how->bound, true}, {data, size});
    return decode(reader, *how, input<uint32_t>(scales, runs), some,
                  output<uint32_t>(values, count));
}
}
