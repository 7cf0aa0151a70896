// Encodes rows of sparse dithering: steps, codes, and the scales that are sent, as
// src/fewbits/reference/grid_scales.py specifies them. Blocks may have any size; what belongs to a
// block is kept in its scale's place until it is known which scale to send.
#include "grid.h"
#include "scales.h"

namespace fewbits {
namespace {

// ---- steps ----

// Sets the steps of all blocks. A block of which nearest rounding leaves nothing has the scale of
// its largest value, with a sign as a mark. Returns whether all norms are within the range.
template <class F> bool find_steps(const GridRow<F> &row, bool careful) {
    bool within = true;
    each_block(row.unit.count, row.block, [&](size_t, size_t size, size_t number) {
        const auto values = row.own(number);
        if (careful && nonfinite<F>(values) != 0) {
            row.scales()[number] = ScaleOf<F>::quiet_nan;
            within = false;
            return;
        }
        const Scanned found = scanned<F>(values);
        const double norm = std::sqrt(found.squares);
        within = within && std::ldexp(norm, found.shift) <= row.high();
        if (found.squares == 0) {
            row.scales()[number] = 0;
            return;
        }
        const double share = std::sqrt(row.unit.factors[0] / static_cast<double>(size));
        const double wanted = std::ldexp(2 * share * norm * row.unit.factors[1], found.shift);
        const auto step = rounded_scale<Wide<F>>(wanted, false);
        row.set_scale(number, step);
        if (row.rounding == FEWBITS_STEP_NEAREST &&
            nearest_integer(std::min(found.peak / step, 65536.0)) == 0) {
            double alone = found.peak;
            if (row.scale == FEWBITS_STEP_MATCHED) {
                const double small = std::ldexp(found.peak, -found.shift);
                alone = std::ldexp(found.squares / small, found.shift);
            }
            row.set_scale(number, -rounded_scale<Wide<F>>(alone, false));
        }
    });
    return within;
}

// ---- codes ----

// Where the largest magnitude of a block is first.
template <class F> size_t largest_at(In<typename F::Bits> values) {
    typename F::Bits most = 0;
    size_t place = 0;
    for (size_t i = 0; i < values.size(); ++i) {
        const auto magnitude = static_cast<typename F::Bits>(values[i] & (F::sign - 1));
        if (magnitude > most) {
            most = magnitude;
            place = i;
        }
    }
    return place;
}

// A scale for the codes that fits better than the step.
template <class F>
void fit_scale(const GridRow<F> &row, size_t number, double products, double squares, int shift) {
    const double step = row.scale_at(number);
    double best = products / squares;
    if (row.scale == FEWBITS_STEP_MATCHED) {
        best = scanned<F>(row.own(number)).squares / products;
    }
    best = std::ldexp(best, shift);
    if (step > 0 && std::isfinite(best)) {
        row.set_scale(number, rounded_scale<Wide<F>>(best, best < step));
    }
}

// Blocks that do not fit into coder blocks are rounded again, piece by piece of their sums.
template <class F> void fit_pieces(const GridRow<F> &row, size_t number) {
    const auto values = row.own(number);
    const Wide<F> step = row.scale_at(number);
    const int shift = shift_of<F>(values);
    StepBlock codes;
    StepSums sums = {};
    each_block(values.size(), kSummationBlock, [&](size_t start, size_t count, size_t) {
        const StepRun<F> run = {values.subspan(start, count), {}, step, row.rounding};
        fewbits_tally ignored = {0, 0};
        const bool words = quantise_run(run, 0, codes, ignored) > kLastSmall;
        if (words) {
            quantise_words(run, 0, codes);
        }
        const StepSums more = run_sums<F>(run.values, codes, 0, words, shift);
        sums.products += more.products;
        sums.squares += more.squares;
    });
    fit_scale(row, number, sums.products, sums.squares, shift);
}

// One pass over the coder blocks.
template <class F> class GridEncoder {
  public:
    explicit GridEncoder(const GridRow<F> &row)
        : row_(row), fits_(row.scale != FEWBITS_STEP_NORM && row.aligned()) {}

    int run(CodedWriter &writer) {
        const size_t total = row_.unit.count;
        for (size_t start = 0; start < total; start += kCodedBlock) {
            const size_t count = std::min(kCodedBlock, total - start);
            uint32_t largest = 0;
            each_run(start, total, row_.block,
                     [&](const StepPlace &at) { largest = std::max(largest, write_run(at)); });
            const bool words = largest > kLastSmall;
            if (words) {
                largest = 0;
                each_run(start, total, row_.block, [&](const StepPlace &at) {
                    largest = std::max(largest, write_words(at));
                });
            }
            if (largest >= row_.bound) {
                return FEWBITS_BAD_ARGUMENT;
            }
            each_run(start, total, row_.block, [&](const StepPlace &at) { settle(at, words); });
            const Stream dither = stream_of(row_.unit).from(start);
            if (!writer.write({count, codes_.bytes, words ? codes_.words : nullptr, codes_.signs,
                               ahead_of(row_.values().subspan(start + count)),
                               row_.dithers() ? &dither : nullptr})) {
                return FEWBITS_BAD_SIZE;
            }
        }
        return FEWBITS_OK;
    }

  private:
    const GridRow<F> &row_;
    bool fits_;
    StepSums sums_ = {};
    bool some_ = false;
    int shift_ = 0;
    size_t marked_ = SIZE_MAX; // the block whose largest value was looked for, and where it is
    size_t place_ = 0;
    StepBlock codes_;

    StepRun<F> run_at(const StepPlace &at) const {
        return {row_.values().subspan(at.start, at.size), stream_of(row_.unit).from(at.start),
                row_.scale_at(at.number), row_.rounding};
    }

    uint32_t write_run(const StepPlace &at) {
        const StepRun<F> run = run_at(at);
        if (run.step > 0) {
            return quantise_run(run, at.first, codes_, row_.unit.tally);
        }
        row_.unit.tally.nonfinite += nonfinite<F>(run.values);
        codes_.clear(at.first, at.size);
        if (!(run.step < 0)) {
            return 0;
        }
        if (marked_ != at.number) {
            marked_ = at.number;
            place_ = at.number * row_.block + largest_at<F>(row_.own(at.number));
        }
        if (place_ < at.start || place_ >= at.start + at.size) {
            return 0;
        }
        const size_t here = at.first + place_ - at.start;
        codes_.bytes[here] = 1;
        codes_.words[here] = 1;
        codes_.set_sign(here, (row_.values()[place_] & F::sign) != 0);
        return 1;
    }

    uint32_t write_words(const StepPlace &at) {
        const StepRun<F> run = run_at(at);
        return run.step > 0 ? quantise_words(run, at.first, codes_) : uint32_t{run.step < 0};
    }

    // When the last run of a block is known, so is its scale.
    void settle(const StepPlace &at, bool words) {
        const auto own = row_.own(at.number);
        const size_t first = at.number * row_.block;
        const Wide<F> step = row_.scale_at(at.number);
        if (at.start == first) {
            sums_ = {};
            some_ = false;
            shift_ = fits_ && step > 0 ? shift_of<F>(own) : 0;
        }
        some_ = some_ || codes_.some(at.first, at.size, !words);
        if (fits_ && step > 0) {
            const StepSums more = run_sums<F>(row_.values().subspan(at.start, at.size), codes_,
                                              at.first, words, shift_);
            sums_.products += more.products;
            sums_.squares += more.squares;
        }
        if (at.start + at.size < first + own.size()) {
            return;
        }
        if (step < 0) {
            row_.set_scale(at.number, -step);
        } else if (step > 0 && fits_) {
            fit_scale(row_, at.number, sums_.products, sums_.squares, shift_);
        } else if (step > 0 && row_.scale != FEWBITS_STEP_NORM) {
            fit_pieces(row_, at.number);
        } else if (step > 0 && !some_ && row_.rounding == FEWBITS_STEP_STOCHASTIC) {
            row_.set_scale(at.number, 0);
        }
    }
};

template <class F> int encode_once(const GridRow<F> &row, bool careful) {
    fewbits_unit &unit = row.unit;
    unit.tally = {0, 0};
    const bool within = find_steps(row, careful);
    CodedWriter writer({unit.count, row.bound, true}, unit.sections[1], unit.sizes[1]);
    const int status = GridEncoder<F>(row).run(writer);
    if (status != FEWBITS_OK) {
        return status;
    }
    unit.tally.saturated = within ? 0 : count_above<F>(row.values(), row.high());
    if (unit.tally.nonfinite == 0 || careful) { // else its capacity is needed once more
        unit.sizes[1] = writer.size();
    }
    return FEWBITS_OK;
}

} // namespace

// A second time if a value was not finite: its block has no scale then, and norms alone do not
// tell.
template <class F> int encode_grid(const GridRow<F> &row) {
    int status = encode_once(row, false);
    if (row.unit.tally.nonfinite != 0) {
        status = encode_once(row, true);
    }
    return status;
}

template int encode_grid<Float32>(const GridRow<Float32> &);
template int encode_grid<Float64>(const GridRow<Float64> &);
template int encode_grid<Float16>(const GridRow<Float16> &);
template int encode_grid<Bfloat16>(const GridRow<Bfloat16> &);

} // namespace fewbits
