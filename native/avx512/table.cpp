// The AVX-512 table of processors with VBMI2: only what gains over the table of AVX-512 alone,
// whose kernels fill the gaps.
#include "kernels.h"

#if defined(__AVX512VBMI2__)

#include "avx512bw/avx512.h"

namespace fewbits {
namespace {

// A constant, as in avx2/table.cpp.
constinit const Table table = {
    .common = &avx512_common,
    .coder = &avx512_coder,
    .trellis = &avx512_trellis,
    .dithering_float32 = &avx512_dithering_float32,
    .dithering_float16 = &avx512_dithering_float16,
    .dithering_bfloat16 = &avx512_dithering_bfloat16,
};

} // namespace

constinit const Table *const avx512_table = &table;

} // namespace fewbits

#else

namespace fewbits {
constinit const Table *const avx512_table = nullptr;
} // namespace fewbits

#endif
