// Writes blocks of codes: the choice of each block's kind and table. The choice is made in integers
// only, so that every machine writes the same bytes. The loops over symbols are kernels.
#include <algorithm>
#include <numeric>

#include "coded_blocks.h"

namespace fewbits {
namespace {

// More lanes are faster. Each costs about three bytes: one per 512 codes is about one percent, and
// one per 128 symbols that are not the most frequent three to eight percent.
int lanes_kind(size_t count, size_t rare) {
    const size_t most = std::min(count / 4096, rare / 1024);
    return std::min(static_cast<int>(std::bit_width(most)), 3);
}

// Bits, the least significant one first.
class BitWriter {
  public:
    explicit BitWriter(uint8_t *to) : to_(to) {}
    void put(uint32_t value, int width) {
        pending_ |= uint64_t{value} << bits_;
        for (bits_ += width; bits_ >= 8; bits_ -= 8, pending_ >>= 8) {
            *to_++ = static_cast<uint8_t>(pending_);
        }
    }
    uint8_t *end() { // with zeros to the end of the byte
        if (bits_ > 0) {
            *to_++ = static_cast<uint8_t>(pending_);
        }
        return to_;
    }

  private:
    uint8_t *to_;
    uint64_t pending_ = 0;
    int bits_ = 0;
};

using Frequencies = uint16_t[256];

// Frequencies that add up to 4096, at least 1 for each symbol that occurs, of which there are two
// or more.
void normalise(const Histogram &histogram, size_t count, Frequencies &frequencies) {
    uint32_t sum = 0;
    for (size_t symbol = 0; symbol < 256; ++symbol) {
        const uint32_t share =
            histogram[symbol] * kRansTotal / static_cast<uint32_t>(count); // at most 2^28
        const uint32_t frequency = histogram[symbol] == 0 ? 0 : std::max(share, 1u);
        frequencies[symbol] = static_cast<uint16_t>(frequency);
        sum += frequency;
    }
    if (sum < kRansTotal) {
        const auto most = std::max_element(histogram, histogram + 256) - histogram;
        frequencies[most] = static_cast<uint16_t>(frequencies[most] + kRansTotal - sum);
    }
    for (; sum > kRansTotal; --sum) {
        --*std::max_element(frequencies, frequencies + 256);
    }
}

uint8_t *write_table(const Frequencies &frequencies, uint8_t *to) {
    size_t first = 0;
    size_t last = 255;
    for (; frequencies[first] == 0; ++first) {
    }
    for (; frequencies[last] == 0; --last) {
    }
    BitWriter bits(to);
    bits.put(static_cast<uint32_t>(first), 8);
    bits.put(static_cast<uint32_t>(last), 8);
    for (size_t symbol = first; symbol <= last; ++symbol) {
        const uint32_t frequency = frequencies[symbol];
        const auto number = static_cast<int>(std::bit_width(frequency));
        bits.put(static_cast<uint32_t>(number), 4);
        if (number > 1) {
            bits.put(frequency - (1u << (number - 1)), number - 1);
        }
    }
    return bits.end();
}

// The smallest base whose window [base, base + 253] holds most of the codes that are not 0, of
// which there is one at least.
uint32_t choose_base(std::span<const uint16_t> codes, uint32_t bound) {
    uint32_t lowest = bound;
    uint32_t highest = 0;
    for (const uint32_t code : codes) {
        lowest = code == 0 ? lowest : std::min(lowest, code);
        highest = std::max(highest, code);
    }
    // Windows that end below the lowest code or begin above the highest hold nothing.
    const uint32_t first_base = lowest < kWindow ? 1 : lowest - kWindow + 1;
    const uint32_t last_base = std::min(highest, bound - kWindow);
    uint16_t counts[65536]; // enough for a count of 65,535: the codes are not all equal
    std::fill(counts + first_base, counts + last_base + kWindow, uint16_t{0});
    counts[0] = 0;
    for (const uint16_t code : codes) {
        ++counts[code];
    }
    uint32_t held = std::accumulate(counts + first_base, counts + first_base + kWindow, 0u);
    uint32_t most = held;
    uint32_t best = first_base;
    for (uint32_t base = first_base + 1; base <= last_base; ++base) {
        held = held + counts[base + kWindow - 1] - counts[base - 1];
        if (held > most) {
            most = held;
            best = base;
        }
    }
    return best;
}

// Codes of a wide section may come as bytes if none is above 254: they are the symbols then, and
// the base is 1, which is what choose_base would find.
bool in_words(const CodedShape &shape, const CodesIn &codes) {
    return shape.wide() && codes.words != nullptr;
}

bool all_equal(const CodedShape &shape, const CodesIn &codes) {
    const bool words = in_words(shape, codes);
    const void *const values = words ? static_cast<const void *>(codes.words) : codes.bytes;
    const size_t item = words ? 2 : 1;
    const void *const next = static_cast<const uint8_t *>(values) + item;
    return std::memcmp(values, next, item * (codes.count - 1)) == 0; // each equals the one before
}

uint32_t code_at(const CodedShape &shape, const CodesIn &codes, size_t i) {
    return in_words(shape, codes) ? codes.words[i] : codes.bytes[i];
}

uint8_t *write_raw(const CodedShape &shape, const CodesIn &codes, uint8_t *to) {
    if (shape.width() == 8) {
        std::memcpy(to, codes.bytes, codes.count);
        return to + codes.count;
    }
    BitWriter bits(to);
    for (size_t i = 0; i < codes.count; ++i) {
        bits.put(code_at(shape, codes, i), shape.width());
    }
    return bits.end();
}

uint8_t *write_constant(uint32_t code, uint8_t *to) {
    to[0] = kConstant;
    to[1] = static_cast<uint8_t>(code);
    to[2] = static_cast<uint8_t>(code >> 8);
    return to + 3;
}

RansEncodeTable encode_table(const Frequencies &frequencies) {
    RansEncodeTable table;
    for (uint32_t symbol = 0, first = 0; symbol < 256; ++symbol) {
        if (frequencies[symbol] > 0) {
            table.set(static_cast<uint8_t>(symbol), frequencies[symbol], first);
            first += frequencies[symbol];
        }
    }
    return table;
}

// The codes that have no symbol of their own.
uint8_t *write_escapes(const CodedShape &shape, const CodesIn &codes, ConstBytes symbols,
                       uint8_t *to) {
    BitWriter bits(to);
    for (size_t i = 0; i < codes.count; ++i) {
        if (symbols[i] == kEscape) {
            bits.put(codes.words[i], shape.width());
        }
    }
    return bits.end();
}

// The rANS body and its kind, or null where it is not smaller than the raw body. `symbols` are
// those of the codes, and how often each occurs.
uint8_t *write_rans(const CodedShape &shape, const CodesIn &codes, ConstBytes symbols,
                    const Histogram &histogram, uint32_t base, uint8_t *kind_byte) {
    Frequencies frequencies;
    normalise(histogram, codes.count, frequencies);
    uint8_t head[2 + kLargestTable];
    uint8_t *head_end = head;
    size_t escapes = 0;
    if (shape.wide()) {
        *head_end++ = static_cast<uint8_t>(base);
        *head_end++ = static_cast<uint8_t>(base >> 8);
        escapes = packed_size(histogram[kEscape], shape.width());
    }
    head_end = write_table(frequencies, head_end);
    const size_t head_size = static_cast<size_t>(head_end - head);
    const int kind =
        lanes_kind(codes.count, codes.count - *std::max_element(histogram, histogram + 256));
    const size_t lanes = size_t{4} << kind;
    const size_t fixed = head_size + 4 * lanes + escapes;
    const size_t raw = packed_size(codes.count, shape.width());
    if (fixed >= raw) {
        return nullptr;
    }
    const RansEncodeTable table = encode_table(frequencies);
    uint32_t states[kMaxLanes];
    std::fill_n(states, lanes, kRansLow);
    // The words may take what keeps the body one byte smaller than the raw one. They are written
    // downwards from there and then moved to their place.
    uint8_t *const body = kind_byte + 1;
    const Bytes room = {body + head_size + 4 * lanes, raw - 1 - fixed};
    uint8_t *const words = kernels().coder.encode(symbols, table, {states, lanes}, room);
    if (words == nullptr) {
        return nullptr;
    }
    const size_t words_size = static_cast<size_t>(room.data() + room.size() - words);
    std::memmove(room.data(), words, words_size);
    *kind_byte = static_cast<uint8_t>(kRans + kind);
    std::memcpy(body, head, head_size);
    std::memcpy(body + head_size, states, 4 * lanes);
    uint8_t *const end = room.data() + words_size;
    return escapes > 0 ? write_escapes(shape, codes, symbols, end) : end;
}

// The symbols of wide codes; returns the base that they are relative to.
uint32_t write_symbols(const CodedShape &shape, const CodesIn &codes, uint8_t *symbols) {
    const uint32_t base = choose_base({codes.words, codes.count}, shape.bound);
    for (size_t i = 0; i < codes.count; ++i) {
        const uint32_t code = codes.words[i];
        const uint32_t symbol = in_window(code, base) ? code - base + 1 : kEscape;
        symbols[i] = static_cast<uint8_t>(code == 0 ? 0 : symbol);
    }
    return base;
}

// Which codes of a block are not 0: their number, and a bit for each code.
struct Mask {
    size_t nonzero;
    uint8_t bits[kMostPlane];

    explicit Mask(ConstBytes symbols)
        : nonzero(kernels().coder.nonzero(symbols, {bits, packed_size(symbols.size(), 1)})) {}
};

// The signs of the codes that are not 0.
uint8_t *write_signs(size_t count, const Mask &mask, const uint8_t *signs, uint8_t *to) {
    const size_t plane_size = packed_size(count, 1);
    const size_t size = packed_size(mask.nonzero, 1);
    if (mask.nonzero < count) {
        kernels().coder.join_bits({signs, plane_size}, {mask.bits, plane_size}, {to, size});
    } else {
        std::memcpy(to, signs, size);
        to[size - 1] = static_cast<uint8_t>(to[size - 1] & mask.bits[size - 1]); // no bits beyond
    }
    return to + size;
}

// Kind and body of a block that is not sparse, in the smallest of its forms. A block of words
// leaves its symbols in `scratch`. The histogram, if it is all 0, is filled unless the codes are
// equal.
uint8_t *write_alike(const CodedShape &shape, const CodesIn &codes, uint8_t *scratch,
                     Histogram &histogram, uint8_t *to) {
    const bool words = in_words(shape, codes);
    const uint8_t *symbols = words ? scratch : codes.bytes;
    uint8_t *end;
    if (all_equal(shape, codes) && packed_size(codes.count, shape.width()) >= 2) {
        const uint32_t code = code_at(shape, codes, 0);
        end = write_constant(code, to);
        if (words) {
            std::memset(scratch, code != 0, codes.count);
        }
    } else {
        const uint32_t base = words ? write_symbols(shape, codes, scratch) : 1;
        if (std::all_of(histogram, histogram + 256, [](uint32_t count) { return count == 0; })) {
            kernels().coder.count_symbols({symbols, codes.count}, histogram);
        }
        end = write_rans(shape, codes, {symbols, codes.count}, histogram, base, to);
        if (end == nullptr) {
            to[0] = kRaw;
            end = write_raw(shape, codes, to + 1);
        }
    }
    return end;
}

// Kind and body of a sparse block: the mask as a block of bytes, then the codes that are not 0,
// whose histogram is given.
uint8_t *write_sparse(const CodedShape &shape, const CodesIn &codes, const Mask &mask,
                      Histogram &dense_histogram, uint8_t *to) {
    const size_t plane_size = packed_size(codes.count, 1);
    const CodedShape plane = {plane_size, 256, false};
    to[0] = kSparse;
    uint8_t *const start = to + 1 + kLengthSize;
    Histogram histogram = {};
    uint8_t *const end =
        write_alike(plane, {plane_size, mask.bits, nullptr, nullptr}, nullptr, histogram, start);
    const auto length = static_cast<uint32_t>(end - start);
    std::memcpy(to + 1, &length, kLengthSize);
    uint8_t dense[kCodedBlock + kSlack];
    kernels().coder.join_bytes({codes.bytes, codes.count}, {mask.bits, plane_size},
                               {dense, mask.nonzero + kSlack});
    const CodesIn others = {mask.nonzero, dense, nullptr, nullptr};
    return write_alike(shape, others, nullptr, dense_histogram, end);
}

uint8_t *write_block(const CodedShape &shape, const CodesIn &codes, uint8_t *to) {
    uint8_t scratch[kCodedBlock]; // the symbols of a block of words
    Histogram histogram = {};
    uint8_t *end = write_alike(shape, codes, scratch, histogram, to);
    const Mask mask({in_words(shape, codes) ? scratch : codes.bytes, codes.count});
    const size_t zeros = codes.count - mask.nonzero;
    if (!shape.wide() && mask.nonzero > 0 && zeros * kSparseShare >= codes.count) {
        uint8_t other[1 + kLengthSize + 1 + kMostPlane + 1 + kCodedBlock];
        histogram[0] = 0;
        const auto size =
            static_cast<size_t>(write_sparse(shape, codes, mask, histogram, other) - other);
        if (size < static_cast<size_t>(end - to)) {
            std::memcpy(to, other, size);
            end = to + size;
        }
    }
    return shape.is_signed ? write_signs(codes.count, mask, codes.signs, end) : end;
}

} // namespace

void CodedWriter::write(const CodesIn &codes) {
    uint8_t *const block = at_ + kLengthSize;
    finish(write_block(shape_, codes, block));
}

void CodedWriter::write_equal(uint8_t code, size_t count, const uint8_t *signs) {
    if (packed_size(count, shape_.width()) < 2) { // codes of a fixed width are shorter
        uint8_t bytes[16];
        std::memset(bytes, code, count);
        return write({count, bytes, nullptr, signs});
    }
    uint8_t *const block = at_ + kLengthSize;
    uint8_t *const end = write_constant(code, block);
    const size_t size = packed_size(count, 1);
    std::memcpy(end, signs, size);
    finish(end + size);
}

void CodedWriter::finish(uint8_t *end) {
    const auto length = static_cast<uint32_t>(end - at_ - static_cast<ptrdiff_t>(kLengthSize));
    std::memcpy(at_, &length, kLengthSize);
    at_ = end;
}

} // namespace fewbits
