"""Bytes, bits, packed codes and tables of frequencies by hand: 4.1 and 4.3 of docs/format.md.

It shares no code with the library. Anything else than it expects raises `ValueError`.
"""

TOTAL = 4096


def need(holds: object, message: str) -> None:
    """Raise `ValueError` unless the condition holds."""
    if not holds:
        raise ValueError(message)


class Bytes:
    """The bytes of a block that have not been read yet."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, size: int) -> int:
        need(self.at + size <= len(self.data), "a block is cut")
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "little")

    def packed(self, width: int, count: int) -> list[int]:
        """Codes of `width` bits, padded with zeros to a whole byte."""
        bits = self.number((count * width + 7) // 8)
        need(bits >> (count * width) == 0, "padding is not zero")
        return [(bits >> (width * i)) % (1 << width) for i in range(count)]


def packed(section: bytes, width: int, count: int, bound: int) -> list[int]:
    """Section 4.1."""
    need(len(section) == (count * width + 7) // 8, "a section has the wrong length")
    codes = Bytes(section).packed(width, count)
    need(all(code < bound for code in codes), "a code is not below its bound")
    return codes


class Bits:
    """Numbers of some bits each; what is left of the last byte must be 0."""

    def __init__(self, block: Bytes) -> None:
        self.block, self.pending, self.bits = block, 0, 0

    def take(self, width: int) -> int:
        while self.bits < width:
            self.pending, self.bits = (
                self.pending | self.block.number(1) << self.bits,
                self.bits + 8,
            )
        value = self.pending % (1 << width)
        self.pending, self.bits = self.pending >> width, self.bits - width
        return value

    def end(self) -> None:
        need(self.pending == 0, "padding is not zero")


def first_frequencies(block: Bytes) -> list[int]:
    """The table of kinds 2 to 6: first and last symbol, then a class and its bits for each."""
    bits = Bits(block)
    first, last = bits.take(8), bits.take(8)
    need(first <= last, "the table has no symbol")
    table = [0] * 256
    for symbol in range(first, last + 1):
        kind = bits.take(4)
        need(kind <= 12, "a frequency is too large")
        table[symbol] = (1 << (kind - 1)) + bits.take(kind - 1) if kind else 0
    bits.end()
    need(table[first] and table[last] and sum(table) == TOTAL, "frequencies do not add up")
    return table


def frequencies(block: Bytes, coarse: int) -> list[int]:
    """The table of kind 8, which ends where the frequencies add up."""
    bits = Bits(block)
    symbol = first = bits.take(8)
    table = [0] * 256
    while sum(table) < TOTAL:
        kind = bits.take(4)
        need(kind <= 13 and symbol < 256, "no such class or symbol")
        need(kind not in (0, 13) or symbol > first, "the first symbol does not occur")
        if kind == 13:
            symbol += 4 + bits.take(8)
            continue
        if kind:
            table[symbol] = (1 << (kind - 1)) + bits.take(kind - 1) << coarse
        symbol += 1
    bits.end()
    need(sum(table) == TOTAL > max(table), "frequencies do not add up")
    return table
