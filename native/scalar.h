// The portable kernels that have a file of their own.
#pragma once

#include "kernels.h"
#include "rans.h"

namespace fewbits {

struct CodedScalar {
    static void count_symbols(ConstBytes symbols, Histogram &counts);
    static uint8_t *rans_encode(ConstBytes symbols, const RansEncodeTable &table,
                                std::span<uint32_t> states, Bytes room);
    static const uint8_t *rans_decode(ConstBytes data, const RansDecodeTable &table,
                                      std::span<uint32_t> states, Bytes symbols);
    static size_t nonzero(ConstBytes symbols, Bytes mask);
    static void join_bits(ConstBytes plane, ConstBytes mask, Bytes joined);
    static void spread_bits(ConstBytes joined, ConstBytes mask, Bytes plane);
    static void join_bytes(ConstBytes codes, ConstBytes mask, Bytes joined);
    static void spread_bytes(ConstBytes joined, ConstBytes mask, Bytes codes);
};

} // namespace fewbits
