// Links native/dispatch.cpp with tables of its own, to see how a table that leaves kernels out is
// filled. `tests/unit/test_tables.py` builds and runs it.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kernels.h"

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);    \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (false)

namespace fewbits {
namespace {

// Kernels that tell whose they are.
template <bool other> uint32_t crc32c(uint32_t, ConstBytes) { return other; }
template <bool other> size_t nonzero(ConstBytes, Bytes) { return other; }
template <bool other> bool check(std::span<const uint8_t>, uint32_t) { return other; }
void pack(std::span<const uint16_t>, int, Bytes packed) { packed[0] = 1; }

constexpr CommonKernels common = {crc32c<false>, nullptr, pack, nullptr};
constexpr CommonKernels other_common = {crc32c<true>, nullptr, nullptr, nullptr};
constexpr CoderKernels coder = {nullptr, nullptr, nullptr, nonzero<false>,
                                nullptr, nullptr, nullptr, nullptr};
template <bool other>
constexpr SwitchKernels switching = {nullptr, check<other>, nullptr, nullptr, nullptr, nullptr};

// Groups that nobody calls.
constexpr CastKernels casts = {};
template <class F> constexpr NaturalKernels<F> natural = {};
constexpr StageKernels stages = {};
constexpr DitherKernels dithering = {};
constexpr SignKernels sign = {};
constexpr StepKernels steps = {};
constexpr SphereKernels spherical = {};
constexpr HashKernels sealing = {};

// It has a checksum and the last group. All else is left out, an entry or a whole group.
constexpr Table sparse = {.common = &other_common, .switching = &switching<true>};

} // namespace

constinit const Table portable_table = {
    .common = &common,
    .casts = &casts,
    .natural_float32 = &natural<Float32>,
    .natural_float64 = &natural<Float64>,
    .natural_float16 = &natural<Float16>,
    .natural_bfloat16 = &natural<Bfloat16>,
    .coder = &coder,
    .stages = &stages,
    .dithering = &dithering,
    .sign = &sign,
    .steps = &steps,
    .spherical = &spherical,
    .switching = &switching<false>,
    .sealing = &sealing,
};
constinit const Table *const avx2_table = &sparse;

} // namespace fewbits

using namespace fewbits;

namespace {

void check_table(int simd, bool other) {
    REQUIRE(fewbits_use_simd(simd) == FEWBITS_OK);
    REQUIRE(fewbits_simd() == simd);
    REQUIRE(kernels().common.crc32c(0, {}) == uint32_t{other});
    REQUIRE(kernels().switching.check({}, 0) == other);
    // What the other table leaves out.
    uint8_t packed[1] = {0};
    kernels().common.pack({}, 1, {packed, 1});
    REQUIRE(packed[0] == 1);
    REQUIRE(kernels().coder.nonzero({}, {}) == 0);
}

} // namespace

int main() {
    REQUIRE(std::strcmp(fewbits_simd_name(0), "portable") == 0);
    REQUIRE(std::strcmp(fewbits_simd_name(1), "avx2") == 0);
    REQUIRE(fewbits_simd_name(-1) == nullptr && fewbits_simd_name(2) == nullptr);
    const int picked = fewbits_simd();
    check_table(0, false);
    if (fewbits_use_simd(1) == FEWBITS_OK) { // this processor can run it
        REQUIRE(picked == 1);
        check_table(1, true);
    } else {
        REQUIRE(picked == 0 && fewbits_simd() == 0);
    }
    return 0;
}
