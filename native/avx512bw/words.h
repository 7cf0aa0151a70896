// Words of a random stream, sixteen at a time.
#pragma once

#include "avx512bw/avx512.h"

namespace fewbits {
namespace { // internal linkage: see random.h

inline Wide wide_pinned(uint32_t x) { // as avx2.h has it
    Wide vector = all_wide(x);
    asm("" : "+v"(vector));
    return vector;
}

// Sixteen consecutive words a call, within one segment.
class WideWords {
  public:
    explicit WideWords(const Stream &stream)
        : WideWords(Segment(stream.key, static_cast<uint32_t>(stream.first >> 32)),
                    static_cast<uint32_t>(stream.first)) {}
    WideWords(const Segment &segment, uint32_t first) : k1(wide_pinned(segment.k1)) {
        const Wide places = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        const Wide low = _mm512_add_epi32(all_wide(first), places);
        counter = _mm512_add_epi32(_mm512_mullo_epi32(low, all_wide(kStep)), all_wide(segment.k0));
    }

    Wide next() {
        const Wide x = mixed();
        return _mm512_xor_si512(x, _mm512_srli_epi32(x, 16));
    }

    // All bits of the words are inverted.
    Wide next_inverted() {
        const Wide x = mixed();
        return _mm512_ternarylogic_epi32(x, x, _mm512_srli_epi32(x, 16), 0x99); // not (b xor c)
    }

  private:
    Wide counter;
    const Wide k1, step = wide_pinned(16 * kStep), multiply1 = wide_pinned(kMultiply1),
                   multiply2 = wide_pinned(kMultiply2);

    Wide mixed() {
        Wide x = counter;
        counter = _mm512_add_epi32(counter, step);
        x = _mm512_mullo_epi32(_mm512_xor_si512(x, _mm512_srli_epi32(x, 16)), multiply1);
        x = _mm512_add_epi32(x, k1);
        return _mm512_mullo_epi32(_mm512_xor_si512(x, _mm512_srli_epi32(x, 15)), multiply2);
    }
};

} // namespace
} // namespace fewbits
