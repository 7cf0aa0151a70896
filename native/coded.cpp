// Coded sections: their sizes and the C interface to them.
#include "coded.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "coded_blocks.h"
#include "fewbits.h"

namespace fewbits {

int CodedShape::width() const { return static_cast<int>(std::bit_width(bound - 1)); }

uint64_t CodedShape::blocks() const { return count / kCodedBlock + (count % kCodedBlock != 0); }

size_t CodedShape::block_count(uint64_t block) const {
    return static_cast<size_t>(std::min<uint64_t>(kCodedBlock, count - block * kCodedBlock));
}

uint64_t CodedShape::largest() const {
    if (count == 0) {
        return 0;
    }
    if (count > UINT64_MAX / 32) {
        return UINT64_MAX;
    }
    const auto block_size = [&](size_t codes) {
        return uint64_t{1} + packed_size(codes, width()) + (is_signed ? packed_size(codes, 1) : 0);
    };
    const uint64_t before = blocks() - 1;
    return before * (kLengthSize + block_size(kCodedBlock)) + kLengthSize +
           block_size(block_count(before));
}

uint8_t coded_version(ConstBytes section) {
    uint8_t needed = 1;
    for (size_t at = 0; at < section.size() && section.size() - at > kLengthSize;) {
        const ConstBytes block = section.subspan(at + kLengthSize);
        const bool phased = block.size() > 1 && block[0] == kRans && (block[1] & kPhased) != 0;
        const int own = block[0] >= kHalves ? 4 : phased ? 3 : block[0] >= kRans ? 2 : 1;
        needed = std::max(needed, static_cast<uint8_t>(own));
        uint32_t length = 0;
        std::memcpy(&length, section.data() + at, kLengthSize);
        at += kLengthSize + length;
    }
    return needed;
}

namespace {

// Codes as bytes; returns the largest. A loop of its own, or it is not made of vectors.
[[gnu::noinline]] uint32_t narrowed(std::span<const uint16_t> codes, uint8_t *bytes) {
    uint16_t largest = 0;
    for (size_t i = 0; i < codes.size(); ++i) {
        bytes[i] = static_cast<uint8_t>(std::min<uint16_t>(codes[i], 255));
        largest = std::max(largest, codes[i]);
    }
    return largest;
}

// Codes with signs unless they are null, and with a dither unless it is.
int encode(const uint16_t *codes, const uint8_t *signs, const CodedShape &shape,
           const Stream *dither, CodedWriter &writer) {
    if (!shape.valid()) {
        return FEWBITS_BAD_ARGUMENT;
    }
    if (shape.count > SIZE_MAX / 32) {
        return FEWBITS_BAD_SIZE;
    }
    for (size_t start = 0; start < shape.count; start += kCodedBlock) {
        uint8_t bytes[kCodedBlock];
        const size_t size = std::min<size_t>(kCodedBlock, shape.count - start);
        if (narrowed({codes + start, size}, bytes) >= shape.bound) {
            return FEWBITS_BAD_ARGUMENT;
        }
        const Stream own = dither == nullptr ? Stream{} : dither->from(start);
        const uint8_t *const plane = signs == nullptr ? nullptr : signs + start / 8;
        const CodesIn block = {size,  bytes, codes + start,
                               plane, {},    dither == nullptr ? nullptr : &own};
        if (!writer.write(block)) {
            return FEWBITS_BAD_SIZE;
        }
    }
    return FEWBITS_OK;
}

int decode(ConstBytes data, const CodedShape &shape, const Stream *dither, uint16_t *codes,
           uint8_t *signs) {
    if (!shape.valid()) {
        return FEWBITS_BAD_ARGUMENT;
    }
    CodedReader reader(shape, data);
    auto status = reader.open();
    for (size_t start = 0; start < shape.count && status == FEWBITS_OK; start += kCodedBlock) {
        uint8_t bytes[kCodedBlock];
        const size_t block = std::min<size_t>(kCodedBlock, shape.count - start);
        const Stream own = dither == nullptr ? Stream{} : dither->from(start);
        uint8_t *const plane = signs == nullptr ? nullptr : signs + start / 8;
        const CodesOut out = {block,
                              bytes,
                              codes + start,
                              plane,
                              nullptr,
                              nullptr,
                              {},
                              dither == nullptr ? nullptr : &own};
        status = reader.read(out);
        if (!shape.wide() && status == FEWBITS_OK) {
            std::copy_n(bytes, block, codes + start);
        }
    }
    return status;
}

} // namespace
} // namespace fewbits

using namespace fewbits;

extern "C" {

uint64_t fewbits_coded_size(uint64_t count, uint32_t bound, int is_signed) {
    const CodedShape shape = {count, bound, is_signed != 0};
    return shape.valid() ? shape.largest() : 0;
}

int fewbits_coded_encode(const uint16_t *codes, const uint8_t *signs, size_t count, uint32_t bound,
                         uint8_t *out, size_t capacity, size_t *written) {
    const CodedShape shape = {count, bound, signs != nullptr};
    CodedWriter writer(shape, out, capacity);
    const int status = encode(codes, signs, shape, nullptr, writer);
    *written = writer.size();
    return status;
}

int fewbits_coded_decode(const uint8_t *data, size_t size, uint32_t bound, uint16_t *codes,
                         uint8_t *signs, size_t count) {
    return decode({data, size}, {count, bound, signs != nullptr}, nullptr, codes, signs);
}

int fewbits_dithered_encode(const uint16_t *codes, const uint8_t *signs, size_t count,
                            uint32_t bound, const uint32_t key[4], uint64_t first, uint8_t *out,
                            size_t capacity, size_t *written) {
    const CodedShape shape = {count, bound, true};
    const Stream dither = {{key[0], key[1], key[2], key[3]}, first};
    CodedWriter writer(shape, out, capacity);
    const int status = encode(codes, signs, shape, &dither, writer);
    *written = writer.size();
    return status;
}

int fewbits_dithered_decode(const uint8_t *data, size_t size, uint32_t bound, const uint32_t key[4],
                            uint64_t first, uint16_t *codes, uint8_t *signs, size_t count) {
    const Stream dither = {{key[0], key[1], key[2], key[3]}, first};
    return decode({data, size}, {count, bound, true}, &dither, codes, signs);
}
}
