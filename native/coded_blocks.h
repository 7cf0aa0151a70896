// What the writer and the reader of coded blocks share. docs/format.md has the layout.
#pragma once

#include "coded.h"
#include "rans.h"

namespace fewbits {
namespace { // internal linkage: see random.h

constexpr size_t kLengthSize = 3;
constexpr uint8_t kRaw = 0;
constexpr uint8_t kConstant = 1;
// Kinds of wire version 1, which are read and never written.
constexpr uint8_t kFirstRans = 2; // and above: the lanes are 4 << (kind - kFirstRans)
constexpr uint8_t kFirstMasked = 7;
// Kinds of wire version 2.
constexpr uint8_t kRans = 8;
constexpr uint8_t kGaps = 9;
constexpr uint8_t kMasked = 10;
// Of wire version 4, before one of the others or of kRaw and kConstant.
constexpr uint8_t kHalves = 11;
constexpr size_t kZerosShare = 32; // blocks with at least this part of zeros may leave them out
constexpr size_t kMostPlane = kCodedBlock / 8;
constexpr uint32_t kEscape = 255; // the symbol of a wide section's rare codes
constexpr uint32_t kWindow = 254; // wide codes that have a symbol of their own, 0 apart
constexpr int kLargestClass = 12; // a frequency's number of bits
constexpr uint32_t kSkip = 13;    // the class of a run of unused symbols
constexpr size_t kShortestRun = 4;
constexpr int kMostCoarse = 7;
constexpr int kMostLanes = 6;           // log2
constexpr uint8_t kReservedHead = 0x80; // bits of the byte after kRans
constexpr uint8_t kPhased = 0x40;       // there too: a table for each phase of a dither
constexpr size_t kLargestTable = 2 + (256 * (4 + kLargestClass - 1) + 7) / 8;

[[maybe_unused]] bool in_window(uint32_t code, uint32_t base) {
    return code - base < kWindow;
} // unsigned: no wrap

} // namespace
} // namespace fewbits
