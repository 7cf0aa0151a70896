// Places: every set fits the room that its size gives it and comes back; any bytes are ascending
// places or an error.
#include <bit>
#include <vector>

#include "harness.h"

using namespace fuzz;

namespace {

using Wide = unsigned __int128;

// 2^32 log2(n), rounded down, as src/fewbits/coding/subsets.py has it.
uint64_t log2_of(uint64_t n) {
    const auto whole = static_cast<unsigned>(std::bit_width(n) - 1);
    auto x = static_cast<uint64_t>((Wide{n} << 62) >> whole);
    uint64_t result = whole;
    for (int i = 0; i < 32; ++i) {
        const Wide square = Wide{x} * x >> 62;
        const bool up = (square >> 63) != 0;
        x = static_cast<uint64_t>(up ? square >> 1 : square);
        result = 2 * result + up;
    }
    return result;
}

size_t room_of(uint64_t d, uint64_t n) {
    const Wide entropy = Wide{d} * log2_of(d) - Wide{n} * log2_of(n) - Wide{d - n} * log2_of(d - n);
    return static_cast<size_t>((static_cast<uint64_t>(entropy >> 32) + n / 512 + 23) / 8);
}

std::vector<uint32_t> decode(ConstBytes data, uint64_t d, size_t n, int &status) {
    const Buffer exact(data, 1);
    std::vector<uint32_t> places(n);
    status = fewbits_places_decode(exact.data(), exact.size(), d, places.data(), n);
    for (size_t i = 0; i < n && status == FEWBITS_OK; ++i) {
        REQUIRE(places[i] < d);
        REQUIRE(i == 0 || places[i] > places[i - 1]);
    }
    return places;
}

void check_round_trip(const std::vector<uint32_t> &places, uint64_t d, uint8_t fewer) {
    const size_t n = places.size(), room = room_of(d, n);
    const Buffer out(room, 3);
    REQUIRE(fewbits_places_encode(places.data(), n, d, out.data(), room) == FEWBITS_OK);
    int status = 0;
    REQUIRE(decode(out.bytes(), d, n, status) == places && status == FEWBITS_OK);
    const Buffer small(room - std::min<size_t>(room, fewer), 3); // too small, or it is the same
    status = fewbits_places_encode(places.data(), n, d, small.data(), small.size());
    REQUIRE(status == FEWBITS_BAD_SIZE ||
            (status == FEWBITS_OK &&
             std::ranges::equal(small.bytes(), out.bytes().first(small.size()))));
}

// Ascending places that gaps lead to, near the front, near the end or anywhere.
std::vector<uint32_t> places_from(ConstBytes rest, uint64_t d, size_t n, uint8_t shape) {
    std::vector<uint32_t> places(n);
    uint64_t place = shape % 4 == 1 ? d - n : 0;
    uint64_t mix = 1;
    for (size_t i = 0; i < n; ++i) {
        mix = (mix + (rest.empty() ? 0 : rest[i % rest.size()])) * 6364136223846793005u + 1;
        const uint64_t most = d - place - (n - i); // leaves room for the others
        const uint64_t gap = shape % 4 == 0 ? 0 : (mix >> 24) % (2 * d / n);
        place += std::min(gap, most);
        places[i] = static_cast<uint32_t>(place++);
    }
    return places;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const uint8_t control = input.byte(), shape = input.byte();
    const uint64_t bits = 1 + input.byte() % 32;
    const uint64_t d = 2 + input.number(4) % ((uint64_t{1} << bits) - 1);
    const size_t n = 1 + input.number(2) % static_cast<size_t>(std::min<uint64_t>(d / 2, 100));
    const ConstBytes rest = input.rest();
    if ((control & 1) == 0) {
        check_round_trip(places_from(rest, d, n, shape), d, shape >> 4);
        return 0;
    }
    int status = 0;
    const size_t asked = (control & 2) != 0 && d <= 200 ? static_cast<size_t>(d - 1) : n;
    const std::vector<uint32_t> places = decode(rest, d, asked, status);
    REQUIRE(status == FEWBITS_OK || status == FEWBITS_BAD_PLACES);
    if (status == FEWBITS_OK) { // nothing that an encoder does not write
        const Buffer again(rest.size(), 2);
        REQUIRE(fewbits_places_encode(places.data(), asked, d, again.data(), again.size()) ==
                FEWBITS_OK);
        REQUIRE(std::ranges::equal(again.bytes(), rest));
    }
    if (status == FEWBITS_OK && asked == n) {
        check_round_trip(places, d, shape >> 4);
    }
    std::vector<uint32_t> wrong(rest.size() / 4); // any numbers at all
    if (!wrong.empty()) {
        std::memcpy(wrong.data(), rest.data(), 4 * wrong.size());
        const Buffer out(shape, 1);
        fewbits_places_encode(wrong.data(), wrong.size(), d, out.data(), out.size());
    }
    return 0;
}
