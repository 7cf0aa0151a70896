// What the checks of single kernels share: memory that ends before a page that cannot be touched,
// random choices, and what a kernel has made.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

#include "kernels.h"

namespace compared {

using namespace fewbits;

// splitmix64
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t bits() {
        uint64_t z = state_ += 0x9E3779B97F4A7C15u;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
        z = (z ^ z >> 27) * 0x94D049BB133111EBu;
        return z ^ z >> 31;
    }
    size_t below(size_t bound) { return static_cast<size_t>(bits() % bound); }
    bool chance(size_t one_in) { return below(one_in) == 0; }
    // A number of `size` bytes of a float format: most are near each other, some are anything, few
    // are at the ends of a format's fields.
    template <class F> typename F::Bits number() {
        using Bits = typename F::Bits;
        const uint64_t any = bits();
        if (below(64) < spread_) {
            const auto mantissa = static_cast<Bits>(any & ((F::one << F::mantissa) - 1));
            // The last two are where float32 rounds to no 16-bit number.
            const uint64_t ends[] = {
                0, 1, F::infinity, F::largest_power, F::quiet_nan, 0x477FF000, 0x7F7F8000};
            const auto near = static_cast<Bits>(ends[below(std::size(ends))] - below(2));
            const auto own = static_cast<Bits>(any);
            return chance(3)   ? static_cast<Bits>(near ^ (own & F::sign))
                   : chance(2) ? own
                               : mantissa;
        }
        const uint64_t exponent = (uint64_t{F::top_code} >> 1) - below(6);
        const uint64_t fraction = any & ((F::one << F::mantissa) - 1);
        return static_cast<Bits>((any & F::sign) | exponent << F::mantissa | fraction);
    }
    // How many of 64 numbers are not near the others. Without such ones whole groups take the quick
    // road.
    void spread(size_t of_64) { spread_ = of_64; }

  private:
    uint64_t state_;
    size_t spread_ = 1;
};

// One kernel at one length: the same choices for every table.
class Case {
  public:
    Case(const Kernels &own, size_t length, uint64_t seed)
        : kernels(own), count(length), random(seed) {
        constexpr size_t spreads[] = {0, 0, 1, 8, 64};
        random.spread(spreads[random.below(std::size(spreads))]);
    }

    const Kernels &kernels;
    const size_t count;
    Random random;
    std::vector<uint8_t> made;

    // Memory of `size` bytes that ends `behind` bytes before a page that cannot be read or written.
    uint8_t *memory(size_t size, size_t behind = 0) {
        Pages &pages = next(size + behind);
        pages.at = pages.end - size - behind;
        pages.size = size + behind;
        std::memset(pages.at, 0xA5, pages.size);
        return pages.at;
    }
    // At any address.
    uint8_t *odd_memory(size_t size) { return memory(size, random.below(16)); }

    template <class F> In<typename F::Bits> numbers(size_t size) {
        using Bits = typename F::Bits;
        const auto out = output<Bits>(odd_memory(size * sizeof(Bits)), size);
        for (auto &value : out) {
            value = random.template number<F>();
        }
        return {out.data(), size};
    }
    uint8_t *bytes(size_t size, size_t behind = 0) {
        uint8_t *const out = memory(size, behind);
        for (size_t i = 0; i < size; ++i) {
            out[i] = static_cast<uint8_t>(random.bits());
        }
        return out;
    }
    // A mask with few ones, many, or any; no bit behind the last of `size`.
    uint8_t *mask(size_t size) {
        const size_t bytes = packed_size(size, 1);
        uint8_t *const out = memory(bytes);
        const size_t kind = random.below(4);
        for (size_t i = 0; i < bytes; ++i) {
            uint64_t own = random.bits();
            own &= kind > 0 ? random.bits() : own;
            own |= kind > 2 ? random.bits() | random.bits() : 0;
            own = kind == 1 && random.chance(2) ? 0 : own;
            out[i] = static_cast<uint8_t>(own);
        }
        if (size % 8 != 0) {
            out[bytes - 1] = static_cast<uint8_t>(out[bytes - 1] & ((1u << (size % 8)) - 1));
        }
        return out;
    }
    // A stream; often one whose segment changes among the elements.
    Stream stream() {
        Stream own{{}, random.bits()};
        for (uint32_t &word : own.key) {
            word = static_cast<uint32_t>(random.bits());
        }
        own.first = random.chance(3)
                        ? (uint64_t{1} << 32) * (1 + random.below(4)) - random.below(count + 2)
                        : own.first >> 34;
        return own;
    }

    // What counts of the kernel's answer. Memory is put with what lies behind it.
    void put(const void *from, size_t size) {
        const auto *const bytes = static_cast<const uint8_t *>(from);
        made.insert(made.end(), bytes, bytes + size);
    }
    template <class T> void put(T value) { put(&value, sizeof(value)); }
    void put_memory(const void *start) {
        for (const Pages &pages : all()) {
            if (pages.at == start) {
                put(pages.at, pages.size);
            }
        }
    }

    static void forget() { used() = 0; }

  private:
    struct Pages {
        uint8_t *end = nullptr, *at = nullptr;
        size_t room = 0, size = 0;
    };
    static std::vector<Pages> &all() {
        static std::vector<Pages> own;
        return own;
    }
    static size_t &used() {
        static size_t own = 0;
        return own;
    }
    static Pages &next(size_t size) {
        if (used() == all().size()) {
            all().emplace_back();
        }
        Pages &pages = all()[used()++];
        if (pages.room < size || pages.end == nullptr) {
            const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
            pages.room = (size / page + 8) * page;
            void *const found = mmap(nullptr, pages.room + page, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (found == MAP_FAILED) {
                std::abort();
            }
            pages.end = static_cast<uint8_t *>(found) + pages.room;
            mprotect(pages.end, page, PROT_NONE);
        }
        return pages;
    }
};

// A kernel's place among all, its name, and what calls it.
struct Check {
    size_t place;
    const char *name;
    void (*run)(Case &own);
};
#define CHECK(entry, run)                                                                          \
    Check { offsetof(Kernels, entry) / sizeof(void (*)()), #entry, run }

std::vector<Check> value_checks();
std::vector<Check> code_checks();

} // namespace compared
