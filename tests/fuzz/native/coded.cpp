// Coded sections: any bytes give codes or an error, the same from both tables; codes that were
// accepted can be coded again and come back; codes made from the input come back.
#include <algorithm>
#include <vector>

#include "harness.h"

using namespace fuzz;

namespace {

constexpr size_t kMostCodes = 66000; // more than one block

struct Shape {
    uint32_t bound;
    bool is_signed;
    size_t count;
    bool dithered = false; // with phases; such codes are signed
};
constexpr uint32_t kKey[4] = {1, 22, 333, 4444};
constexpr uint64_t kFirst = 0xFFFFFFF0; // where the keys of a stream change soon

struct Result {
    int status;
    std::vector<uint16_t> codes;
    std::vector<uint8_t> signs;
    bool operator==(const Result &) const = default;
};

Result decode(const Shape &shape, ConstBytes data, unsigned offset) {
    const Buffer exact(data, offset); // of exactly this size, for the sanitizer
    Result result = {0, std::vector<uint16_t>(shape.count),
                     std::vector<uint8_t>(shape.is_signed ? packed_size(shape.count, 1) : 0)};
    uint8_t none = 0; // no signs at all still asks for a signed section
    uint8_t *const signs = result.signs.empty() ? &none : result.signs.data();
    result.status =
        shape.dithered
            ? fewbits_dithered_decode(exact.data(), exact.size(), shape.bound, kKey, kFirst,
                                      result.codes.data(), signs, shape.count)
            : fewbits_coded_decode(exact.data(), exact.size(), shape.bound, result.codes.data(),
                                   shape.is_signed ? signs : nullptr, shape.count);
    if (result.status != FEWBITS_OK) { // whatever was written by then
        result.codes.clear();
        result.signs.clear();
    }
    return result;
}

std::vector<uint8_t> encode(const Shape &shape, const std::vector<uint16_t> &codes,
                            const std::vector<uint8_t> &signs) {
    const size_t largest = fewbits_coded_size(shape.count, shape.bound, shape.is_signed);
    const Buffer out(largest, 3);
    uint8_t none = 0;
    const uint8_t *const plane = signs.empty() ? &none : signs.data();
    const auto into = [&](const Buffer &to, size_t capacity, size_t &size) {
        return shape.dithered
                   ? fewbits_dithered_encode(codes.data(), plane, shape.count, shape.bound, kKey,
                                             kFirst, to.data(), capacity, &size)
                   : fewbits_coded_encode(codes.data(), shape.is_signed ? plane : nullptr,
                                          shape.count, shape.bound, to.data(), capacity, &size);
    };
    size_t written = SIZE_MAX;
    REQUIRE(into(out, out.size(), written) == FEWBITS_OK);
    REQUIRE(written <= largest);
    // With no byte to spare the bytes are the same; with one less there are none.
    const Buffer tight(written, 1);
    size_t again = SIZE_MAX;
    const auto within = [&](size_t capacity) { return into(tight, capacity, again); };
    REQUIRE(written == 0 || within(written - 1) == FEWBITS_BAD_SIZE);
    REQUIRE(within(written) == FEWBITS_OK && again == written);
    REQUIRE(std::equal(out.data(), out.data() + written, tight.data()));
    return {out.data(), out.data() + written};
}

void check_decoded(const Shape &shape, const Result &result) {
    for (size_t i = 0; i < shape.count; ++i) {
        REQUIRE(result.codes[i] < shape.bound);
        REQUIRE(!shape.is_signed || result.codes[i] != 0 || field(result.signs, i, 1) == 0);
    }
    REQUIRE(padding_is_zero(result.signs, shape.count, 1));
}

// Coded by each table to the same bytes, and back.
std::vector<uint8_t> check_round_trip(const Shape &shape, const Result &codes) {
    std::vector<uint8_t> bytes[2];
    with_each_table([&](int table) {
        bytes[table] = encode(shape, codes.codes, codes.signs);
        REQUIRE(decode(shape, bytes[table], 1) == codes);
    });
    REQUIRE(bytes[0] == bytes[1]);
    return bytes[0];
}

Result decode_by_both(const Shape &shape, ConstBytes data, unsigned offset) {
    Result results[2];
    with_each_table([&](int table) { results[table] = decode(shape, data, offset); });
    REQUIRE(results[0] == results[1]);
    if (results[0].status == FEWBITS_OK) {
        check_decoded(shape, results[0]);
    }
    return results[0];
}

// Codes that repeat the input's bytes, so that long sections need no long inputs.
Result codes_from(const Shape &shape, ConstBytes rest, uint8_t spread) {
    Result made = {FEWBITS_OK, std::vector<uint16_t>(shape.count),
                   std::vector<uint8_t>(shape.is_signed ? packed_size(shape.count, 1) : 0)};
    uint64_t mix = 1;
    for (size_t i = 0; i < shape.count; ++i) {
        mix = mix * 6364136223846793005u + (rest.empty() ? 0 : rest[i % rest.size()]);
        const uint64_t code = (mix >> 33) >> (spread % 31);       // fewer bits: more skewed
        const bool zero = spread >= 128 && (mix >> 40) % 16 != 0; // most of them
        made.codes[i] = zero ? uint16_t{0} : static_cast<uint16_t>(code % shape.bound);
        if (shape.is_signed && made.codes[i] != 0 && (mix >> 63) != 0) {
            made.signs[i / 8] = static_cast<uint8_t>(made.signs[i / 8] | 1u << (i % 8));
        }
    }
    return made;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const uint8_t control = input.byte();
    constexpr uint32_t bounds[] = {2, 3, 17, 200, 256, 257, 700, 2048};
    const bool dithered = (control & 64) != 0;
    Shape shape = {bounds[control & 7], dithered || (control & 8) != 0, 0, dithered};
    const size_t wished = input.number(3);
    // Nearly always short: the work of an input should be that of its bytes.
    if (wished >> 16 == 0xA6) { // rare, because the search for the best window is slow
        shape.bound = 65536;
    }
    const uint8_t change = input.byte();
    const ConstBytes rest = input.rest();
    const bool is_long = wished >> 16 == 0xA7 && change == 0x5A && rest.size() > 250;
    shape.count = is_long ? wished * 7 % kMostCodes : wished % 600;
    if ((control & 16) == 0) {
        std::vector<uint8_t> section(rest.begin(), rest.end());
        if ((control & 32) == 0) { // one block, of the right length
            const uint8_t length[] = {static_cast<uint8_t>(rest.size()),
                                      static_cast<uint8_t>(rest.size() >> 8),
                                      static_cast<uint8_t>(rest.size() >> 16)};
            section.insert(section.begin(), length, length + 3);
        }
        const Result result = decode_by_both(shape, section, change);
        if (result.status == FEWBITS_OK) {
            check_round_trip(shape, result);
        }
        return 0;
    }
    // A section as the encoder writes it, then with damage that the input chooses.
    std::vector<uint8_t> bytes = check_round_trip(shape, codes_from(shape, rest, change));
    for (size_t i = 0; i + 3 <= std::min<size_t>(rest.size(), 9) && !bytes.empty(); i += 3) {
        const size_t at = (rest[i] | size_t{rest[i + 1]} << 8) % bytes.size();
        bytes[at] = static_cast<uint8_t>(bytes[at] ^ rest[i + 2]);
    }
    if ((control & 32) != 0 && !bytes.empty()) {
        bytes.resize(bytes.size() - 1 - change % std::min<size_t>(bytes.size(), 16));
    }
    const Result result = decode_by_both(shape, bytes, change);
    if (result.status == FEWBITS_OK) {
        check_round_trip(shape, result);
    }
    return 0;
}
