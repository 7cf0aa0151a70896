"""Lanes of rANS, and blocks with phases of a dither, by hand: 4.3 of docs/format.md.

It shares no code with the library. Anything else than it expects raises `ValueError`.
"""

from tables_by_hand import TOTAL, Bytes, frequencies, need

LOWEST = 1 << 15


def decoded(block: Bytes, table: list[int], lanes: int, count: int) -> list[int]:
    """States and words to symbols."""
    return decoded_by(block, [table], lanes, [0] * count)


def decoded_by(block: Bytes, tables: list[list[int]], lanes: int, which: list[int]) -> list[int]:
    """The same with the table that `which` names for each symbol."""
    slots = [[s for s, frequency in enumerate(own) for _ in range(frequency)] for own in tables]
    starts = [[sum(own[:s]) for s in range(len(own))] for own in tables]
    states = [block.number(4) for _ in range(lanes)]
    need(all(LOWEST <= state < 1 << 31 for state in states), "a state is out of range")
    symbols = []
    for i, chosen in enumerate(which):
        state = states[i % lanes]
        slot = state % TOTAL
        symbol = slots[chosen][slot]
        state = tables[chosen][symbol] * (state // TOTAL) + slot - starts[chosen][symbol]
        if state < LOWEST:
            state = state << 16 | block.number(2)
        states[i % lanes] = state
        symbols.append(symbol)
    need(all(state == LOWEST for state in states), "the states do not end where they began")
    return symbols


def with_phases(block: Bytes, bound: int, draws: list[int]) -> list[tuple[int, int]]:
    """Codes and signs of a block with four tables, by the dither's distance from 0."""
    head = block.number(2) >> 8
    need(head < 128 and head & 7 < 7 and block.number(1) == 4, "a head that is reserved")
    tables = [frequencies(block, head >> 3 & 7) for _ in range(4)]
    escapes = bound > 32
    for table in tables:
        used = [symbol for symbol, frequency in enumerate(table) if frequency]
        known = all((s < 63 and (s + 1) // 2 < bound) or (s == 63 and escapes) for s in used)
        need(known, "a symbol stands for no code")
    turned = [draw >> 31 for draw in draws]
    which = [(draw >> 29 & 3) ^ (0 if up else 3) for draw, up in zip(draws, turned, strict=True)]
    symbols = decoded_by(block, tables, 1 << (head & 7), which)
    magnitudes = iter(block.packed((bound - 1).bit_length(), symbols.count(63)))
    signs = iter(block.packed(1, symbols.count(63)))
    pairs = []
    for symbol, up in zip(symbols, turned, strict=True):
        code, sign = (symbol + 1) // 2, int(symbol > 0) & (symbol ^ up)
        if symbol == 63:
            code, sign = next(magnitudes), next(signs)
            need(31 < code < bound, "an escape that is none")
        pairs.append((code, sign))
    return pairs
