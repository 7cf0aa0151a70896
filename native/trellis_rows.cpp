// Rows of levels on paths of a trellis. src/fewbits/reference/trellis.py is the specification.
#include "trellis_rows.h"

#include <limits>

#include "rows.h"
#include "trellis_rate.h"

namespace fewbits {
namespace {

constexpr double kMostSteps = 65536 - 16; // of the largest value: levels have 16 bits
constexpr double kSureNu = 15.0 / 16;     // steps above it must be seen to keep enough

// ---- encoding ----

// The levels of values, which a path has room for.
template <class F>
void find_levels(const TrellisRow<F> &row, In<typename F::Bits> values, Wide<F> step, Path &path,
                 LevelBlock &block) {
    const size_t count = values.size();
    if (!(step > 0)) {
        std::fill_n(path.levels, count, 0);
        path.stats = {0, 0, count, 0};
        return;
    }
    if constexpr (std::is_same_v<F, Float32>) {
        kernels().trellis.fix(values, step, path.words, path.levels, block.places);
    } else {
        fix_values<F>(values, step, path.words, path.levels, block.places);
    }
    kernels().trellis.search({block.places, count}, size_t{1} << path_lanes_log2(count), row.states,
                             {block.labels, count});
    path.stats = kernels().trellis.settle({block.labels, count}, path.levels);
}

// The same where no value is far away and the kernels can do it in one turn.
template <class F>
bool find_near(const TrellisRow<F> &row, size_t start, In<typename F::Bits> values, Wide<F> step,
               Path &path, NearLevels &near) {
    if constexpr (std::is_same_v<F, Float32>) {
        const auto find = kernels().trellis.find;
        if (find == nullptr || values.size() < kFullPaths || !(step > 0)) {
            return false;
        }
        const Stream dither = dither_of(row, row.unit.key, start);
        if (find(values, step, row.dithered ? &dither : nullptr, row.states, near)) {
            path.stats = near.stats;
            path.near = &near;
            return true;
        }
    }
    return false;
}

template <class F> StepSums sums_of(In<typename F::Bits> values, const Path &path, int shift) {
    if constexpr (!std::is_same_v<F, Float32>) {
        return level_sums<F>(values, path.levels, shift);
    } else if (path.near != nullptr) {
        return kernels().trellis.near_sums(values, path.near->levels);
    } else {
        return kernels().trellis.sums(values, path.levels);
    }
}

// A few values of a row, as they would be written with a step. Their dither is none that the row
// uses: a step that had seen it would make results biased.
template <class F> class Sample {
  public:
    explicit Sample(const TrellisRow<F> &row) : row_(row), count_(sample_size(row.unit.count)) {
        for (size_t i = 0; i < count_; ++i) {
            values_[i] = row.values()[sample_place(i, count_, row.unit.count)];
        }
        path_ = path_of(row, row.unit.key, row.unit.count, count_, block_);
    }

    bool fits(Wide<F> step) {
        if (!(step > 0)) {
            return false;
        }
        find_levels<F>(row_, {values_, count_}, step, path_, block_);
        if (path_.stats.equal()) {
            return true;
        }
        CodesIn codes = {count_, nullptr, nullptr, nullptr};
        codes.path = &path_;
        return rate_fits(row_.shape(), codes, row_.unit.factors[0]);
    }

  private:
    const TrellisRow<F> &row_;
    size_t count_;
    Unaligned<typename F::Bits> values_[kMostSampled];
    LevelBlock block_;
    Path path_;
};

template <class F> Wide<F> step_of(const TrellisRow<F> &row, double nu, double squares, int shift) {
    const double share = std::sqrt(nu / static_cast<double>(row.unit.count));
    const double step = std::ldexp(share * std::sqrt(squares) * row.unit.factors[1], shift);
    return rounded_scale<Wide<F>>(step, false);
}

// The nu that a row has, or the one that its rate asks for.
template <class F> double nu_of(const TrellisRow<F> &row, double squares, int shift, double peak) {
    if (!row.rated()) {
        return row.unit.factors[0];
    }
    if (!(squares > 0) || !std::isfinite(squares)) {
        return rate_number(row.most_place());
    }
    Sample<F> sample(row);
    return rate_number(finest_place(row.least_place(), row.most_place(), [&](int place) {
        const Wide<F> step = step_of(row, rate_number(place), squares, shift);
        return peak <= kMostSteps * double{step} && sample.fits(step);
    }));
}

// With the step that is there; `add(sums)` of each coder block, if they are fitted.
template <class F, class Add>
int encode_levels(const TrellisRow<F> &row, int shift, CodedWriter &writer, Add add) {
    LevelBlock block;
    const size_t total = row.unit.count;
    const Wide<F> step = total > 0 ? row.step() : Wide<F>{0}; // no values, no scale
    for (size_t start = 0; start < total; start += kCodedBlock) {
        const size_t count = std::min(kCodedBlock, total - start);
        const auto values = row.values().subspan(start, count);
        Path path = empty_path(row, block);
        NearLevels near = {block.near, block.places};
        if (!find_near(row, start, values, step, path, near)) {
            path = path_of(row, row.unit.key, start, count, block);
            find_levels<F>(row, values, step, path, block);
        }
        if (path.stats.largest >= row.bound) {
            return FEWBITS_BAD_ARGUMENT;
        }
        if (row.fitted && step > 0) {
            add(sums_of<F>(values, path, shift));
        }
        CodesIn codes = {count, nullptr, nullptr, nullptr};
        codes.path = &path;
        if (!writer.write(codes)) {
            return FEWBITS_BAD_SIZE;
        }
    }
    return FEWBITS_OK;
}

bool usable(const Scanned &found) { return found.squares > 0 && std::isfinite(found.squares); }

// Levels of a step of `nu`, and the scale that is sent; `kept` is their share of the squares.
template <class F>
int encode_stepped(const TrellisRow<F> &row, double nu, const Scanned &found, double &kept) {
    fewbits_unit &unit = row.unit;
    if (usable(found)) {
        row.set_step(step_of(row, nu, found.squares, found.shift));
    }
    CodedWriter writer(row.shape(), unit.sections[1], row.capacity);
    StepSums all = {};
    const int status = encode_levels(row, found.shift, writer, [&](const StepSums &own) {
        all.products += own.products;
        all.squares += own.squares;
    });
    unit.sizes[1] = status == FEWBITS_OK ? writer.size() : row.capacity;
    kept = all.squares > 0 && all.products > 0
               ? all.products / all.squares / (found.squares / all.products)
               : 0;
    if (all.squares > 0) { // of a fitted row that has levels other than 0
        const double best = std::ldexp(all.products / all.squares, found.shift);
        if (std::isfinite(best)) {
            row.set_step(rounded_scale<Wide<F>>(best, best < row.step()));
        }
    }
    return status;
}

template <class F> int encode(const TrellisRow<F> &row) {
    fewbits_unit &unit = row.unit;
    unit.tally = {0, 0};
    Scanned found = {};
    double nu = 0;
    if (unit.count > 0) {
        found = scanned_values(row, unit.tally.nonfinite);
        const bool finite = unit.tally.nonfinite == 0;
        if (!finite) {
            found.squares = std::numeric_limits<double>::infinity();
        }
        row.scales()[0] = finite ? 0 : ScaleOf<F>::quiet_nan;
        nu = nu_of(row, found.squares, found.shift, found.peak);
        const bool within =
            finite && std::ldexp(std::sqrt(found.squares), found.shift) <= row.high();
        unit.tally.saturated =
            within || !row.dithered ? 0 : count_above<F>(row.values(), row.high());
    }
    double kept = 0;
    int status = encode_stepped(row, nu, found, kept);
    if (status == FEWBITS_OK && row.fitted && nu > kSureNu && usable(found) &&
        !(kept >= row.least_kept())) {
        status = encode_stepped(row, kSureNu, found, kept);
    }
    return status;
}

// ---- decoding ----

// Values of levels, in `out`.
template <class F>
void set_values(const Path &path, size_t first, Wide<F> scale, Out<typename F::Bits> out) {
    const std::span<const int32_t> levels = {path.levels + first, out.size()};
    const uint32_t *const words = path.words != nullptr ? path.words + first : nullptr;
    if (!std::isfinite(scale)) {
        std::fill(out.begin(), out.end(), F::quiet_nan);
    } else if constexpr (std::is_same_v<F, Float32>) {
        kernels().trellis.values(levels, words, scale, out);
    } else {
        level_values<F>(levels, words, scale, out);
    }
}

// Values of a block where all is usual; nothing where its levels must be read first.
template <class F>
std::optional<fewbits_status> read_values(const TrellisRow<F> &row, CodedReader &reader,
                                          const uint32_t *key, size_t start,
                                          Out<typename F::Bits> out) {
    if constexpr (std::is_same_v<F, Float32>) {
        const Stream dither = dither_of(row, key, start);
        const bool within = dither.first >> 32 == (dither.first + out.size() - 1) >> 32;
        if (row.step() > 0 && within) { // and not NaN
            return reader.read_values(row.states,
                                      {out, row.step(), row.dithered ? &dither : nullptr});
        }
    }
    return std::nullopt;
}

template <class F>
void add_values(const TrellisRow<F> &row, size_t start, In<typename F::Bits> own) {
    const auto totals = output<Wide<F>>(row.unit.values, row.unit.count);
    add_terms<F>(totals.subspan(start, own.size()), own);
}

template <class F> int decode(const TrellisRow<F> &row, bool add) {
    using Bits = typename F::Bits;
    fewbits_unit &unit = row.unit;
    unit.tally = {0, 0};
    if (unit.count == 0) {
        CodedReader reader(row.shape(), {unit.sections[1], unit.sizes[1]});
        return reader.open();
    }
    const auto bits = static_cast<typename ScaleOf<F>::Bits>(row.scales()[0]);
    const bool nan = bits == ScaleOf<F>::quiet_nan;
    uint32_t key[4] = {};
    if (row.dithered) {
        std::memcpy(key, unit.sections[2], sizeof(key));
    }
    LevelBlock block;
    bool some = false;
    CodedReader reader(row.shape(), {unit.sections[1], unit.sizes[1]});
    int status = reader.open();
    for (size_t start = 0; start < unit.count && status == FEWBITS_OK; start += kCodedBlock) {
        const size_t count = std::min(kCodedBlock, unit.count - start);
        // Terms of float32 have room where the words of a dither would be.
        const auto values = add ? output<Bits>(block.words, count)
                                : output<Bits>(unit.values, unit.count).subspan(start, count);
        if (const auto read = read_values(row, reader, key, start, values)) {
            status = *read;
            if (add && status == FEWBITS_OK) {
                add_values<F>(row, start, values);
            }
            continue;
        }
        const Path path = path_of(row, key, start, count, block);
        CodesOut out = {count, nullptr, nullptr, nullptr};
        out.path = &path;
        status = reader.read(out);
        if (status != FEWBITS_OK) {
            break;
        }
        if (nan || bits == 0) {
            some = some || has_nonzero(path.levels, count);
        }
        each_block(count, kTermPiece, [&](size_t first, size_t size, size_t) {
            if (!add) {
                return set_values<F>(path, first, row.step(), values.subspan(first, size));
            }
            Unaligned<Bits> terms[kTermPiece];
            set_values<F>(path, first, row.step(), {terms, size});
            add_values<F>(row, start + first, {terms, size});
        });
    }
    if (status != FEWBITS_OK) {
        return status;
    }
    unit.tally.nonfinite = nan ? unit.count : 0;
    return !nan && bits >= ScaleOf<F>::infinity ? FEWBITS_BAD_STEP
           : some                               ? FEWBITS_NO_STEP
                                                : FEWBITS_OK;
}

template <class F> int run_row(const TrellisRow<F> &row, Direction direction) {
    if (direction != Direction::encode) {
        return decode<F>(row, direction == Direction::accumulate);
    }
    if (row.dithered) {
        std::memcpy(row.unit.sections[2], row.unit.key, sizeof(row.unit.key));
    }
    return encode<F>(row);
}

// Calls `use(row)` where the numbers of a unit are those of a trellis.
template <class Use> int with_row(fewbits_unit &unit, Use use) {
    return with_format(unit.dtype, [&]<class F>(F) -> int {
        if (!TrellisRow<F>::valid(unit)) {
            return FEWBITS_BAD_ARGUMENT;
        }
        const TrellisRow<F> row(unit);
        const size_t key = row.dithered ? sizeof(unit.key) : 0;
        if (unit.count > SIZE_MAX / 64 || unit.sizes[0] != row.scales().size_bytes() ||
            unit.sizes[2] != key) {
            return FEWBITS_BAD_SIZE;
        }
        return use(row);
    });
}

} // namespace

int trellis_unit(fewbits_unit &unit, Direction direction) {
    return with_row(unit, [&](const auto &row) { return run_row(row, direction); });
}

} // namespace fewbits

using namespace fewbits;

extern "C" {

int fewbits_trellis_nu(fewbits_unit *unit, double squares, int shift, double peak, double *nu) {
    return with_row(*unit, [&](const auto &row) -> int {
        *nu = nu_of(row, squares, shift, peak);
        return FEWBITS_OK;
    });
}

int fewbits_trellis_slice(fewbits_unit *unit, int shift, double *sums) {
    return with_row(*unit, [&]<class F>(const TrellisRow<F> &row) -> int {
        unit->tally = {0, nonfinite_values<F>(row.values())};
        if (unit->tally.nonfinite != 0) {
            return FEWBITS_BAD_ARGUMENT;
        }
        CodedWriter writer(row.shape(), unit->sections[1], unit->sizes[1]);
        const int status = encode_levels(row, shift, writer, [&](const StepSums &own) {
            *sums++ = own.products;
            *sums++ = own.squares;
        });
        unit->sizes[1] = writer.size();
        return status;
    });
}
}
