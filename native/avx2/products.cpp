// Products with thin factors as products.h has them: the compiler makes wider vectors here.
#if defined(__AVX2__)

#include "products.h"

#include "avx2/avx2.h"

namespace fewbits {

constinit const ProductKernels<float> avx2_products32 = {
    left_factor<float>,
    right_factor<float>,
    settle_products<float>,
};
constinit const ProductKernels<double> avx2_products64 = {
    left_factor<double>,
    right_factor<double>,
    settle_products<double>,
};

} // namespace fewbits

#endif
