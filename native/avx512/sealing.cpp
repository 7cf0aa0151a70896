// BLAKE2sp with AVX-512.
#if defined(__AVX512VBMI2__)

#include "avx2/sealing.h"
#include "avx512/avx512.h"

namespace fewbits {

constinit const HashKernels avx512_sealing = {strides, marked, nullptr};

} // namespace fewbits

#endif
