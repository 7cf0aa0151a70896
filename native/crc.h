// Arithmetic of CRC-32C as polynomials over GF(2), reflected: bit 31 is the coefficient of x^0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace fewbits {
namespace { // internal linkage: see random.h

constexpr uint32_t kCrcPolynomial = 0x82F63B78u;

constexpr uint32_t crc_multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
        product ^= (a & bit) ? b : 0u;
        b = (b >> 1) ^ ((b & 1) ? kCrcPolynomial : 0u);
    }
    return product;
}

// x^(8 * bytes): multiplying a CRC by it is appending that many zero bytes.
constexpr uint32_t crc_shift(uint64_t bytes) {
    uint32_t result = 1u << 31;
    uint32_t power = 1u << 23; // x^8
    for (; bytes != 0; bytes >>= 1) {
        result = (bytes & 1) ? crc_multiply(result, power) : result;
        power = crc_multiply(power, power);
    }
    return result;
}

// crc_multiply by a constant, a byte at a time.
using CrcShiftTable = std::array<std::array<uint32_t, 256>, 4>;

constexpr CrcShiftTable crc_shift_table(uint64_t bytes) {
    const uint32_t factor = crc_shift(bytes);
    CrcShiftTable table{};
    for (uint32_t at = 0; at < 4; ++at) {
        for (uint32_t bit = 0; bit < 8; ++bit) {
            table[at][size_t{1} << bit] = crc_multiply(factor, 1u << (8 * at + bit));
        }
        for (size_t byte = 1; byte < 256; ++byte) { // the rest by linearity
            table[at][byte] = table[at][byte & (byte - 1)] ^ table[at][byte & (~byte + 1)];
        }
    }
    return table;
}

} // namespace
} // namespace fewbits
