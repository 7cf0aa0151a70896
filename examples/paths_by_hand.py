"""Blocks of levels on paths of a trellis by hand: 4.3 of docs/format.md.

It shares no code with the library. Anything else than it expects raises `ValueError`.
"""

from lanes_by_hand import LOWEST
from tables_by_hand import TOTAL, Bytes, frequencies, need

EDGES = {4: (2, 1), 8: (5, 2), 16: (9, 2)}


def symbol_of(level: int, top: int, count: int) -> tuple[int, int]:
    """The table of a level and its symbol there, were there symbols for all."""
    parity, upper, quarter = level & 1, top >> 2 & 1, top & 3
    j = (level >> 1) - (top >> 3) - (parity == 0 and upper == 1)
    j = j if parity != upper else -j
    quarter = 3 - quarter if parity != upper else quarter
    return quarter * count // 4, 2 * j if j >= 0 else -2 * j - 1


class Paths:
    """Chapter 4.3: what a reader of a block of paths knows."""

    def __init__(self, states: int, draws: list[int] | None) -> None:
        self.states, self.draws = states, draws

    def part(self, start: int, stop: int) -> "Paths":
        return Paths(self.states, None if self.draws is None else self.draws[start:stop])

    def next(self, state: int, free: int) -> int:
        odd, second = EDGES[self.states]
        return (state >> 1) ^ (odd if state & 1 else 0) ^ (second if free else 0)

    def read(self, block: Bytes, bound: int, count: int) -> list[tuple[int, int]]:
        """Magnitudes and signs of a block."""
        head = block.number(2) >> 8
        lanes = 1 << min(5, max((count // 128).bit_length() - 1, 0))
        number = block.number(1)
        need(head < 128 and 1 << (head & 7) == lanes, "a head that is reserved")
        need(number in (1, 2) or (number == 4 and self.draws is not None), "a number of tables")
        tables = [frequencies(block, head >> 3 & 7) for _ in range(number)]
        size = 256 // number
        need(all(not any(table[size:]) for table in tables), "a symbol that is none")
        tops = [0] * count if self.draws is None else [draw >> 28 for draw in self.draws]
        levels, escaped = self.levels(block, tables, lanes, tops)
        magnitudes = block.packed((bound - 1).bit_length(), len(escaped))
        signs = block.packed(1, len(escaped))
        for i, magnitude, sign in zip(escaped, magnitudes, signs, strict=True):
            level = -magnitude if sign else magnitude
            known = symbol_of(level, tops[i], number)[1] < size - 2
            need(level & 3 == levels[i] & 3 and not known, "an escape that is none")
            need(magnitude or not sign, "a sign on zero")
            levels[i] = level
        need(all(abs(level) < bound for level in levels), "a code is too large")
        return [(abs(level), int(level < 0)) for level in levels]

    def doubled(
        self, codes: list[int], signs: list[int], bound: int
    ) -> tuple[list[int], list[int]]:
        """Magnitudes and signs of levels whose halves, rounded down, these are."""
        lanes, found = 1 << min(5, max((len(codes) // 128).bit_length() - 1, 0)), []
        at = [0] * lanes
        for i, (code, sign) in enumerate(zip(codes, signs, strict=True)):
            half = -code if sign else code
            found.append(2 * half + (at[i % lanes] & 1))
            at[i % lanes] = self.next(at[i % lanes], half & 1)
        need(all(abs(level) < bound for level in found), "a code is too large")
        return [abs(level) for level in found], [int(level < 0) for level in found]

    def levels(
        self, block: Bytes, tables: list[list[int]], lanes: int, tops: list[int]
    ) -> tuple[list[int], list[int]]:
        """Levels, and the places of those of which only the two lowest bits are known yet."""
        slots = [[s for s, f in enumerate(own) for _ in range(f)] for own in tables]
        starts = [[sum(own[:s]) for s in range(256)] for own in tables]
        states = [block.number(4) for _ in range(lanes)]
        need(all(LOWEST <= state < 1 << 31 for state in states), "a state is out of range")
        at, found, escaped = [0] * lanes, [], []
        for i, top in enumerate(tops):
            lane, parity, upper = i % lanes, at[i % lanes] & 1, top >> 2 & 1
            quarter = 3 - (top & 3) if parity != upper else top & 3
            table = quarter * len(tables) // 4
            slot = states[lane] % TOTAL
            symbol = slots[table][slot]
            state = tables[table][symbol] * (states[lane] // TOTAL) + slot - starts[table][symbol]
            states[lane] = state << 16 | block.number(2) if state < LOWEST else state
            j = -(symbol + 1) // 2 if symbol % 2 else symbol // 2
            half = (j if parity != upper else -j) + (top >> 3) + (parity == 0 and upper == 1)
            if symbol >= 256 // len(tables) - 2:
                half = symbol & 1
                escaped.append(i)
            found.append(2 * half + parity)
            at[lane] = self.next(at[lane], half & 1)
        need(all(state == LOWEST for state in states), "the states do not end where they began")
        return found, escaped
