// Unpacking of fixed-width codes: the status and the codes are those of reading bit by bit, and
// packing gives the bytes back.
#include <vector>

#include "harness.h"

using namespace fuzz;

namespace {

struct Case {
    int width;
    uint32_t bound;
    size_t count;
    Buffer packed;
};

Case read_case(Input &input) {
    const uint8_t control = input.byte();
    const int width = control % 19 - 1; // -1, 0, 17: outside
    const auto bound = static_cast<uint32_t>(input.number(3));
    const uint8_t fewer = input.byte();
    const ConstBytes rest = input.rest();
    const size_t bits = static_cast<size_t>(std::max(width, 1));
    const size_t most = rest.size() * 8 / bits;
    size_t count = most - std::min<size_t>(most, fewer % 16);
    size_t size = (fewer & 16) != 0 ? rest.size() : packed_size(count, static_cast<int>(bits));
    if (fewer == 255) {
        count = SIZE_MAX - control; // a count that no buffer has
    }
    return {width, bound, count, Buffer(rest.first(std::min(size, rest.size())), control >> 5)};
}

int expected_status(const Case &c) {
    if (c.width < 1 || c.width > 16 || c.bound < 1 || c.bound > (1u << c.width)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    if (c.count > SIZE_MAX / 16 || c.packed.size() != packed_size(c.count, c.width)) {
        return FEWBITS_BAD_SIZE;
    }
    if (!padding_is_zero(c.packed.bytes(), c.count, c.width)) {
        return FEWBITS_BAD_PADDING;
    }
    for (size_t i = 0; i < c.count; ++i) {
        if (field(c.packed.bytes(), i, c.width) >= c.bound) {
            return FEWBITS_BAD_CODE;
        }
    }
    return FEWBITS_OK;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const Case c = read_case(input);
    const int status = expected_status(c);
    const bool sized = status != FEWBITS_BAD_ARGUMENT && status != FEWBITS_BAD_SIZE;
    with_each_table([&](int) {
        std::vector<uint16_t> codes(sized ? c.count : 0);
        REQUIRE(fewbits_unpack(c.packed.data(), c.packed.size(), c.width, c.bound, codes.data(),
                               c.count) == status);
        if (status != FEWBITS_OK) {
            return;
        }
        for (size_t i = 0; i < c.count; ++i) {
            REQUIRE(codes[i] == field(c.packed.bytes(), i, c.width));
        }
        const Buffer again(c.packed.size(), 3);
        REQUIRE(fewbits_pack(codes.data(), c.count, c.width, again.data(), again.size()) ==
                FEWBITS_OK);
        REQUIRE(again == c.packed);
    });
    return 0;
}
