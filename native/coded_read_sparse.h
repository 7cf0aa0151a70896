// Sparse blocks, as a reader takes them: the codes that are not 0 stand in a block of their own.
#pragma once

#include <bit>
#include <numeric>

#include "coded_parts.h"

namespace fewbits {
namespace { // internal linkage: see random.h

// A block of one form, without its signs; where it is `revised` it may be of the kinds of wire
// version 2 only.
fewbits_status read_alike(const CodedShape &shape, ConstBytes &data, bool revised,
                          const CodesOut &codes);

// The mask of a sparse block's codes that are not 0: a block of bytes with its length before it.
fewbits_status read_mask(ConstBytes &data, size_t count, bool revised, uint8_t *bits) {
    uint32_t length = 0;
    if (data.size() < kLengthSize) {
        return FEWBITS_CODED_SHORT;
    }
    std::memcpy(&length, data.data(), kLengthSize);
    data = data.subspan(kLengthSize);
    if (length > data.size()) {
        return FEWBITS_CODED_SHORT;
    }
    ConstBytes block = data.first(length);
    data = data.subspan(length);
    const size_t size = packed_size(count, 1);
    const auto status =
        read_alike({size, 256, false}, block, revised, {size, bits, nullptr, nullptr});
    if (status != FEWBITS_OK) {
        return status;
    }
    if (!block.empty()) {
        return FEWBITS_CODED_LONG;
    }
    const bool padded = count % 8 != 0 && bits[size - 1] >> (count % 8) != 0;
    return padded ? FEWBITS_BAD_PADDING : FEWBITS_OK;
}

fewbits_status read_masked(const CodedShape &shape, ConstBytes &data, bool revised,
                           const CodesOut &codes) {
    if (shape.wide()) {
        return FEWBITS_CODED_KIND;
    }
    uint8_t bits[kMostPlane];
    auto status = read_mask(data, codes.count, revised, bits);
    if (status != FEWBITS_OK) {
        return status;
    }
    const size_t plane_size = packed_size(codes.count, 1);
    const size_t nonzero =
        std::accumulate(bits, bits + plane_size, size_t{0}, [](size_t sum, uint8_t byte) {
            return sum + static_cast<size_t>(std::popcount(byte));
        });
    uint8_t dense[kCodedBlock + kSlack];
    if (nonzero > 0) {
        status = read_alike(shape, data, revised, {nonzero, dense, nullptr, nullptr});
        if (status != FEWBITS_OK) {
            return status;
        }
        if (std::memchr(dense, 0, nonzero) != nullptr) {
            return FEWBITS_CODED_ZERO;
        }
    }
    std::memset(dense + nonzero, 0, kSlack); // read, never used
    kernels().coder.spread_bytes({dense, nonzero + kSlack}, {bits, plane_size},
                                 {codes.bytes, codes.count});
    return FEWBITS_OK;
}

fewbits_status read_gaps(const CodedShape &shape, ConstBytes &data, const CodesOut &codes) {
    if (data.size() < 2) {
        return FEWBITS_CODED_SHORT;
    }
    const size_t nonzero = data[0] | size_t{data[1]} << 8;
    data = data.subspan(2);
    if (nonzero == 0 || nonzero * kGapShare > codes.count) {
        return FEWBITS_CODED_GAPS;
    }
    uint32_t places[kMostGaps];
    auto status = read_places(data, codes.count, {places, nonzero});
    if (status != FEWBITS_OK) {
        return status;
    }
    uint8_t dense[kMostGaps];
    uint16_t words[kMostGaps];
    bool small = !shape.wide();
    status = read_alike(shape, data, true,
                        {nonzero, dense, words, nullptr, shape.wide() ? &small : nullptr});
    if (status != FEWBITS_OK) {
        return status;
    }
    std::memset(codes.bytes, 0, codes.count);
    if (small) {
        if (std::memchr(dense, 0, nonzero) != nullptr) {
            return FEWBITS_CODED_ZERO;
        }
        for (size_t i = 0; i < nonzero; ++i) {
            codes.bytes[places[i]] = dense[i];
        }
    }
    if (!shape.wide()) {
        return FEWBITS_OK;
    }
    if (small && codes.small != nullptr) {
        *codes.small = true;
        return FEWBITS_OK;
    }
    std::fill_n(codes.words, codes.count, uint16_t{0});
    bool zero = false;
    for (size_t i = 0; i < nonzero; ++i) {
        const uint16_t code = small ? dense[i] : words[i];
        zero |= code == 0;
        codes.words[places[i]] = code;
        codes.bytes[places[i]] = 1;
    }
    return zero ? FEWBITS_CODED_ZERO : FEWBITS_OK;
}

} // namespace
} // namespace fewbits
