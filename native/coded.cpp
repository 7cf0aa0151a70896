// Coded sections: their structure, the choice of each block's table, and everything about hostile
// bytes. The loops over symbols are kernels.
#include "coded.h"

#include <algorithm>
#include <numeric>

#include "fewbits.h"
#include "rans.h"

namespace fewbits {
namespace {

constexpr size_t kLengthSize = 3;
constexpr uint8_t kRaw = 0;
constexpr uint8_t kConstant = 1;
constexpr uint8_t kRans = 2; // and above: the lanes are 4 << (kind - kRans)
constexpr int kLanesKinds = 5;
constexpr uint8_t kSparse = kRans + kLanesKinds;
constexpr size_t kSparseShare = 32; // blocks with at least this part of zeros may be sparse
constexpr size_t kMostPlane = kCodedBlock / 8;
constexpr uint32_t kEscape = 255; // the symbol of a wide section's rare codes
constexpr uint32_t kWindow = 254; // wide codes that have a symbol of their own, 0 apart
constexpr int kLargestClass = 12; // a frequency's number of bits
constexpr size_t kLargestTable = 2 + (256 * (4 + kLargestClass - 1) + 7) / 8;

// More lanes are faster. Each costs about three bytes: one per 512 codes is about one percent.
int lanes_kind(size_t count) { return std::min(static_cast<int>(std::bit_width(count / 4096)), 3); }

// ---- bit strings, least significant bit first ----

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

class BitReader {
  public:
    explicit BitReader(ConstBytes from) : from_(from) {}
    // Zero bits beyond the end: `short_of_bits` then says so.
    uint32_t take(int width) {
        for (; bits_ < width; bits_ += 8) {
            const bool there = at_ < from_.size();
            pending_ |= uint64_t{there ? from_[at_] : uint8_t{0}} << bits_;
            ++at_;
        }
        const auto value = static_cast<uint32_t>(pending_ & ((uint64_t{1} << width) - 1));
        pending_ >>= width;
        bits_ -= width;
        return value;
    }
    bool short_of_bits() const { return at_ > from_.size(); }
    bool padding_is_zero() const { return pending_ == 0; }
    size_t used() const { return at_; }

  private:
    ConstBytes from_;
    uint64_t pending_ = 0;
    int bits_ = 0;
    size_t at_ = 0;
};

// ---- frequencies ----

using Frequencies = uint16_t[256];

// Frequencies that add up to 4096, at least 1 for each symbol that occurs, of which there are two
// or more. Integers only: every writer finds the same.
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

// Reads a table whose symbols are all below `symbols`; `used` is its size.
fewbits_status read_table(ConstBytes data, uint32_t symbols, uint32_t escape,
                          RansDecodeTable &table, size_t &used) {
    BitReader bits(data);
    const uint32_t first = bits.take(8);
    const uint32_t last = bits.take(8);
    uint32_t sum = 0;
    for (uint32_t symbol = first; symbol <= last; ++symbol) {
        const int number = static_cast<int>(bits.take(4));
        if (bits.short_of_bits()) {
            return FEWBITS_CODED_SHORT;
        }
        if (number > kLargestClass) {
            return FEWBITS_CODED_TABLE;
        }
        if (number == 0) {
            if (symbol == first || symbol == last) {
                return FEWBITS_CODED_TABLE;
            }
            continue;
        }
        const uint32_t frequency = (1u << (number - 1)) + bits.take(number - 1);
        if (bits.short_of_bits()) {
            return FEWBITS_CODED_SHORT;
        }
        if (sum + frequency > kRansTotal || (symbol >= symbols && symbol != escape)) {
            return FEWBITS_CODED_TABLE;
        }
        table.set(static_cast<uint8_t>(symbol), frequency, sum);
        sum += frequency;
    }
    if (bits.short_of_bits()) {
        return FEWBITS_CODED_SHORT;
    }
    if (sum != kRansTotal || !bits.padding_is_zero()) {
        return FEWBITS_CODED_TABLE;
    }
    used = bits.used();
    return FEWBITS_OK;
}

// ---- wide codes ----

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

bool in_window(uint32_t code, uint32_t base) { return code - base < kWindow; } // unsigned: no wrap

// ---- one block ----

bool all_equal(const CodedShape &shape, const CodesIn &codes) {
    const void *const values = shape.wide() ? static_cast<const void *>(codes.words) : codes.bytes;
    const size_t item = shape.wide() ? 2 : 1;
    const void *const next = static_cast<const uint8_t *>(values) + item;
    return std::memcmp(values, next, item * (codes.count - 1)) == 0; // each equals the one before
}

uint32_t code_at(const CodedShape &shape, const CodesIn &codes, size_t i) {
    return shape.wide() ? codes.words[i] : codes.bytes[i];
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

// The rANS body and its kind, or null where it is not smaller than the raw body. `symbols` are
// those of the codes.
uint8_t *write_rans(const CodedShape &shape, const CodesIn &codes, ConstBytes symbols,
                    uint32_t base, uint8_t *kind_byte) {
    const size_t raw = packed_size(codes.count, shape.width());
    Histogram histogram = {};
    kernels().count_symbols(symbols, histogram);
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
    const int kind = lanes_kind(codes.count);
    const size_t lanes = size_t{4} << kind;
    const size_t fixed = head_size + 4 * lanes + escapes;
    if (fixed >= raw) {
        return nullptr;
    }
    RansEncodeTable table;
    for (uint32_t symbol = 0, first = 0; symbol < 256; ++symbol) {
        if (frequencies[symbol] > 0) {
            table.set(static_cast<uint8_t>(symbol), frequencies[symbol], first);
            first += frequencies[symbol];
        }
    }
    uint32_t states[kMaxLanes];
    std::fill_n(states, lanes, kRansLow);
    // The words may take what keeps the body one byte smaller than the raw one. They are written
    // downwards from there and then moved to their place.
    uint8_t *const body = kind_byte + 1;
    const Bytes room = {body + head_size + 4 * lanes, raw - 1 - fixed};
    uint8_t *const words = kernels().rans_encode(symbols, table, {states, lanes}, room);
    if (words == nullptr) {
        return nullptr;
    }
    const size_t words_size = static_cast<size_t>(room.data() + room.size() - words);
    std::memmove(room.data(), words, words_size);
    *kind_byte = static_cast<uint8_t>(kRans + kind);
    std::memcpy(body, head, head_size);
    std::memcpy(body + head_size, states, 4 * lanes);
    BitWriter bits(room.data() + words_size);
    for (size_t i = 0; escapes > 0 && i < codes.count; ++i) {
        if (symbols[i] == kEscape) {
            bits.put(codes.words[i], shape.width());
        }
    }
    return bits.end();
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
        : nonzero(kernels().nonzero(symbols, {bits, packed_size(symbols.size(), 1)})) {}
};

// The signs of the codes that are not 0.
uint8_t *write_signs(size_t count, const Mask &mask, const uint8_t *signs, uint8_t *to) {
    const size_t plane_size = packed_size(count, 1);
    const size_t size = packed_size(mask.nonzero, 1);
    if (mask.nonzero < count) {
        kernels().join_bits({signs, plane_size}, {mask.bits, plane_size}, {to, size});
    } else {
        std::memcpy(to, signs, size);
        to[size - 1] = static_cast<uint8_t>(to[size - 1] & mask.bits[size - 1]); // no bits beyond
    }
    return to + size;
}

// Kind and body of a block in the best of the ways that take all codes alike. A wide block leaves
// its symbols in `scratch`.
uint8_t *write_alike(const CodedShape &shape, const CodesIn &codes, uint8_t *scratch, uint8_t *to) {
    const uint8_t *symbols = shape.wide() ? scratch : codes.bytes;
    uint8_t *end;
    if (all_equal(shape, codes) && packed_size(codes.count, shape.width()) >= 2) {
        const uint32_t code = code_at(shape, codes, 0);
        to[0] = kConstant;
        to[1] = static_cast<uint8_t>(code);
        to[2] = static_cast<uint8_t>(code >> 8);
        end = to + 3;
        if (shape.wide()) {
            std::memset(scratch, code != 0, codes.count);
        }
    } else {
        uint32_t base = 0;
        if (shape.wide()) {
            base = write_symbols(shape, codes, scratch);
        }
        end = write_rans(shape, codes, {symbols, codes.count}, base, to);
        if (end == nullptr) {
            to[0] = kRaw;
            end = write_raw(shape, codes, to + 1);
        }
    }
    return end;
}

// Kind and body of a sparse block: the mask as a block of bytes, then the codes that are not 0.
uint8_t *write_sparse(const CodedShape &shape, const CodesIn &codes, const Mask &mask,
                      uint8_t *to) {
    const size_t plane_size = packed_size(codes.count, 1);
    const CodedShape plane = {plane_size, 256, false};
    to[0] = kSparse;
    uint8_t *const start = to + 1 + kLengthSize;
    uint8_t *const end =
        write_alike(plane, {plane_size, mask.bits, nullptr, nullptr}, nullptr, start);
    const auto length = static_cast<uint32_t>(end - start);
    std::memcpy(to + 1, &length, kLengthSize);
    uint8_t dense[kCodedBlock + kSlack];
    kernels().join_bytes({codes.bytes, codes.count}, {mask.bits, plane_size},
                         {dense, mask.nonzero + kSlack});
    return write_alike(shape, {mask.nonzero, dense, nullptr, nullptr}, nullptr, end);
}

uint8_t *write_block(const CodedShape &shape, const CodesIn &codes, uint8_t *to) {
    uint8_t scratch[kCodedBlock]; // a wide block's symbols
    uint8_t *end = write_alike(shape, codes, scratch, to);
    const Mask mask({shape.wide() ? scratch : codes.bytes, codes.count});
    const size_t zeros = codes.count - mask.nonzero;
    if (!shape.wide() && mask.nonzero > 0 && zeros * kSparseShare >= codes.count) {
        uint8_t other[1 + kLengthSize + 1 + kMostPlane + 1 + kCodedBlock];
        const auto size = static_cast<size_t>(write_sparse(shape, codes, mask, other) - other);
        if (size < static_cast<size_t>(end - to)) {
            std::memcpy(to, other, size);
            end = to + size;
        }
    }
    return shape.is_signed ? write_signs(codes.count, mask, codes.signs, end) : end;
}

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
            kernels().unpack(packed, shape.width(), shape.bound, {codes.words, codes.count});
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
    if (shape.wide()) {
        std::fill_n(codes.words, codes.count, static_cast<uint16_t>(code));
        std::memset(codes.bytes, code != 0, codes.count);
    } else {
        std::memset(codes.bytes, static_cast<int>(code), codes.count);
    }
    return FEWBITS_OK;
}

// Turns a wide block's symbols into codes. The escaped ones are unpacked to the end of the codes,
// where each still waits when its turn comes.
fewbits_status read_escapes(const CodedShape &shape, ConstBytes &data, uint32_t base,
                            const CodesOut &codes) {
    const auto escapes = static_cast<size_t>(
        std::count(codes.bytes, codes.bytes + codes.count, static_cast<uint8_t>(kEscape)));
    const size_t size = packed_size(escapes, shape.width());
    if (data.size() < size) {
        return FEWBITS_CODED_SHORT;
    }
    const std::span<uint16_t> waiting = {codes.words + codes.count - escapes, escapes};
    const auto status = kernels().unpack(data.first(size), shape.width(), shape.bound, waiting);
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

fewbits_status read_rans(const CodedShape &shape, ConstBytes &data, size_t lanes,
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
    auto status = read_table(data, symbols, escape, table, used);
    if (status != FEWBITS_OK) {
        return status;
    }
    data = data.subspan(used);
    if (data.size() < 4 * lanes) {
        return FEWBITS_CODED_SHORT;
    }
    uint32_t states[kMaxLanes];
    std::memcpy(states, data.data(), 4 * lanes);
    data = data.subspan(4 * lanes);
    if (!std::all_of(states, states + lanes,
                     [](uint32_t state) { return state >= kRansLow && state < kRansHigh; })) {
        return FEWBITS_CODED_STATE;
    }
    const uint8_t *const end =
        kernels().rans_decode(data, table, {states, lanes}, {codes.bytes, codes.count});
    if (end == nullptr) {
        return FEWBITS_CODED_SHORT;
    }
    if (!std::all_of(states, states + lanes, [](uint32_t state) { return state == kRansLow; })) {
        return FEWBITS_CODED_STATE;
    }
    data = data.subspan(static_cast<size_t>(end - data.data()));
    return shape.wide() ? read_escapes(shape, data, base, codes) : FEWBITS_OK;
}

// The signs are the last part: what is left must be theirs.
fewbits_status read_signs(ConstBytes data, const CodesOut &codes) {
    uint8_t mask[kCodedBlock / 8];
    const size_t plane_size = packed_size(codes.count, 1);
    const size_t nonzero = kernels().nonzero({codes.bytes, codes.count}, {mask, plane_size});
    const size_t size = packed_size(nonzero, 1);
    if (data.size() != size) {
        return data.size() < size ? FEWBITS_CODED_SHORT : FEWBITS_CODED_LONG;
    }
    if (nonzero % 8 != 0 && data.back() >> (nonzero % 8) != 0) {
        return FEWBITS_BAD_PADDING;
    }
    if (nonzero < codes.count) {
        kernels().spread_bits(data, {mask, plane_size}, {codes.signs, plane_size});
    } else {
        std::memcpy(codes.signs, data.data(), size);
    }
    return FEWBITS_OK;
}

fewbits_status read_alike(const CodedShape &shape, ConstBytes &data, const CodesOut &codes) {
    if (data.empty()) {
        return FEWBITS_CODED_SHORT;
    }
    const uint8_t kind = data[0];
    data = data.subspan(1);
    if (kind >= kSparse) {
        return FEWBITS_CODED_KIND;
    }
    return kind == kRaw        ? read_raw(shape, data, codes)
           : kind == kConstant ? read_constant(shape, data, codes)
                               : read_rans(shape, data, size_t{4} << (kind - kRans), codes);
}

fewbits_status read_sparse(const CodedShape &shape, ConstBytes &data, const CodesOut &codes) {
    if (shape.wide()) {
        return FEWBITS_CODED_KIND;
    }
    uint32_t length = 0;
    if (data.size() < kLengthSize) {
        return FEWBITS_CODED_SHORT;
    }
    std::memcpy(&length, data.data(), kLengthSize);
    data = data.subspan(kLengthSize);
    if (length > data.size()) {
        return FEWBITS_CODED_SHORT;
    }
    ConstBytes block = data.first(length);
    data = data.subspan(length);
    uint8_t bits[kMostPlane];
    const size_t plane_size = packed_size(codes.count, 1);
    auto status = read_alike({plane_size, 256, false}, block, {plane_size, bits, nullptr, nullptr});
    if (status != FEWBITS_OK) {
        return status;
    }
    if (!block.empty()) {
        return FEWBITS_CODED_LONG;
    }
    if (codes.count % 8 != 0 && bits[plane_size - 1] >> (codes.count % 8) != 0) {
        return FEWBITS_BAD_PADDING;
    }
    const size_t nonzero =
        std::accumulate(bits, bits + plane_size, size_t{0}, [](size_t sum, uint8_t byte) {
            return sum + static_cast<size_t>(std::popcount(byte));
        });
    uint8_t dense[kCodedBlock + kSlack];
    if (nonzero > 0) {
        status = read_alike(shape, data, {nonzero, dense, nullptr, nullptr});
        if (status != FEWBITS_OK) {
            return status;
        }
        if (std::memchr(dense, 0, nonzero) != nullptr) {
            return FEWBITS_CODED_ZERO;
        }
    }
    std::memset(dense + nonzero, 0, kSlack); // read, never used
    kernels().spread_bytes({dense, nonzero + kSlack}, {bits, plane_size},
                           {codes.bytes, codes.count});
    return FEWBITS_OK;
}

fewbits_status read_block(const CodedShape &shape, ConstBytes data, const CodesOut &codes) {
    fewbits_status status;
    if (!data.empty() && data[0] == kSparse) {
        data = data.subspan(1);
        status = read_sparse(shape, data, codes);
    } else {
        status = read_alike(shape, data, codes);
    }
    if (status != FEWBITS_OK) {
        return status;
    }
    if (shape.is_signed) {
        return read_signs(data, codes);
    }
    return data.empty() ? FEWBITS_OK : FEWBITS_CODED_LONG;
}

} // namespace

// ---- the section ----

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

void CodedWriter::write(const CodesIn &codes) {
    uint8_t *const block = at_ + kLengthSize;
    uint8_t *const end = write_block(shape_, codes, block);
    const auto length = static_cast<uint32_t>(end - block);
    std::memcpy(at_, &length, kLengthSize);
    at_ = end;
}

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
    const size_t length = length_at(at_);
    const ConstBytes block = data_.subspan(at_ + kLengthSize, length);
    at_ += kLengthSize + length;
    return read_block(shape_, block, codes);
}

size_t CodedReader::length_at(size_t at) const {
    uint32_t length = 0;
    std::memcpy(&length, data_.data() + at, kLengthSize);
    return length;
}

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
    if (count > SIZE_MAX / 32 || capacity < shape.largest()) {
        return FEWBITS_BAD_SIZE;
    }
    CodedWriter writer(shape, out);
    for (size_t start = 0; start < count; start += kCodedBlock) {
        uint8_t bytes[kCodedBlock];
        const size_t size = std::min(kCodedBlock, count - start);
        uint32_t largest = 0;
        for (size_t i = 0; i < size; ++i) {
            bytes[i] = static_cast<uint8_t>(codes[start + i]);
            largest = std::max<uint32_t>(largest, codes[start + i]);
        }
        if (largest >= bound) {
            return FEWBITS_BAD_ARGUMENT;
        }
        writer.write({size, bytes, codes + start, signs == nullptr ? nullptr : signs + start / 8});
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
