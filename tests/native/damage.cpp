// Every damage of a few kinds to good frames, and random damage to them: what refuses a frame, its
// structure and its checksum, must refuse all. `tests/soaking/damage.py` builds and runs it.
//
//     damage RANDOM SEED FILE...
//
// prints how many were tried and how many were accepted, each of which is an error.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "fewbits.h"

namespace {

using Bytes = std::vector<uint8_t>;

struct Counts {
    uint64_t tried = 0, accepted = 0;
};

bool accepts(const uint8_t *data, size_t size) {
    fewbits_frame frame;
    uint64_t detail[2];
    return fewbits_frame_parse(data, size, uint64_t{1} << 28, &frame, detail) == FEWBITS_OK &&
           fewbits_crc32c(0, data, size - 4) == frame.crc;
}

void judge(Counts &counts, const uint8_t *data, size_t size) {
    ++counts.tried;
    counts.accepted += accepts(data, size);
}

void judge(Counts &counts, const Bytes &bytes) { judge(counts, bytes.data(), bytes.size()); }

// Prefixes, flips of a bit, a byte left out, a byte twice, up to 16 bytes more.
void exhaust(Counts &counts, const Bytes &good) {
    for (size_t size = 0; size < good.size(); ++size) {
        judge(counts, good.data(), size);
    }
    Bytes bytes = good;
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
        bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
        judge(counts, bytes);
        bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    }
    for (size_t at = 0; at < good.size(); ++at) {
        const auto place = static_cast<ptrdiff_t>(at);
        Bytes shorter = good, longer = good;
        shorter.erase(shorter.begin() + place);
        longer.insert(longer.begin() + place, good[at]);
        judge(counts, shorter);
        judge(counts, longer);
    }
    for (const uint8_t filler : {uint8_t{0}, uint8_t{255}, good.back()}) {
        bytes = good;
        for (int more = 1; more <= 16; ++more) {
            bytes.push_back(filler);
            judge(counts, bytes);
        }
    }
}

class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t below(uint64_t bound) { // splitmix64
        uint64_t z = state_ += 0x9E3779B97F4A7C15u;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
        z = (z ^ z >> 27) * 0x94D049BB133111EBu;
        return (z ^ z >> 31) % bound;
    }

  private:
    uint64_t state_;
};

void flip(Bytes &bytes, uint64_t bit) { bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8); }

// Two bits anywhere, or a burst: its ends flipped and what is between them at random.
void scatter(Counts &counts, Bytes &bytes, Random &random) {
    const uint64_t bits = 8 * bytes.size();
    std::vector<uint64_t> flipped;
    const uint64_t first = random.below(bits);
    flipped.push_back(first);
    if (random.below(2) == 0) {
        flipped.push_back((first + 1 + random.below(bits - 1)) % bits);
    } else {
        const uint64_t length = std::min<uint64_t>(1 + random.below(32), bits - first);
        const uint64_t pattern = random.below(uint64_t{1} << 32);
        for (uint64_t i = 1; i < length; ++i) {
            if (i + 1 == length || (pattern >> i & 1) != 0) {
                flipped.push_back(first + i);
            }
        }
    }
    for (const uint64_t bit : flipped) {
        flip(bytes, bit);
    }
    judge(counts, bytes);
    for (const uint64_t bit : flipped) {
        flip(bytes, bit);
    }
}

} // namespace

int main(int count, char **words) {
    if (count < 4) {
        return 2;
    }
    const uint64_t wanted = std::strtoull(words[1], nullptr, 10);
    Random random(std::strtoull(words[2], nullptr, 10));
    std::vector<Bytes> frames;
    for (int i = 3; i < count; ++i) {
        std::ifstream file(words[i], std::ios::binary);
        frames.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
        if (!accepts(frames.back().data(), frames.back().size())) {
            std::fprintf(stderr, "%s is not a good frame\n", words[i]);
            return 1;
        }
    }
    Counts every, some;
    for (const Bytes &frame : frames) {
        exhaust(every, frame);
    }
    for (uint64_t i = 0; i < wanted; ++i) {
        scatter(some, frames[i % frames.size()], random);
    }
    std::printf("exhaustive=%llu random=%llu accepted=%llu frames=%zu\n",
                static_cast<unsigned long long>(every.tried),
                static_cast<unsigned long long>(some.tried),
                static_cast<unsigned long long>(every.accepted + some.accepted), frames.size());
    return every.accepted + some.accepted == 0 ? 0 : 1;
}
