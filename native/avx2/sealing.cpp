// BLAKE2sp with AVX2.
#if defined(__AVX2__)

#include "avx2/sealing.h"

namespace fewbits {

// A single block has no use for eight lanes.
constinit const HashKernels avx2_sealing = {strides, marked, nullptr, nullptr, nullptr, roots};

} // namespace fewbits

#endif
