r"""Entropy coding: interleaved rANS with a table of frequencies for each block of codes.

A section holds `count` codes below `bound`; if it is signed, every code that is not 0 has a sign.
Codes come in blocks of 65,536, and each block is coded in the way that fits it: a constant, codes
of a fixed width, rANS, or, where many codes are 0, their places and the others apart. Signs are
bits without structure and travel as they are.

rANS keeps the symbols of a lane in one number $x \in [2^{15}, 2^{31})$. A symbol with frequency
$f$ of 4096 whose slots begin at $c$ takes it to
$$ x' = 4096 \lfloor x / f \rfloor + c + (x \bmod f), $$
which grows it by $\log_2 (4096 / f)$ bits, and $x'$ gives both back: the slot $x' \bmod 4096$ names
the symbol. A state that would leave its range first gives up its low 16 bits, a word. Symbol $i$
belongs to lane $i \bmod N$. Encoding runs from the last symbol to the first, so that decoding
reads forwards.

Native code gives the same bytes, and refuses what this module refuses.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fewbits.coding import gaps
from fewbits.coding.bitpack import pack, packed_size, unpack
from fewbits.coding.bits import Source
from fewbits.coding.frequencies import (
    BAD_TABLE,
    SlotTable,
    read_first_table,
    read_table,
    symbols_cost,
    write_table,
)
from fewbits.coding.lanes import encode_symbols, read_symbols
from fewbits.coding.paths import Paths, halves
from fewbits.coding.phases import PHASED, Phases
from fewbits.coding.symbols import ESCAPE, WINDOW, symbols_of
from fewbits.errors import DecodeError

_Codes = npt.NDArray[np.uint16]
Signs = npt.NDArray[np.uint8]
KnownTables = Phases | Paths  # what chooses a code's table, and a reader knows

CODER_BLOCK = 1 << 16
LENGTH_SIZE = 3  # bytes before each block
RAW, CONSTANT, FIRST_RANS = 0, 1, 2  # FIRST_RANS + k has 4 << k lanes
LANE_KINDS = 5
FIRST_MASKED = FIRST_RANS + LANE_KINDS
REVISED = FIRST_MASKED + 1  # this kind and later ones are of wire version 2; only these are written
RANS, GAPS, MASKED = REVISED, REVISED + 1, REVISED + 2
HALVES = MASKED + 1  # of wire version 4, before the kind of what it has halves of
MOST_LANES = 6  # log2; bits 0 to 2 of the byte after the kind
RESERVED = 0x80  # the bit of that byte above PHASED; bits 3 to 5 are the tables' coarseness
ZEROS_SHARE = 32  # blocks of which at least this part is zeros may be written without them
_MOST = 2**64 - 1  # bytes: larger sizes are not told apart

UNKNOWN_KIND = "a coded block is of an unknown kind"
LEFT_OVER = "bytes are left over at the end of a coded block"
UNFILLED = "the lengths of a coded section's blocks do not fill the section"


def largest_size(count: int, bound: int, signed: bool) -> int:
    """Bytes that no section of this kind exceeds."""
    check_bound(bound)
    if not count:
        return 0
    if count > _MOST // 32:
        return _MOST
    whole, last = divmod(count - 1, CODER_BLOCK)
    before = whole * _largest_block(CODER_BLOCK, bound, signed)
    return before + _largest_block(last + 1, bound, signed)


def _largest_block(count: int, bound: int, signed: bool) -> int:
    codes = packed_size(count, _width(bound))
    return LENGTH_SIZE + 1 + codes + (packed_size(count, 1) if signed else 0)


def smallest_size(count: int, bound: int) -> int:
    """Bytes that every section of this kind has: a constant block takes six with its length."""
    last = min(3, 1 + packed_size((count - 1) % CODER_BLOCK + 1, _width(bound)))
    return 6 * ((count - 1) // CODER_BLOCK) + LENGTH_SIZE + last if count else 0


def check_bound(bound: int) -> None:
    if not 2 <= bound <= 1 << 16:
        raise ValueError(f"codes have a bound from 2 to 65536, got {bound}")


def _width(bound: int) -> int:
    return (bound - 1).bit_length()


def needed_version(data: npt.NDArray[np.uint8]) -> int:
    """The oldest wire version that has all of a section's blocks; takes any bytes."""
    at, needed = 0, 1
    while at + LENGTH_SIZE < data.size:
        *length, kind = data[at : at + LENGTH_SIZE + 1].tolist()
        head = int(data[at + LENGTH_SIZE + 1]) if at + LENGTH_SIZE + 1 < data.size else 0
        phased = kind == RANS and head & PHASED
        needed = max(needed, 4 if kind >= HALVES else 3 if phased else 2 if kind >= REVISED else 1)
        at += LENGTH_SIZE + int.from_bytes(length, "little")
    return needed


# ---- writing ----


def encode(
    codes: _Codes, bound: int, signs: Signs | None = None, known: KnownTables | None = None
) -> bytes:
    """The section; `known` is of signed codes."""
    blocks = []
    for start in range(0, codes.size, CODER_BLOCK):
        own = slice(start, start + CODER_BLOCK)
        marks = None if signs is None else signs[own]
        blocks.append(_block(codes[own], bound, marks, known and known.part(own)))
    return b"".join(len(block).to_bytes(LENGTH_SIZE, "little") + block for block in blocks)


def _block(codes: _Codes, bound: int, signs: Signs | None, known: KnownTables | None) -> bytes:
    raw = bytes([RAW]) + pack(codes, _width(bound)).tobytes()
    cost, form = min(_forms(codes, bound), key=lambda each: each[0])
    marks = b""
    if signs is not None:
        marks = np.packbits(signs[codes != 0], bitorder="little").tobytes()
        cost += 256 * int(np.count_nonzero(codes))
    if signs is not None and known is not None:
        plan = known.plan(codes, signs, bound)
        if plan is not None and (known.sure(codes) or plan.cost < cost):
            block = plan.write(RANS, bound)
            if isinstance(known, Paths) and known.sure(codes) and plan.many_escapes:
                own, half_signs = halves(codes, signs)
                other = bytes([HALVES]) + _block(own, bound, half_signs, None)
                block = min(block, other, key=len)
            return block if len(block) < len(raw + marks) else raw + marks
    block = form(codes, bound)
    return (block if len(block) < len(raw) + (block[0] == CONSTANT) else raw) + marks


def _forms(codes: _Codes, bound: int) -> list[tuple[int, Callable[[_Codes, int], bytes]]]:
    """The forms without phases and what their frequencies cost; the first is best of equals."""
    nonzero = codes[codes != 0]
    forms: list[tuple[int, Callable[[_Codes, int], bytes]]] = [(_alike_cost(codes, bound), _alike)]
    if nonzero.size in (0, codes.size) or codes.size > ZEROS_SHARE * (codes.size - nonzero.size):
        return forms
    dense = _alike_cost(nonzero, bound)
    if bound <= 256:
        forms.append((_alike_cost(_mask(codes), 256) + dense, _masked))
    if nonzero.size * gaps.LEAST_SHARE <= codes.size:
        forms.append((_gaps_cost(codes) + dense, _by_gaps))
    return forms


def _mask(codes: _Codes) -> _Codes:
    return np.packbits(codes != 0, bitorder="little").astype(np.uint16)


def _masked(codes: _Codes, bound: int) -> bytes:
    mask = _packed_or_alike(_mask(codes), 256)
    length = len(mask).to_bytes(LENGTH_SIZE, "little")
    return bytes([MASKED]) + length + mask + _packed_or_alike(codes[codes != 0], bound)


def _by_gaps(codes: _Codes, bound: int) -> bytes:
    places = np.flatnonzero(codes)
    model, lanes = gaps.model(codes.size, places.size), gaps.lanes(places.size)
    found = gaps.gaps(places)
    steps = found >> model.low
    states, words = encode_symbols(np.minimum(steps, model.escape), model.frequencies, lanes)
    lows = (found & ((1 << model.low) - 1)).astype(np.uint16)
    escaped = steps[steps >= model.escape].astype(np.uint16)
    return b"".join(
        [
            bytes([GAPS]),
            places.size.to_bytes(2, "little"),
            np.array(states, "<u4").tobytes(),
            np.array(words, "<u2").tobytes(),
            pack(lows, model.low).tobytes() if model.low else b"",
            pack(escaped, gaps.STEP_WIDTH).tobytes(),
            _packed_or_alike(codes[places], bound),
        ]
    )


def _gaps_cost(codes: _Codes) -> int:
    places = np.flatnonzero(codes)
    model = gaps.model(codes.size, places.size)
    steps = np.minimum(gaps.gaps(places) >> model.low, model.escape)
    histogram = np.bincount(steps, minlength=model.frequencies.size)
    bits = 24 * gaps.lanes(places.size) + places.size * model.low
    bits += int(histogram[-1]) * gaps.STEP_WIDTH
    return symbols_cost(histogram, model.frequencies) + 256 * bits


def _alike_cost(codes: _Codes, bound: int) -> int:
    """What `_alike` costs, in 256ths of a bit."""
    if (codes == codes[0]).all():
        return 24 * 256
    chosen = symbols_of(codes, bound)
    table = 8 * len(write_table(chosen.frequencies, chosen.coarse))
    bits = table + (24 << chosen.lanes_log2) + chosen.escaped.size * _width(bound)
    return symbols_cost(chosen.histogram, chosen.frequencies) + 256 * bits


def _packed_or_alike(codes: _Codes, bound: int) -> bytes:
    raw = bytes([RAW]) + pack(codes, _width(bound)).tobytes()
    block = _alike(codes, bound)
    return block if len(block) < len(raw) + (block[0] == CONSTANT) else raw


def _alike(codes: _Codes, bound: int) -> bytes:
    """All codes in one way: a constant, or rANS."""
    if (codes == codes[0]).all():
        return bytes([CONSTANT]) + int(codes[0]).to_bytes(2, "little")
    chosen = symbols_of(codes, bound)
    states, words = encode_symbols(chosen.symbols, chosen.frequencies, 1 << chosen.lanes_log2)
    return b"".join(
        [
            bytes([RANS, chosen.lanes_log2 | chosen.coarse << 3]),
            chosen.base.to_bytes(2, "little") if bound > 256 else b"",
            write_table(chosen.frequencies, chosen.coarse),
            np.array(states, "<u4").tobytes(),
            np.array(words, "<u2").tobytes(),
            pack(chosen.escaped, _width(bound)).tobytes(),
        ]
    )


# ---- reading ----


def decode(
    data: bytes, bound: int, count: int, signed: bool, known: KnownTables | None = None
) -> tuple[_Codes, Signs | None]:
    """The codes and signs in a section, by definition; refuses all other bytes."""
    at, blocks = 0, []
    for _ in range(0, count, CODER_BLOCK):
        start = at + LENGTH_SIZE
        at = start + int.from_bytes(data[at:start], "little")
        blocks.append(data[start:at])
        if start > len(data) or at > len(data):
            raise DecodeError(UNFILLED)
    if at != len(data):
        raise DecodeError(UNFILLED)
    codes, signs = [np.empty(0, np.uint16)], [np.empty(0, np.uint8)]
    for number, block in enumerate(blocks):
        start = number * CODER_BLOCK
        part = known and known.part(slice(start, start + CODER_BLOCK))
        own, marks = _read_block(block, bound, min(CODER_BLOCK, count - start), signed, part)
        codes.append(own)
        signs.append(marks)
    return np.concatenate(codes), np.concatenate(signs) if signed else None


def _read_alike(source: Source, bound: int, count: int, revised: bool) -> _Codes:
    """A block of one form; where it is `revised` it may be of the kinds of wire version 2 only."""
    kind = source.number(1)
    if kind == RAW:
        return _read_packed(source, bound, count)
    if kind == CONSTANT:
        code = source.number(2)
        if code >= bound:
            raise DecodeError("a code is not below its bound")
        return np.full(count, code, np.uint16)
    if revised and kind == RANS:
        head = source.number(1)
        if head & (RESERVED | PHASED) or head & 7 > MOST_LANES:
            raise DecodeError(UNKNOWN_KIND)
        return _read_rans(source, bound, count, 1 << (head & 7), head >> 3)
    if revised or kind >= FIRST_MASKED:
        raise DecodeError(UNKNOWN_KIND)
    return _read_rans(source, bound, count, 4 << (kind - FIRST_RANS))


def _read_masked(source: Source, bound: int, count: int, revised: bool) -> _Codes:
    if bound > 256:
        raise DecodeError(UNKNOWN_KIND)
    own = Source(source.take(source.number(LENGTH_SIZE)))
    mask = _read_alike(own, 256, packed_size(count, 1), revised)
    if own.at < len(own.data):
        raise DecodeError(LEFT_OVER)
    bits = np.unpackbits(mask.astype(np.uint8), bitorder="little").astype(bool)
    if bits[count:].any():
        raise DecodeError("unused bits at the end of a section are not zero")
    codes = np.zeros(count, np.uint16)
    if bits.any():
        codes[bits[:count]] = _read_dense(source, bound, int(bits.sum()), revised)
    return codes


def _read_dense(source: Source, bound: int, count: int, revised: bool) -> _Codes:
    dense = _read_alike(source, bound, count, revised)
    if (dense == 0).any():
        raise DecodeError("a sparse block's mask has a bit for a code that is 0")
    return dense


def _read_gaps(source: Source, bound: int, count: int) -> _Codes:
    nonzero = source.number(2)
    if not 0 < nonzero * gaps.LEAST_SHARE <= count:
        raise DecodeError(_BAD_GAPS)
    model = gaps.model(count, nonzero)
    table = SlotTable([], [], [])
    for step, frequency in enumerate(model.frequencies.tolist()):
        table.add(step, frequency)
    steps = read_symbols(source, table, nonzero, gaps.lanes(nonzero)).astype(np.int64)
    lows = _read_plain(source, model.low, nonzero)
    escaped = steps == model.escape
    steps[escaped] = _read_plain(source, gaps.STEP_WIDTH, int(escaped.sum()))
    places = np.cumsum((steps << model.low) + lows + 1) - 1
    if (steps[escaped] < model.escape).any() or places[-1] >= count:
        raise DecodeError(_BAD_GAPS)
    codes = np.zeros(count, np.uint16)
    codes[places] = _read_dense(source, bound, nonzero, revised=True)
    return codes


def _read_block(
    data: bytes, bound: int, count: int, signed: bool, known: KnownTables | None
) -> tuple[_Codes, Signs]:
    source = Source(data)
    kind = data[0] if data else None
    if kind == RANS and known is not None and len(data) > 1 and data[1] & PHASED:
        return _read_tables(source, bound, count, known)
    if kind == HALVES and isinstance(known, Paths):
        if data[1:2] and not (data[1] < FIRST_RANS or REVISED <= data[1] < HALVES):
            raise DecodeError(UNKNOWN_KIND)
        return known.doubled(*_read_block(data[1:], bound, count, signed, None), bound)
    source.at = kind in (FIRST_MASKED, MASKED, GAPS)
    if kind == GAPS:
        codes = _read_gaps(source, bound, count)
    elif kind in (FIRST_MASKED, MASKED):
        codes = _read_masked(source, bound, count, kind == MASKED)
    else:
        codes = _read_alike(source, bound, count, revised=kind == RANS)
    signs = np.zeros(count, np.uint8)
    nonzero = int(np.count_nonzero(codes))
    joined = source.take(packed_size(nonzero, 1)) if signed else b""
    if source.at < len(data):
        raise DecodeError(LEFT_OVER)
    if signed:
        signs[codes != 0] = unpack(np.frombuffer(joined, np.uint8), 1, 2, nonzero)
    return codes, signs


def _read_tables(
    source: Source, bound: int, count: int, known: KnownTables
) -> tuple[_Codes, Signs]:
    head = source.number(2) >> 8
    if head & RESERVED or head & 7 > MOST_LANES:
        raise DecodeError(UNKNOWN_KIND)
    codes, signs = known.read(source, head, bound, count)
    if source.at < len(source.data):
        raise DecodeError(LEFT_OVER)
    return codes, signs


def _read_packed(source: Source, bound: int, count: int) -> _Codes:
    packed = np.frombuffer(source.take(packed_size(count, _width(bound))), np.uint8)
    return unpack(packed, _width(bound), bound, count)


def _read_plain(source: Source, width: int, count: int) -> _Codes:
    """Numbers of any bits; of none if the width is 0."""
    return _read_packed(source, 1 << width, count) if width else np.zeros(count, np.uint16)


def _read_rans(
    source: Source, bound: int, count: int, lanes: int, coarse: int | None = None
) -> _Codes:
    """RANS with a table of wire version 2, or of version 1 if it has no coarseness."""
    base, allowed, escape = 0, range(bound), -1
    if bound > 256:
        base = source.number(2)
        if not 1 <= base < bound:
            raise DecodeError(BAD_TABLE)
        allowed, escape = range(min(bound - base + 1, ESCAPE)), ESCAPE
    if coarse is None:
        table = read_first_table(source, allowed, escape)
    else:
        table = read_table(source, allowed, escape, coarse)
    symbols = read_symbols(source, table, count, lanes)
    if bound <= 256:
        return symbols
    escaped = _read_packed(source, bound, int((symbols == ESCAPE).sum()))
    offsets = escaped.astype(np.int64) - base
    if ((escaped == 0) | ((offsets >= 0) & (offsets < WINDOW))).any():
        raise DecodeError("an escaped code has a symbol of its own")
    codes = np.where(symbols == 0, 0, symbols.astype(np.int64) + base - 1).astype(np.uint16)
    codes[symbols == ESCAPE] = escaped
    return codes


_BAD_GAPS = "the gaps of a coded block do not fit into it"
