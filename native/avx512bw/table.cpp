// The table of AVX-512 without VBMI2: only what gains over AVX2, whose kernels fill the gaps.
#include "kernels.h"

#if defined(__AVX512BW__)

#include "avx512bw/avx512.h"

namespace fewbits {
namespace {

// A constant, as in avx2/table.cpp.
constinit const Table table = {
    .natural_float32 = &avx512bw_natural_float32,
    .natural_bfloat16 = &avx512bw_natural_bfloat16,
    .dithering_float32 = &avx512bw_dithering_float32,
    .dithering_float16 = &avx512bw_dithering_float16,
    .dithering_bfloat16 = &avx512bw_dithering_bfloat16,
    .sealing = &avx512bw_sealing,
};

} // namespace

constinit const Table *const avx512bw_table = &table;

} // namespace fewbits

#else

namespace fewbits {
constinit const Table *const avx512bw_table = nullptr;
} // namespace fewbits

#endif
