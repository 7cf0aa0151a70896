// Division of a vector by a number. src/fewbits/reference/scaling.py is the specification.
#include "fewbits_stages.h"
#include "formats.h"
#include "rows.h"

namespace fewbits {
namespace {

// Values over `by`, at least 1, as float64 rounds it and then the format; how many are not finite.
template <class F>
uint64_t divide(In<typename F::Bits> values, double by, Out<typename F::Bits> out) {
    using Bits = typename F::Bits;
    uint64_t nonfinite = 0;
    for (size_t i = 0; i < values.size(); ++i) {
        const Bits bits = values[i];
        const auto magnitude = static_cast<Bits>(bits & (F::sign - 1));
        if (magnitude >= F::infinity) {
            ++nonfinite;
            out[i] = bits;
        } else {
            const Bits quotient = nearest_bits<F>(widened<F>(magnitude) / by);
            out[i] = static_cast<Bits>(quotient | (bits & F::sign));
        }
    }
    return nonfinite;
}

} // namespace
} // namespace fewbits

using namespace fewbits;

extern "C" int fewbits_divide(const void *values, int dtype, size_t count, double by, void *out,
                              uint64_t *nonfinite) {
    if (!(by >= 1)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    return with_format(dtype, [&]<class F>(F) -> int {
        using Bits = typename F::Bits;
        *nonfinite = divide<F>(input<Bits>(values, count), by, output<Bits>(out, count));
        return FEWBITS_OK;
    });
}
