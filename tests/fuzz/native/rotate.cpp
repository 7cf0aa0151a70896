// Rotation: both tables have the bits of the definition, in place or not; blocks that are not
// finite are NaN throughout; going back gives the vector again.
#include <bit>
#include <cmath>
#include <vector>

#include "fewbits_stages.h"
#include "harness.h"

using namespace fuzz;

namespace {

struct Case {
    int dtype;
    size_t count, block;
    uint32_t key[4];
    bool inverse;
    Buffer values;

    size_t item() const { return format_of(dtype).item(); }
    fewbits_rotation rotation() const {
        return {{key[0], key[1], key[2], key[3]}, 0, block, {}, 0};
    }
    // Size of the block that begins at `start`.
    size_t size(size_t start) const { return std::min(block, std::bit_floor(count - start)); }
};

struct Result {
    Buffer values;
    fewbits_tally tally;
};

Result rotate(const Case &c, const Buffer &values, bool inverse, bool in_place) {
    Result result = {Buffer(values.bytes(), c.key[0] & 7), {}};
    const void *const from = in_place ? result.values.data() : values.data();
    fewbits_rotation how = c.rotation();
    REQUIRE(fewbits_rotate(from, c.dtype, c.count, &how, inverse, result.values.data()) ==
            FEWBITS_OK);
    result.tally = how.tally;
    return result;
}

template <class T> T at(const Buffer &values, size_t i) {
    T value;
    std::memcpy(&value, values.data() + i * sizeof(T), sizeof(T));
    return value;
}

// One block by the definition; magnitudes leave room for sums.
template <class T> std::vector<T> defined(const Case &c, size_t start, const uint32_t *words) {
    const size_t size = c.size(start);
    std::vector<T> x(size);
    const auto sign = [&](size_t i) { return words[start + i] >> 31 != 0 ? T{-1} : T{1}; };
    for (size_t i = 0; i < size; ++i) {
        x[i] = at<T>(c.values, start + i) * (c.inverse ? T{1} : sign(i));
    }
    for (size_t h = 1; h < size; h *= 2) {
        for (size_t i = 0; i < size; ++i) {
            if (i % (2 * h) < h) {
                const T a = x[i], b = x[i + h];
                x[i] = a + b;
                x[i + h] = a - b;
            }
        }
    }
    const int exponent = static_cast<int>(std::bit_width(size)) - 1;
    const T odd = exponent % 2 != 0 ? static_cast<T>(std::sqrt(0.5)) : T{1};
    for (size_t i = 0; i < size; ++i) {
        x[i] *= std::ldexp(odd, -(exponent / 2));
        x[i] *= c.inverse ? sign(i) : T{1};
    }
    return x;
}

// Blocks of ordinary numbers have the bits of the definition, and its reverse leads back.
template <class T> void check_blocks(const Case &c, const Buffer &out, const Buffer &back) {
    std::vector<uint32_t> words(c.count);
    REQUIRE(fewbits_words(c.key, 0, words.data(), c.count) == FEWBITS_OK);
    constexpr double high = sizeof(T) == 4 ? 0x1p110 : 0x1p1000;
    constexpr double unit = sizeof(T) == 4 ? 0x1p-23 : 0x1p-52;
    for (size_t start = 0; start < c.count; start += c.size(start)) {
        double largest = 0;
        bool ordinary = true;
        for (size_t i = start; i < start + c.size(start); ++i) {
            const double own = std::abs(at<T>(c.values, i));
            ordinary = ordinary && own < high; // no NaN either
            largest = std::max(largest, own);
        }
        if (!ordinary) {
            continue;
        }
        const std::vector<T> wanted = defined<T>(c, start, words.data());
        REQUIRE(std::memcmp(wanted.data(), out.data() + start * sizeof(T),
                            wanted.size() * sizeof(T)) == 0);
        // Each of log2(B) levels, the scale and its own rounding err by a unit of a norm of at most
        // sqrt(B) times the largest value, there and back; scales are off by half a unit.
        const double size = static_cast<double>(wanted.size());
        const double slack = 4 * (2 + std::log2(size)) * unit * size * largest + 0x1p-120;
        for (size_t i = start; i < start + wanted.size(); ++i) {
            REQUIRE(std::abs(at<T>(back, i) - at<T>(c.values, i)) <= slack);
        }
    }
}

void check_nonfinite(const Case &c, const Result &result) {
    const Format format = format_of(c.dtype);
    uint64_t nonfinite = 0;
    for (size_t start = 0; start < c.count; start += c.size(start)) {
        bool finite = true;
        for (size_t i = start; i < start + c.size(start); ++i) {
            finite = finite && format.finite(element(c.values.data(), i, c.item()));
        }
        for (size_t i = start; i < start + c.size(start); ++i) {
            const uint64_t bits = element(result.values.data(), i, c.item());
            REQUIRE(finite ? format.finite(bits) : bits == format.quiet_nan());
            nonfinite += !finite;
        }
    }
    REQUIRE(result.tally.nonfinite == nonfinite);
}

// Rows behind a rotation are the rotation and the rows, one after the other.
void check_rows(const Case &c, const Result &turned, ConstBytes bytes, bool coded) {
    const auto option = static_cast<uint8_t>(FEWBITS_NEAREST | (coded ? FEWBITS_CODED : 0));
    const int width = format_of(c.dtype).exponent;
    const auto bits = static_cast<size_t>(width);
    const size_t room =
        coded ? fewbits_coded_size(c.count, 1u << width, 1) : (c.count * bits + 7) / 8;
    const size_t plane = coded ? 0 : (c.count + 7) / 8;
    Buffer first(room, 1), second(plane, 0), other(room, 2), others(plane, 0);
    fewbits_unit unit{};
    unit.kind = FEWBITS_NATURAL;
    unit.dtype = static_cast<uint8_t>(c.dtype);
    unit.option = option;
    unit.count = c.count;
    const auto with = [&](void *values, const Buffer &a, size_t size, const Buffer &b) {
        fewbits_unit own = unit;
        own.values = values;
        own.sections[0] = a.data(), own.sections[1] = b.data();
        own.sizes[0] = size, own.sizes[1] = plane;
        return own;
    };
    fewbits_rotation how = c.rotation();
    size_t failed = 0;
    fewbits_unit fused = with(c.values.data(), first, room, second);
    fewbits_unit apart = with(turned.values.data(), other, room, others);
    REQUIRE(fewbits_rotated(&fused, &how, 0) == FEWBITS_OK);
    REQUIRE(fewbits_encode(&apart, 1, &failed) == FEWBITS_OK);
    REQUIRE(fused.sizes[0] == apart.sizes[0] && equal(fused.tally, apart.tally));
    REQUIRE(std::memcmp(first.data(), other.data(), fused.sizes[0]) == 0 && second == others);
    // And back, from what was written with some bytes changed.
    Buffer given(fused.sizes[0], 3);
    for (size_t i = 0; i < given.size(); ++i) {
        const uint8_t change = bytes.empty() || i >= bytes.size() ? uint8_t{0} : bytes[i];
        given.data()[i] = static_cast<uint8_t>(first.data()[i] ^ (change > 0xF0 ? change : 0));
    }
    Buffer out(c.values.bytes(), 0), wanted(c.values.bytes(), 0);
    fused = with(out.data(), given, given.size(), second);
    apart = with(wanted.data(), given, given.size(), second);
    const int status = fewbits_rotated(&fused, &how, 1);
    REQUIRE(status == fewbits_decode(&apart, 1, &failed));
    if (status == FEWBITS_OK) {
        fewbits_rotation back = c.rotation();
        REQUIRE(fewbits_rotate(wanted.data(), c.dtype, c.count, &back, 1, wanted.data()) ==
                FEWBITS_OK);
        REQUIRE(out == wanted && equal(how.tally, back.tally));
    }
}

// Values of the input, or all with exponents near each other.
void fill(const Case &c, ConstBytes rest, bool alike) {
    for (size_t i = 0; i < c.values.size(); ++i) {
        const uint8_t own = rest.empty() ? uint8_t{0} : rest[(i + i / 64) % rest.size()];
        const bool top = i % c.item() == c.item() - 1;
        c.values.data()[i] = alike && top ? static_cast<uint8_t>(0x38 | (own & 0x83)) : own;
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Input input(data, size);
    const uint8_t control = input.byte();
    const int dtype = FEWBITS_FLOAT32 + (control & 3);
    const size_t count = input.number(2) % 150;
    const size_t block = size_t{1} << input.byte() % 10;
    const auto key = static_cast<uint32_t>(input.number(2));
    const Case c = {dtype,
                    count,
                    block,
                    {key, key * 3, 1, 2},
                    (control & 4) != 0,
                    Buffer(count * format_of(dtype).item(), control >> 4)};
    const ConstBytes rest = input.rest();
    fill(c, rest, (control & 8) != 0);
    std::vector<Result> results, backs;
    with_each_table([&](int) {
        results.push_back(rotate(c, c.values, c.inverse, false));
        REQUIRE(rotate(c, c.values, c.inverse, true).values == results.back().values);
        backs.push_back(rotate(c, results.back().values, !c.inverse, true));
        if (!c.inverse) {
            check_rows(c, results.back(), rest, (control & 16) != 0);
        }
    });
    REQUIRE(results[0].values == results[1].values);
    REQUIRE(equal(results[0].tally, results[1].tally));
    REQUIRE(backs[0].values == backs[1].values);
    check_nonfinite(c, results[0]);
    if (dtype == FEWBITS_FLOAT32) {
        check_blocks<float>(c, results[0].values, backs[0].values);
    } else if (dtype == FEWBITS_FLOAT64) {
        check_blocks<double>(c, results[0].values, backs[0].values);
    }
    return 0;
}
