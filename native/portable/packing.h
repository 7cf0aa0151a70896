// Codes of a fixed width, least significant bit first.
#pragma once

#include <algorithm>

#include "kernels.h"

namespace fewbits {
namespace { // internal linkage: see random.h

[[maybe_unused]] void pack(std::span<const uint16_t> codes, int width, Bytes packed) {
    uint64_t pending = 0;
    int bits = 0;
    uint8_t *to = packed.data();
    for (const uint16_t code : codes) {
        pending |= uint64_t{code} << bits;
        bits += width;
        if (bits >= 32) {
            std::memcpy(to, &pending, 4);
            to += 4;
            pending >>= 32;
            bits -= 32;
        }
    }
    for (; bits > 0; bits -= 8, pending >>= 8) {
        *to++ = static_cast<uint8_t>(pending);
    }
}

// The next code of `width` bits; `pending` holds what was read and not yet used.
inline uint16_t next_code(ConstBytes packed, int width, size_t &at, uint64_t &pending, int &bits) {
    if (bits < width && packed.size() - at >= 4) {
        uint32_t word;
        std::memcpy(&word, packed.data() + at, 4);
        pending |= uint64_t{word} << bits;
        at += 4;
        bits += 32;
    }
    for (; bits < width; bits += 8) {
        pending |= uint64_t{packed[at++]} << bits;
    }
    const auto code = static_cast<uint16_t>(pending & ((uint64_t{1} << width) - 1));
    pending >>= width;
    bits -= width;
    return code;
}

[[maybe_unused]] fewbits_status unpack(ConstBytes packed, int width, uint32_t bound,
                                       std::span<uint16_t> codes) {
    uint64_t pending = 0;
    int bits = 0;
    size_t at = 0;
    uint32_t largest = 0;
    for (uint16_t &code : codes) {
        code = width == 8 ? packed[at++] : next_code(packed, width, at, pending, bits);
        largest = std::max<uint32_t>(largest, code);
    }
    if (pending != 0) {
        return FEWBITS_BAD_PADDING;
    }
    return largest < bound ? FEWBITS_OK : FEWBITS_BAD_CODE;
}

} // namespace
} // namespace fewbits
