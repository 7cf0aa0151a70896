// Rows of levels on paths of a trellis. src/fewbits/reference/trellis.py is the specification.
#include "trellis.h"

#include "dithering.h"
#include "fewbits.h"
#include "rows.h"
#include "scales.h"
#include "steps_runs.h"

namespace fewbits {
namespace {

template <class F> struct TrellisRow {
    using Bits = typename F::Bits;
    using Scale = typename ScaleOf<F>::Bits;
    fewbits_unit &unit;
    int states;
    bool dithered;
    bool fitted;
    uint32_t bound;

    In<Bits> values() const { return input<Bits>(unit.values, unit.count); }
    Out<Scale> scales() const { return output<Scale>(unit.sections[0], unit.count > 0); }
    Wide<F> step() const { return std::bit_cast<Wide<F>>(static_cast<Scale>(scales()[0])); }
    void set_step(Wide<F> step) const { scales()[0] = std::bit_cast<Scale>(step); }
    CodedShape shape() const { return {unit.count, bound, true}; }
    // From which magnitude on results may exceed the largest number.
    double high() const {
        const double largest = widened<F>(static_cast<Bits>(F::infinity - 1));
        return dithered ? largest / (1 + 2 * std::sqrt(unit.factors[0]))
                        : std::numeric_limits<double>::infinity();
    }
};

struct LevelBlock {
    int16_t turns[kCodedBlock];
    uint8_t places[kCodedBlock];
    uint8_t labels[kCodedBlock];
    StepBlock codes;
};

template <class F> double signed_value(typename F::Bits bits) {
    const double x = widened<F>(static_cast<typename F::Bits>(bits & (F::sign - 1)));
    return (bits & F::sign) != 0 ? -x : x;
}

constexpr size_t kWordPiece = 1024;

// Calls `use(i, word)` for a block's values; words are 0 without a dither.
template <class Use> void each_word(const Path &path, size_t count, Use use) {
    uint32_t words[kWordPiece] = {};
    for (size_t start = 0; start < count; start += kWordPiece) {
        const size_t size = std::min(kWordPiece, count - start);
        if (path.dithered) {
            kernels().common.words(path.dither.from(start), {words, size});
        }
        for (size_t i = 0; i < size; ++i) {
            use(start + i, words[i]);
        }
    }
}

// Values in sixteenths of the step, with their dither. In float32 unless they are float64.
template <class F>
void fix(In<typename F::Bits> values, Wide<F> step, const Path &path, LevelBlock &block) {
    using Number = Wide<F>;
    each_word(path, values.size(), [&](size_t i, uint32_t word) {
        auto x = static_cast<Number>(signed_value<F>(values[i]));
        x = (word & 1) != 0 ? -x : x;
        Number t = x / step * Number{16};
        if (path.dithered) {
            t += static_cast<Number>(static_cast<int32_t>(word >> 1)) * Number(0x1p-25);
        }
        const auto fixed =
            static_cast<int32_t>(nearest_integer(std::clamp(double{t}, -0x1p20, 0x1p20)));
        block.places[i] = static_cast<uint8_t>(fixed & 63);
        block.turns[i] = static_cast<int16_t>(fixed >> 6);
    });
}

// Levels as magnitudes and signs; returns the largest.
uint32_t set_levels(LevelBlock &block, size_t count) {
    uint32_t largest = 0;
    std::fill_n(block.codes.signs, packed_size(count, 1), uint8_t{0});
    for (size_t i = 0; i < count; ++i) {
        const int32_t level = level_of(block.labels[i], block.turns[i], block.places[i]);
        const auto magnitude = static_cast<uint32_t>(std::abs(level));
        largest = std::max(largest, magnitude);
        block.codes.words[i] = static_cast<uint16_t>(magnitude);
        block.codes.bytes[i] = static_cast<uint8_t>(std::min(magnitude, 255u));
        block.codes.signs[i / 8] =
            static_cast<uint8_t>(block.codes.signs[i / 8] | (level < 0) << (i % 8));
    }
    return largest;
}

template <class F>
StepSums signed_sums(In<typename F::Bits> values, const StepBlock &codes, int shift) {
    const Shrink by(shift);
    double lanes[kSumLanes] = {};
    uint64_t squares = 0;
    for (size_t i = 0; i < values.size(); ++i) {
        const double level = codes.sign(i) ? -static_cast<double>(codes.words[i])
                                           : static_cast<double>(codes.words[i]);
        lanes[i % kSumLanes] += signed_value<F>(values[i]) * by.first * by.second * level;
        squares += uint64_t{codes.words[i]} * codes.words[i];
    }
    for (size_t half = kSumLanes / 2; half > 0; half /= 2) {
        for (size_t i = 0; i < half; ++i) {
            lanes[i] += lanes[i + half];
        }
    }
    return {lanes[0], static_cast<double>(squares)};
}

template <class F> Path path_of(const TrellisRow<F> &row, const uint32_t *key, size_t start) {
    const Stream whole = {{key[0], key[1], key[2], key[3]}, row.unit.first};
    return {row.states, row.dithered, whole.from(start)};
}

// ---- encoding ----

template <class F> int encode_levels(const TrellisRow<F> &row, int shift, CodedWriter &writer) {
    LevelBlock block;
    StepSums sums = {};
    const size_t total = row.unit.count;
    const Wide<F> step = total > 0 ? row.step() : Wide<F>{0}; // no values, no scale
    for (size_t start = 0; start < total; start += kCodedBlock) {
        const size_t count = std::min(kCodedBlock, total - start);
        const auto values = row.values().subspan(start, count);
        const Path path = path_of(row, row.unit.key, start);
        if (step > 0) {
            fix<F>(values, step, path, block);
            kernels().trellis.search({block.places, count}, size_t{1} << path_lanes_log2(count),
                                     row.states, {block.labels, count});
            if (set_levels(block, count) >= row.bound) {
                return FEWBITS_BAD_ARGUMENT;
            }
        } else {
            block.codes.clear(0, count);
        }
        if (row.fitted && step > 0) {
            const StepSums more = signed_sums<F>(values, block.codes, shift);
            sums.products += more.products;
            sums.squares += more.squares;
        }
        CodesIn codes = {count, block.codes.bytes, block.codes.words, block.codes.signs};
        codes.path = &path;
        if (!writer.write(codes)) {
            return FEWBITS_BAD_SIZE;
        }
    }
    if (sums.squares > 0) { // of a fitted row that has levels other than 0
        const double best = std::ldexp(sums.products / sums.squares, shift);
        if (std::isfinite(best)) {
            row.set_step(rounded_scale<Wide<F>>(best, best < step));
        }
    }
    return FEWBITS_OK;
}

template <class F> int encode(const TrellisRow<F> &row) {
    fewbits_unit &unit = row.unit;
    unit.tally = {0, 0};
    int shift = 0;
    if (unit.count > 0) {
        unit.tally.nonfinite = nonfinite<F>(row.values());
        const Scanned found = scanned<F>(row.values());
        const double norm = std::sqrt(found.squares);
        shift = found.shift;
        if (unit.tally.nonfinite != 0) {
            row.scales()[0] = ScaleOf<F>::quiet_nan;
        } else if (found.squares == 0) {
            row.scales()[0] = 0;
        } else {
            const double share = std::sqrt(unit.factors[0] / static_cast<double>(unit.count));
            row.set_step(
                rounded_scale<Wide<F>>(std::ldexp(share * norm * unit.factors[1], shift), false));
        }
        const bool within = unit.tally.nonfinite == 0 && std::ldexp(norm, shift) <= row.high();
        unit.tally.saturated =
            within || !row.dithered ? 0 : count_above<F>(row.values(), row.high());
    }
    CodedWriter writer(row.shape(), unit.sections[1], unit.sizes[1]);
    const int status = encode_levels(row, shift, writer);
    unit.sizes[1] = status == FEWBITS_OK ? writer.size() : unit.sizes[1];
    return status;
}

// ---- decoding ----

// Values of levels, in `out`, from value `first` of the block on.
template <class F>
void level_values(const StepBlock &codes, bool words, Wide<F> scale, const Path &path, size_t first,
                  Out<typename F::Bits> out) {
    if (!std::isfinite(scale)) {
        std::fill(out.begin(), out.end(), F::quiet_nan);
        return;
    }
    const Path from = {path.states, path.dithered, path.dither.from(first)};
    each_word(from, out.size(), [&](size_t i, uint32_t word) {
        const size_t at = first + i;
        double level = words ? codes.words[at] : codes.bytes[at];
        level = codes.sign(at) ? -level : level;
        if (path.dithered) {
            const double u = (static_cast<double>(word >> 1) + 0.5) * 0x1p-29;
            level = (word & 1) != 0 ? u - level : level - u;
        }
        out[i] = step_value<F>(level, scale);
    });
}

template <class F> int decode(const TrellisRow<F> &row, bool add) {
    using Bits = typename F::Bits;
    fewbits_unit &unit = row.unit;
    unit.tally = {0, 0};
    uint32_t key[4] = {};
    if (row.dithered) {
        std::memcpy(key, unit.sections[2], sizeof(key));
    }
    StepBlock codes;
    bool some = false;
    const bool words = row.bound > 256;
    CodedReader reader(row.shape(), {unit.sections[1], unit.sizes[1]});
    int status = reader.open();
    for (size_t start = 0; start < unit.count && status == FEWBITS_OK; start += kCodedBlock) {
        const size_t count = std::min(kCodedBlock, unit.count - start);
        const Path path = path_of(row, key, start);
        CodesOut out = {count, codes.bytes, codes.words, codes.signs};
        out.path = &path;
        status = reader.read(out);
        if (status != FEWBITS_OK) {
            break;
        }
        some = some || codes.some(0, count, !words);
        each_block(count, kTermPiece, [&](size_t first, size_t size, size_t) {
            if (!add) {
                const auto values = output<Bits>(unit.values, unit.count);
                return level_values<F>(codes, words, row.step(), path, first,
                                       values.subspan(start + first, size));
            }
            Unaligned<Bits> terms[kTermPiece];
            level_values<F>(codes, words, row.step(), path, first, {terms, size});
            const auto totals = output<Wide<F>>(unit.values, unit.count);
            add_terms<F>(totals.subspan(start + first, size), {terms, size});
        });
    }
    if (status != FEWBITS_OK || unit.count == 0) {
        return status;
    }
    const auto bits = static_cast<typename ScaleOf<F>::Bits>(row.scales()[0]);
    const bool nan = bits == ScaleOf<F>::quiet_nan;
    unit.tally.nonfinite = nan ? unit.count : 0;
    return !nan && bits >= ScaleOf<F>::infinity ? FEWBITS_BAD_STEP
           : some && (nan || bits == 0)         ? FEWBITS_NO_STEP
                                                : FEWBITS_OK;
}

template <class F> int run_row(fewbits_unit &unit, Direction direction) {
    constexpr int states[] = {0, 4, 8, 16};
    const int code = unit.option >> 2;
    if (code < 1 || code > 3 || unit.levels < 1 || unit.block != 0 || (unit.option & 3) == 3) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const TrellisRow<F> row = {unit, states[code], (unit.option & 1) != 0, (unit.option & 2) != 0,
                               uint32_t{unit.levels} + 1};
    const size_t key = row.dithered ? sizeof(unit.key) : 0;
    if (unit.count > SIZE_MAX / 64 || unit.sizes[0] != row.scales().size_bytes() ||
        unit.sizes[2] != key) {
        return FEWBITS_BAD_SIZE;
    }
    if (direction != Direction::encode) {
        return decode<F>(row, direction == Direction::accumulate);
    }
    if (key != 0) {
        std::memcpy(unit.sections[2], unit.key, key);
    }
    return encode<F>(row);
}

} // namespace

int trellis_unit(fewbits_unit &unit, Direction direction) {
    return with_format(unit.dtype, [&]<class F>(F) -> int { return run_row<F>(unit, direction); });
}

} // namespace fewbits
