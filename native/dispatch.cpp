// The tables of kernels that this library has, and which one is in use.
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "kernels.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace fewbits {
namespace {

bool always() { return true; }

bool has_avx2() {
#if defined(__x86_64__) || defined(__i386__)
    // Compilers differ in their name for F16C, so its bit is read. Every other feature that the
    // files use comes with AVX2.
    unsigned a = 0;
    unsigned b = 0;
    unsigned features = 0;
    unsigned d = 0;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
           __get_cpuid(1, &a, &b, &features, &d) != 0 && (features & bit_F16C) != 0;
#else
    return false;
#endif
}

// What the first server processors with AVX-512 have. __builtin_cpu_supports also asks whether the
// system keeps the registers.
bool has_avx512bw() {
#if defined(__x86_64__) || defined(__i386__)
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
    return false;
#endif
}

// Everything that the files use. A processor that has not all of this takes one of those above.
bool has_avx512() {
#if defined(__x86_64__) || defined(__i386__)
    return has_avx512bw() && __builtin_cpu_supports("avx512vbmi") &&
           __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512vpopcntdq") &&
           __builtin_cpu_supports("vpclmulqdq");
#else
    return false;
#endif
}

// Every aarch64 processor has NEON. The files also use the instructions for CRC-32C, which the
// first such processors lack; those of systems other than Linux all have them.
bool has_neon() {
#if defined(__aarch64__) && defined(__linux__)
    constexpr unsigned long crc32 = 1ul << 7; // HWCAP_CRC32
    return (getauxval(AT_HWCAP) & crc32) != 0;
#elif defined(__aarch64__)
    return true;
#else
    return false;
#endif
}

struct Entry {
    const char *name;
    const Table *table; // null where the compiler could not make it
    bool (*runs)();     // whether this processor can run it
};

// The portable table is first, and later ones are preferred.
const Entry entries[] = {
    {"portable", &portable_table, always},
    {"avx2", avx2_table, has_avx2},
    {"avx512bw", avx512bw_table, has_avx512bw},
    {"avx512", avx512_table, has_avx512},
    {"neon", neon_table, has_neon},
};
constexpr int kTables = static_cast<int>(std::size(entries));

// The entries of `own`, and those of `lower` where it has none.
template <class Group> Group filled(const Group *own, const Group &lower) {
    if (own == nullptr) {
        return lower;
    }
    using Entries = std::array<void (*)(), sizeof(Group) / sizeof(void (*)())>;
    static_assert(sizeof(Entries) == sizeof(Group), "a group holds function pointers only");
    auto kernels = std::bit_cast<Entries>(lower);
    const auto given = std::bit_cast<Entries>(*own);
    for (size_t i = 0; i < kernels.size(); ++i) {
        kernels[i] = given[i] != nullptr ? given[i] : kernels[i];
    }
    return std::bit_cast<Group>(kernels);
}

// `lower` is without gaps.
Kernels filled(const Table &own, const Kernels &lower) {
    const auto group = [&](auto slot, const auto &below) { return filled(own.*slot, below); };
    return {
        .common = group(&Table::common, lower.common),
        .casts = group(&Table::casts, lower.casts),
        .natural_float32 = group(&Table::natural_float32, lower.natural_float32),
        .natural_float64 = group(&Table::natural_float64, lower.natural_float64),
        .natural_float16 = group(&Table::natural_float16, lower.natural_float16),
        .natural_bfloat16 = group(&Table::natural_bfloat16, lower.natural_bfloat16),
        .coder = group(&Table::coder, lower.coder),
        .phases = group(&Table::phases, lower.phases),
        .trellis = group(&Table::trellis, lower.trellis),
        .stages = group(&Table::stages, lower.stages),
        .dithering_float32 = group(&Table::dithering_float32, lower.dithering_float32),
        .dithering_float64 = group(&Table::dithering_float64, lower.dithering_float64),
        .dithering_float16 = group(&Table::dithering_float16, lower.dithering_float16),
        .dithering_bfloat16 = group(&Table::dithering_bfloat16, lower.dithering_bfloat16),
        .sign = group(&Table::sign, lower.sign),
        .steps_float32 = group(&Table::steps_float32, lower.steps_float32),
        .steps_float64 = group(&Table::steps_float64, lower.steps_float64),
        .steps_float16 = group(&Table::steps_float16, lower.steps_float16),
        .steps_bfloat16 = group(&Table::steps_bfloat16, lower.steps_bfloat16),
        .spherical = group(&Table::spherical, lower.spherical),
        .switching = group(&Table::switching, lower.switching),
        .sealing = group(&Table::sealing, lower.sealing),
        .products32 = group(&Table::products32, lower.products32),
        .products64 = group(&Table::products64, lower.products64),
    };
}

// Made once, at load. The processor is asked here only: a virtual machine may leave the answer to
// its host, which takes long.
class Registry {
  public:
    Registry() {
        Kernels lower = {}; // the best table so far: what the next one lacks is taken from it
        for (int i = 0; i < kTables; ++i) {
            usable_[i] = entries[i].table != nullptr && entries[i].runs();
            if (usable_[i]) {
                lower = kernels_[i] = filled(*entries[i].table, lower);
            }
        }
    }

    // Null for a number that names no table, or one that this processor cannot run.
    const Kernels *usable(int simd) const {
        return simd >= 0 && simd < kTables && usable_[simd] ? &kernels_[simd] : nullptr;
    }
    int number(const Kernels &kernels) const { return static_cast<int>(&kernels - kernels_); }

    // The table that FEWBITS_SIMD names, if it can be used; else the best one.
    const Kernels *choose() const {
        const char *const given = std::getenv("FEWBITS_SIMD");
        const std::string_view wish = given == nullptr ? "" : given;
        const Kernels *best = nullptr;
        for (int i = 0; i < kTables; ++i) {
            if (usable_[i]) {
                best = &kernels_[i];
                if (wish == entries[i].name || (i == 0 && wish == "scalar")) { // its old name
                    return best;
                }
            }
        }
        return best;
    }

  private:
    bool usable_[kTables] = {};
    Kernels kernels_[kTables] = {};
};

const Registry registry;

// Atomic because tests and benchmarks may switch tables while other threads compress.
std::atomic<const Kernels *> active{registry.choose()};

} // namespace

const Kernels &kernels() { return *active.load(std::memory_order_relaxed); }

} // namespace fewbits

using namespace fewbits;

extern "C" {

int fewbits_simd(void) { return registry.number(kernels()); }

const char *fewbits_simd_name(int simd) {
    return simd >= 0 && simd < kTables ? entries[simd].name : nullptr;
}

int fewbits_use_simd(int simd) {
    const Kernels *const wanted = registry.usable(simd);
    if (wanted == nullptr) {
        return FEWBITS_BAD_ARGUMENT;
    }
    active = wanted;
    return FEWBITS_OK;
}
}
