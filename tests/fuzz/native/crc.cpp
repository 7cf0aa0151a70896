// CRC-32C: both tables agree with the definition, and with every way of cutting the bytes in two.
#include "harness.h"

using namespace fuzz;

namespace {

uint32_t bit_by_bit(uint32_t crc, ConstBytes bytes) {
    crc = ~crc;
    for (const uint8_t byte : bytes) {
        crc ^= byte;
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
        }
    }
    return ~crc;
}

// The input repeated, its first byte another at each turn: long enough for the three-lane loop.
Buffer stretched(ConstBytes bytes, size_t size, unsigned offset) {
    Buffer buffer(size, offset);
    uint8_t turn = 0;
    for (size_t at = 0; at < size && !bytes.empty(); at += bytes.size()) {
        std::memcpy(buffer.data() + at, bytes.data(), std::min(bytes.size(), size - at));
        buffer.data()[at] ^= turn++;
    }
    return buffer;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const uint8_t control = input.byte();
    const auto start = static_cast<uint32_t>(input.number(4));
    const size_t wished = input.number(2);
    const size_t cut_wish = input.number(2);
    const ConstBytes rest = input.rest();
    const size_t length = (control & 24) == 24 ? wished % 7000 : rest.size();
    const Buffer buffer = stretched(rest, length, control & 7);
    const size_t cut = cut_wish % (length + 1);
    use_table(kPicked);
    const uint32_t whole = fewbits_crc32c(start, buffer.data(), length);
    const uint32_t first = fewbits_crc32c(start, buffer.data(), cut);
    const uint32_t second = fewbits_crc32c(0, buffer.data() + cut, length - cut);
    REQUIRE(fewbits_crc32c(first, buffer.data() + cut, length - cut) == whole);
    REQUIRE(fewbits_crc32c_combine(first, second, length - cut) == whole);
    if (length <= 256) {
        REQUIRE(whole == bit_by_bit(start, buffer.bytes()));
    }
    if (length <= 256 || start % 16 == 0) { // the portable table is slow on long inputs
        use_table(kPortable);
        REQUIRE(fewbits_crc32c(start, buffer.data(), length) == whole);
    }
    return 0;
}
