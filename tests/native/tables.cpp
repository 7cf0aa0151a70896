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

// Kernels that tell whose they are: the number of their table.
template <int table> uint32_t crc32c(uint32_t, ConstBytes) { return table; }
template <int table> size_t nonzero(ConstBytes, Bytes) { return table; }
template <int table> bool check(std::span<const uint8_t>, uint32_t) { return table != 0; }
void pack(std::span<const uint16_t>, int, Bytes packed) { packed[0] = 1; }

constexpr CommonKernels common = {crc32c<0>, nullptr, pack, nullptr};
constexpr CommonKernels other_common = {crc32c<1>, nullptr, nullptr, nullptr};
template <int table>
constexpr CoderKernels coder = {.count_symbols = nullptr,
                                .encode = nullptr,
                                .decode = nullptr,
                                .decode_abreast = nullptr,
                                .nonzero = nonzero<table>,
                                .join_bits = nullptr,
                                .spread_bits = nullptr,
                                .join_bytes = nullptr,
                                .spread_bytes = nullptr};
template <int table>
constexpr SwitchKernels switching = {nullptr, check<table>, nullptr, nullptr, nullptr, nullptr};

// Groups that nobody calls.
constexpr CastKernels casts = {};
template <class F> constexpr NaturalKernels<F> natural = {};
constexpr StageKernels stages = {};
template <class F> constexpr DitherKernels<F> dithering = {};
constexpr SignKernels sign = {};
template <class F> constexpr StepKernels<F> steps = {};
constexpr SphereKernels spherical = {};
constexpr HashKernels sealing = {};

// It has a checksum and the last group. All else is left out, an entry or a whole group.
constexpr Table sparse = {.common = &other_common, .switching = &switching<1>};
// One above it without a kernel, and one more, which has a kernel that the one below lacks.
constexpr Table empty = {};
constexpr Table sparser = {.coder = &coder<2>};

} // namespace

constinit const Table portable_table = {
    .common = &common,
    .casts = &casts,
    .natural_float32 = &natural<Float32>,
    .natural_float64 = &natural<Float64>,
    .natural_float16 = &natural<Float16>,
    .natural_bfloat16 = &natural<Bfloat16>,
    .coder = &coder<0>,
    .stages = &stages,
    .dithering_float32 = &dithering<Float32>,
    .dithering_float64 = &dithering<Float64>,
    .dithering_float16 = &dithering<Float16>,
    .dithering_bfloat16 = &dithering<Bfloat16>,
    .sign = &sign,
    .steps_float32 = &steps<Float32>,
    .steps_float64 = &steps<Float64>,
    .steps_float16 = &steps<Float16>,
    .steps_bfloat16 = &steps<Bfloat16>,
    .spherical = &spherical,
    .switching = &switching<0>,
    .sealing = &sealing,
};
constinit const Table *const avx2_table = &sparse;
constinit const Table *const avx512bw_table = &empty;
constinit const Table *const avx512_table = &sparser;
constinit const Table *const neon_table = &sparse;

} // namespace fewbits

using namespace fewbits;

namespace {

// Which table has the checksum and the check, and which one the count.
void check_table(int simd, uint32_t checksum, size_t count) {
    REQUIRE(fewbits_use_simd(simd) == FEWBITS_OK);
    REQUIRE(fewbits_simd() == simd);
    REQUIRE(kernels().common.crc32c(0, {}) == checksum);
    REQUIRE(kernels().switching.check({}, 0) == (checksum != 0));
    REQUIRE(kernels().coder.nonzero({}, {}) == count);
    // What only the portable table has.
    uint8_t packed[1] = {0};
    kernels().common.pack({}, 1, {packed, 1});
    REQUIRE(packed[0] == 1);
}

} // namespace

int main() {
    const char *const names[] = {"portable", "avx2", "avx512bw", "avx512", "neon"};
    for (int simd = 0; simd < 5; ++simd) {
        REQUIRE(std::strcmp(fewbits_simd_name(simd), names[simd]) == 0);
    }
    REQUIRE(fewbits_simd_name(-1) == nullptr && fewbits_simd_name(5) == nullptr);
    const int best = fewbits_simd();
    check_table(0, 0, 0);
    for (int simd = 4; simd > 0; --simd) {
        if (fewbits_use_simd(simd) == FEWBITS_OK) { // this processor can run it
            REQUIRE(best >= simd);
            check_table(simd, 1, simd == 3 ? 2 : 0);
        } else {
            REQUIRE(best != simd && fewbits_simd() != simd);
        }
    }
    return 0;
}
