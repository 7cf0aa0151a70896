// The two planes of the natural operator made from a fuzz input, and what decoding must say of
// them.
#pragma once

#include <vector>

#include "harness.h"

namespace fuzz {

struct Planes {
    int dtype;
    Format format;
    size_t count;
    bool sizes_fit;
    unsigned offset; // of the values
    std::vector<uint8_t> exponents, signs;
    std::vector<uint16_t> codes; // of the exponents, one by one
    unsigned exponents_offset, signs_offset;

    // Bit 2 of the first byte asks for planes that decode, bit 3 for a plane of a wrong size.
    static Planes read(Input &input) {
        const uint8_t control = input.byte();
        const uint64_t offsets = input.number(2);
        Planes planes{};
        planes.dtype = FEWBITS_FLOAT32 + (control & 3);
        planes.format = format_of(planes.dtype);
        planes.sizes_fit = (control & 8) == 0;
        planes.exponents_offset = offsets & 7;
        planes.signs_offset = (offsets >> 3) & 7;
        planes.offset = (offsets >> 6) & 7;
        planes.fill(input.rest(), (offsets >> 9) & 15);
        if ((control & 4) != 0) {
            planes.repair();
        }
        if (!planes.sizes_fit) {
            planes.resize_one(control >> 4);
        }
        return planes;
    }

    uint32_t code(size_t i) const { return codes[i]; }
    bool negative(size_t i) const { return ((signs[i / 8] >> (i % 8)) & 1) != 0; }

    // Padding is judged before signs, whatever the table and wherever they are.
    int expected_status() const {
        if (!sizes_fit) {
            return FEWBITS_BAD_SIZE;
        }
        if (!padding_is_zero(exponents, count, format.exponent) ||
            !padding_is_zero(signs, count, 1)) {
            return FEWBITS_BAD_PADDING;
        }
        for (size_t i = 0; i < count; ++i) {
            if (negative(i) && (code(i) == 0 || code(i) == format.top())) {
                return FEWBITS_BAD_SIGN;
            }
        }
        return FEWBITS_OK;
    }

    uint64_t nonfinite() const {
        uint64_t total = 0;
        for (size_t i = 0; i < count; ++i) {
            total += code(i) == format.top();
        }
        return total;
    }

  private:
    void fill(ConstBytes rest, size_t fewer) {
        count = rest.size() * 8 / static_cast<size_t>(format.exponent + 1);
        count -= std::min(count, fewer);
        while (packed_size(count, format.exponent) + packed_size(count, 1) > rest.size()) {
            --count;
        }
        const size_t middle = packed_size(count, format.exponent);
        exponents.assign(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(middle));
        const auto from = rest.begin() + static_cast<ptrdiff_t>(middle);
        signs.assign(from, from + static_cast<ptrdiff_t>(packed_size(count, 1)));
        codes.resize(count);
        for (size_t i = 0; i < count; ++i) {
            codes[i] = static_cast<uint16_t>(field(exponents, i, format.exponent));
        }
    }

    void repair() {
        clear_padding(exponents, format.exponent);
        clear_padding(signs, 1);
        for (size_t i = 0; i < count; ++i) {
            if (code(i) == 0 || code(i) == format.top()) {
                signs[i / 8] = static_cast<uint8_t>(signs[i / 8] & ~(1u << (i % 8)));
            }
        }
    }

    void clear_padding(std::vector<uint8_t> &plane, int width) const {
        const size_t used = count * static_cast<size_t>(width) % 8;
        if (used != 0) {
            plane.back() = static_cast<uint8_t>(plane.back() & ((1u << used) - 1));
        }
    }

    void resize_one(int choice) {
        auto &plane = choice & 1 ? exponents : signs;
        if ((choice & 2) != 0 && !plane.empty()) {
            plane.pop_back();
        } else {
            plane.push_back(0);
        }
    }
};

// The unit of `planes` with exact copies of both and `values` to write to.
struct Unit {
    Buffer exponents, signs;
    fewbits_unit unit{};

    Unit(const Planes &planes, const Buffer &values)
        : exponents(planes.exponents, planes.exponents_offset),
          signs(planes.signs, planes.signs_offset) {
        unit.kind = FEWBITS_NATURAL;
        unit.dtype = static_cast<uint8_t>(planes.dtype);
        unit.values = values.data();
        unit.count = planes.count;
        unit.sections[0] = exponents.data();
        unit.sizes[0] = exponents.size();
        unit.sections[1] = signs.data();
        unit.sizes[1] = signs.size();
    }
};

} // namespace fuzz
