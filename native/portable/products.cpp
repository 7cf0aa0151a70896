// Products with thin factors as products.h has them.
#include "products.h"

#include "portable/portable.h"

namespace fewbits {

constinit const ProductKernels<float> portable_products32 = {
    left_factor<float>,
    right_factor<float>,
    settle_products<float>,
};
constinit const ProductKernels<double> portable_products64 = {
    left_factor<double>,
    right_factor<double>,
    settle_products<double>,
};

} // namespace fewbits
