// Coded sections: codes in blocks of 65,536, each entropy coded with a table of its own. Scratch is
// on the stack: with the caller's planes 0.4 MB, 0.7 MB where codes are wider than a byte.
#pragma once

#include <optional>

#include "abreast.h"

namespace fewbits {

struct Path; // trellis.h

constexpr size_t kCodedBlock = size_t{1} << 16; // codes

// A section's parameters, which its reader knows beforehand.
struct CodedShape {
    uint64_t count;
    uint32_t bound; // 2 to 65536
    bool is_signed; // codes that are not 0 have a sign

    bool valid() const { return bound >= 2 && bound <= 65536; }
    bool wide() const { return bound > 256; } // codes need more than a byte
    int width() const;                        // bits of the largest code
    uint64_t blocks() const;
    uint64_t largest() const;                 // size in bytes that no section exceeds; saturates
    size_t block_count(uint64_t block) const; // codes in a block
};

// One block's codes, and one bit for each, its sign, where the section has signs.
struct CodesIn {
    size_t count;
    const uint8_t *bytes;  // the codes, unless the section is wide
    const uint16_t *words; // the codes, if it is; null if none is above 254: they are bytes then
    const uint8_t *signs;
    Ahead ahead = {}; // where the values of the next block are, if there is one
    // May be null, and is where there are no signs: the stream that the codes were dithered with,
    // from the first of them on. `bytes` are then there too, with 255 for words above 254.
    const Stream *dither = nullptr;
    const Path *path = nullptr; // levels on paths of a trellis, in place of codes and signs
};
struct CodesOut {
    size_t count;
    uint8_t *bytes;  // a wide section needs them too, as scratch
    uint16_t *words; // only if the section is wide
    uint8_t *signs;  // packed_size(count, 1) bytes; signs of zeros are 0
    // May be null. Set where a wide section's codes are all in `bytes`; `words` are not written
    // then.
    bool *small = nullptr;
    // May be null. Set where all codes are equal; only the first of `bytes` is written then. Not
    // for wide sections.
    bool *equal = nullptr;
    Ahead ahead = {};               // where the values of this block go
    const Stream *dither = nullptr; // as in CodesIn
    const Path *path = nullptr;     // where levels go, in place of codes and signs
};

// Writes a section block by block. `out` has room for the largest size, or `capacity` is less.
class CodedWriter {
  public:
    CodedWriter(const CodedShape &shape, uint8_t *out, size_t capacity = SIZE_MAX)
        : shape_(shape), capacity_(capacity), out_(out), at_(out) {}
    bool write(const CodesIn &codes); // false where the block does not fit
    // The same for `count` equal codes that are not 0, of a signed section that is not wide. No bit
    // is set behind the last sign.
    void write_equal(uint8_t code, size_t count, const uint8_t *signs);
    size_t size() const { return static_cast<size_t>(at_ - out_); }

  private:
    CodedShape shape_;
    size_t capacity_;
    uint8_t *out_;
    uint8_t *at_;

    bool write_apart(const CodesIn &codes); // where a raw block would not fit
    void finish(uint8_t *end);              // puts the block's length before it
};

// The oldest wire version that has all of a section's blocks; takes any bytes.
uint8_t coded_version(ConstBytes section);

// Reads a section block by block; any bytes give codes below the bound or an error. Decodes some
// blocks beside one that is asked for, where the table of kernels gains by that.
class CodedReader {
  public:
    CodedReader(const CodedShape &shape, ConstBytes data) : shape_(shape), data_(data) {}
    fewbits_status open(); // checks the lengths of all blocks
    fewbits_status read(const CodesOut &codes);
    // A block of levels to values; nothing, and it is still there, where it must be read as levels.
    std::optional<fewbits_status> read_values(int trellis, const PathValues &to);

  private:
    CodedShape shape_;
    ConstBytes data_;
    size_t at_ = 0;
    uint64_t block_ = 0;
    // Blocks that were decoded beside another one, and not yet asked for: what is behind their
    // words, and their codes.
    size_t waiting_ = 0;
    size_t shown_ = 0;   // of those that were decoded together
    uint64_t alone_ = 0; // blocks before this one are read one by one
    ConstBytes rest_[kAbreast];
    uint8_t codes_[kAbreast - 1][kCodedBlock];

    size_t length_at(size_t at) const;
    fewbits_status read_next(const CodesOut &codes, ConstBytes block);
    bool reads_ahead(const CodesOut &codes);
};

} // namespace fewbits
