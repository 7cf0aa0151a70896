// Sections of several whole blocks, which a table may decode side by side: the same codes, or the
// same error, from both tables, whatever the distribution of the codes and wherever damage is.
#include <algorithm>
#include <bit>
#include <vector>

#include "harness.h"

using namespace fuzz;

namespace {

constexpr size_t kBlock = 65536;
constexpr uint32_t kBound = 256;

struct Result {
    int status;
    std::vector<uint16_t> codes;
    std::vector<uint8_t> signs;
    bool operator==(const Result &) const = default;
};

Result decode(ConstBytes section, size_t count) {
    const Buffer exact(section, 0);
    Result result = {0, std::vector<uint16_t>(count), std::vector<uint8_t>(packed_size(count, 1))};
    result.status = fewbits_coded_decode(exact.data(), exact.size(), kBound, result.codes.data(),
                                         result.signs.data(), count);
    if (result.status != FEWBITS_OK) { // whatever was written by then
        result.codes.clear();
        result.signs.clear();
    }
    return result;
}

// A block's codes: mostly of a few that the input names, sometimes of others.
void draw(Input &input, std::span<uint16_t> codes, uint64_t &mix) {
    const uint8_t base = input.byte();
    const uint32_t few = 1 + input.byte() % 40;
    const uint32_t rare = input.byte(); // of 2^16
    const uint8_t skew = input.byte();
    for (uint16_t &code : codes) {
        mix = mix * 6364136223846793005u + 1442695040888963407u;
        const auto first = static_cast<uint32_t>(mix >> 33);
        const auto second = static_cast<uint32_t>(mix >> 17 & 0xFFFF);
        const uint32_t place =
            skew % 2 == 0 ? first % few
                          : std::min(static_cast<uint32_t>(std::countl_zero(first | 1)), few);
        code = static_cast<uint16_t>(second < rare ? first % kBound : (base + place) % kBound);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const uint8_t control = input.byte();
    const size_t count = (2 + control % 4) * kBlock + (control >> 7);
    std::vector<uint16_t> codes(count);
    std::vector<uint8_t> signs(packed_size(count, 1), input.byte());
    uint64_t mix = input.number(4);
    for (size_t start = 0; start < count; start += kBlock) {
        draw(input, std::span(codes).subspan(start, std::min(kBlock, count - start)), mix);
    }
    std::vector<uint8_t> section(fewbits_coded_size(count, kBound, true));
    size_t written = 0;
    use_table(kPicked);
    REQUIRE(fewbits_coded_encode(codes.data(), signs.data(), count, kBound, section.data(),
                                 section.size(), &written) == FEWBITS_OK);
    section.resize(written);
    const bool damaged = (control & 64) != 0;
    for (size_t i = 0; damaged && !input.rest().empty() && i < 4; ++i) {
        size_t start = 0; // of one of the first blocks, whose head is hit more often than the rest
        for (uint8_t block = input.byte() % 5; block > 0 && start + 3 <= written; --block) {
            start += 3 + (section[start] | size_t{section[start + 1]} << 8 |
                          size_t{section[start + 2]} << 16);
        }
        const size_t width = 1 + input.byte() % 3;
        const size_t at = start + input.number(width);
        section[at % written] ^= input.byte();
    }
    const Buffer whole(section, 0);
    Result results[2];
    with_each_table([&](int table) { results[table] = decode(whole.bytes(), count); });
    REQUIRE(results[0] == results[1]);
    REQUIRE(damaged || results[0].codes == codes);
    return 0;
}
