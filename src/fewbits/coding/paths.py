r"""Blocks of levels on paths of a trellis, with tables chosen by what a path's reader knows.

Level $n$ of a path has the parity of its state $s$, and the next state follows from $s$ and from
bit 1 of $n$. With a dither $u \in [0, 4)$ the level stands for $n - u = 2 j + \varphi$ with
$\varphi \in [-1, 1)$ known to the reader, for it knows $u$ and the parity. As in `phases`, the
sign of $\varphi$ turns $j$, $|\varphi|$ chooses the table, and symbols are $j$ in the order 0, -1,
1, -2 and so on. Without a dither $\varphi$ is 0 or 1, so that each parity has its table. Where
levels are large, tables would hardly differ, and one is cheaper.

The lanes of the coder are the paths. The last two symbols are escapes: they say bit 1 of the level,
so that the path goes on, and the level is written behind. A block with more than a few of them has
halves instead, rounded down, in a block without paths: a level's parity is known from its path.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.coding.bits import Source
from fewbits.coding.frequencies import BAD_TABLE, TOTAL, read_table
from fewbits.coding.lanes import BAD_STATE, HIGH, LOW
from fewbits.coding.phases import NEEDLESS, DitherWords, TablePlan, planned, read_escapes
from fewbits.errors import DecodeError

POLYNOMIALS = {4: (0o5, 0o2), 8: (0o13, 0o4), 16: (0o23, 0o4)}  # of Ungerboeck's codes
_MOST_LANES = 5  # log2
VALUES_A_LANE = 128
_LARGE = 8  # where many levels are this or more, fewer tables do: for more than a 16th of them two,
_FEW, _MANY = 16, 2  # for more than half of them one
_SURE, _MANY_ZEROS = 4096, 8  # so many levels, not more than 7/8 of them 0: tables are best
PATH_TABLES = 1, 2, 4  # how many there may be; four with a dither only
TOO_LARGE = "a code is not below its bound"

_Whole = npt.NDArray[np.int64]
_Codes = npt.NDArray[np.uint16]
_Marks = npt.NDArray[np.uint8]


def lanes_log2(count: int) -> int:
    """The paths of a block; a short path loses a little, a lane costs three bytes."""
    return min(_MOST_LANES, max((count // VALUES_A_LANE).bit_length() - 1, 0))


def next_state(states: int, state: int, free: int) -> int:
    """The state after a level whose bit 1 is `free`."""
    first, second = POLYNOMIALS[states]
    return (state >> 1) ^ (first >> 1 if state & 1 else 0) ^ (second >> 1 if free else 0)


def halves(codes: _Codes, signs: _Marks) -> tuple[_Codes, _Marks]:
    """Halves of levels, rounded down: their magnitudes and signs."""
    return _planes(_levels(codes, signs) >> 1)


def _planes(levels: _Whole) -> tuple[_Codes, _Marks]:
    return np.abs(levels).astype(np.uint16), (levels < 0).astype(np.uint8)


def _below(levels: _Whole, bound: int) -> tuple[_Codes, _Marks]:
    if (np.abs(levels) >= bound).any():
        raise DecodeError(TOO_LARGE)
    return _planes(levels)


def _levels(codes: _Codes, signs: _Marks) -> _Whole:
    return np.where(signs != 0, -codes.astype(np.int64), codes)


class Paths(NamedTuple):
    """What a reader knows of a block: its trellis, and the words of its dither."""

    states: int
    words: DitherWords | None

    def part(self, own: slice) -> "Paths":
        return Paths(self.states, None if self.words is None else self.words[own])

    def sure(self, codes: _Codes) -> bool:
        """Whether tables are taken without a look at what other forms cost."""
        zeros = codes.size - int(np.count_nonzero(codes))
        return codes.size >= _SURE and zeros * _MANY_ZEROS <= codes.size * (_MANY_ZEROS - 1)

    def plan(self, codes: _Codes, signs: _Marks, bound: int) -> TablePlan | None:
        """None where all codes are equal."""
        if (codes == codes[0]).all():
            return None
        large, tables = int(np.count_nonzero(codes >= _LARGE)), 2
        if large * _MANY > codes.size:
            tables = 1
        elif self.words is not None and large * _FEW <= codes.size:
            tables = 4
        levels = _levels(codes, signs)
        which, symbols = self._symbols(levels)
        escape = 256 // tables - 2
        outside = symbols >= escape
        symbols = np.where(outside, escape + (levels >> 1 & 1), symbols)
        counted = (which * tables // 4) * (256 // tables) + symbols
        lanes = lanes_log2(codes.size)
        return planned(counted, tables, outside, codes, signs, bound, lanes)

    def _symbols(self, levels: _Whole) -> tuple[_Whole, _Whole]:
        """The quarter that |phi| is in, and the place of j."""
        top = np.zeros(levels.size, np.int64)
        if self.words is not None:
            top = (self.words >> 28).astype(np.int64)
        parity, upper, quarter = levels & 1, top >> 2 & 1, top & 3
        positive = parity != upper
        j = (levels >> 1) - (top >> 3) - ((parity == 0) & (upper == 1))
        j = np.where(positive, j, -j)
        return np.where(positive, 3 - quarter, quarter), np.where(j >= 0, 2 * j, -2 * j - 1)

    def read(self, source: Source, head: int, bound: int, count: int) -> tuple[_Codes, _Marks]:
        """_Codes and signs, from behind the head on."""
        tables = source.number(1)
        if tables not in (PATH_TABLES[:2] if self.words is None else PATH_TABLES):
            raise DecodeError(BAD_TABLE)
        if head & 7 != lanes_log2(count):
            raise DecodeError(BAD_TABLE)
        size = 256 // tables
        found = [read_table(source, range(size), -1, head >> 3 & 7) for _ in range(tables)]
        paths = 1 << (head & 7)
        states = np.frombuffer(source.take(4 * paths), "<u4").tolist()
        if not all(LOW <= state < HIGH for state in states):
            raise DecodeError(BAD_STATE)
        top = [0] * count if self.words is None else (self.words >> 28).tolist()
        at, levels, outside = [0] * paths, [0] * count, np.zeros(count, np.bool_)
        for i in range(count):
            lane, parity = i % paths, at[i % paths] & 1
            upper, quarter = top[i] >> 2 & 1, top[i] & 3
            positive = parity != upper
            table = found[(3 - quarter if positive else quarter) * tables // 4]
            slot = states[lane] % TOTAL
            x = table.frequencies[slot] * (states[lane] // TOTAL) + table.places[slot]
            states[lane] = x << 16 | source.number(2) if x < LOW else x
            symbol = table.symbols[slot]
            outside[i] = symbol >= size - 2
            j = symbol // 2 if symbol % 2 == 0 else -(symbol + 1) // 2
            half = (j if positive else -j) + (top[i] >> 3) + (parity == 0 and upper == 1)
            free = symbol & 1 if outside[i] else half & 1
            levels[i] = 2 * free + parity if outside[i] else 2 * half + parity
            at[lane] = next_state(self.states, at[lane], free)
        if any(state != LOW for state in states):
            raise DecodeError(BAD_STATE)
        return self._with_escapes(source, np.array(levels, np.int64), outside, bound, tables)

    def _with_escapes(
        self,
        source: Source,
        levels: _Whole,
        outside: npt.NDArray[np.bool_],
        bound: int,
        tables: int,
    ) -> tuple[_Codes, _Marks]:
        """Escaped levels have the labels that the path has seen, and no symbol of their own."""
        codes, signs = read_escapes(source, int(outside.sum()), bound)
        labels = levels & 3
        levels[outside] = _levels(codes, signs)
        symbols = self._symbols(levels)[1]
        known = (symbols[outside] < 256 // tables - 2).any()
        if known or (levels & 3 != labels).any() or (signs[codes == 0] != 0).any():
            raise DecodeError(NEEDLESS)
        return _below(levels, bound)

    def doubled(self, codes: _Codes, signs: _Marks, bound: int) -> tuple[_Codes, _Marks]:
        """Levels of halves, each with the parity of its path."""
        paths = 1 << lanes_log2(codes.size)
        at, levels = [0] * paths, []
        for i, half in enumerate(_levels(codes, signs).tolist()):
            lane = i % paths
            levels.append(2 * half + (at[lane] & 1))
            at[lane] = next_state(self.states, at[lane], half & 1)
        return _below(np.array(levels, np.int64), bound)
