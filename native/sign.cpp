// Rows of signs times the mean magnitude of a block, as src/fewbits/reference/sign.py specifies
// them, fused with the entropy coder: a block of codes never leaves the cache.
#include "sign.h"

#include <bit>
#include <cmath>

#include "coded.h"
#include "rows.h"

namespace fewbits {
namespace {

constexpr uint32_t kSignBound = 3;
constexpr uint8_t kSigned = 1; // a value with a sign
constexpr uint8_t kNotFinite = 2;

// One block of codes.
struct SignBlock {
    uint8_t bytes[kCodedBlock];
    uint8_t signs[kCodedBlock / 8];
};

// Calls `use(first, count)` for the runs of a coded block of `count` values.
template <class Use> void each_run(size_t count, size_t run, Use use) {
    for (size_t first = 0; first < count; first += run) {
        use(first, std::min(run, count - first));
    }
}

template <class F> constexpr int dtype_of() {
    return std::is_same_v<F, Float32>   ? FEWBITS_FLOAT32
           : std::is_same_v<F, Float64> ? FEWBITS_FLOAT64
           : std::is_same_v<F, Float16> ? FEWBITS_FLOAT16
                                        : FEWBITS_BFLOAT16;
}

// ---- means ----

template <class F> struct Means {
    using Bits = typename F::Bits;

    // The mean of `values`, which have these terms, in their format.
    static Bits of(const SignTerms &terms, In<Bits> values) {
        if (terms.used == 0) {
            return 0;
        }
        double sum = terms.sum;
        int shift = 0;
        if constexpr (std::is_same_v<F, Float64>) { // divided by 2^shift, so that none overflows
            std::frexp(std::bit_cast<double>(terms.largest), &shift);
            sum = 0;
            for (size_t start = 0; start < values.size(); start += kCodedBlock) {
                const size_t count = std::min(kCodedBlock, values.size() - start);
                sum += kernels().dithering<F>().scaled_terms(values.subspan(start, count),
                                                             FEWBITS_NORM_1, shift);
            }
        }
        const double mean = std::min(std::ldexp(sum / static_cast<double>(terms.used), shift),
                                     std::numeric_limits<double>::max());
        Bits nearest = 0;
        fewbits_tally ignored = {0, 0};
        cast_any(FEWBITS_FLOAT64, &mean, dtype_of<F>(), &nearest, 1, ignored);
        return static_cast<Bits>(std::clamp<uint64_t>(nearest, terms.smallest, terms.largest));
    }
};

// ---- encoding ----

// A block with zeros or values that are not finite: the codes, and no sign on the latter.
template <class F> void find_codes(In<typename F::Bits> values, SignBlock &block) {
    using Bits = typename F::Bits;
    for (size_t i = 0; i < values.size(); ++i) {
        const auto magnitude = static_cast<Bits>(values[i] & (F::sign - 1));
        block.bytes[i] = static_cast<uint8_t>((magnitude != 0) + (magnitude >= F::infinity));
    }
}

void clear_signs(SignBlock &block, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        const int clears = (block.bytes[i] == kNotFinite) << (i % 8);
        block.signs[i / 8] = static_cast<uint8_t>(block.signs[i / 8] & ~clears);
    }
}

template <class F> class SignEncoder {
  public:
    using Bits = typename F::Bits;

    SignEncoder(fewbits_unit &unit, const CodedShape &shape)
        : unit_(unit), values_(input<Bits>(unit.values, unit.count)),
          writer_(shape, unit.sections[1]) {}

    void run() {
        SignTerms all;
        for (size_t start = 0; start < unit_.count; start += kCodedBlock) {
            const SignTerms own = write_block(start);
            all.add(own);
            unit_.tally.nonfinite += own.nonfinite;
            if (unit_.sizes[2] != 0) {
                const fewbits_sign_terms sent = {own.sum, own.used, own.smallest, own.largest};
                std::memcpy(unit_.sections[2] + start / kCodedBlock * sizeof(sent), &sent,
                            sizeof(sent));
            }
        }
        if (unit_.block == 0 && unit_.sizes[0] != 0) {
            scales()[0] = Means<F>::of(all, values_);
        }
        unit_.sizes[1] = writer_.size();
    }

  private:
    fewbits_unit &unit_;
    In<Bits> values_;
    CodedWriter writer_;
    SignBlock block_;

    Out<Bits> scales() const {
        return output<Bits>(unit_.sections[0], unit_.sizes[0] / sizeof(Bits));
    }

    SignTerms write_block(size_t start) {
        const size_t count = std::min(kCodedBlock, values_.size() - start);
        const auto values = values_.subspan(start, count);
        const size_t run = unit_.block != 0 ? unit_.block : kCodedBlock;
        SignTerms all;
        each_run(count, run, [&](size_t first, size_t size) {
            const auto part = values.subspan(first, size);
            const SignTerms own = kernels().sign.scan<F>()(part, block_.signs + first / 8);
            if (unit_.block != 0) {
                scales()[(start + first) / run] = Means<F>::of(own, part);
            }
            all.add(own);
        });
        if (all.used == count) {
            writer_.write_equal(kSigned, count, block_.signs);
            return all;
        }
        find_codes<F>(values, block_);
        if (all.nonfinite > 0) {
            clear_signs(block_, count);
        }
        writer_.write({count, block_.bytes, nullptr, block_.signs});
        return all;
    }
};

// ---- decoding ----

void fill(const uint8_t *signs, uint16_t scale, Out<uint16_t> values) {
    kernels().sign.fill16(signs, scale, values);
}
void fill(const uint8_t *signs, uint32_t scale, Out<uint32_t> values) {
    kernels().sign.fill32(signs, scale, values);
}
void fill(const uint8_t *signs, uint64_t scale, Out<uint64_t> values) {
    kernels().sign.fill64(signs, scale, values);
}

// A run's values, written, or added to totals. Without codes all are `kSigned`.
template <class F> struct Values {
    using Bits = typename F::Bits;

    static void put(const uint8_t *codes, const uint8_t *signs, Bits scale, Out<Bits> values) {
        fill(signs, scale, values);
        for (size_t i = 0; codes != nullptr && i < values.size(); ++i) {
            const Bits other = codes[i] == 0 ? Bits{0} : F::quiet_nan;
            values[i] = codes[i] == kSigned ? static_cast<Bits>(values[i]) : other;
        }
    }
};

template <class F> struct Totals {
    using Total = typename NaturalKernels<F>::Total;
    using Wide = std::conditional_t<sizeof(Total) == 8, Float64, Float32>;

    static void put(const uint8_t *codes, const uint8_t *signs, typename F::Bits scale,
                    Out<Total> totals) {
        Total wide;
        fewbits_tally ignored = {0, 0};
        cast_any(dtype_of<F>(), &scale, dtype_of<Wide>(), &wide, 1, ignored);
        if (codes == nullptr) {
            return add(signs, wide, totals);
        }
        constexpr size_t piece = 1024; // in the first cache
        for (size_t start = 0; start < totals.size(); start += piece) {
            const auto own = totals.subspan(start, std::min(piece, totals.size() - start));
            Unaligned<typename Wide::Bits> terms[piece];
            Values<Wide>::put(codes + start, signs + start / 8,
                              std::bit_cast<typename Wide::Bits>(wide), {terms, own.size()});
            const auto addends = input<Total>(terms, own.size());
            for (size_t i = 0; i < own.size(); ++i) {
                own[i] = own[i] + addends[i];
            }
        }
    }

    static void add(const uint8_t *signs, Total scale, Out<Total> totals) {
        if constexpr (sizeof(Total) == 8) {
            kernels().sign.add64(signs, scale, totals);
        } else {
            kernels().sign.add32(signs, scale, totals);
        }
    }
};

// Reads a row. What the coder refuses is refused first, then scales, then signs, then levels
// without a scale, wherever they are.
// `Use` is Values<F> or Totals<F>.
template <class F, class Value, class Use> class SignReader {
  public:
    using Bits = typename F::Bits;

    SignReader(fewbits_unit &unit, const CodedShape &shape, size_t scales)
        : unit_(unit), scales_(input<Bits>(unit.sections[0], scales)),
          values_(output<Value>(unit.values, unit.count)),
          reader_(shape, {unit.sections[1], unit.sizes[1]}) {}

    int run() {
        int status = reader_.open();
        for (size_t start = 0; start < unit_.count && status == FEWBITS_OK; start += kCodedBlock) {
            status = read_block(start, std::min(kCodedBlock, values_.size() - start));
        }
        const bool bad_scale = std::any_of(scales_.begin(), scales_.end(),
                                           [](Bits scale) { return scale >= F::infinity; });
        return status != FEWBITS_OK ? status
               : bad_scale          ? FEWBITS_BAD_SCALE
               : bad_sign_          ? FEWBITS_BAD_SIGN
               : bad_level_         ? FEWBITS_BAD_LEVEL
                                    : FEWBITS_OK;
    }

  private:
    fewbits_unit &unit_;
    In<Bits> scales_;
    Out<Value> values_;
    CodedReader reader_;
    SignBlock block_;
    bool bad_sign_ = false;
    bool bad_level_ = false;

    int read_block(size_t start, size_t count) {
        bool equal = false;
        const int status =
            reader_.read({count, block_.bytes, nullptr, block_.signs, nullptr, &equal});
        if (status != FEWBITS_OK) {
            return status;
        }
        const bool plain = equal && block_.bytes[0] == kSigned;
        if (equal && !plain) {
            std::memset(block_.bytes, block_.bytes[0], count);
        }
        if (!plain) {
            count_nonfinite(count);
        }
        const size_t run = unit_.block != 0 ? unit_.block : kCodedBlock;
        each_run(count, run, [&](size_t first, size_t size) {
            const Bits scale = scales_[unit_.block != 0 ? (start + first) / run : 0];
            read_run(scale, first, plain, values_.subspan(start + first, size));
        });
        return FEWBITS_OK;
    }

    void read_run(Bits scale, size_t first, bool plain, Out<Value> values) {
        const uint8_t *const codes = block_.bytes + first;
        const uint8_t *const signs = block_.signs + first / 8;
        if (scale == 0) {
            bad_level_ |= plain || std::memchr(codes, kSigned, values.size()) != nullptr;
        }
        Use::put(plain ? nullptr : codes, signs, scale, values);
    }

    void count_nonfinite(size_t count) {
        if (std::memchr(block_.bytes, kNotFinite, count) == nullptr) {
            return;
        }
        for (size_t i = 0; i < count; ++i) {
            const bool bad = block_.bytes[i] == kNotFinite;
            unit_.tally.nonfinite += bad;
            bad_sign_ |= bad && (block_.signs[i / 8] >> (i % 8) & 1) != 0;
        }
    }
};

template <class F> int sign_rows(fewbits_unit &unit, Direction direction) {
    const CodedShape shape = {unit.count, kSignBound, true};
    const bool encodes = direction == Direction::encode;
    const size_t blocks =
        unit.block != 0 ? pieces_of(unit.count, unit.block) : size_t{unit.count != 0};
    const bool slice = encodes && unit.sizes[2] != 0;
    if (unit.count > SIZE_MAX / 32 ||
        unit.sizes[2] != (slice ? shape.blocks() * sizeof(fewbits_sign_terms) : 0) ||
        unit.sizes[0] != (slice ? 0 : blocks * sizeof(typename F::Bits)) ||
        (encodes && unit.sizes[1] < shape.largest())) {
        return FEWBITS_BAD_SIZE;
    }
    if (slice && unit.block != 0) {
        return FEWBITS_BAD_ARGUMENT;
    }
    if (encodes) {
        SignEncoder<F>(unit, shape).run();
        return FEWBITS_OK;
    }
    if (direction == Direction::decode) {
        return SignReader<F, typename F::Bits, Values<F>>(unit, shape, blocks).run();
    }
    return SignReader<F, typename NaturalKernels<F>::Total, Totals<F>>(unit, shape, blocks).run();
}

} // namespace

int sign_unit(fewbits_unit &unit, Direction direction) {
    if (unit.option != 0 || !is_scale_block(unit.block)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    return with_format(unit.dtype,
                       [&]<class F>(F) -> int { return sign_rows<F>(unit, direction); });
}

} // namespace fewbits
