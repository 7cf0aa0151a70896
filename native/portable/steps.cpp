// Sparse dithering, one element at a time.
#include "steps.h"

#include "portable/portable.h"

namespace fewbits {
namespace {

template <class F>
uint32_t quantise(const StepRun<F> &run, uint8_t *codes, uint8_t *signs, fewbits_tally &tally) {
    return quantise_exactly(run, 0, run.values.size(), codes, signs, tally);
}

template <class F>
void dequantise(const StepRun<F> &run, const uint8_t *codes, const uint8_t *signs,
                Out<typename F::Bits> values) {
    dequantise_exactly(run, 0, values.size(), codes, signs, values);
}

template <class F>
constexpr StepKernels<F> kernels_of = {quantise<F>, step_sums<F, uint8_t>, dequantise<F>,
                                       shifted_sums<F, uint8_t>};

} // namespace

constinit const StepKernels<Float32> portable_steps_float32 = kernels_of<Float32>;
constinit const StepKernels<Float64> portable_steps_float64 = kernels_of<Float64>;
constinit const StepKernels<Float16> portable_steps_float16 = kernels_of<Float16>;
constinit const StepKernels<Bfloat16> portable_steps_bfloat16 = kernels_of<Bfloat16>;

} // namespace fewbits
