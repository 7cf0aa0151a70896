// Every kernel of every table against the portable one, bit for bit: lengths 0 to 300 and some
// large ones, odd addresses, memory that ends where it must not be read further, special values,
// every 16-bit pattern. Linked with the core's object files by `tests/aarch64.py` and
// `tests/soaking/kernels.py`.
//
//     kernels [ROUNDS [LARGE]]
//
// prints what was compared. A kernel that a table has and that no check calls is an error.
#include <algorithm>
#include <set>
#include <string>

#include "compared.h"
#include "portable/portable.h"

namespace {

using namespace compared;
using Entries = const void *const *;

Entries entries(const Kernels &kernels) { return reinterpret_cast<Entries>(&kernels); }
constexpr size_t kEntries = sizeof(Kernels) / sizeof(void (*)());

struct Counts {
    size_t compared = 0, tables = 1;
    std::set<std::string> differing; // kernels that are not the portable table's
} counts;

const Kernels &use(int simd) {
    fewbits_use_simd(simd);
    return kernels();
}

std::vector<uint8_t> answer(const Kernels &own, const Check &check, size_t length, uint64_t seed) {
    Case::forget();
    Case one(own, length, seed);
    check.run(one);
    return one.made;
}

void compare(const Check &check, int simd, size_t length, uint64_t seed) {
    const auto wanted = answer(use(0), check, length, seed);
    ++counts.compared;
    const bool empty = wanted.empty() && length > 0; // a check that puts nothing checks nothing
    if (empty || wanted != answer(use(simd), check, length, seed)) {
        std::fprintf(stderr, "%s of %s differs: %zu values, seed %llu\n", check.name,
                     fewbits_simd_name(simd), length, static_cast<unsigned long long>(seed));
        std::exit(1);
    }
}

// Every length up to 300, then some of several blocks.
void compare_lengths(const Check &check, int simd, size_t rounds, size_t large) {
    uint64_t seed = 1 + check.place;
    for (size_t round = 0; round < rounds; ++round) {
        for (size_t length = 0; length <= 300; ++length) {
            compare(check, simd, length, seed += 1000);
        }
    }
    for (const size_t length : {1021, 4096, 65535, 65536, 65536 + 47, 140'001}) {
        if (length <= large) {
            compare(check, simd, length, seed += 1000);
        }
    }
}

void compare_table(int simd, const std::vector<Check> &checks, size_t rounds, size_t large) {
    const Kernels &portable = use(0);
    const Kernels &own = use(simd);
    std::vector<bool> checked(kEntries);
    for (const Check &check : checks) {
        checked[check.place] = true;
        if (entries(own)[check.place] != entries(portable)[check.place]) {
            compare_lengths(check, simd, rounds, large);
            counts.differing.insert(check.name);
        }
    }
    for (size_t i = 0; i < kEntries; ++i) {
        if (!checked[i] && entries(own)[i] != entries(portable)[i]) {
            std::fprintf(stderr, "kernel %zu of %s has no check in tests/native\n", i,
                         fewbits_simd_name(simd));
            std::exit(1);
        }
    }
}

} // namespace

int main(int count, char **words) {
    const size_t rounds = count > 1 ? std::strtoull(words[1], nullptr, 10) : 1;
    const size_t large = count > 2 ? std::strtoull(words[2], nullptr, 10) : 200'000;
    std::vector<Check> checks = value_checks();
    for (const Check &check : code_checks()) {
        checks.push_back(check);
    }
    for (int simd = 1; fewbits_simd_name(simd) != nullptr; ++simd) {
        if (fewbits_use_simd(simd) == FEWBITS_OK) {
            compare_table(simd, checks, rounds, large);
            ++counts.tables;
            std::printf("%s ", fewbits_simd_name(simd));
        }
    }
    std::printf("tables=%zu kernels=%zu compared=%zu\n", counts.tables, counts.differing.size(),
                counts.compared);
    return 0;
}
