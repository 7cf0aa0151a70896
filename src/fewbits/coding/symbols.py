"""What a writer chooses for rANS: the symbols of a block's codes, their frequencies, the lanes."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.coding.frequencies import SymbolCounts, coarseness, normalised

_Codes = npt.NDArray[np.uint16]

ESCAPE = 255  # the symbol of rare codes where codes are wider than a byte
WINDOW = 254  # codes that have a symbol of their own there, 0 apart


def lanes_log2(count: int, rare: int) -> int:
    """More lanes are faster. Each costs about three bytes: one per 512 codes is one percent.

    Where nearly all symbols are equal it would be much more: one per 128 of the `rare`, the symbols
    that are not the most frequent, is three to eight percent. Few of them have one lane.
    """
    if rare < 512:
        return 0
    return min((rare >> 8).bit_length(), max((count >> 10).bit_length(), 2), 5)


def best_base(codes: _Codes, bound: int) -> int:
    """The first of the windows of 254 codes that hold most of the codes that are not 0."""
    counts = np.bincount(codes, minlength=bound)
    counts[0] = 0
    below = np.concatenate([[0], np.cumsum(counts)])
    held = below[1 + WINDOW :] - below[1:-WINDOW]  # from base 1 on
    return 1 + int(held.argmax())


class CodeSymbols(NamedTuple):
    """What rANS writes of a block: symbols with their frequencies, and codes without a symbol."""

    symbols: npt.NDArray[np.int64]
    base: int
    escaped: _Codes
    histogram: SymbolCounts
    frequencies: SymbolCounts
    coarse: int
    lanes_log2: int


def symbols_of(codes: _Codes, bound: int) -> CodeSymbols:
    symbols, base, escaped = codes.astype(np.int64), 0, codes[:0]
    if bound > 256:
        base = best_base(codes, bound)
        outside = (codes != 0) & ((symbols < base) | (symbols >= base + WINDOW))
        symbols = np.where(codes == 0, 0, np.where(outside, ESCAPE, symbols - base + 1))
        escaped = codes[outside]
    histogram = np.bincount(symbols, minlength=256)
    lanes = lanes_log2(codes.size, codes.size - int(histogram.max()))
    coarse = coarseness(histogram)
    shares = normalised(histogram, coarse)
    return CodeSymbols(symbols, base, escaped, histogram, shares, coarse, lanes)
