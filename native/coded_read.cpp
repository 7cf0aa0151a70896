// Reads blocks of codes: any bytes give codes below the bound or an error. All tables refuse the
// same bytes with the same error.
#include <algorithm>
#include <bit>

#include "coded_abreast.h"
#include "coded_read_paths.h"
#include "coded_read_phases.h"
#include "coded_read_sparse.h"

namespace fewbits {
namespace {

// Each reader takes its part off the front of `data`.

fewbits_status read_raw(const CodedShape &shape, ConstBytes &data, const CodesOut &codes) {
    const size_t size = packed_size(codes.count, shape.width());
    if (data.size() < size) {
        return FEWBITS_CODED_SHORT;
    }
    const ConstBytes packed = data.first(size);
    data = data.subspan(size);
    if (shape.wide()) {
        const auto status =
            kernels().common.unpack(packed, shape.width(), shape.bound, {codes.words, codes.count});
        for (size_t i = 0; i < codes.count; ++i) {
            codes.bytes[i] = codes.words[i] != 0;
        }
        return status;
    }
    BitReader bits(packed);
    if (shape.width() == 8) {
        std::memcpy(codes.bytes, packed.data(), size);
    } else {
        for (size_t i = 0; i < codes.count; ++i) {
            codes.bytes[i] = static_cast<uint8_t>(bits.take(shape.width()));
        }
    }
    if (!bits.padding_is_zero()) {
        return FEWBITS_BAD_PADDING;
    }
    const uint8_t largest = *std::max_element(codes.bytes, codes.bytes + codes.count);
    return largest < shape.bound ? FEWBITS_OK : FEWBITS_BAD_CODE;
}

fewbits_status read_constant(const CodedShape &shape, ConstBytes &data, const CodesOut &codes) {
    if (data.size() < 2) {
        return FEWBITS_CODED_SHORT;
    }
    const uint32_t code = data[0] | uint32_t{data[1]} << 8;
    data = data.subspan(2);
    if (code >= shape.bound) {
        return FEWBITS_BAD_CODE;
    }
    if (shape.wide() && (codes.small == nullptr || code > kWindow)) {
        std::fill_n(codes.words, codes.count, static_cast<uint16_t>(code));
        std::memset(codes.bytes, code != 0, codes.count);
        return FEWBITS_OK;
    }
    if (shape.wide()) {
        *codes.small = true;
    }
    const bool equal = codes.equal != nullptr;
    if (equal) {
        *codes.equal = true;
    }
    std::memset(codes.bytes, static_cast<int>(code), equal ? 1 : codes.count);
    return FEWBITS_OK;
}

// Turns a wide block's symbols into codes. The escaped ones are unpacked to the end of the codes,
// where each still waits when its turn comes. Most blocks have a table without the escape.
fewbits_status read_escapes(const CodedShape &shape, ConstBytes &data, uint32_t base, bool some,
                            const CodesOut &codes) {
    const auto escapes = static_cast<size_t>(
        some ? std::count(codes.bytes, codes.bytes + codes.count, static_cast<uint8_t>(kEscape))
             : 0);
    if (codes.small != nullptr && base == 1 && escapes == 0) {
        *codes.small = true; // the symbols are the codes
        return FEWBITS_OK;
    }
    const size_t size = packed_size(escapes, shape.width());
    if (data.size() < size) {
        return FEWBITS_CODED_SHORT;
    }
    const std::span<uint16_t> waiting = {codes.words + codes.count - escapes, escapes};
    const auto status =
        kernels().common.unpack(data.first(size), shape.width(), shape.bound, waiting);
    if (status != FEWBITS_OK) {
        return status;
    }
    data = data.subspan(size);
    const uint16_t *next = waiting.data();
    bool needless = false;
    for (size_t i = 0; i < codes.count; ++i) {
        const uint32_t symbol = codes.bytes[i];
        uint32_t code = symbol == 0 ? 0 : base + symbol - 1;
        if (symbol == kEscape) {
            code = *next++;
            needless |= code == 0 || in_window(code, base);
        }
        codes.words[i] = static_cast<uint16_t>(code);
    }
    return needless ? FEWBITS_CODED_ESCAPE : FEWBITS_OK;
}

constexpr int kFirstTable = -1; // in place of a coarseness: a table of wire version 1

fewbits_status read_rans(const CodedShape &shape, ConstBytes &data, size_t lanes, int coarse,
                         const CodesOut &codes) {
    uint32_t base = 0;
    uint32_t symbols = shape.bound;
    uint32_t escape = 256; // none
    if (shape.wide()) {
        if (data.size() < 2) {
            return FEWBITS_CODED_SHORT;
        }
        base = data[0] | uint32_t{data[1]} << 8;
        data = data.subspan(2);
        if (base < 1 || base >= shape.bound) {
            return FEWBITS_CODED_TABLE;
        }
        symbols = std::min(shape.bound - base + 1, kEscape);
        escape = kEscape;
    }
    RansDecodeTable table;
    size_t used = 0;
    auto status = coarse == kFirstTable ? read_first_table(data, symbols, escape, table, used)
                                        : read_table(data, symbols, escape, coarse, table, used);
    if (status != FEWBITS_OK) {
        return status;
    }
    data = data.subspan(used);
    status = read_symbols(data, table, lanes, {codes.bytes, codes.count}, codes.ahead);
    if (status != FEWBITS_OK || !shape.wide()) {
        return status;
    }
    const bool some = table.slots[kRansTotal - 1] >> 24 == kEscape; // the last symbol's slot
    return read_escapes(shape, data, base, some, codes);
}

// Which codes are not 0: their number, and a bit for each code.
size_t marked(const CodesOut &codes, Bytes mask) {
    if (codes.equal != nullptr && *codes.equal) {
        const bool some = codes.bytes[0] != 0;
        std::fill(mask.begin(), mask.end(), static_cast<uint8_t>(some ? 0xFF : 0));
        return some ? codes.count : 0;
    }
    return kernels().coder.nonzero({codes.bytes, codes.count}, mask);
}

// The signs are the last part: what is left must be theirs.
fewbits_status read_signs(ConstBytes data, const CodesOut &codes) {
    uint8_t mask[kCodedBlock / 8];
    const size_t plane_size = packed_size(codes.count, 1);
    const size_t nonzero = marked(codes, {mask, plane_size});
    const size_t size = packed_size(nonzero, 1);
    if (data.size() != size) {
        return data.size() < size ? FEWBITS_CODED_SHORT : FEWBITS_CODED_LONG;
    }
    if (nonzero % 8 != 0 && data.back() >> (nonzero % 8) != 0) {
        return FEWBITS_BAD_PADDING;
    }
    if (nonzero < codes.count) {
        kernels().coder.spread_bits(data, {mask, plane_size}, {codes.signs, plane_size});
    } else {
        std::memcpy(codes.signs, data.data(), size);
    }
    return FEWBITS_OK;
}

fewbits_status read_alike(const CodedShape &shape, ConstBytes &data, bool revised,
                          const CodesOut &codes) {
    if (data.empty()) {
        return FEWBITS_CODED_SHORT;
    }
    const uint8_t kind = data[0];
    data = data.subspan(1);
    if (kind <= kConstant) {
        return kind == kRaw ? read_raw(shape, data, codes) : read_constant(shape, data, codes);
    }
    if (revised && kind == kRans) {
        if (data.empty()) {
            return FEWBITS_CODED_SHORT;
        }
        const uint8_t head = data[0];
        data = data.subspan(1);
        if ((head & (kReservedHead | kPhased)) != 0 || (head & 7) > kMostLanes) {
            return FEWBITS_CODED_KIND;
        }
        return read_rans(shape, data, size_t{1} << (head & 7), head >> 3, codes);
    }
    if (revised || kind >= kFirstMasked) {
        return FEWBITS_CODED_KIND;
    }
    return read_rans(shape, data, size_t{4} << (kind - kFirstRans), kFirstTable, codes);
}

fewbits_status read_block(const CodedShape &shape, ConstBytes data, const CodesOut &codes) {
    const uint8_t kind = data.empty() ? kRaw : data[0];
    if (kind == kRans && codes.dither != nullptr && data.size() > 1 && (data[1] & kPhased) != 0) {
        return read_phased(shape, data, codes);
    }
    fewbits_status status;
    if (kind == kGaps) {
        data = data.subspan(1);
        status = read_gaps(shape, data, codes);
    } else if (kind == kMasked || kind == kFirstMasked) {
        data = data.subspan(1);
        status = read_masked(shape, data, kind == kMasked, codes);
    } else {
        status = read_alike(shape, data, kind == kRans, codes);
    }
    if (status != FEWBITS_OK) {
        return status;
    }
    if (shape.is_signed) {
        return read_signs(data, codes);
    }
    return data.empty() ? FEWBITS_OK : FEWBITS_CODED_LONG;
}

// Levels of a block that has no tables for them.
[[gnu::noinline]] fewbits_status read_plain_levels(const CodedShape &shape, ConstBytes data,
                                                   const CodesOut &codes) {
    uint8_t bytes[kCodedBlock], signs[kMostPlane];
    uint16_t words[kCodedBlock];
    const auto status = read_block(shape, data, {codes.count, bytes, words, signs});
    for (size_t i = 0; status == FEWBITS_OK && i < codes.count; ++i) {
        const int32_t code = shape.wide() ? words[i] : bytes[i];
        codes.path->levels[i] = (signs[i / 8] >> (i % 8) & 1) != 0 ? -code : code;
    }
    return status;
}

// A block of halves, behind its kind.
fewbits_status read_halves(const CodedShape &shape, ConstBytes data, const CodesOut &codes) {
    if (!data.empty() && data[0] > kConstant && (data[0] < kRans || data[0] >= kHalves)) {
        return FEWBITS_CODED_KIND;
    }
    const auto status = read_plain_levels(shape, data, codes);
    return status != FEWBITS_OK ? status : double_levels(shape, codes.count, *codes.path);
}

} // namespace

fewbits_status CodedReader::open() {
    size_t at = 0;
    for (uint64_t left = shape_.blocks(); left > 0; --left) { // ends with the data, if not before
        if (data_.size() - at < kLengthSize) {
            return FEWBITS_CODED_LENGTHS;
        }
        const size_t length = length_at(at);
        at += kLengthSize;
        if (length > data_.size() - at) {
            return FEWBITS_CODED_LENGTHS;
        }
        at += length;
    }
    return at == data_.size() ? FEWBITS_OK : FEWBITS_CODED_LENGTHS;
}

fewbits_status CodedReader::read(const CodesOut &codes) {
    if (waiting_ == 0 && !reads_ahead(codes)) {
        const size_t length = length_at(at_);
        const ConstBytes block = data_.subspan(at_ + kLengthSize, length);
        at_ += kLengthSize + length;
        ++block_;
        return read_next(codes, block);
    }
    const size_t place = shown_++;
    --waiting_;
    if (place > 0) {
        std::memcpy(codes.bytes, codes_[place - 1], kCodedBlock);
    }
    if (shape_.wide()) {
        *codes.small = true;
    }
    if (shape_.is_signed) {
        return read_signs(rest_[place], codes);
    }
    return rest_[place].empty() ? FEWBITS_OK : FEWBITS_CODED_LONG;
}

std::optional<fewbits_status> CodedReader::read_values(int trellis, const PathValues &to) {
    const size_t length = length_at(at_);
    const auto status =
        read_path_values(shape_, data_.subspan(at_ + kLengthSize, length), trellis, to);
    if (status) {
        at_ += kLengthSize + length;
        ++block_;
    }
    return status;
}

fewbits_status CodedReader::read_next(const CodesOut &codes, ConstBytes block) {
    if (codes.path == nullptr) {
        return read_block(shape_, block, codes);
    }
    if (!block.empty() && block[0] == kHalves) {
        return read_halves(shape_, block.subspan(1), codes);
    }
    const bool tables = block.size() > 1 && block[0] == kRans && (block[1] & kPhased) != 0;
    return tables ? read_path(shape_, block, codes) : read_plain_levels(shape_, block, codes);
}

// Decodes this block and some that follow, if all are plain.
bool CodedReader::reads_ahead(const CodesOut &codes) {
    const uint64_t whole =
        shape_.count / kCodedBlock - std::min(block_, shape_.count / kCodedBlock);
    if (kernels().coder.decode_abreast == nullptr || block_ < alone_ || whole < 2 ||
        codes.path != nullptr || (shape_.wide() && codes.small == nullptr)) {
        return false;
    }
    // Of five, three and then two: none should be alone.
    const size_t number = whole == 5 ? 3 : std::min<size_t>(whole, kAbreast);
    size_t at = at_;
    for (size_t i = 0; i < number; ++i) {
        const size_t length = length_at(at);
        rest_[i] = data_.subspan(at + kLengthSize, length);
        at += kLengthSize + length;
    }
    if (!read_abreast(shape_, {rest_, number}, codes, codes_)) {
        alone_ = block_ + number;
        return false;
    }
    at_ = at;
    block_ += number;
    waiting_ = number;
    shown_ = 0;
    return true;
}

size_t CodedReader::length_at(size_t at) const {
    uint32_t length = 0;
    std::memcpy(&length, data_.data() + at, kLengthSize);
    return length;
}

} // namespace fewbits
