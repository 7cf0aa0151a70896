// Rows of sparse dithering of any kind, and their decoding.
#include "grid.h"

#include "dithering.h"
#include "fewbits.h"
#include "norms.h"

namespace fewbits {
namespace {

template <class F> class GridDecoder {
  public:
    GridDecoder(const GridRow<F> &row, bool add) : row_(row), add_(add) {
        std::memcpy(stream_.key, row.unit.key, sizeof(stream_.key));
        if (row.rounding == FEWBITS_STEP_SUBTRACTIVE) {
            std::memcpy(stream_.key, row.unit.sections[2], sizeof(stream_.key));
        }
        stream_.first = row.unit.first;
    }

    int run() {
        const size_t total = row_.unit.count;
        const size_t each = add_ ? sizeof(Wide<F>) : sizeof(typename F::Bits);
        CodedReader reader({total, row_.bound, true}, {row_.unit.sections[1], row_.unit.sizes[1]});
        int status = reader.open();
        for (size_t start = 0; start < total && status == FEWBITS_OK; start += kCodedBlock) {
            bool small = row_.bound <= 256;
            const size_t count = std::min(kCodedBlock, total - start);
            const auto *const own = static_cast<const uint8_t *>(row_.unit.values) + start * each;
            const Stream dither = stream_.from(start);
            status = reader.read({count,
                                  codes_.bytes,
                                  codes_.words,
                                  codes_.signs,
                                  &small,
                                  nullptr,
                                  {own, each},
                                  row_.dithers() ? &dither : nullptr});
            if (status == FEWBITS_OK) {
                each_run(start, total, row_.block,
                         [&](const StepPlace &at) { read_run(at, small); });
            }
        }
        return status != FEWBITS_OK ? status
               : bad_step_          ? FEWBITS_BAD_STEP
               : no_step_           ? FEWBITS_NO_STEP
               : only_zeros_        ? FEWBITS_ONLY_ZEROS
                                    : FEWBITS_OK;
    }

  private:
    const GridRow<F> &row_;
    bool add_;
    Stream stream_;
    bool some_ = false;
    bool bad_step_ = false, no_step_ = false, only_zeros_ = false;
    StepBlock codes_;

    void read_run(const StepPlace &at, bool small) {
        using Bits = typename F::Bits;
        const StepRun<F> run = {
            {}, stream_.from(at.start), row_.scale_at(at.number), row_.rounding};
        judge(at, small);
        if (!add_) {
            const auto values = output<Bits>(row_.unit.values, row_.unit.count);
            return dequantise_run(run, codes_, at.first, small, values.subspan(at.start, at.size));
        }
        const auto totals = output<Wide<F>>(row_.unit.values, row_.unit.count);
        each_block(at.size, kTermPiece, [&](size_t first, size_t size, size_t) {
            Unaligned<Bits> terms[kTermPiece];
            const StepRun<F> part = {{}, run.stream.from(first), run.step, run.rounding};
            dequantise_run(part, codes_, at.first + first, small, {terms, size});
            add_terms<F>(totals.subspan(at.start + first, size), {terms, size});
        });
    }

    // Whether a block's codes and its scale go together, when its last run is known.
    void judge(const StepPlace &at, bool small) {
        const size_t first = at.number * row_.block;
        const size_t size = std::min(row_.block, row_.unit.count - first);
        some_ = (some_ && at.start != first) || codes_.some(at.first, at.size, small);
        if (at.start + at.size < first + size) {
            return;
        }
        const auto bits = static_cast<typename ScaleOf<F>::Bits>(row_.scales()[at.number]);
        const bool nan = bits == ScaleOf<F>::quiet_nan;
        bad_step_ = bad_step_ || (!nan && bits >= ScaleOf<F>::infinity);
        no_step_ = no_step_ || (some_ && (nan || bits == 0));
        only_zeros_ = only_zeros_ ||
                      (!some_ && !nan && bits != 0 && row_.rounding != FEWBITS_STEP_SUBTRACTIVE);
        row_.unit.tally.nonfinite += nan ? size : 0;
    }
};

template <class F> int run_row(fewbits_unit &unit, Direction direction) {
    const int rounding = unit.option & 3;
    const int scale = unit.option >> 2;
    const bool encodes = direction == Direction::encode;
    const GridRow<F> row = {unit, static_cast<fewbits_step_rounding>(rounding),
                            static_cast<fewbits_step_scale>(scale), uint32_t{unit.levels} + 1,
                            unit.block != 0 ? unit.block : std::max<uint64_t>(unit.count, 1)};
    if (rounding > FEWBITS_STEP_SUBTRACTIVE || scale > FEWBITS_STEP_MATCHED || unit.levels < 1 ||
        (scale != FEWBITS_STEP_NORM && rounding != FEWBITS_STEP_NEAREST)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const size_t key = rounding == FEWBITS_STEP_SUBTRACTIVE ? sizeof(unit.key) : 0;
    if (unit.count > SIZE_MAX / 64 || unit.sizes[0] != row.scales().size_bytes() ||
        unit.sizes[2] != key) {
        return FEWBITS_BAD_SIZE;
    }
    if (!encodes) {
        return GridDecoder<F>(row, direction == Direction::accumulate).run();
    }
    if (key != 0) {
        std::memcpy(unit.sections[2], unit.key, key);
    }
    return encode_grid(row);
}

} // namespace

int grid_unit(fewbits_unit &unit, Direction direction) {
    return with_format(unit.dtype, [&]<class F>(F) -> int { return run_row<F>(unit, direction); });
}

} // namespace fewbits
