// The largest values of a long vector in parts, which several threads may do at the same time:
// where the threshold lies, which values reach it, and where they go again.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "places.h"
#include "rows.h"
#include "select.h"

namespace fewbits {
namespace {

constexpr size_t kPart = 4096; // values between two looks, which stay in the first cache
constexpr size_t kMostSamples = 16384;
constexpr size_t kBins = FEWBITS_KEY_BINS;

template <class F> constexpr auto kMask = static_cast<typename F::Bits>(F::sign - 1);

template <class Bits>
size_t near_keys(In<Bits> values, Bits mask, KeyBand<Bits> band, Bits *near, uint64_t &above) {
    if constexpr (sizeof(Bits) == 4) {
        return kernels().stages.near_keys(values, mask, band, near, above);
    } else {
        return near_any(values, mask, band, near, above);
    }
}

template <class Bits>
size_t take_keys(In<Bits> values, Bits mask, Bits threshold, uint64_t &ties, uint32_t *places,
                 Bits *taken) {
    if constexpr (sizeof(Bits) == 4) {
        return kernels().stages.take_keys(values, mask, threshold, ties, places, taken);
    } else {
        return take_any(values, mask, threshold, ties, places, taken);
    }
}

// A band that the k-th largest key is likely to lie in: all keys, if there are few values.
template <class F> void guess(In<typename F::Bits> values, size_t k, uint64_t band[2]) {
    using Bits = typename F::Bits;
    band[0] = 0;
    band[1] = kMask<F>;
    if (values.size() < kPart) {
        return;
    }
    Bits sample[kMostSamples];
    const size_t samples = std::clamp(values.size() / 256, size_t{512}, kMostSamples);
    for (size_t i = 0; i < samples; ++i) { // not at equal distances: values may be periodic
        const auto at = static_cast<uint32_t>(i * 0x9E3779B1u);
        const auto place = static_cast<size_t>((uint64_t{at} * values.size()) >> 32);
        sample[i] = static_cast<Bits>(values[place] & kMask<F>);
    }
    const double share = static_cast<double>(k) / static_cast<double>(values.size());
    const double mean = share * static_cast<double>(samples);
    // A miss costs one more pass, and happens once in a few hundred vectors.
    const double spread = 3.2 * std::sqrt(mean * (1 - share)) + 2;
    const auto reach = [&](double rank) {
        const auto own = sample + static_cast<size_t>(rank);
        std::nth_element(sample, own, sample + samples, std::greater<>());
        return *own;
    };
    if (mean + spread < static_cast<double>(samples)) {
        band[0] = reach(mean + spread);
    }
    if (mean >= spread) {
        band[1] = reach(mean - spread);
    }
}

// Keys in a band: a list, as long as there is room for all, or else their number in each bin.
template <class Bits> class NearKeys {
  public:
    NearKeys(KeyBand<Bits> band, Out<Bits> list, uint64_t *bins)
        : band_(band), list_(list), bins_(bins), listed_(band.low != band.high),
          shift_(std::max(
              0, static_cast<int>(std::bit_width(static_cast<uint64_t>(band.high - band.low))) -
                     kKeyBits)) {
        std::fill_n(bins, kBins, uint64_t{0});
    }

    void add(std::span<const Bits> keys) {
        if (listed_ && keys.size() > list_.size() - found_) {
            listed_ = false;
            for (const Bits key : list_.first(found_)) {
                count(key);
            }
        }
        if (listed_) {
            std::memcpy(list_.data() + found_, keys.data(), keys.size_bytes());
        } else if (band_.low != band_.high) {
            std::ranges::for_each(keys, [&](Bits key) { count(key); });
        }
        found_ += keys.size();
    }

    uint64_t found() const { return found_; }

  private:
    void count(Bits key) { ++bins_[static_cast<uint64_t>(key - band_.low) >> shift_]; }

    KeyBand<Bits> band_;
    Out<Bits> list_;
    uint64_t *bins_;
    bool listed_;
    int shift_;
    size_t found_ = 0;
};

template <class F>
void count_near(In<typename F::Bits> values, const uint64_t band[2], Out<typename F::Bits> list,
                uint64_t *bins, uint64_t counts[2]) {
    using Bits = typename F::Bits;
    const KeyBand<Bits> own = {static_cast<Bits>(band[0]), static_cast<Bits>(band[1])};
    NearKeys<Bits> near(own, list, bins);
    counts[0] = 0;
    for (size_t start = 0; start < values.size(); start += kPart) {
        Bits keys[kPart + kSlack];
        const auto part = values.subspan(start, std::min(kPart, values.size() - start));
        near.add({keys, near_keys<Bits>(part, kMask<F>, own, keys, counts[0])});
    }
    counts[1] = near.found();
}

// Of the values from one place on, those that are kept: how many, and where they and their places
// are written.
template <class F> class Keeper {
    using Bits = typename F::Bits;

  public:
    Keeper(const fewbits_chosen &how, const PlaceShape &shape, Bytes section, Out<Bits> out,
           uint64_t others)
        : how_(how), out_(out), others_(others), kept_listed_(how.k == shape.n),
          writer_(shape, section.data(), kept_listed_ ? how.before : how.first - how.before),
          ties_(how.ties) {}

    // False if there are more than there is room for, or fewer.
    bool part(In<Bits> values, uint64_t first) {
        uint32_t places[kPart + kSlack];
        Bits taken[kPart + kSlack];
        const size_t found = take_keys<Bits>(values, kMask<F>, static_cast<Bits>(how_.threshold),
                                             ties_, places, taken);
        const size_t others = values.size() - found;
        if (found > out_.size() - done_ || others > others_) {
            return false;
        }
        others_ -= others;
        std::memcpy(out_.data() + done_, taken, found * sizeof(Bits));
        done_ += found;
        nonfinite_ += static_cast<uint64_t>(std::count_if(taken, taken + found, [](Bits value) {
            return static_cast<Bits>(value & kMask<F>) >= F::infinity;
        }));
        if (kept_listed_) {
            for (size_t i = 0; i < found; ++i) {
                writer_.put(first + places[i]);
            }
        } else {
            size_t next = 0;
            for (size_t i = 0; i <= found; ++i) {
                for (const size_t end = i < found ? places[i] : values.size(); next < end; ++next) {
                    writer_.put(first + next);
                }
                ++next;
            }
        }
        return true;
    }

    bool full() const { return done_ == out_.size(); }
    uint64_t nonfinite() const { return nonfinite_; }

  private:
    const fewbits_chosen &how_;
    Out<Bits> out_;
    uint64_t others_; // that are not kept
    bool kept_listed_;
    PlaceWriter writer_;
    uint64_t ties_;
    size_t done_ = 0;
    uint64_t nonfinite_ = 0;
};

template <class F>
int keep(In<typename F::Bits> values, const fewbits_chosen &how, Bytes section, void *kept,
         size_t room, uint64_t *nonfinite) {
    const PlaceShape shape(how.d, std::min(how.k, how.d - how.k));
    if (section.size() != shape.bytes()) {
        return FEWBITS_BAD_SIZE;
    }
    Keeper<F> keeper(how, shape, section, output<typename F::Bits>(kept, room),
                     values.size() - room);
    for (size_t start = 0; start < values.size(); start += kPart) {
        const auto part = values.subspan(start, std::min(kPart, values.size() - start));
        if (!keeper.part(part, how.first + start)) {
            return FEWBITS_BAD_ARGUMENT;
        }
    }
    *nonfinite = keeper.nonfinite();
    return keeper.full() ? FEWBITS_OK : FEWBITS_BAD_ARGUMENT;
}

// ---- the way back ----

template <class T> struct Replace {
    static void zero(Out<T> values) { std::memset(values.data(), 0, values.size_bytes()); }
    static void copy(In<T> from, Out<T> to) {
        std::memcpy(to.data(), from.data(), from.size_bytes());
    }
    static void put(Unaligned<T> &value, T own) { value = own; }
};

template <class T> struct Add {
    static void zero(Out<T>) {}
    static void copy(In<T> from, Out<T> to) {
        for (size_t i = 0; i < from.size(); ++i) {
            to[i] = to[i] + from[i];
        }
    }
    static void put(Unaligned<T> &value, T own) { value = value + own; }
};

// Puts kept values to their places: those of a range of listed places and up to the next one.
template <class T, class Put> class Spreader {
  public:
    Spreader(const PlaceShape &shape, const uint8_t *section, In<T> kept, Out<T> out)
        : shape_(shape), reader_(shape, section), kept_(kept), out_(out) {}

    int run(uint64_t first, uint64_t last) {
        uint32_t edge = 0;
        PlaceReader ahead = reader_; // one of these places is the end of this range
        uint64_t end = shape_.d;
        if (last < shape_.n) {
            if (!ahead.seek(last) || !ahead.read({&edge, 1})) {
                return FEWBITS_BAD_PLACES;
            }
            end = edge;
        }
        if (!reader_.seek(first)) {
            return FEWBITS_BAD_PLACES;
        }
        if (first > 0) {
            PlaceReader begin = reader_;
            if (!begin.read({&edge, 1})) {
                return FEWBITS_BAD_PLACES;
            }
            done_ = edge;
        }
        return each(last, end);
    }

  private:
    int each(uint64_t last, uint64_t end) {
        uint32_t places[kPart / 4];
        while (reader_.index() < last) {
            const uint64_t index = reader_.index();
            const std::span<uint32_t> own{places, std::min<size_t>(kPart / 4, last - index)};
            if (!reader_.read(own) || own.back() >= end) {
                return FEWBITS_BAD_PLACES;
            }
            kept_.size() == shape_.n ? scatter(own, index, end) : fill(own, index);
        }
        if (last == shape_.n && !reader_.ends()) {
            return FEWBITS_BAD_PLACES;
        }
        kept_.size() == shape_.n ? clear(end) : copy(end, last);
        return FEWBITS_OK;
    }

    // The listed places are kept: zeros elsewhere, a part at a time.
    void scatter(std::span<const uint32_t> places, uint64_t index, uint64_t end) {
        for (size_t i = 0; i < places.size(); ++i) {
            if (places[i] >= done_) {
                // Far ahead there may be nothing for long.
                clear(std::min(end, std::max(uint64_t{places[i]} + 1, done_ + kPart)));
            }
            Put::put(out_[places[i]], kept_[index + i]);
        }
    }
    // The others are kept.
    void fill(std::span<const uint32_t> places, uint64_t index) {
        for (size_t i = 0; i < places.size(); ++i) {
            copy(places[i], index + i);
            Put::zero(out_.subspan(places[i], 1));
            done_ = uint64_t{places[i]} + 1;
        }
    }
    void clear(uint64_t end) {
        Put::zero(out_.subspan(done_, end - done_));
        done_ = end;
    }
    void copy(uint64_t end, uint64_t before) {
        Put::copy(kept_.subspan(done_ - before, end - done_), out_.subspan(done_, end - done_));
        done_ = end;
    }

    PlaceShape shape_;
    PlaceReader reader_;
    In<T> kept_;
    Out<T> out_;
    uint64_t done_ = 0;
};

template <class T, class Put>
int spread(const fewbits_spread_task &task, const uint8_t *section, const void *kept, void *out) {
    const PlaceShape shape(task.d, std::min(task.k, task.d - task.k));
    return Spreader<T, Put>(shape, section, input<T>(kept, task.k), output<T>(out, task.d))
        .run(task.first, task.last);
}

} // namespace
} // namespace fewbits

using namespace fewbits;

extern "C" {

int fewbits_guess_keys(const void *values, int dtype, size_t count, size_t k, uint64_t band[2]) {
    if (k == 0 || k > count) {
        return FEWBITS_BAD_ARGUMENT;
    }
    return with_format(dtype, [&]<class F>(F) -> int {
        guess<F>(input<typename F::Bits>(values, count), k, band);
        return FEWBITS_OK;
    });
}

int fewbits_near_keys(const void *values, int dtype, size_t count, const uint64_t band[2],
                      void *near, size_t room, uint64_t *bins, uint64_t counts[2]) {
    return with_format(dtype, [&]<class F>(F) -> int {
        if (band[0] > band[1] || band[1] > kMask<F>) {
            return FEWBITS_BAD_ARGUMENT;
        }
        using Bits = typename F::Bits;
        count_near<F>(input<Bits>(values, count), band, output<Bits>(near, room), bins, counts);
        return FEWBITS_OK;
    });
}

int fewbits_keep(const void *values, int dtype, size_t count, const fewbits_chosen *how,
                 uint8_t *section, size_t size, void *kept, size_t room, uint64_t *nonfinite) {
    if (how->k >= how->d || how->k == 0 || how->d > kMostPlaces || how->first > how->d ||
        count > how->d - how->first || how->before > how->first || how->before > how->k ||
        room > how->k - how->before || room > count ||
        how->first - how->before + count - room > how->d - how->k) {
        return FEWBITS_BAD_ARGUMENT;
    }
    return with_format(dtype, [&]<class F>(F) -> int {
        return keep<F>(input<typename F::Bits>(values, count), *how, {section, size}, kept, room,
                       nonfinite);
    });
}

int fewbits_spread(const fewbits_spread_task *task, const uint8_t *section, size_t size,
                   const void *kept, void *values) {
    if (task->k >= task->d || task->k == 0 || task->d > kMostPlaces) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const uint64_t n = std::min(task->k, task->d - task->k);
    if (size != PlaceShape(task->d, n).bytes()) {
        return FEWBITS_BAD_SIZE;
    }
    if (task->first > task->last || task->last > n || (task->first == task->last && n > 0)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    switch (task->item + 16 * task->add) {
    case 2:
        return spread<uint16_t, Replace<uint16_t>>(*task, section, kept, values);
    case 4:
        return spread<uint32_t, Replace<uint32_t>>(*task, section, kept, values);
    case 8:
        return spread<uint64_t, Replace<uint64_t>>(*task, section, kept, values);
    case 16 + 4:
        return spread<float, Add<float>>(*task, section, kept, values);
    case 16 + 8:
        return spread<double, Add<double>>(*task, section, kept, values);
    default:
        return FEWBITS_BAD_ARGUMENT;
    }
}
}
