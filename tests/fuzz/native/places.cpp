// Places: every set comes back from a section of its size; any bytes are ascending places that are
// written like this, or an error. The same for parts of them, and for those of wire version 1.
#include <vector>

#include "harness.h"

using namespace fuzz;

namespace {

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

void check_round_trip(const std::vector<uint32_t> &places, uint64_t d, ConstBytes wanted = {}) {
    const size_t n = places.size();
    const Buffer out(static_cast<size_t>(fewbits_places_size(d, n)), 3);
    REQUIRE(fewbits_places_encode(places.data(), n, d, out.data(), out.size()) == FEWBITS_OK);
    REQUIRE(wanted.empty() || std::ranges::equal(out.bytes(), wanted));
    int status = 0;
    REQUIRE(decode(out.bytes(), d, n, status) == places && status == FEWBITS_OK);
}

// Values that were kept to their places, in one part and in several: as if read one by one.
void check_spread(ConstBytes data, uint64_t d, size_t n, bool others, size_t parts) {
    const Buffer section(data, 2);
    int status = 0;
    const std::vector<uint32_t> places = decode(data, d, n, status);
    const size_t k = others ? static_cast<size_t>(d) - n : n;
    std::vector<uint32_t> kept(k), wanted(d, 0);
    for (size_t i = 0; i < k; ++i) {
        kept[i] = static_cast<uint32_t>(i + 1);
    }
    for (size_t i = 0, at = 0, next = 0; i < d && status == FEWBITS_OK; ++i) {
        const bool listed = at < n && places[at] == i;
        at += listed;
        wanted[i] = listed == others ? 0 : kept[next++];
    }
    const std::unique_ptr<uint32_t[]> out(new uint32_t[d]);
    std::fill_n(out.get(), d, 77u);
    int found = FEWBITS_OK;
    for (size_t part = 0; part < parts; ++part) {
        const fewbits_spread_task task = {d, k, n * part / parts, n * (part + 1) / parts, 4, 0};
        const int own =
            fewbits_spread(&task, section.data(), section.size(), kept.data(), out.get());
        found = own != FEWBITS_OK ? own : found;
    }
    REQUIRE(found == status);
    REQUIRE(status != FEWBITS_OK || std::equal(wanted.begin(), wanted.end(), out.get()));
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

void check_ranged(ConstBytes rest, uint64_t d, size_t n) {
    const Buffer exact(rest, 1);
    std::vector<uint32_t> places(n);
    const int status =
        fewbits_ranged_decode(exact.data(), exact.size(), d, places.data(), places.size());
    REQUIRE(status == FEWBITS_OK || status == FEWBITS_BAD_PLACES);
    for (size_t i = 1; i < n && status == FEWBITS_OK; ++i) {
        REQUIRE(places[i] < d && places[i] > places[i - 1]);
    }
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
        check_round_trip(places_from(rest, d, n, shape), d);
        return 0;
    }
    if ((control & 2) != 0) {
        check_ranged(rest, d, n);
        return 0;
    }
    std::vector<uint8_t> section(static_cast<size_t>(fewbits_places_size(d, n)));
    std::copy_n(rest.data(), std::min(rest.size(), section.size()), section.data());
    if ((control & 4) != 0) { // one of an encoder, with a few bits changed
        const std::vector<uint32_t> places = places_from(rest, d, n, shape);
        fewbits_places_encode(places.data(), n, d, section.data(), section.size());
        for (size_t i = 0; i < static_cast<size_t>(shape >> 6); ++i) {
            const uint64_t at = i < rest.size() / 2 ? 256u * rest[2 * i] + rest[2 * i + 1] : 0;
            section[at / 8 % section.size()] ^= static_cast<uint8_t>(1u << at % 8);
        }
    }
    int status = 0;
    const std::vector<uint32_t> places = decode(section, d, n, status);
    REQUIRE(status == FEWBITS_OK || status == FEWBITS_BAD_PLACES);
    if (status == FEWBITS_OK) { // nothing that an encoder does not write
        check_round_trip(places, d, section);
    }
    if (d <= 5000) {
        check_spread(section, d, n, (control & 8) != 0 && 2 * n < d, 1 + control / 64 % n);
    }
    std::vector<uint32_t> wrong(rest.size() / 4); // any numbers at all
    if (!wrong.empty()) {
        std::memcpy(wrong.data(), rest.data(), 4 * wrong.size());
        const Buffer out(static_cast<size_t>(fewbits_places_size(d, wrong.size())), 1);
        fewbits_places_encode(wrong.data(), wrong.size(), d, out.data(), out.size());
    }
    return 0;
}
