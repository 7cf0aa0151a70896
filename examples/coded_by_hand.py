"""Coded sections by hand: 4.3 of docs/format.md, for decode_by_hand.py.

It shares no code with the library. Anything but such a section raises `ValueError`.
"""

from lanes_by_hand import decoded, with_phases
from paths_by_hand import Paths
from tables_by_hand import TOTAL, Bytes, first_frequencies, frequencies, need

BLOCK = 65536
RAW, CONSTANT, FOUR_LANES, FIRST_MASKED = 0, 1, 2, 7  # wire version 1
REVISED, GAPS, MASKED = 8, 9, 10  # wire version 2
HALVES = 11  # wire version 4
PHASED = 64  # wire version 3: in the head, a table for each phase of a dither
ESCAPE = 255
kinds: set[int] = set()  # of the blocks that have been read


def entropy_coded(block: Bytes, kind: int, bound: int, count: int) -> list[int]:
    """Chapter 4.3, the body of kinds 2 to 6 and 8."""
    head = block.number(1) if kind == REVISED else 0
    need(head < 64 and head & 7 < 7, "a head that is reserved")
    wide = bound > 256
    base = block.number(2) if wide else 0
    need(not wide or 1 <= base < bound, "the base is outside of the codes")
    revised = kind == REVISED
    table = frequencies(block, head >> 3) if revised else first_frequencies(block)
    for symbol, frequency in enumerate(table):
        code = base + symbol - 1 if wide and symbol else symbol
        escape = wide and symbol == ESCAPE
        need(not frequency or escape or code < bound, "a symbol stands for no code")
    lanes = 1 << (head & 7) if revised else 4 << (kind - FOUR_LANES)
    symbols = decoded(block, table, lanes, count)
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


def alike(block: Bytes, bound: int, count: int, revised: bool) -> list[int]:
    """The codes of a block of one form."""
    kind = block.number(1)
    if kind == RAW:
        codes = block.packed((bound - 1).bit_length(), count)
    elif kind == CONSTANT:
        codes = [block.number(2)] * count
    else:
        need(kind == REVISED if revised else kind < FIRST_MASKED, "unknown kind of block")
        codes = entropy_coded(block, kind, bound, count)
    need(max(codes) < bound, "a code is too large")
    return codes


def masked(block: Bytes, bound: int, count: int) -> list[int]:
    """The codes of a block with a mask of those that are not 0."""
    need(bound <= 256, "unknown kind of block")
    revised = block.number(1) == MASKED
    mask_end = block.number(3) + block.at
    need(mask_end <= len(block.data), "a block is cut")
    own = Bytes(block.data[block.at : mask_end])
    mask = Bytes(bytes(alike(own, 256, (count + 7) // 8, revised))).packed(1, count)
    need(own.at == len(own.data), "a mask is too long")
    block.at = mask_end
    dense = alike(block, bound, sum(mask), revised) if any(mask) else []
    need(all(dense), "a zero where the mask has a bit")
    codes = iter(dense)
    return [next(codes) if bit else 0 for bit in mask]


def model_of_gaps(count: int, some: int) -> tuple[int, list[int]]:
    """The low bits of gaps, and the frequencies of what is above them."""
    ratio, low = ((count - some) << 32) // count, 0
    while ratio * ratio >> 32 >= 5 << 29:
        ratio, low = ratio * ratio >> 32, low + 1
    left, table = 1 << 32, []
    while left >= 1 << 20:
        after = left * ratio >> 32
        table.append(max(1, (left - after) >> 20))
        left = after
    table.append(1)
    table[0] += TOTAL - sum(table)
    return low, table


def with_gaps(block: Bytes, bound: int, count: int) -> list[int]:
    """The codes of a block that says how far apart those are that are not 0."""
    block.at += 1
    some = block.number(2)
    need(0 < 8 * some <= count, "too many codes, or none")
    low, table = model_of_gaps(count, some)
    steps = decoded(block, table, 1 << (some >> 11).bit_length(), some)
    lows = block.packed(low, some)
    last = len(table) - 1
    large = iter(block.packed(16, steps.count(last)))
    codes, place = [0] * count, -1
    places = []
    for step, rest in zip(steps, lows, strict=True):
        whole = next(large) if step == last else step
        need(whole >= step, "a step that has a symbol")
        place += (whole << low) + rest + 1
        places.append(place)
    need(place < count, "a gap ends beyond the block")
    for place, code in zip(places, alike(block, bound, some, True), strict=True):
        need(code, "a zero after a gap")
        codes[place] = code
    return codes


def one_block(
    data: bytes, bound: int, signed: bool, count: int, draws: list[int] | Paths
) -> tuple[list[int], list[int]]:
    """Codes and signs of one block; `draws` are the words of their dither, if they have one."""
    block = Bytes(data)
    kind = data[0] if data else RAW
    kinds.add(kind)
    if draws and kind == REVISED and len(data) > 1 and data[1] & PHASED:
        kinds.add(PHASED)
        paths = isinstance(draws, Paths)
        pairs = draws.read(block, bound, count) if paths else with_phases(block, bound, draws)
        need(block.at == len(data), "a block is too long")
        return [code for code, _ in pairs], [sign for _, sign in pairs]
    if kind == HALVES and isinstance(draws, Paths):
        need(data[1:2] and data[1] in (RAW, CONSTANT, REVISED, GAPS, MASKED), "halves of no block")
        return draws.doubled(*one_block(data[1:], bound, signed, count, []), bound)
    if kind in (FIRST_MASKED, MASKED):
        codes = masked(block, bound, count)
    elif kind == GAPS:
        codes = with_gaps(block, bound, count)
    else:
        codes = alike(block, bound, count, kind == REVISED)
    bits = iter(block.packed(1, sum(code > 0 for code in codes)) if signed else [])
    signs = [next(bits) if signed and code else 0 for code in codes]
    need(block.at == len(data), "a block is too long")
    return codes, signs


def coded(
    section: bytes, bound: int, signed: bool, count: int, draws: list[int] | Paths | None = None
) -> tuple[list[int], list[int]]:
    """Codes and signs of a section of `count` codes below `bound`, perhaps dithered by `draws`."""
    codes: list[int] = []
    signs: list[int] = []
    left = Bytes(section)
    while len(codes) < count:
        length = left.number(3)
        need(left.at + length <= len(section), "a section is cut")
        block = section[left.at : left.at + length]
        left.at += length
        known = len(codes), len(codes) + BLOCK
        own = draws.part(*known) if isinstance(draws, Paths) else (draws or [])[slice(*known)]
        more, marks = one_block(block, bound, signed, min(BLOCK, count - len(codes)), own)
        codes, signs = codes + more, signs + marks
    need(left.at == len(section), "a section is too long")
    return codes, signs
