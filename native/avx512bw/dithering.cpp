// Dithering with AVX-512 alone.
#if defined(__AVX512BW__)

#include "avx512bw/dithering.h"

namespace fewbits {

constinit const DitherKernels<Float32> avx512bw_dithering_float32 = kernels_of<Float32>();
constinit const DitherKernels<Float16> avx512bw_dithering_float16 = kernels_of<Float16>();
constinit const DitherKernels<Bfloat16> avx512bw_dithering_bfloat16 = kernels_of<Bfloat16>();

} // namespace fewbits

#endif
