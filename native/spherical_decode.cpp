// Radii and directions back to values, in one pass over the sections.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "coded.h"
#include "rows.h"
#include "spherical.h"

namespace fewbits {
namespace {

// Of a normal number.
double power_of_two(int exponent) {
    return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// ---- Rice codes: the low bits of all numbers, then their quotients, ones that end with a zero
// ----

class RiceReader {
  public:
    RiceReader(ConstBytes data, int parameter, uint64_t count)
        : data_(data), parameter_(parameter), count_(count),
          at_(count * static_cast<uint64_t>(parameter)) {}

    bool fits() const {
        const auto bits = static_cast<unsigned>(parameter_ + 1);
        return count_ <= uint64_t{8} * data_.size() / bits &&
               data_.size() >= packed_size(static_cast<size_t>(count_), parameter_ + 1);
    }

    // False if the section ends before.
    bool next(uint32_t &number) {
        const uint64_t start = at_;
        const uint64_t end = 8 * uint64_t{data_.size()};
        for (bool all = true; all && at_ < end;) { // beyond the end are zeros
            const uint64_t offset = at_ % 8;
            const auto ones = static_cast<uint64_t>(std::countr_one(eight(at_ / 8) >> offset));
            all = ones == 64 - offset;
            at_ += ones;
        }
        if (at_ == end) {
            return false;
        }
        const uint64_t quotient = std::min<uint64_t>(at_ - start, kMost);
        ++at_;
        number = static_cast<uint32_t>(quotient << parameter_) | low_bits();
        return true;
    }

    // Whether nothing but padding is left.
    bool ended() const {
        const uint64_t left = 8 * uint64_t{data_.size()} - at_;
        return left < 8 && (left == 0 || data_.back() >> (8 - left) == 0);
    }

  private:
    static constexpr uint64_t kMost = 255; // quotients are below, and it fits with any parameter
    ConstBytes data_;
    int parameter_;
    uint64_t count_, at_;
    uint64_t taken_ = 0;

    // The low bits of the next number: at most 22, so that eight bytes hold them.
    uint32_t low_bits() {
        const uint64_t first = taken_++ * static_cast<uint64_t>(parameter_);
        return static_cast<uint32_t>(eight(first / 8) >> (first % 8)) & ((1u << parameter_) - 1);
    }

    uint64_t eight(uint64_t byte) const {
        uint64_t bytes = 0;
        if (byte < data_.size()) {
            const auto at = static_cast<size_t>(byte);
            std::memcpy(&bytes, data_.data() + at, std::min<size_t>(8, data_.size() - at));
        }
        return bytes;
    }
};

// ---- coded sections one code after the other ----

class CodeStream {
  public:
    CodeStream(ConstBytes data, uint64_t count, uint32_t bound)
        : shape_{count, bound, false}, left_(count), reader_(shape_, data) {}

    fewbits_status open() { return reader_.open(); }

    // The next `count` codes, which must be there.
    fewbits_status next(size_t count, uint16_t *codes) {
        for (size_t done = 0; done < count;) {
            if (at_ == size_) {
                const fewbits_status status = refill();
                if (status != FEWBITS_OK) {
                    return status;
                }
            }
            const size_t part = std::min(count - done, size_ - at_);
            if (equal_) {
                std::fill_n(codes + done, part, uint16_t{bytes_[0]});
            } else if (shape_.wide() && !small_) {
                std::copy_n(words_ + at_, part, codes + done);
            } else {
                std::copy_n(bytes_ + at_, part, codes + done);
            }
            at_ += part;
            done += part;
        }
        return FEWBITS_OK;
    }

  private:
    CodedShape shape_;
    uint64_t left_;
    CodedReader reader_;
    size_t at_ = 0, size_ = 0;
    bool small_ = false, equal_ = false;
    uint8_t bytes_[kCodedBlock];
    uint16_t words_[kCodedBlock];

    fewbits_status refill() {
        size_ = static_cast<size_t>(std::min<uint64_t>(left_, kCodedBlock));
        left_ -= size_;
        at_ = 0;
        small_ = equal_ = false;
        CodesOut out{size_, bytes_, words_, nullptr, &small_, &equal_};
        out.equal = shape_.wide() ? nullptr : &equal_;
        return reader_.read(out);
    }
};

// One block back from its codes.
class Directions {
  public:
    Directions(const int16_t *table, const fewbits_spherical &how)
        : table_(table), how_(how), signs_(how.key) {}

    // `index` is how.limit for codes of a grid.
    void block(uint16_t radius, uint32_t index, uint64_t group, uint64_t first,
               std::span<const uint16_t> codes, double *y) {
        const size_t size = codes.size();
        const uint32_t level = radius - 1u;
        const int bits = how_.radius_bits;
        const int exponent = static_cast<int>(level >> bits) + how_.least_exponent;
        const double factor =
            1 + static_cast<double>(level & ((1u << bits) - 1)) * power_of_two(-bits);
        const bool narrow = how_.dtype != FEWBITS_FLOAT64;
        const double by = narrow ? power_of_two(exponent) : 1.0;
        if (index == how_.limit) {
            const double last = how_.steps;
            const double step = factor * (1 + power_of_two(-bits));
            for (size_t i = 0; i < size; ++i) {
                y[i] = (2 * (codes[i] - 1.0) - last) / last * step * by;
            }
        } else {
            direction(index, group, first, size, factor, by, y);
        }
        if (!narrow) {
            scale(exponent, size, y);
        }
    }

  private:
    const int16_t *table_;
    const fewbits_spherical &how_;
    SphereSigns signs_;

    void direction(uint32_t index, uint64_t group, uint64_t first, size_t size, double factor,
                   double by, double *y) {
        uint32_t flips[kSphereLargest / 32 + 1];
        for (size_t start = 0; start < size; start += 32) {
            const uint64_t element = first + start;
            const auto offset = static_cast<unsigned>(element % 32);
            flips[start / 32] = signs_.from(element);
            if (offset != 0 && size - start > 32 - offset) {
                flips[start / 32] |= signs_.from(element + 32 - offset) << (32 - offset);
            }
        }
        const uint64_t width = (size + 1) / 2;
        const Stream stream{{how_.key[0], how_.key[1], how_.key[2], how_.key[3]},
                            group << 32 | (index * width & UINT32_MAX)};
        const double rho = size == how_.block ? how_.rho : how_.last_rho;
        kernels().spherical.place({table_, stream, size, flips, factor * rho, by}, y);
    }

    // Times a power of two, which may be beyond float64's range. Products of the other formats are
    // far from its ends.
    static void scale(int exponent, size_t size, double *y) {
        constexpr double most = std::numeric_limits<double>::max();
        for (size_t i = 0; i < size; ++i) {
            y[i] = std::clamp(std::ldexp(y[i], exponent), -most, most);
        }
    }
};

// ---- all sections ----

bool is_live(uint16_t radius, const fewbits_spherical &how) {
    return radius != 0 && radius != how.nan_code;
}

class Reader {
  public:
    Reader(const int16_t *table, const fewbits_spherical &how, const fewbits_sections &sections,
           uint64_t count)
        : table_(table), how_(how), sections_(sections), count_(count),
          blocks_(count / how.block + (count % how.block != 0)) {}

    uint64_t blocks() const { return blocks_; }

    // Judges radii and indices as a whole, and finds the first index from block `begin` on.
    int survey(uint64_t begin) {
        uint64_t live = 0;
        uint64_t before = 0;
        const int status = count_live(begin, live, before);
        if (status != FEWBITS_OK) {
            return status;
        }
        RiceReader all(section(1), how_.parameter, live);
        indices_ = all;
        if (!all.fits()) {
            return FEWBITS_RICE_SHORT;
        }
        bool large = false;
        for (uint64_t number = 0; number < live; ++number) {
            uint32_t index = 0;
            if (!all.next(index)) {
                return FEWBITS_RICE_SHORT;
            }
            large = large || index > how_.limit;
            if (number + 1 == before) {
                indices_ = all;
            }
        }
        return !all.ended() ? FEWBITS_RICE_LEFT : large ? FEWBITS_RICE_LARGE : FEWBITS_OK;
    }

    int read(uint64_t begin, uint64_t end, uint8_t *out, uint64_t counts[2]) {
        CodeStream radii(section(0), blocks_, how_.nan_code + 1u);
        CodeStream escapes(section(2), count_, how_.steps + 2u);
        int status = radii.open();
        status = status == FEWBITS_OK ? escapes.open() : status;
        status = status == FEWBITS_OK ? skip(radii, begin) : status;
        status =
            status == FEWBITS_OK ? skip(escapes, std::min(begin * how_.block, count_)) : status;
        Directions directions(table_, how_);
        for (uint64_t block = begin; block < end && status == FEWBITS_OK; ++block) {
            const uint64_t first = block * how_.block;
            const auto size = static_cast<size_t>(std::min<uint64_t>(how_.block, count_ - first));
            uint16_t radius = 0;
            uint16_t codes[kSphereLargest];
            status = radii.next(1, &radius);
            status = status == FEWBITS_OK ? escapes.next(size, codes) : status;
            if (status == FEWBITS_OK) {
                double y[kSphereLargest];
                status = decode(directions, block, radius, {codes, size}, y, counts);
                write(y, size, out);
                out += size * item();
            }
        }
        return status;
    }

    size_t item() const {
        return how_.dtype == FEWBITS_FLOAT64 ? 8 : how_.dtype == FEWBITS_FLOAT32 ? 4 : 2;
    }

  private:
    const int16_t *table_;
    const fewbits_spherical &how_;
    const fewbits_sections &sections_;
    uint64_t count_, blocks_;
    RiceReader indices_{{}, 0, 0};

    ConstBytes section(int number) const {
        return {sections_.data[number], sections_.sizes[number]};
    }

    [[gnu::noinline]] int count_live(uint64_t begin, uint64_t &live, uint64_t &before) const {
        CodeStream radii(section(0), blocks_, how_.nan_code + 1u);
        int status = radii.open();
        for (uint64_t block = 0; block < blocks_ && status == FEWBITS_OK; ++block) {
            uint16_t radius = 0;
            status = radii.next(1, &radius);
            live += is_live(radius, how_);
            before += block < begin && is_live(radius, how_);
        }
        return status;
    }

    static int skip(CodeStream &stream, uint64_t count) {
        uint16_t codes[1024];
        int status = FEWBITS_OK;
        for (uint64_t done = 0; done < count && status == FEWBITS_OK; done += std::size(codes)) {
            status = stream.next(
                static_cast<size_t>(std::min<uint64_t>(std::size(codes), count - done)), codes);
        }
        return status;
    }

    int decode(Directions &directions, uint64_t block, uint16_t radius,
               std::span<const uint16_t> codes, double *y, uint64_t counts[2]) {
        const bool live = is_live(radius, how_);
        uint32_t index = 0;
        if (live && !indices_.next(index)) {
            return FEWBITS_RICE_SHORT; // the survey has found it already
        }
        const bool escaped = live && index == how_.limit;
        uint16_t some = 0;
        bool all = true;
        for (const uint16_t code : codes) {
            some |= code;
        }
        for (size_t i = 0; escaped && i < codes.size(); ++i) {
            all &= codes[i] != 0;
        }
        if (escaped ? !all : some != 0) {
            return FEWBITS_SPHERE_ESCAPES;
        }
        counts[1] += escaped;
        if (!live) {
            const bool bad = radius != 0;
            std::fill_n(y, codes.size(), bad ? std::numeric_limits<double>::quiet_NaN() : 0.0);
            counts[0] += bad ? codes.size() : 0;
            return FEWBITS_OK;
        }
        const bool whole = codes.size() == how_.block;
        const uint64_t group =
            whole ? block / kSphereGroup : (block + kSphereGroup - 1) / kSphereGroup;
        directions.block(radius, index, group, block * how_.block, codes, y);
        return FEWBITS_OK;
    }

    // What is beyond the largest number becomes it.
    void write(const double *y, size_t size, uint8_t *out) const {
        uint32_t beyond = 0;
        if (how_.dtype == FEWBITS_FLOAT32) {
            const auto to = output<uint32_t>(out, size);
            for (size_t i = 0; i < size; ++i) {
                const auto rounded = std::bit_cast<uint32_t>(static_cast<float>(y[i]));
                beyond |= (rounded & (Float32::sign - 1)) >= Float32::infinity;
                to[i] = rounded;
            }
        }
        if (how_.dtype != FEWBITS_FLOAT32 || beyond != 0) {
            fewbits_tally ignored{};
            cast_any(FEWBITS_FLOAT64, y, how_.dtype, out, size, ignored);
        }
    }
};

} // namespace
} // namespace fewbits

using namespace fewbits;

extern "C" int fewbits_spherical_decode(const int16_t *table, const fewbits_spherical *how,
                                        const fewbits_sections *sections, uint64_t count,
                                        uint64_t begin, uint64_t end, void *out,
                                        uint64_t counts[2]) {
    counts[0] = counts[1] = 0;
    if (!is_spherical(*how) || count > SIZE_MAX / 32) {
        return FEWBITS_BAD_ARGUMENT;
    }
    Reader reader(table, *how, *sections, count);
    if (begin > end || end > reader.blocks()) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const int status = reader.survey(begin);
    auto *const to = static_cast<uint8_t *>(out) + begin * how->block * reader.item();
    return status == FEWBITS_OK ? reader.read(begin, end, to, counts) : status;
}
