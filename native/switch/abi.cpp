// The C interface of the switch's arithmetic: checks, then the table of kernels.
#include <algorithm>

#include "kernels.h"
#include "switch/arithmetic.h"

using namespace fewbits;

namespace {

constexpr int32_t kLowestBottom = -126; // float32 has no smaller normal power

Stream stream_of(const uint32_t key[4], uint64_t first) {
    return {{key[0], key[1], key[2], key[3]}, first};
}

} // namespace

extern "C" {

int fewbits_switch_encode(const uint32_t *values, size_t count, const uint32_t key[4],
                          uint64_t first, const fewbits_switch_span *span, uint8_t *codes,
                          fewbits_switch_tally *tally) {
    if (span->bottom < kLowestBottom || span->most < 1 || span->most > 63 ||
        span->bottom + static_cast<int32_t>(span->most) > 127) {
        return FEWBITS_BAD_ARGUMENT;
    }
    *tally = {};
    const SwitchSpan own{static_cast<uint32_t>(127 + span->bottom), span->most};
    kernels().switching.encode({values, count}, stream_of(key, first), own, codes, *tally);
    return FEWBITS_OK;
}

int fewbits_switch_add(const uint8_t *codes, size_t count, uint32_t most, int64_t *sums, int add) {
    if (most > 63) {
        return FEWBITS_BAD_ARGUMENT;
    }
    const SwitchKernels &own = kernels().switching;
    if (!own.check({codes, count}, most)) {
        return FEWBITS_BAD_CODE;
    }
    (add != 0 ? own.add : own.set)({codes, count}, sums);
    return FEWBITS_OK;
}

int fewbits_switch_round(const int64_t *sums, size_t count, const uint32_t key[4], uint64_t first,
                         uint8_t *codes) {
    kernels().switching.round({sums, count}, stream_of(key, first), codes);
    return FEWBITS_OK;
}

int fewbits_switch_decode(const uint8_t *codes, size_t count, uint32_t most, const uint32_t *table,
                          uint32_t *values) {
    if (most > kSwitchMostSum) {
        return FEWBITS_BAD_ARGUMENT;
    }
    if (!kernels().switching.check({codes, count}, most)) {
        return FEWBITS_BAD_CODE;
    }
    kernels().switching.decode({codes, count}, table, values);
    return FEWBITS_OK;
}

} // extern "C"
