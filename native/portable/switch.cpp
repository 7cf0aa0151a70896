// The arithmetic of in-network aggregation without a floating-point unit: this file is compiled for
// general registers alone, so that no compiler can bring one in.
#include <bit>

#include "portable/portable.h"
#include "random.h"

namespace fewbits {
namespace {

constexpr uint64_t kDeepWords = uint64_t{1} << 63; // where the words for the low end begin
constexpr uint32_t kInfinity = 0x7F800000u;

uint32_t word_at(const Stream &stream, uint64_t index) {
    return Segment(stream.key, static_cast<uint32_t>(index >> 32))
        .word(static_cast<uint32_t>(index));
}

// True with probability 2^-depth: the lowest bits of four words are all zero.
bool survives(const Stream &stream, uint64_t element, uint32_t depth) {
    for (uint32_t j = 0; j < 4 && depth > 0; ++j) {
        const uint32_t bits = depth < 32 ? depth : 32;
        const uint32_t mask = bits == 32 ? UINT32_MAX : (uint32_t{1} << bits) - 1;
        if ((word_at(stream, kDeepWords + 4 * element + j) & mask) != 0) {
            return false;
        }
        depth -= bits;
    }
    return true;
}

uint8_t encode_one(uint32_t bits, const Stream &stream, uint64_t element, const SwitchSpan &span,
                   fewbits_switch_tally &tally) {
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude == 0) {
        return 0;
    }
    if (magnitude >= kInfinity) {
        ++tally.nonfinite;
        return 0;
    }
    uint32_t exponent = (magnitude + (word_at(stream, element) >> 9)) >> 23;
    if (magnitude < span.lowest << 23) {
        ++tally.below;
        if (exponent == 0 ||
            (exponent < span.lowest && !survives(stream, element, span.lowest - exponent))) {
            return 0;
        }
        exponent = span.lowest;
    }
    uint32_t code = exponent - span.lowest + 1;
    if (code > span.most) {
        ++tally.saturated;
        code = span.most;
    }
    return static_cast<uint8_t>(code | (bits >> 24 & kSwitchSign));
}

void encode(std::span<const uint32_t> values, const Stream &stream, const SwitchSpan &span,
            uint8_t *codes, fewbits_switch_tally &tally) {
    for (size_t i = 0; i < values.size(); ++i) {
        codes[i] = encode_one(values[i], stream, stream.first + i, span, tally);
    }
}

bool check(std::span<const uint8_t> codes, uint32_t most) {
    bool fine = true;
    for (const uint8_t code : codes) {
        fine &= (code & kSwitchMagnitude) <= most && code != kSwitchSign;
    }
    return fine;
}

// 0 or plus or minus 2^(code - 1).
int64_t integer(uint8_t code) {
    const uint32_t magnitude = code & kSwitchMagnitude;
    const uint64_t power = magnitude == 0 ? 0 : uint64_t{1} << (magnitude - 1);
    const auto value = static_cast<int64_t>(power);
    return (code & kSwitchSign) != 0 ? -value : value;
}

void set(std::span<const uint8_t> codes, int64_t *sums) {
    for (size_t i = 0; i < codes.size(); ++i) {
        sums[i] = integer(codes[i]);
    }
}

void add(std::span<const uint8_t> codes, int64_t *sums) {
    for (size_t i = 0; i < codes.size(); ++i) {
        sums[i] += integer(codes[i]);
    }
}

// A random number below the sum's top bit is added; the carry into the next bit is the rounding.
uint8_t round_one(int64_t sum, const Stream &stream, uint64_t element) {
    if (sum == 0) {
        return 0;
    }
    const uint64_t magnitude = sum < 0 ? -static_cast<uint64_t>(sum) : static_cast<uint64_t>(sum);
    const auto width = static_cast<int>(std::bit_width(magnitude));
    const uint64_t low = word_at(stream, 2 * element);
    const uint64_t high = word_at(stream, 2 * element + 1);
    const uint64_t below = (uint64_t{1} << (width - 1)) - 1;
    const uint64_t raised = magnitude + ((high << 32 | low) & below);
    const auto code = static_cast<uint32_t>(std::bit_width(raised));
    return static_cast<uint8_t>(code | (sum < 0 ? kSwitchSign : 0));
}

void round(std::span<const int64_t> sums, const Stream &stream, uint8_t *codes) {
    for (size_t i = 0; i < sums.size(); ++i) {
        codes[i] = round_one(sums[i], stream, stream.first + i);
    }
}

void decode(std::span<const uint8_t> codes, const uint32_t *table, uint32_t *values) {
    for (size_t i = 0; i < codes.size(); ++i) {
        values[i] = table[codes[i]];
    }
}

} // namespace

constinit const SwitchKernels portable_switching = {encode, check, set, add, round, decode};

} // namespace fewbits
