// The C interface of sparse dithering of slices: whole multiples of a step, fused with the entropy
// coder, so that a block of codes never leaves the cache.
#include "fewbits.h"
#include "rows.h"
#include "steps_runs.h"

namespace fewbits {
namespace {

// A slice in coder blocks, and these in runs that share a scale.
template <class F> struct Slice {
    using Bits = typename F::Bits;
    using Scale = typename ScaleOf<F>::Bits;
    const fewbits_steps &how;
    In<Scale> scales;
    size_t count;

    Stream stream(size_t start) const {
        return Stream{{how.key[0], how.key[1], how.key[2], how.key[3]}, how.first}.from(start);
    }
    bool dithers() const { return how.rounding == FEWBITS_STEP_SUBTRACTIVE; }

    template <class Use> void each(size_t block, In<Bits> values, Use use) const {
        each_run(block, count, how.run, [&](const StepPlace &at) {
            const StepRun<F> run = {values.empty() ? values : values.subspan(at.start, at.size),
                                    stream(at.start),
                                    std::bit_cast<Wide<F>>(static_cast<Scale>(scales[at.number])),
                                    static_cast<fewbits_step_rounding>(how.rounding)};
            use(run, at);
        });
    }
};

template <class F> size_t nonfinite(In<typename F::Bits> values) {
    size_t found = 0;
    for (const typename F::Bits bits : values) {
        found += (bits & (F::sign - 1)) >= F::infinity;
    }
    return found;
}

template <class F>
int encode(const Slice<F> &slice, In<typename F::Bits> values, double *sums, CodedWriter &writer,
           fewbits_tally &tally) {
    const fewbits_steps &how = slice.how;
    StepBlock codes;
    for (size_t block = 0; block < values.size(); block += kCodedBlock) {
        uint32_t largest = 0;
        slice.each(block, values, [&](const StepRun<F> &run, const StepPlace &at) {
            if (run.step > 0) {
                largest = std::max(largest, quantise_run(run, at.first, codes, tally));
            } else { // a run of zeros and values that are not finite has no scale either
                tally.nonfinite += nonfinite<F>(run.values);
                codes.clear(at.first, at.size);
            }
        });
        const bool words = largest > kLastSmall;
        if (words) {
            largest = 0;
            slice.each(block, values, [&](const StepRun<F> &run, const StepPlace &at) {
                largest = run.step > 0 ? std::max(largest, quantise_words(run, at.first, codes))
                                       : largest;
            });
        }
        if (largest >= how.bound) {
            return FEWBITS_BAD_ARGUMENT;
        }
        slice.each(block, values, [&](const StepRun<F> &run, const StepPlace &at) {
            StepSums own = {0.0, static_cast<double>(codes.some(at.first, at.size, !words))};
            if (how.fit != 0) {
                own = run_sums<F>(run.values, codes, at.first, words, how.shift);
            }
            sums[2 * at.number] = own.products;
            sums[2 * at.number + 1] = own.squares;
        });
        const size_t count = std::min(kCodedBlock, values.size() - block);
        const Stream dither = slice.stream(block);
        if (!writer.write({count, codes.bytes, words ? codes.words : nullptr, codes.signs,
                           ahead_of(values.subspan(block + count)),
                           slice.dithers() ? &dither : nullptr})) {
            return FEWBITS_BAD_SIZE;
        }
    }
    return FEWBITS_OK;
}

template <class F>
int decode(const Slice<F> &slice, CodedReader &reader, uint8_t *some,
           Out<typename F::Bits> values) {
    const bool wide = slice.how.bound > 256;
    StepBlock codes;
    int status = reader.open();
    for (size_t block = 0; block < values.size() && status == FEWBITS_OK; block += kCodedBlock) {
        bool small = !wide;
        const size_t count = std::min(kCodedBlock, values.size() - block);
        const Stream dither = slice.stream(block);
        status = reader.read({count, codes.bytes, codes.words, codes.signs, &small, nullptr,
                              ahead_of(values.subspan(block, count)),
                              slice.dithers() ? &dither : nullptr});
        if (status != FEWBITS_OK) {
            break;
        }
        slice.each(block, {}, [&](const StepRun<F> &run, const StepPlace &at) {
            some[at.number] = codes.some(at.first, at.size, small);
            dequantise_run(run, codes, at.first, small, values.subspan(at.start, at.size));
        });
    }
    return status;
}

// Runs of whole bytes of signs that do not cross the end of a coder block.
bool valid(const fewbits_steps &how) {
    return how.rounding <= FEWBITS_STEP_SUBTRACTIVE && how.fit <= 1 && how.bound >= 2 &&
           how.bound <= 65536 && how.run >= 8 && kCodedBlock % how.run == 0 && how.shift >= -1073 &&
           how.shift <= 1024;
}

bool fits(const fewbits_steps &how, size_t count, size_t runs) {
    return count <= SIZE_MAX / 64 && runs == pieces_of(count, how.run);
}

} // namespace
} // namespace fewbits

using namespace fewbits;

extern "C" {

int fewbits_steps_encode(const void *values, size_t count, const fewbits_steps *how,
                         const void *scales, double *sums, size_t runs, uint8_t *out,
                         size_t capacity, size_t *written, fewbits_tally *tally) {
    if (!valid(*how)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const CodedShape shape = {count, how->bound, true};
    if (!fits(*how, count, runs)) {
        return FEWBITS_BAD_SIZE;
    }
    *tally = {0, 0};
    return with_format(how->dtype, [&]<class F>(F) -> int {
        CodedWriter writer(shape, out, capacity);
        const Slice<F> slice = {*how, input<typename ScaleOf<F>::Bits>(scales, runs), count};
        const int status =
            encode<F>(slice, input<typename F::Bits>(values, count), sums, writer, *tally);
        *written = writer.size();
        return status;
    });
}

int fewbits_steps_decode(const uint8_t *data, size_t size, const fewbits_steps *how,
                         const void *scales, uint8_t *some, size_t runs, void *values,
                         size_t count) {
    if (!valid(*how)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    if (!fits(*how, count, runs)) {
        return FEWBITS_BAD_SIZE;
    }
    return with_format(how->dtype, [&]<class F>(F) -> int {
        CodedReader reader({count, how->bound, true}, {data, size});
        const Slice<F> slice = {*how, input<typename ScaleOf<F>::Bits>(scales, runs), count};
        return decode<F>(slice, reader, some, output<typename F::Bits>(values, count));
    });
}
}
