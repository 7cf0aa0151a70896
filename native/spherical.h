// What the kernels of the spherical operator share.
#pragma once

#include "fewbits_stages.h"
#include "kernels.h"
#include "random.h"

namespace fewbits {

constexpr size_t kSphereWays = 1 << 16;  // entries of the table of normal numbers
constexpr size_t kSphereGroup = 1024;    // blocks that share directions
constexpr size_t kSphereLargest = 1024;  // coordinates of a block
constexpr size_t kSphereTile = 256;      // directions that are made together, at most
constexpr size_t kSpherePairs = 1 << 13; // pairs of coordinates in a tile, at most

// Some directions in a row. A pair is two coordinates as 16-bit halves, the even one low; pair j of
// direction t is pairs[j * count + t], so that a vector holds one pair of neighbouring directions.
struct SphereTile {
    size_t count; // directions, a multiple of 8
    size_t width; // pairs of a direction
    bool odd;     // the last pair has one coordinate, and a 0
    alignas(32) int32_t pairs[kSpherePairs];
    alignas(32) int32_t squares[kSphereTile]; // of the directions' lengths
    alignas(32) int32_t need[kSphereTile];    // inner products must be above
};

constexpr uint64_t kSphereSigns = uint64_t{1} << 63; // the word from which on a stream gives signs
constexpr int kSphereUnbiased = 2;                   // of the scales

// What a search needs of some blocks of one group; spherical.cpp and fewbits.h have the meaning.
struct SphereTargets {
    const double *values;
    const int16_t *rounded;
    const double *need;
};
void search_group(const int16_t *table, const fewbits_sphere &task, const SphereTargets &targets,
                  int32_t *found, size_t blocks);
bool is_sphere(const fewbits_sphere &task);
bool is_spherical(const fewbits_spherical &how);

// A direction of one block, for its decoder.
struct SphereDirection {
    const int16_t *table;
    Stream stream; // from its first word on
    size_t size;
    const uint32_t *flips; // a bit for each coordinate, the lowest first: whether it is negated
    double length;
    double by; // a power of two, applied last
};

namespace { // internal linkage: see random.h

[[maybe_unused]] uint32_t word_at(const uint32_t key[4], uint64_t index) {
    return Segment(key, static_cast<uint32_t>(index >> 32)).word(static_cast<uint32_t>(index));
}

// A sign for each value of a vector: bits of the stream's second half.
class SphereSigns {
  public:
    explicit SphereSigns(const uint32_t key[4]) : key_(key) {}

    // Whether the value is negated.
    bool at(uint64_t element) { return (from(element) & 1) != 0; }

    // The same for this value, in the lowest bit, and for the next ones of 32.
    uint32_t from(uint64_t element) {
        const uint64_t index = kSphereSigns + element / 32;
        if (index != index_) {
            index_ = index;
            word_ = word_at(key_, index);
        }
        return word_ >> (element % 32);
    }

  private:
    const uint32_t *key_;
    uint64_t index_ = 0;
    uint32_t word_ = 0;
};

[[maybe_unused]] int32_t pair(int16_t low, int16_t high) {
    return static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint16_t>(low)) |
                                static_cast<uint32_t>(static_cast<uint16_t>(high)) << 16);
}
[[maybe_unused]] int32_t low(int32_t pair) { return static_cast<int16_t>(pair & 0xFFFF); }
[[maybe_unused]] int32_t high(int32_t pair) { return pair >> 16; }

} // namespace
} // namespace fewbits
