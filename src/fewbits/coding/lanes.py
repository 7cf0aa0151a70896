"""The lanes of rANS: symbols to states and words, and back; `rans` has the arithmetic.

A block may have several tables of frequencies. A symbol's table is then known before the symbol is.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fewbits.coding.bits import Source
from fewbits.coding.frequencies import TOTAL, SlotTable
from fewbits.errors import DecodeError

LOW, HIGH = 1 << 15, 1 << 31
BAD_STATE = "a lane of a coded block starts or ends in an impossible state"

_Symbols = npt.NDArray[np.int64]
_Found = npt.NDArray[np.uint16]


def encode_symbols(
    symbols: _Symbols, frequencies: _Symbols, lanes: int, tables: int = 1
) -> tuple[list[int], list[int]]:
    """States and words, in the order in which decoding wants them.

    `frequencies` are those of all tables, one after the other; a symbol counts through them.
    """
    parts = frequencies.reshape(tables, -1)
    first = (np.cumsum(parts, axis=1) - parts).reshape(-1).tolist()
    shares = frequencies.tolist()
    states, words = [LOW] * lanes, []
    for i in range(symbols.size - 1, -1, -1):
        symbol = int(symbols[i])
        f, x = shares[symbol], states[i % lanes]
        if x >= f << 19:
            words.append(x & 0xFFFF)
            x >>= 16
        states[i % lanes] = (x // f) * TOTAL + first[symbol] + x % f
    return states, words[::-1]


def read_symbols(source: Source, table: SlotTable, count: int, lanes: int) -> _Found:
    """The symbols of a block with one table."""
    return read_from_tables(source, [table], np.zeros(count, np.uint8), lanes)


def read_from_tables(
    source: Source, tables: Sequence[SlotTable], which: npt.NDArray[np.uint8], lanes: int
) -> _Found:
    """One symbol from each of the tables in `which`."""
    states = np.frombuffer(source.take(4 * lanes), "<u4").tolist()
    if not all(LOW <= state < HIGH for state in states):
        raise DecodeError(BAD_STATE)
    symbols = np.empty(which.size, np.uint16)
    for i, number in enumerate(which.tolist()):
        table, lane = tables[number], i % lanes
        slot = states[lane] % TOTAL
        x = table.frequencies[slot] * (states[lane] // TOTAL) + table.places[slot]
        states[lane] = x << 16 | source.number(2) if x < LOW else x
        symbols[i] = table.symbols[slot]
    if any(state != LOW for state in states):
        raise DecodeError(BAD_STATE)
    return symbols
