// The search for the first random direction in a cap around each block.
//
// Inner products are computed in integers with blocks that were rounded to 16 bits, which is exact
// and fast. They only rule directions out: a direction that passes is tested again exactly, in
// floats and in a fixed order, so the answer does not depend on the table of kernels.
#include "spherical.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace fewbits {
namespace {

struct Search {
    const int16_t *table;
    const fewbits_sphere &task;
    const double *values;
    const int16_t *rounded;
    const double *need;

    size_t width() const { return (task.size + 1) / 2; }

    void make(uint64_t group, uint64_t first, SphereTile &tile) const {
        Stream stream{{task.key[0], task.key[1], task.key[2], task.key[3]}, 0};
        stream.first = group << 32 | first * tile.width;
        kernels().spherical.fill(table, stream, tile);
        for (size_t t = 0; t < tile.count; ++t) {
            const double length = std::sqrt(static_cast<double>(tile.squares[t]));
            // A little lower does not matter: whatever passes is asked again.
            tile.need[t] = static_cast<int32_t>(std::clamp(task.slope * length - 1, -2e9, 2e9));
        }
    }

    bool inside(const SphereTile &tile, size_t at, size_t block) const {
        const double *own = values + block * task.size;
        double product = 0;
        for (size_t i = 0; i < task.size; ++i) {
            const int32_t both = tile.pairs[i / 2 * tile.count + at];
            product += own[i] * static_cast<double>(i % 2 == 0 ? low(both) : high(both));
        }
        return product >= need[block] * std::sqrt(static_cast<double>(tile.squares[at]));
    }

    // The first direction of the tile that is in the block's cap, or the number of directions.
    size_t first(const SphereTile &tile, size_t block) const {
        int32_t own[kSphereLargest / 2];
        std::memcpy(own, rounded + block * 2 * tile.width, tile.width * sizeof(int32_t));
        size_t at = kernels().spherical.next(tile, own, 0);
        while (at < tile.count && !inside(tile, at, block)) {
            at = kernels().spherical.next(tile, own, at + 1);
        }
        return at;
    }

    void group(uint64_t number, size_t begin, size_t end, int32_t *found) const {
        uint16_t left[kSphereGroup];
        size_t count = 0;
        for (size_t block = begin; block < end; ++block) {
            found[block] = -1;
            if (std::isfinite(need[block])) {
                left[count++] = static_cast<uint16_t>(block - begin);
            }
        }
        SphereTile tile;
        tile.width = width();
        tile.odd = task.size % 2 != 0;
        tile.count =
            std::min({kSphereTile, std::bit_floor(kSpherePairs / tile.width), size_t{task.limit}});
        for (uint64_t start = 0; start < task.limit && count > 0; start += tile.count) {
            make(task.group + number, start, tile);
            size_t kept = 0;
            for (size_t i = 0; i < count; ++i) {
                const size_t at = first(tile, begin + left[i]);
                if (at < tile.count) {
                    found[begin + left[i]] = static_cast<int32_t>(start + at);
                } else {
                    left[kept++] = left[i];
                }
            }
            count = kept;
        }
    }
};

} // namespace

bool is_sphere(const fewbits_sphere &task) {
    const size_t width = (size_t{task.size} + 1) / 2;
    const bool whole = task.limit >= 8 && std::has_single_bit(task.limit);
    return task.size >= 1 && task.size <= kSphereLargest && whole && task.limit <= 1u << 30 &&
           uint64_t{task.limit} * width <= uint64_t{1} << 32 && std::isfinite(task.slope);
}

bool is_spherical(const fewbits_spherical &how) {
    const fewbits_sphere task = {{}, 0, how.block, how.limit, 0, 0};
    return is_sphere(task) && how.dtype >= FEWBITS_FLOAT32 && how.dtype <= FEWBITS_BFLOAT16 &&
           how.radius_bits >= 1 && how.radius_bits <= 8 && how.parameter >= 0 &&
           how.parameter <= 22 && how.nan_code >= 1 && how.nan_code < 65535 && how.steps >= 1 &&
           how.steps < 65534 && how.limit <= 255u << how.parameter;
}

void search_group(const int16_t *table, const fewbits_sphere &task, const SphereTargets &targets,
                  int32_t *found, size_t blocks) {
    Search{table, task, targets.values, targets.rounded, targets.need}.group(0, 0, blocks, found);
}

} // namespace fewbits

using namespace fewbits;

extern "C" int fewbits_first_in_cap(const int16_t *table, const fewbits_sphere *task,
                                    const double *values, const int16_t *rounded,
                                    const double *need, int32_t *found, size_t blocks) {
    if (!is_sphere(*task)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const Search search{table, *task, values, rounded, need};
    for (size_t begin = 0; begin < blocks; begin += kSphereGroup) {
        search.group(begin / kSphereGroup, begin, std::min(begin + kSphereGroup, blocks), found);
    }
    return FEWBITS_OK;
}
