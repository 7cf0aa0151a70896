// What the AVX-512 files share. Included only by files that are compiled for AVX-512. Their tails
// and rare values go to the AVX2 groups: a processor that runs these files runs those too.
#pragma once

#include "avx2/avx2.h"

namespace fewbits {

extern const HashKernels avx512_sealing;

} // namespace fewbits
