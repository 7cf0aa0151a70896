// Picks the table of kernels once, at load. FEWBITS_SIMD=scalar forces the portable one.
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "kernels.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

namespace fewbits {
namespace {

bool find_avx2() {
#if defined(__x86_64__) || defined(__i386__)
    // No compiler names F16C alike, so its bit is read; every other feature comes with AVX2.
    unsigned a = 0;
    unsigned b = 0;
    unsigned features = 0;
    unsigned d = 0;
    return avx2_kernels != nullptr && __builtin_cpu_supports("avx2") &&
           __builtin_cpu_supports("bmi2") && __get_cpuid(1, &a, &b, &features, &d) != 0 &&
           (features & bit_F16C) != 0;
#else
    return false;
#endif
}

// Asked once: a virtual machine may leave the processor's answer to its host, which takes long.
bool has_avx2() {
    static const bool found = find_avx2();
    return found;
}

const Kernels *choose() {
    const char *wish = std::getenv("FEWBITS_SIMD");
    const bool scalar = wish != nullptr && std::strcmp(wish, "scalar") == 0;
    return !scalar && has_avx2() ? avx2_kernels : &scalar_kernels;
}

// Atomic because tests and benchmarks may switch tables while other threads compress.
std::atomic<const Kernels *> active{choose()};

} // namespace

const Kernels &kernels() { return *active.load(std::memory_order_relaxed); }

} // namespace fewbits

extern "C" {

int fewbits_simd(void) {
    return &fewbits::kernels() == &fewbits::scalar_kernels ? FEWBITS_SIMD_SCALAR
                                                           : FEWBITS_SIMD_AVX2;
}

int fewbits_use_simd(int simd) {
    if (simd == FEWBITS_SIMD_SCALAR) {
        fewbits::active = &fewbits::scalar_kernels;
    } else if (simd == FEWBITS_SIMD_AVX2 && fewbits::has_avx2()) {
        fewbits::active = fewbits::avx2_kernels;
    } else {
        return FEWBITS_BAD_ARGUMENT;
    }
    return FEWBITS_OK;
}
}
