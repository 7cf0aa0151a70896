// Rows behind a rotation: a chunk of blocks at a time, so that no whole rotated vector is needed.
#include <algorithm>

#include "coded.h"
#include "coded_blocks.h"
#include "rotation.h"

namespace fewbits {
namespace {

constexpr size_t kNear = 4096; // values of a chunk, unless blocks or the coder's blocks are larger

template <class F> class Row {
  public:
    using Bits = typename F::Bits;

    Row(fewbits_unit &unit, fewbits_rotation &how)
        : unit_(unit), how_(how),
          stream_{{how.key[0], how.key[1], how.key[2], how.key[3]}, unit.first} {}

    int run(Direction direction) {
        const size_t chunk = coded() ? kCodedBlock : std::max<size_t>(how_.block, kNear);
        int status = direction == Direction::encode ? FEWBITS_OK : open();
        for (size_t start = 0; start < unit_.count && status == FEWBITS_OK; start += chunk) {
            const size_t count = std::min<size_t>(chunk, unit_.count - start);
            status = direction == Direction::encode ? encode(start, count)
                                                    : read(start, count, direction);
        }
        how_.tally = met_.tally;
        how_.given = met_.given;
        return status;
    }

    size_t written() const { return written_; }
    bool coded() const {
        return unit_.kind == FEWBITS_NATURAL && (unit_.option & FEWBITS_CODED) != 0;
    }

  private:
    fewbits_unit &unit_;
    fewbits_rotation &how_;
    Stream stream_;
    Rotated met_{};
    size_t written_ = 0; // bytes of a coded section that are behind us
    // In the arithmetic's format, unless that has more bits.
    using Stored = std::conditional_t<sizeof(Bits) == 2, Bits, RotationFloat<F>>;
    alignas(64) Stored values_[kLargestRotation];
    alignas(64) float wide_[sizeof(Bits) == 2 ? kLargestRotation : 1];

    RotationFloat<F> *work() {
        if constexpr (sizeof(Bits) == 2) {
            return wide_;
        } else {
            return values_;
        }
    }

    void *place(size_t start, size_t item) const {
        return static_cast<uint8_t *>(unit_.values) + start * item;
    }

    // The lengths of all coded blocks are judged before the first one is read.
    int open() const {
        if (!coded()) {
            return FEWBITS_OK;
        }
        const CodedShape shape = {unit_.count, F::top_code + 1, true};
        return CodedReader(shape, {unit_.sections[0], unit_.sizes[0]}).open();
    }

    void cut(fewbits_unit &own, int section, size_t start, size_t count, int width) const {
        own.sections[section] += packed_size(start, width);
        own.sizes[section] = packed_size(count, width);
    }

    // Of a coded block, with its length.
    static size_t block_size(const uint8_t *at) {
        uint32_t length = 0;
        std::memcpy(&length, at, kLengthSize);
        return kLengthSize + length;
    }

    // Some values of the unit, which are in `values_`.
    fewbits_unit part(size_t start, size_t count, bool encodes) {
        fewbits_unit own = unit_;
        own.values = values_;
        own.count = count;
        own.first += start;
        own.tally = {};
        if (coded()) {
            own.sections[0] += written_;
            own.sizes[0] = encodes ? unit_.sizes[0] - written_ : block_size(own.sections[0]);
        } else if (unit_.kind == FEWBITS_NATURAL) {
            cut(own, 0, start, count, F::exponent);
            cut(own, 1, start, count, 1);
        } else {
            cut(own, 0, start, count, 8 * sizeof(Bits));
        }
        return own;
    }

    int run_part(fewbits_unit own, Direction direction) {
        const int status = plain_unit(own, direction);
        unit_.tally.saturated += own.tally.saturated;
        unit_.tally.nonfinite += own.tally.nonfinite;
        written_ += own.sizes[0];
        return status;
    }

    int encode(size_t start, size_t count) {
        rotate_blocks<F>(place(start, sizeof(Bits)), count, how_.block, stream_.from(start), false,
                         values_, work(), met_);
        return run_part(part(start, count, true), Direction::encode);
    }

    int read(size_t start, size_t count, Direction direction) {
        const int status = run_part(part(start, count, false), Direction::decode);
        if (status != FEWBITS_OK) {
            return status;
        }
        const bool adds = direction == Direction::accumulate;
        rotate_blocks<F>(values_, count, how_.block, stream_.from(start), true,
                         adds ? values_ : place(start, sizeof(Bits)), work(), met_);
        if (adds) {
            add(start, count);
        }
        return FEWBITS_OK;
    }

    void add(size_t start, size_t count) {
        using Total = typename NaturalKernels<F>::Total;
        fewbits_tally ignored{};
        if constexpr (sizeof(Bits) == 2) {
            const auto widen = F::exponent == 5 ? kernels().casts.float16_to_float32
                                                : kernels().casts.bfloat16_to_float32;
            widen(input<uint16_t>(values_, count), output<uint32_t>(wide_, count), ignored);
        }
        const auto terms = input<Total>(work(), count);
        const auto totals = output<Total>(place(start, sizeof(Total)), count);
        for (size_t i = 0; i < count; ++i) {
            totals[i] = totals[i] + terms[i];
        }
    }
};

// Whether the sections have the sizes of all values: chunks are cut from them.
template <class F> bool fits(const fewbits_unit &unit, bool coded, Direction direction) {
    if (unit.count > SIZE_MAX / 32 || unit.sizes[2] != 0) {
        return false;
    }
    if (coded) {
        const CodedShape shape = {unit.count, F::top_code + 1, true};
        return unit.sizes[1] == 0 &&
               (direction != Direction::encode || unit.sizes[0] >= shape.largest());
    }
    const bool natural = unit.kind == FEWBITS_NATURAL;
    const int width = natural ? F::exponent : static_cast<int>(8 * sizeof(typename F::Bits));
    return unit.sizes[0] == packed_size(unit.count, width) &&
           unit.sizes[1] == packed_size(unit.count, natural ? 1 : 0);
}

} // namespace
} // namespace fewbits

using namespace fewbits;

extern "C" int fewbits_rotated(fewbits_unit *unit, fewbits_rotation *how, int direction) {
    const bool known = unit->kind == FEWBITS_NATURAL ||
                       (unit->kind == FEWBITS_CAST && unit->option == unit->dtype);
    if (!known || unit->kept != 0 || unit->encodes + unit->decodes + unit->remains != 0 ||
        !is_rotation(*how) || unit->first % how->block != 0 || direction < 0 || direction > 2) {
        return FEWBITS_BAD_ARGUMENT;
    }
    unit->tally = {};
    const auto chosen = static_cast<Direction>(direction);
    return with_format(unit->dtype, [&]<class F>(F) -> int {
        Row<F> row(*unit, *how);
        if (!fits<F>(*unit, row.coded(), chosen)) {
            return FEWBITS_BAD_SIZE;
        }
        const int status = row.run(chosen);
        if (row.coded() && chosen == Direction::encode) {
            unit->sizes[0] = row.written();
        }
        return status;
    });
}
