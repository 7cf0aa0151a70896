// Rows that encode the largest values alone, and rows that combine vectors.
#include <algorithm>

#include "places.h"
#include "rows.h"

namespace fewbits {
namespace {

// The kept values as a unit of their own, in memory that has room for any format.
struct Kept {
    uint32_t room[FEWBITS_MAX_KEPT];
    double values[FEWBITS_MAX_KEPT];
    std::span<uint32_t> places;
    fewbits_unit inner;

    explicit Kept(const fewbits_unit &unit) : places(room, unit.kept), inner(unit) {
        inner.kept = 0;
        inner.remains = 0;
        inner.count = unit.kept;
        inner.values = values;
        std::shift_left(std::begin(inner.sections), std::end(inner.sections), 1);
        std::shift_left(std::begin(inner.sizes), std::end(inner.sizes), 1);
        inner.sections[2] = nullptr;
        inner.sizes[2] = 0;
    }

    template <class T> void take(In<T> all) {
        const auto own = output<T>(values, places.size());
        for (size_t i = 0; i < places.size(); ++i) {
            own[i] = static_cast<T>(all[places[i]]);
        }
    }

    template <class T> void put(Out<T> all) const {
        const auto own = input<T>(values, places.size());
        for (size_t i = 0; i < places.size(); ++i) {
            all[places[i]] = static_cast<T>(own[i]);
        }
    }
};

// Subtracts what was encoded from the values at the kept places; all others stay as they are.
template <class F> int leave_remains(const fewbits_unit &unit, Kept &kept) {
    if constexpr (sizeof(typename F::Bits) < 4) {
        return FEWBITS_BAD_ARGUMENT;
    } else {
        using Value = typename NaturalKernels<F>::Total;
        const int status = plain_unit(kept.inner, Direction::decode);
        const auto all = output<Value>(unit.values, unit.count);
        const auto own = input<Value>(kept.values, unit.kept);
        for (size_t i = 0; i < own.size(); ++i) {
            all[kept.places[i]] = all[kept.places[i]] - own[i];
        }
        return status;
    }
}

template <class F> int encode_kept(fewbits_unit &unit, Kept &kept) {
    const auto values = input<typename F::Bits>(unit.values, unit.count);
    uint64_t nonfinite = 0;
    select_magnitudes<F>(values, kept.places, nonfinite);
    int status = write_places(kept.places, unit.count, {unit.sections[0], unit.sizes[0]});
    if (status != FEWBITS_OK) {
        return status;
    }
    kept.take<typename F::Bits>(values);
    status = plain_unit(kept.inner, Direction::encode);
    std::copy_n(kept.inner.sizes, 2, unit.sizes + 1);
    unit.tally = {kept.inner.tally.saturated, nonfinite};
    if (status != FEWBITS_OK || unit.remains == 0) {
        return status;
    }
    return leave_remains<F>(unit, kept);
}

template <class F> int read_kept(fewbits_unit &unit, Kept &kept, Direction direction) {
    using Bits = typename F::Bits;
    using Total = typename NaturalKernels<F>::Total;
    int status = read_places({unit.sections[0], unit.sizes[0]}, unit.count, kept.places);
    if (status != FEWBITS_OK) {
        return status;
    }
    if (direction == Direction::accumulate) {
        kept.take<Total>(input<Total>(unit.values, unit.count));
    }
    status = plain_unit(kept.inner, direction);
    if (direction == Direction::accumulate) {
        kept.put<Total>(output<Total>(unit.values, unit.count));
    } else {
        std::memset(unit.values, 0, unit.count * sizeof(Bits));
        kept.put<Bits>(output<Bits>(unit.values, unit.count));
    }
    unit.tally = {0, kept.inner.tally.nonfinite};
    return status;
}

// By small blocks, because the result may lie where an operand does.
template <class T> void combine_as(const fewbits_unit &unit) {
    constexpr size_t block = 64;
    const T a = static_cast<T>(unit.factors[0]);
    const T b = static_cast<T>(unit.factors[1]);
    T x[block] = {};
    T y[block] = {};
    for (size_t start = 0; start < unit.count; start += block) {
        const size_t bytes = std::min<size_t>(block, unit.count - start) * sizeof(T);
        std::memcpy(x, unit.sections[0] + start * sizeof(T), bytes);
        std::memcpy(y, unit.sections[1] + start * sizeof(T), bytes);
        for (size_t i = 0; i < block; ++i) {
            x[i] = a * x[i] + b * y[i];
        }
        std::memcpy(static_cast<char *>(unit.values) + start * sizeof(T), x, bytes);
    }
}

} // namespace

int kept_unit(fewbits_unit &unit, Direction direction) {
    if ((unit.kind != FEWBITS_NATURAL && unit.kind != FEWBITS_CAST) ||
        unit.kept > FEWBITS_MAX_KEPT || unit.kept > unit.count / 2 || unit.count > kMostPlaces) {
        return FEWBITS_BAD_ARGUMENT;
    }
    return with_format(unit.dtype, [&]<class F>(F) -> int {
        Kept kept(unit);
        return direction == Direction::encode ? encode_kept<F>(unit, kept)
                                              : read_kept<F>(unit, kept, direction);
    });
}

int combine(fewbits_unit &unit) {
    if (unit.dtype != FEWBITS_FLOAT32 && unit.dtype != FEWBITS_FLOAT64) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const uint64_t item = unit.dtype == FEWBITS_FLOAT64 ? 8 : 4;
    if (unit.count > SIZE_MAX / 16 || unit.sizes[0] != unit.count * item ||
        unit.sizes[1] != unit.count * item || unit.sizes[2] != 0) {
        return FEWBITS_BAD_SIZE;
    }
    unit.dtype == FEWBITS_FLOAT64 ? combine_as<double>(unit) : combine_as<float>(unit);
    return FEWBITS_OK;
}

} // namespace fewbits
