// Paths of a trellis with NEON: the 32 lanes of a block are the bytes of two vectors.
#include "kernels.h"

#if defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)

#include "neon/neon.h"
#include "trellis_search.h"

namespace fewbits {
namespace {

// 32 bytes.
struct Lanes {
    uint8x16_t low, high;

    static Lanes all(int x) {
        const uint8x16_t each = vdupq_n_u8(static_cast<uint8_t>(x));
        return {each, each};
    }
    static Lanes kept(int x) { return all(x); }
    static Lanes at(const uint8_t *from) { return {load(from), load(from + kGroup)}; }
    void put(uint8_t *to) const {
        store(to, low);
        store(to + kGroup, high);
    }
};

uint8x16_t negative(uint8x16_t a) { return vcltzq_s8(vreinterpretq_s8_u8(a)); }

Lanes operator+(Lanes a, Lanes b) { return {vaddq_u8(a.low, b.low), vaddq_u8(a.high, b.high)}; }
Lanes operator-(Lanes a, Lanes b) { return {vsubq_u8(a.low, b.low), vsubq_u8(a.high, b.high)}; }
Lanes operator&(Lanes a, Lanes b) { return {vandq_u8(a.low, b.low), vandq_u8(a.high, b.high)}; }
Lanes magnitude(Lanes a) {
    const auto of = [](uint8x16_t x) {
        return vreinterpretq_u8_s8(vabsq_s8(vreinterpretq_s8_u8(x)));
    };
    return {of(a.low), of(a.high)};
}
Lanes negative(Lanes a) { return {negative(a.low), negative(a.high)}; }
Lanes zero(Lanes a) { return {vceqzq_u8(a.low), vceqzq_u8(a.high)}; }
Lanes chosen(Lanes sign, Lanes a, Lanes b) {
    return {vbslq_u8(negative(sign.low), a.low, b.low),
            vbslq_u8(negative(sign.high), a.high, b.high)};
}
Lanes with_sign(Lanes a, Lanes b) { return chosen(b, Lanes::all(0) - a, a); }
Lanes looked_up(const uint8_t *table, Lanes places) {
    const uint8x16_t bytes = load(table);
    return {vqtbl1q_u8(bytes, places.low), vqtbl1q_u8(bytes, places.high)};
}
Lanes up(Lanes a) { return {vshlq_n_u8(a.low, 4), vshlq_n_u8(a.high, 4)}; }
Lanes down(Lanes a) { return {vshrq_n_u8(a.low, 4), vshrq_n_u8(a.high, 4)}; }

void search(ConstBytes places, size_t lanes, int states, Bytes labels) {
    if (lanes != kPaths) {
        return portable_trellis.search(places, lanes, states, labels);
    }
    search_all_lanes<Lanes>(places, states, labels);
}

} // namespace

constinit const TrellisKernels neon_trellis = {
    .fix = nullptr,
    .search = search,
    .settle = nullptr,
    .sums = nullptr,
    .fold = nullptr,
    .decode = nullptr,
    .values = nullptr,
};

} // namespace fewbits

#endif
