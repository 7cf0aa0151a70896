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

bool is_revised(ConstBytes section) {
    for (size_t at = 0; at < section.size() && section.size() - at > kLengthSize;) {
        if (section[at + kLengthSize] >= kRans) {
            return true;
        }
        uint32_t length = 0;
        std::memcpy(&length, section.data() + at, kLengthSize);
        at += kLengthSize + length;
    }
    return false;
}

namespace {

// Codes as bytes; returns the largest. A loop of its own, or it is not made of vectors.
[[gnu::noinline]] uint32_t narrowed(std::span<const uint16_t> codes, uint8_t *bytes) {
    uint16_t largest = 0;
    for (size_t i = 0; i < codes.size(); ++i) {
        bytes[i] = static_cast<uint8_t>(codes[i]);
        largest = std::max(largest, codes[i]);
    }
    return largest;
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
    if (!shape.valid()) {
        return FEWBITS_BAD_ARGUMENT;
    }
    if (count > SIZE_MAX / 32) {
        return FEWBITS_BAD_SIZE;
    }
    CodedWriter writer(shape, out, capacity);
    for (size_t start = 0; start < count; start += kCodedBlock) {
        uint8_t bytes[kCodedBlock];
        const size_t size = std::min(kCodedBlock, count - start);
        if (narrowed({codes + start, size}, bytes) >= bound) {
            return FEWBITS_BAD_ARGUMENT;
        }
        if (!writer.write(
                {size, bytes, codes + start, signs == nullptr ? nullptr : signs + start / 8})) {
            return FEWBITS_BAD_SIZE;
        }
    }
    *written = writer.size();
    return FEWBITS_OK;
}

int fewbits_coded_decode(const uint8_t *data, size_t size, uint32_t bound, uint16_t *codes,
                         uint8_t *signs, size_t count) {
    const CodedShape shape = {count, bound, signs != nullptr};
    if (!shape.valid()) {
        return FEWBITS_BAD_ARGUMENT;
    }
    CodedReader reader(shape, {data, size});
    auto status = reader.open();
    for (size_t start = 0; start < count && status == FEWBITS_OK; start += kCodedBlock) {
        uint8_t bytes[kCodedBlock];
        const size_t block = std::min(kCodedBlock, count - start);
        status = reader.read(
            {block, bytes, codes + start, signs == nullptr ? nullptr : signs + start / 8});
        if (!shape.wide() && status == FEWBITS_OK) {
            std::copy_n(bytes, block, codes + start);
        }
    }
    return status;
}
}
