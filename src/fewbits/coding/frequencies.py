"""The frequencies of a coded block's symbols: how they are chosen, what they cost, their table."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.coding.bits import BitSource, BitString, Source
from fewbits.errors import DecodeError

TOTAL = 4096
LARGEST_CLASS = 12
SKIP = 13  # the class of a run of symbols that do not occur, in tables of wire version 2
SHORTEST_RUN = 4
MOST_COARSE = 7
BAD_TABLE = "a coded block's table of frequencies is impossible"

SymbolCounts = npt.NDArray[np.int64]


def coarseness(histogram: SymbolCounts) -> int:
    """Zero bits at the end of frequencies: what few symbols say does not pay for a fine table."""
    total, used = int(histogram.sum()), int(np.count_nonzero(histogram))
    wanted = max(13 - total.bit_length(), 0)
    return min(wanted, MOST_COARSE, 10 - (used - 1).bit_length())


def normalised(histogram: SymbolCounts, coarse: int = 0) -> SymbolCounts:
    """Frequencies that add up to 4096, at least 1 for each symbol that occurs (two or more do).

    All are multiples of 2 to the power `coarse`, and so is the least.
    """
    return _normalised(histogram, TOTAL >> coarse) << coarse


def _normalised(histogram: SymbolCounts, total: int) -> SymbolCounts:
    share = histogram * total // histogram.sum()
    frequencies = np.where(histogram > 0, np.maximum(share, 1), 0)
    missing = total - int(frequencies.sum())
    if missing > 0:
        frequencies[histogram.argmax()] += missing
    for _ in range(-missing):
        frequencies[frequencies.argmax()] -= 1
    return frequencies


def cost(frequency: int) -> int:
    r"""$256 \log_2 (4096 / f)$, up to 3 more, in integers: equal on every machine."""
    whole = frequency.bit_length() - 1
    x, fraction = frequency << (15 - whole), 0  # x is in [2^15, 2^16)
    for _ in range(8):
        x = x * x >> 15
        fraction = 2 * fraction + (x >> 16)
        x >>= x >> 16
    return 256 * (12 - whole) - fraction


def symbols_cost(histogram: SymbolCounts, frequencies: SymbolCounts) -> int:
    """What all symbols cost, in 256ths of a bit."""
    used = np.flatnonzero(histogram)
    pairs = zip(histogram[used].tolist(), frequencies[used].tolist(), strict=True)
    return sum(count * cost(frequency) for count, frequency in pairs)


def write_table(frequencies: SymbolCounts, coarse: int) -> bytes:
    """The table of wire version 2."""
    used = np.flatnonzero(frequencies).tolist()
    bits, after = BitString(), used[0]
    bits.put(used[0], 8)
    for symbol in used:
        unused = symbol - after
        if unused >= SHORTEST_RUN:
            bits.put(SKIP, 4)
            bits.put(unused - SHORTEST_RUN, 8)
        else:
            bits.put(0, 4 * unused)
        frequency = int(frequencies[symbol]) >> coarse
        number = frequency.bit_length()
        bits.put(number, 4)
        bits.put(frequency - (1 << (number - 1)), number - 1)
        after = symbol + 1
    return bits.to_bytes()


class SlotTable(NamedTuple):
    """For each slot: its symbol, the symbol's frequency, and the slot's place in the symbol."""

    symbols: list[int]
    frequencies: list[int]
    places: list[int]

    def add(self, symbol: int, frequency: int) -> None:
        if len(self.symbols) + frequency > TOTAL or frequency == TOTAL:  # a constant's business
            raise DecodeError(BAD_TABLE)
        self.symbols.extend([symbol] * frequency)
        self.frequencies.extend([frequency] * frequency)
        self.places.extend(range(frequency))


def read_table(source: Source, allowed: range, escape: int, coarse: int) -> SlotTable:
    """A table of wire version 2, which ends where its frequencies add up."""
    bits, table = BitSource(source), SlotTable([], [], [])
    symbol = bits.take(8)
    first = symbol
    while len(table.symbols) < TOTAL:
        number = bits.take(4)
        unused = number in (0, SKIP)
        if number > SKIP or symbol > 255 or (unused and symbol == first):
            raise DecodeError(BAD_TABLE)
        if unused:
            symbol += SHORTEST_RUN + bits.take(8) if number else 1
            continue
        frequency = (1 << (number - 1)) + bits.take(number - 1)
        if symbol not in allowed and symbol != escape:
            raise DecodeError(BAD_TABLE)
        table.add(symbol, frequency << coarse)
        symbol += 1
    if bits.value != 0:
        raise DecodeError(BAD_TABLE)
    return table


def read_first_table(source: Source, allowed: range, escape: int) -> SlotTable:
    """A table of wire version 1, which names its last symbol."""
    bits, table = BitSource(source), SlotTable([], [], [])
    first, last = bits.take(8), bits.take(8)
    for symbol in range(first, last + 1):
        number = bits.take(4)
        if number > LARGEST_CLASS or (number == 0 and symbol in (first, last)):
            raise DecodeError(BAD_TABLE)
        if number == 0:
            continue
        frequency = (1 << (number - 1)) + bits.take(number - 1)
        if symbol not in allowed and symbol != escape:
            raise DecodeError(BAD_TABLE)
        table.add(symbol, frequency)
    if len(table.symbols) != TOTAL or bits.value != 0:
        raise DecodeError(BAD_TABLE)
    return table
