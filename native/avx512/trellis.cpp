// Paths of a trellis with AVX-512: the kernels of AVX2 that make levels and values in one turn,
// with the registers and the instructions that there are here.
#if defined(__AVX512VBMI2__)

#include "avx2/trellis_values.h"
#include "avx512bw/avx512.h"

namespace fewbits {

constinit const TrellisKernels avx512_trellis = {
    .fix = nullptr,
    .search = nullptr,
    .settle = nullptr,
    .sums = nullptr,
    .fold = nullptr,
    .decode = nullptr,
    .values = nullptr,
    .find = find_near,
    .near_sums = nullptr,
    .near_fold = fold_near,
    .decode_values = decode_path_values,
    .nonfinite = nullptr,
};

} // namespace fewbits

#endif
