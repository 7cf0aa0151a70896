// The groups of the portable table. Other tables call them for what they do not do themselves.
#pragma once

#include "kernels.h"

namespace fewbits {

extern const CommonKernels portable_common;
extern const CastKernels portable_casts;
extern const NaturalKernels<Float32> portable_natural_float32;
extern const NaturalKernels<Float64> portable_natural_float64;
extern const NaturalKernels<Float16> portable_natural_float16;
extern const NaturalKernels<Bfloat16> portable_natural_bfloat16;
extern const CoderKernels portable_coder;
extern const PhaseKernels portable_phases;
extern const TrellisKernels portable_trellis;
extern const StageKernels portable_stages;
extern const DitherKernels<Float32> portable_dithering_float32;
extern const DitherKernels<Float64> portable_dithering_float64;
extern const DitherKernels<Float16> portable_dithering_float16;
extern const DitherKernels<Bfloat16> portable_dithering_bfloat16;
extern const SignKernels portable_sign;
extern const StepKernels<Float32> portable_steps_float32;
extern const StepKernels<Float64> portable_steps_float64;
extern const StepKernels<Float16> portable_steps_float16;
extern const StepKernels<Bfloat16> portable_steps_bfloat16;
extern const SphereKernels portable_spherical;
extern const SwitchKernels portable_switching;
extern const HashKernels portable_sealing;
extern const ProductKernels<float> portable_products32;
extern const ProductKernels<double> portable_products64;

template <class F> constexpr const NaturalKernels<F> &portable_natural() {
    return of_format<F>(portable_natural_float32, portable_natural_float64,
                        portable_natural_float16, portable_natural_bfloat16);
}
template <class F> constexpr const DitherKernels<F> &portable_dithering() {
    return of_format<F>(portable_dithering_float32, portable_dithering_float64,
                        portable_dithering_float16, portable_dithering_bfloat16);
}
template <class F> constexpr const StepKernels<F> &portable_steps() {
    return of_format<F>(portable_steps_float32, portable_steps_float64, portable_steps_float16,
                        portable_steps_bfloat16);
}

} // namespace fewbits
