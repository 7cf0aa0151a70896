// Every table of kernels against the portable one, bit for bit, and casts against their definition.
// `tests/soaking/kernels.py` builds and runs it.
//
//     sweep patterns FIRST COUNT   float32 patterns FIRST, FIRST + 1, … through elementwise kernels
//     sweep shapes                 every 16-bit pattern, all lengths 0 to 257, addresses 0 to 63
//     sweep random COUNT SEED      random values of all formats in blocks, also coded ones
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "fewbits.h"

namespace {

struct Kernel {
    const char *name;
    int kind, dtype, option;
    uint32_t levels = 0;
    uint64_t block = 0;
};

constexpr int kExponent[] = {0, 8, 11, 5, 8}, kMantissa[] = {0, 23, 52, 10, 7};
size_t item(int dtype) { return static_cast<size_t>(1 + kExponent[dtype] + kMantissa[dtype]) / 8; }

constexpr Kernel kElementwise[] = {
    {"float16", FEWBITS_CAST, 1, FEWBITS_FLOAT16},
    {"bfloat16", FEWBITS_CAST, 1, FEWBITS_BFLOAT16},
    {"float64", FEWBITS_CAST, 1, FEWBITS_FLOAT64},
    {"copy", FEWBITS_CAST, 1, FEWBITS_FLOAT32},
    {"nearest", FEWBITS_NATURAL, 1, FEWBITS_NEAREST},
    {"natural", FEWBITS_NATURAL, 1, FEWBITS_STOCHASTIC},
    {"powers", FEWBITS_DITHERING, 1, FEWBITS_NORM_MAX + FEWBITS_POWERS, 7, 64},
    {"levels", FEWBITS_DITHERING, 1, FEWBITS_NORM_MAX, 127, 64},
};

size_t packed(size_t count, int width) { return (count * static_cast<size_t>(width) + 7) / 8; }

// Sizes of the sections; those of coded ones are what they may take.
void set_sizes(const Kernel &own, size_t count, uint64_t (&sizes)[2]) {
    sizes[1] = 0;
    if (own.kind == FEWBITS_CAST) {
        sizes[0] = count * item(own.option);
    } else if (own.kind == FEWBITS_DITHERING) {
        const size_t block = own.block != 0 ? own.block : std::max<size_t>(count, 1);
        sizes[0] = 4 * ((count + block - 1) / block);
        sizes[1] = packed(count, static_cast<int>(std::bit_width(2 * own.levels + 1)));
    } else if ((own.option & FEWBITS_CODED) != 0) {
        sizes[0] = fewbits_coded_size(count, 1u << kExponent[own.dtype], 1);
    } else {
        sizes[0] = packed(count, kExponent[own.dtype]);
        sizes[1] = packed(count, 1);
    }
}

// What a kernel makes of values: sections, then values again, then totals.
struct Made {
    int status[3] = {0, 0, 0};
    fewbits_tally tally[3] = {};
    uint64_t sizes[2] = {0, 0};
    std::vector<uint8_t> sections[2], decoded, totals;
    uint8_t *at(std::vector<uint8_t> &memory, size_t size, size_t offset) {
        const size_t needed = size + 128;
        if (memory.size() < needed) {
            memory.resize(needed);
        }
        const auto address = reinterpret_cast<uintptr_t>(memory.data());
        return memory.data() + (64 - address % 64) % 64 + offset;
    }
};

void make(const Kernel &own, const uint8_t *values, size_t count, size_t offset, Made &made) {
    set_sizes(own, count, made.sizes);
    fewbits_unit unit{};
    unit.kind = static_cast<uint8_t>(own.kind);
    unit.dtype = static_cast<uint8_t>(own.dtype);
    unit.option = static_cast<uint8_t>(own.option);
    unit.levels = static_cast<uint16_t>(own.levels);
    unit.block = own.block;
    unit.count = count;
    unit.key[0] = 0x12345;
    unit.values = const_cast<uint8_t *>(values);
    for (size_t i = 0; i < 2; ++i) {
        unit.sizes[i] = made.sizes[i];
        unit.sections[i] = made.at(made.sections[i], made.sizes[i], (offset + 7 * i) % 64);
    }
    size_t failed;
    made.status[0] = fewbits_encode(&unit, 1, &failed);
    made.tally[0] = unit.tally;
    made.sizes[0] = unit.sizes[0];
    if (made.status[0] != FEWBITS_OK) {
        return;
    }
    unit.values = made.at(made.decoded, count * item(own.dtype), (offset * 5) % 64);
    made.status[1] = fewbits_decode(&unit, 1, &failed);
    made.tally[1] = unit.tally;
    const size_t wide = own.dtype == FEWBITS_FLOAT64 ? 8 : 4;
    uint8_t *const totals = made.at(made.totals, count * wide, (offset * 3) % 64);
    std::memset(totals, 0x3E, count * wide); // a small number in either format
    unit.values = totals;
    made.status[2] = fewbits_accumulate(&unit, 1, &failed);
    made.tally[2] = unit.tally;
}

bool same_bytes(Made &a, Made &b, std::vector<uint8_t> Made::*memory, size_t size, size_t offset) {
    return size == 0 || std::memcmp(a.at(a.*memory, size, offset % 64),
                                    b.at(b.*memory, size, offset % 64), size) == 0;
}

bool same(const Kernel &own, size_t count, size_t offset, Made &a, Made &b) {
    if (std::memcmp(a.status, b.status, sizeof a.status) != 0 ||
        std::memcmp(a.tally, b.tally, sizeof a.tally) != 0 ||
        std::memcmp(a.sizes, b.sizes, sizeof a.sizes) != 0) {
        return false;
    }
    if (a.status[0] != FEWBITS_OK) {
        return true;
    }
    for (size_t i = 0; i < 2; ++i) {
        const size_t at = (offset + 7 * i) % 64;
        if (a.sizes[i] != 0 && std::memcmp(a.at(a.sections[i], a.sizes[i], at),
                                           b.at(b.sections[i], b.sizes[i], at), a.sizes[i]) != 0) {
            return false;
        }
    }
    const size_t wide = own.dtype == FEWBITS_FLOAT64 ? 8 : 4;
    return same_bytes(a, b, &Made::decoded, count * item(own.dtype), offset * 5) &&
           same_bytes(a, b, &Made::totals, count * wide, offset * 3);
}

// The nearest number of a 16-bit format, ties to even; what is too large becomes the largest.
uint16_t narrowed(uint32_t bits, int to) {
    const int exponent = kExponent[to], mantissa = kMantissa[to], bias = (1 << (exponent - 1)) - 1;
    const auto infinity = static_cast<uint16_t>(((1 << exponent) - 1) << mantissa);
    const auto sign = static_cast<uint16_t>(bits >> 31 << 15);
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) {
        return static_cast<uint16_t>(infinity | 1 << (mantissa - 1));
    }
    if (magnitude == 0x7F800000u || magnitude == 0) {
        return static_cast<uint16_t>(sign | (magnitude == 0 ? 0 : infinity));
    }
    const double value = std::bit_cast<float>(magnitude);
    const int power = std::max(static_cast<int>(std::ilogb(value)), 1 - bias);
    const double steps = std::nearbyint(std::ldexp(value, mantissa - power));
    const uint64_t code =
        static_cast<uint64_t>(steps) + (static_cast<uint64_t>(power - 1 + bias) << mantissa);
    return static_cast<uint16_t>(sign | std::min<uint64_t>(code, infinity - 1u));
}

void check_definition(const Kernel &own, const uint32_t *values, size_t count, Made &made) {
    if (own.kind != FEWBITS_CAST || item(own.option) != 2 || own.dtype != FEWBITS_FLOAT32) {
        return;
    }
    const uint8_t *const section = made.at(made.sections[0], made.sizes[0], 0);
    for (size_t i = 0; i < count; ++i) {
        uint16_t found;
        std::memcpy(&found, section + 2 * i, 2);
        if (found != narrowed(values[i], own.option)) {
            std::fprintf(stderr, "%s of %08x is %04x\n", own.name, values[i], found);
            std::exit(1);
        }
    }
}

std::vector<int> tables() {
    std::vector<int> found;
    for (int simd = 0; fewbits_simd_name(simd) != nullptr; ++simd) {
        if (fewbits_use_simd(simd) == FEWBITS_OK) {
            found.push_back(simd);
        }
    }
    return found;
}

// Of all that was compared, what encoded, decoded and accumulated: refusals alone prove little.
struct Counts {
    uint64_t compared = 0, succeeded = 0;
} counts;

// The same values through all tables.
void compare(const Kernel &own, const uint8_t *values, size_t count, size_t offset, uint64_t where,
             bool defined = false) {
    static const std::vector<int> all = tables();
    static Made made[2];
    fewbits_use_simd(all[0]);
    make(own, values, count, offset, made[0]);
    ++counts.compared;
    counts.succeeded += (made[0].status[0] | made[0].status[1] | made[0].status[2]) == FEWBITS_OK;
    if (defined) {
        check_definition(own, reinterpret_cast<const uint32_t *>(values), count, made[0]);
    }
    for (size_t i = 1; i < all.size(); ++i) {
        fewbits_use_simd(all[i]);
        make(own, values, count, offset, made[1]);
        if (!same(own, count, offset, made[0], made[1])) {
            std::fprintf(stderr, "%s of %s differs at %llx, %zu values, offset %zu\n", own.name,
                         fewbits_simd_name(all[i]), static_cast<unsigned long long>(where), count,
                         offset);
            std::exit(1);
        }
    }
}

uint64_t patterns(uint64_t first, uint64_t count) {
    constexpr size_t chunk = 1 << 14;
    std::vector<uint32_t> values(chunk);
    for (uint64_t at = first; at < first + count; at += chunk) {
        // Kernels hand a whole group on if one of its values is rare. So that a bound of rare ones
        // that is off by one is seen, the first rare pattern must be alone in its group, the last
        // one: groups end before a multiple of 64, then with it.
        for (const size_t shift : {size_t{0}, size_t{63}}) {
            for (size_t i = 0; i < chunk; ++i) {
                values[i] = static_cast<uint32_t>(at + i - shift);
            }
            for (const Kernel &own : kElementwise) {
                compare(own, reinterpret_cast<uint8_t *>(values.data()), chunk, 0, at, shift == 0);
            }
        }
    }
    return count;
}

// All kernels of all formats: those above for float32, and these.
std::vector<Kernel> everything() {
    std::vector<Kernel> found(std::begin(kElementwise), std::end(kElementwise));
    for (int dtype = 1; dtype <= 4; ++dtype) {
        for (int option = 1; option <= 4; ++option) {
            found.push_back({"cast", FEWBITS_CAST, dtype, option});
        }
        for (const int option : {0, 1, FEWBITS_CODED + 0, FEWBITS_CODED + 1}) {
            found.push_back({"natural", FEWBITS_NATURAL, dtype, option});
        }
    }
    for (int norm = 1; norm <= 3; ++norm) {
        for (const uint32_t levels : {1u, 4u, 12u, 100u}) {
            for (const uint64_t block : {8u, 64u, 0u}) {
                found.push_back({"dithering", FEWBITS_DITHERING, 1, norm, levels, block});
                found.push_back(
                    {"dithering", FEWBITS_DITHERING, 1, norm + FEWBITS_POWERS, levels, block});
            }
        }
    }
    return found;
}

uint64_t mixed(uint64_t &state) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state ^ state >> 29) * 0xBF58476D1CE4E5B9u;
}

// Numbers of all sizes, many of them near each other, some not finite.
void fill(std::vector<uint8_t> &bytes, int dtype, uint64_t &state) {
    const size_t size = item(dtype);
    const int total = kExponent[dtype] + kMantissa[dtype];
    for (size_t i = 0; i + size <= bytes.size(); i += size) {
        uint64_t bits = mixed(state);
        if ((bits >> 60) != 0) { // an exponent in the middle
            const uint64_t exponent = (uint64_t{1} << (kExponent[dtype] - 1)) - (bits >> 57 & 7);
            bits = (bits & ((uint64_t{1} << kMantissa[dtype]) - 1)) | exponent << kMantissa[dtype] |
                   (bits >> 50 & 1) << total;
        }
        std::memcpy(bytes.data() + i, &bits, size);
    }
}

uint64_t shapes() {
    uint64_t done = 0, state = 1;
    std::vector<uint16_t> halves(1 << 16);
    for (size_t i = 0; i < halves.size(); ++i) {
        halves[i] = static_cast<uint16_t>(i);
    }
    for (const Kernel &own : everything()) {
        if (item(own.dtype) == 2) {
            compare(own, reinterpret_cast<uint8_t *>(halves.data()), halves.size(), 0, 0);
            done += halves.size();
        }
        std::vector<uint8_t> memory(258 * 8 + 128);
        for (size_t length = 0; length <= 257; ++length) {
            for (size_t offset = 0; offset < 64; ++offset) {
                if ((length + offset) % 16 == 0) {
                    fill(memory, own.dtype, state);
                }
                const auto address = reinterpret_cast<uintptr_t>(memory.data());
                const uint8_t *at = memory.data() + (64 - address % 64) % 64 + offset;
                compare(own, at, length, offset, length);
                ++done;
            }
        }
    }
    return done;
}

uint64_t random(uint64_t count, uint64_t seed) {
    uint64_t done = 0, state = seed * 2 + 1;
    const std::vector<Kernel> all = everything();
    for (uint64_t turn = 0; done < count; ++turn) {
        const size_t length = 1 + mixed(state) % 70'000;
        std::vector<uint8_t> memory(length * 8);
        const Kernel &own = all[turn % all.size()];
        memory.resize(length * item(own.dtype));
        fill(memory, own.dtype, state);
        compare(own, memory.data(), length, turn % 64, turn);
        done += length;
    }
    return done;
}

} // namespace

int main(int count, char **words) {
    const std::string what = count > 1 ? words[1] : "";
    const auto number = [&](int i) { return i < count ? std::strtoull(words[i], nullptr, 0) : 0; };
    const uint64_t done = what == "patterns" ? patterns(number(2), number(3))
                          : what == "shapes" ? shapes()
                          : what == "random" ? random(number(2), number(3))
                                             : 0;
    std::printf("succeeded=%.4f done=%llu tables=%zu kernels=%zu\n",
                static_cast<double>(counts.succeeded) / static_cast<double>(counts.compared),
                static_cast<unsigned long long>(done), tables().size(),
                what == "patterns" ? std::size(kElementwise) : everything().size());
    return done == 0 || counts.succeeded * 10 < counts.compared * 9 ? 2 : 0;
}
