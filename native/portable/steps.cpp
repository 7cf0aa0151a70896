// Sparse dithering, one element at a time.
#include "steps.h"

#include "portable/portable.h"

namespace fewbits {
namespace {

uint32_t quantise(const StepRun &run, uint8_t *codes, uint8_t *signs, fewbits_tally &tally) {
    return quantise_exactly(run, 0, run.values.size(), codes, signs, tally);
}

void dequantise(const StepRun &run, const uint8_t *codes, const uint8_t *signs,
                Out<uint32_t> values) {
    dequantise_exactly(run, 0, values.size(), codes, signs, values);
}

} // namespace

constinit const StepKernels portable_steps = {quantise, step_sums<uint8_t>, dequantise};

} // namespace fewbits
