r"""Blocks of dithered codes, with a table of frequencies for each phase of the dither.

A code $q$ that was rounded with a dither $u \in (-\frac12, \frac12)$ stands for the number $q - u$.
The reader knows $u$, so it knows which numbers can come: $c + |u|$ with whole $c$, where
$c = q$ if $u < 0$ and $c = -q$ otherwise, and the number's sign is turned with it. The larger
$|u|$, the likelier is $c = -1$ beside $c = 0$. So $|u|$ chooses among four tables, and the symbols
are the $c$ in the order of $|c + |u||$: 0, -1, 1, -2, 2 and so on. They have their sign, so there
is no plane of signs.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.coding.bitpack import pack, unpack
from fewbits.coding.bits import Source
from fewbits.coding.frequencies import (
    BAD_TABLE,
    SymbolCounts,
    coarseness,
    normalised,
    read_table,
    symbols_cost,
    write_table,
)
from fewbits.coding.lanes import encode_symbols, read_from_tables
from fewbits.coding.symbols import lanes_log2
from fewbits.errors import DecodeError

_Codes = npt.NDArray[np.uint16]
_Marks = npt.NDArray[np.uint8]
DitherWords = npt.NDArray[np.uint32]

PHASED = 0x40  # the bit of a head
PHASE_TABLES = 4
PHASE_SYMBOLS = 256 // PHASE_TABLES
PHASE_ESCAPE = PHASE_SYMBOLS - 1  # the symbol of codes that have none
PHASE_LARGEST = PHASE_ESCAPE // 2  # the last magnitude with symbols
_LARGE, _LARGE_SHARE = 4, 16  # where more than a 16th of the codes are 4 or more, phases say little
_FEW_ESCAPES = 256
NEEDLESS = "an escaped code has a symbol of its own"


def phases(words: DitherWords) -> tuple[_Marks, npt.NDArray[np.bool_]]:
    """The table of each code, by its dither's word, and whether it is turned."""
    turned = words >> 31 != 0
    distance = np.where(turned, words, ~words) & np.uint32(0x7FFFFFFF)  # |u| in units of 2^-32
    return (distance >> 29).astype(np.uint8), turned


class TablePlan(NamedTuple):
    """What a block with several tables is made of; symbols count through all of them."""

    symbols: npt.NDArray[np.int64]
    tables: int
    frequencies: SymbolCounts
    coarse: int
    lanes_log2: int
    written: bytes  # the tables
    escaped: _Codes
    escaped_signs: _Marks
    cost: int  # in 256ths of a bit

    @property
    def many_escapes(self) -> bool:
        """Whether so many have no symbol that a block of halves may be shorter."""
        return self.escaped.size * _FEW_ESCAPES > self.symbols.size

    def write(self, kind: int, bound: int) -> bytes:
        """The block, without a plane of signs."""
        lanes = 1 << self.lanes_log2
        states, words = encode_symbols(self.symbols, self.frequencies, lanes, self.tables)
        return b"".join(
            [
                bytes([kind, self.lanes_log2 | self.coarse << 3 | PHASED, self.tables]),
                self.written,
                np.array(states, "<u4").tobytes(),
                np.array(words, "<u2").tobytes(),
                pack(self.escaped, (bound - 1).bit_length()).tobytes(),
                pack(self.escaped_signs.astype(np.uint16), 1).tobytes(),
            ]
        )


def planned(
    symbols: npt.NDArray[np.int64],
    tables: int,
    outside: npt.NDArray[np.bool_],
    codes: _Codes,
    signs: _Marks,
    bound: int,
    lanes: int | None = None,
) -> TablePlan:
    """Tables that fit the symbols; codes `outside` are escaped."""
    histograms = np.bincount(symbols, minlength=256).reshape(tables, -1)
    rare = codes.size - int(histograms.max(axis=1).sum())
    lanes = lanes_log2(codes.size, rare) if lanes is None else lanes
    for own in histograms:
        if np.count_nonzero(own) < 2:
            own[:2] += 1  # a table has two symbols or more
    coarse = min(coarseness(own) for own in histograms)
    shares = [normalised(own, coarse) for own in histograms]
    written = b"".join(write_table(own, coarse) for own in shares)
    frequencies, counted = np.concatenate(shares), np.bincount(symbols, minlength=256)
    width = (bound - 1).bit_length() + 1
    bits = 8 + 8 * len(written) + (24 << lanes) + int(outside.sum()) * width
    cost = symbols_cost(counted, frequencies) + 256 * bits
    ends = codes[outside], signs[outside]
    return TablePlan(symbols, tables, frequencies, coarse, lanes, written, *ends, cost)


def read_escapes(source: Source, number: int, bound: int) -> tuple[_Codes, _Marks]:
    """The codes that have no symbol, and their signs."""
    width = (bound - 1).bit_length()
    escaped = unpack(_taken(source, number, width), width, bound, number)
    return escaped, unpack(_taken(source, number, 1), 1, 2, number).astype(np.uint8)


def _taken(source: Source, count: int, width: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(source.take((count * width + 7) // 8), np.uint8)


class Phases(NamedTuple):
    """What a reader knows of a block: the words of its dither."""

    words: DitherWords

    def part(self, own: slice) -> "Phases":
        return Phases(self.words[own])

    def sure(self, codes: _Codes) -> bool:
        """Whether tables are taken without a look at what other forms cost."""
        return False

    def plan(self, codes: _Codes, signs: _Marks, bound: int) -> TablePlan | None:
        """None where tables would say little, or all codes are equal."""
        large = int(np.count_nonzero(codes >= _LARGE))
        if large * _LARGE_SHARE > codes.size or (codes == codes[0]).all():
            return None
        which, turned = phases(self.words)
        outside = codes > PHASE_LARGEST
        positive = (signs != 0) == turned
        folded = 2 * codes.astype(np.int64) - ((codes != 0) & ~positive)
        symbols = PHASE_SYMBOLS * which.astype(np.int64) + np.where(outside, PHASE_ESCAPE, folded)
        return planned(symbols, PHASE_TABLES, outside, codes, signs, bound)

    def read(self, source: Source, head: int, bound: int, count: int) -> tuple[_Codes, _Marks]:
        """_Codes and signs, from behind the head on."""
        if source.number(1) != PHASE_TABLES:
            raise DecodeError(BAD_TABLE)
        allowed, escape = (
            range(min(2 * bound - 1, PHASE_ESCAPE)),
            PHASE_ESCAPE if bound - 1 > PHASE_LARGEST else -1,
        )
        tables = [read_table(source, allowed, escape, head >> 3 & 7) for _ in range(PHASE_TABLES)]
        which, turned = phases(self.words)
        symbols = read_from_tables(source, tables, which, 1 << (head & 7)).astype(np.int64)
        codes = ((symbols + 1) // 2).astype(np.uint16)
        signs = ((codes != 0) & ((symbols % 2 != 0) != turned)).astype(np.uint8)
        outside = symbols == PHASE_ESCAPE
        codes[outside], signs[outside] = read_escapes(source, int(outside.sum()), bound)
        if (codes[outside] <= PHASE_LARGEST).any():
            raise DecodeError(NEEDLESS)
        return codes, signs
