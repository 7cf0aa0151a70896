"""Packed and coded sections by hand: 4.1 and 4.3 of docs/format.md, for decode_by_hand.py.

It shares no code with the library. Anything but such a section raises `ValueError`.
"""

BLOCK, TOTAL, LOWEST = 65536, 4096, 1 << 15
RAW, CONSTANT, FOUR_LANES, SPARSE = 0, 1, 2, 7
ESCAPE = 255


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


def frequencies(block: Bytes) -> list[int]:
    """The table: first and last symbol, then a class of 4 bits and its extra bits for each."""
    rest = Bytes(block.data)
    rest.at = block.at
    pending, bits = 0, 0

    def take(width: int) -> int:
        nonlocal pending, bits
        while bits < width:
            pending, bits = pending | rest.number(1) << bits, bits + 8
        value = pending % (1 << width)
        pending, bits = pending >> width, bits - width
        return value

    first, last = take(8), take(8)
    need(first <= last, "the table has no symbol")
    table = [0] * 256
    for symbol in range(first, last + 1):
        kind = take(4)
        need(kind <= 12, "a frequency is too large")
        table[symbol] = (1 << (kind - 1)) + take(kind - 1) if kind else 0
    need(pending == 0, "padding is not zero")
    need(table[first] and table[last] and sum(table) == TOTAL, "frequencies do not add up")
    block.at = rest.at
    return table


def entropy_coded(block: Bytes, lanes: int, bound: int, count: int) -> list[int]:
    """Chapter 4.3, the body of kinds 2 to 6."""
    wide = bound > 256
    base = block.number(2) if wide else 0
    need(not wide or 1 <= base < bound, "the base is outside of the codes")
    table = frequencies(block)
    for symbol, frequency in enumerate(table):
        code = base + symbol - 1 if wide and symbol else symbol
        escape = wide and symbol == ESCAPE
        need(not frequency or escape or code < bound, "a symbol stands for no code")
    slots = [symbol for symbol, frequency in enumerate(table) for _ in range(frequency)]
    starts = [sum(table[:symbol]) for symbol in range(256)]
    states = [block.number(4) for _ in range(lanes)]
    need(all(LOWEST <= state < 1 << 31 for state in states), "a state is out of range")
    symbols = []
    for i in range(count):
        state = states[i % lanes]
        slot = state % TOTAL
        symbol = slots[slot]
        state = table[symbol] * (state // TOTAL) + slot - starts[symbol]
        if state < LOWEST:
            state = state << 16 | block.number(2)
        states[i % lanes] = state
        symbols.append(symbol)
    need(all(state == LOWEST for state in states), "the states do not end where they began")
    if not wide:
        return symbols
    width = (bound - 1).bit_length()
    escaped = iter(block.packed(width, symbols.count(ESCAPE)))
    codes = []
    for symbol in symbols:
        code = next(escaped) if symbol == ESCAPE else symbol and base + symbol - 1
        known = code == 0 or base <= code < base + ESCAPE - 1
        need(code < bound and known == (symbol != ESCAPE), "an escape that is none")
        codes.append(code)
    return codes


def alike(block: Bytes, bound: int, count: int) -> list[int]:
    """The codes of a block that is not sparse."""
    kind = block.number(1)
    need(kind < SPARSE, "unknown kind of block")
    if kind == RAW:
        codes = block.packed((bound - 1).bit_length(), count)
    elif kind == CONSTANT:
        codes = [block.number(2)] * count
    else:
        codes = entropy_coded(block, 4 << (kind - FOUR_LANES), bound, count)
    need(max(codes) < bound, "a code is too large")
    return codes


def sparse(block: Bytes, bound: int, count: int) -> list[int]:
    """The codes of a sparse block: a mask, then those that are not 0."""
    need(bound <= 256, "unknown kind of block")
    block.at += 1
    mask_end = block.number(3) + block.at
    need(mask_end <= len(block.data), "a block is cut")
    own = Bytes(block.data[block.at : mask_end])
    mask = Bytes(bytes(alike(own, 256, (count + 7) // 8))).packed(1, count)
    need(own.at == len(own.data), "a mask is too long")
    block.at = mask_end
    dense = alike(block, bound, sum(mask)) if any(mask) else []
    need(all(dense), "a zero where the mask has a bit")
    codes = iter(dense)
    return [next(codes) if bit else 0 for bit in mask]


def one_block(data: bytes, bound: int, signed: bool, count: int) -> tuple[list[int], list[int]]:
    """Codes and signs of one block."""
    block = Bytes(data)
    codes = (sparse if data[:1] == bytes([SPARSE]) else alike)(block, bound, count)
    bits = iter(block.packed(1, sum(code > 0 for code in codes)) if signed else [])
    signs = [next(bits) if signed and code else 0 for code in codes]
    need(block.at == len(data), "a block is too long")
    return codes, signs


def coded(section: bytes, bound: int, signed: bool, count: int) -> tuple[list[int], list[int]]:
    """Codes and signs of a section of `count` codes below `bound`."""
    codes: list[int] = []
    signs: list[int] = []
    left = Bytes(section)
    while len(codes) < count:
        length = left.number(3)
        need(left.at + length <= len(section), "a section is cut")
        block = section[left.at : left.at + length]
        left.at += length
        more, marks = one_block(block, bound, signed, min(BLOCK, count - len(codes)))
        codes, signs = codes + more, signs + marks
    need(left.at == len(section), "a section is too long")
    return codes, signs
