r"""Entropy coding: interleaved rANS with a table of frequencies for each block of codes.

A section holds `count` codes below `bound`; if it is signed, every code that is not 0 has a sign.
Codes come in blocks of 65,536, and each block is coded in the way that fits it: a constant, codes
of a fixed width, or rANS. Signs are bits without structure and travel as they are.

rANS keeps the symbols of a lane in one number $x \in [2^{15}, 2^{31})$. A symbol with frequency
$f$ of 4096 whose slots begin at $c$ takes it to
$$ x' = 4096 \lfloor x / f \rfloor + c + (x \bmod f), $$
which grows it by $\log_2 (4096 / f)$ bits, and $x'$ gives both back: the slot $x' \bmod 4096$ names
the symbol. A state that would leave its range first gives up its low 16 bits, a word. Symbol $i$
belongs to lane $i \bmod N$. Encoding runs from the last symbol to the first, so that decoding
reads forwards.

Native code gives the same bytes, and refuses what this module refuses.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.coding.bitpack import pack, packed_size, unpack
from fewbits.coding.bits import BitSource, BitString, Source
from fewbits.errors import DecodeError

_Codes = npt.NDArray[np.uint16]
Signs = npt.NDArray[np.uint8]

CODER_BLOCK = 1 << 16
LENGTH_SIZE = 3  # bytes before each block
RAW, CONSTANT, RANS = 0, 1, 2  # RANS + k has 4 << k lanes
LANE_KINDS = 5
SPARSE = RANS + LANE_KINDS
REVISED = SPARSE + 1  # this kind and later ones are of wire version 2
SPARSE_SHARE = 32  # blocks of which at least this part is zeros may be sparse
TOTAL = 4096
LOW, HIGH = 1 << 15, 1 << 31
ESCAPE = 255  # the symbol of rare codes where codes are wider than a byte
WINDOW = 254  # codes that have a symbol of their own there, 0 apart
LARGEST_CLASS = 12
_MOST = 2**64 - 1  # bytes: larger sizes are not told apart

UNKNOWN_KIND = "a coded block is of an unknown kind"
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


def is_revised(data: npt.NDArray[np.uint8]) -> bool:
    """Whether a section has a block of a kind that only wire version 2 has; takes any bytes."""
    view, at = memoryview(data), 0
    while at + LENGTH_SIZE < len(view):
        if view[at + LENGTH_SIZE] >= REVISED:
            return True
        at += LENGTH_SIZE + int.from_bytes(view[at : at + LENGTH_SIZE], "little")
    return False


# ---- what a writer chooses ----


def lanes_kind(count: int, rare: int) -> int:
    """More lanes are faster. Each costs about three bytes: one per 512 codes is one percent.

    Where nearly all symbols are equal it would be much more: one per 128 of the `rare`, the symbols
    that are not the most frequent, is three to eight percent.
    """
    return min(min(count // 4096, rare // 1024).bit_length(), 3)


def normalised(histogram: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Frequencies that add up to 4096, at least 1 for each symbol that occurs (two or more do)."""
    share = histogram * TOTAL // histogram.sum()
    frequencies = np.where(histogram > 0, np.maximum(share, 1), 0)
    missing = TOTAL - int(frequencies.sum())
    if missing > 0:
        frequencies[histogram.argmax()] += missing
    for _ in range(-missing):
        frequencies[frequencies.argmax()] -= 1
    return frequencies


def best_base(codes: _Codes, bound: int) -> int:
    """The first of the windows of 254 codes that hold most of the codes that are not 0."""
    counts = np.bincount(codes, minlength=bound)
    counts[0] = 0
    below = np.concatenate([[0], np.cumsum(counts)])
    held = below[1 + WINDOW :] - below[1:-WINDOW]  # from base 1 on
    return 1 + int(held.argmax())


# ---- writing ----


def encode(codes: _Codes, bound: int, signs: Signs | None = None) -> bytes:
    blocks = []
    for start in range(0, codes.size, CODER_BLOCK):
        piece = slice(start, start + CODER_BLOCK)
        blocks.append(_block(codes[piece], bound, None if signs is None else signs[piece]))
    return b"".join(len(block).to_bytes(LENGTH_SIZE, "little") + block for block in blocks)


def _block(codes: _Codes, bound: int, signs: Signs | None) -> bytes:
    block = _alike(codes, bound)
    zeros = int(np.count_nonzero(codes == 0))
    if bound <= 256 and zeros < codes.size <= SPARSE_SHARE * zeros:
        sparse = _sparse(codes, bound)
        block = sparse if len(sparse) < len(block) else block
    if signs is None:
        return block
    return block + np.packbits(signs[codes != 0], bitorder="little").tobytes()


def _sparse(codes: _Codes, bound: int) -> bytes:
    mask = _alike(np.packbits(codes != 0, bitorder="little").astype(np.uint16), 256)
    length = len(mask).to_bytes(LENGTH_SIZE, "little")
    return bytes([SPARSE]) + length + mask + _alike(codes[codes != 0], bound)


def _alike(codes: _Codes, bound: int) -> bytes:
    raw = pack(codes, _width(bound)).tobytes()
    if (codes == codes[0]).all():
        coded = bytes([CONSTANT]) + int(codes[0]).to_bytes(2, "little")
        shorter = len(coded) <= 1 + len(raw)
    else:
        coded = _rans_body(codes, bound)
        shorter = len(coded) < 1 + len(raw)
    return coded if shorter else bytes([RAW]) + raw


def _rans_body(codes: _Codes, bound: int) -> bytes:
    symbols, head, escapes = codes.astype(np.int64), b"", b""
    if bound > 256:
        base = best_base(codes, bound)
        escaped = (codes != 0) & ((symbols < base) | (symbols >= base + WINDOW))
        symbols = np.where(codes == 0, 0, np.where(escaped, ESCAPE, symbols - base + 1))
        head = base.to_bytes(2, "little")
        escapes = pack(codes[escaped], _width(bound)).tobytes()
    histogram = np.bincount(symbols, minlength=256)
    frequencies = normalised(histogram)
    kind = lanes_kind(codes.size, codes.size - int(histogram.max()))
    states, words = _encode_symbols(symbols, frequencies, 4 << kind)
    return b"".join(
        [
            bytes([RANS + kind]),
            head,
            _table(frequencies),
            np.array(states, "<u4").tobytes(),
            np.array(words, "<u2").tobytes(),
            escapes,
        ]
    )


def _table(frequencies: npt.NDArray[np.int64]) -> bytes:
    used = np.flatnonzero(frequencies)
    first, last = int(used[0]), int(used[-1])
    bits = BitString()
    bits.put(first, 8)
    bits.put(last, 8)
    for frequency in frequencies[first : last + 1].tolist():
        number = frequency.bit_length()
        bits.put(number, 4)
        if number > 1:
            bits.put(frequency - (1 << (number - 1)), number - 1)
    return bits.to_bytes()


def _encode_symbols(
    symbols: npt.NDArray[np.int64], frequencies: npt.NDArray[np.int64], lanes: int
) -> tuple[list[int], list[int]]:
    """States and words, in the order in which decoding wants them."""
    first = (np.cumsum(frequencies) - frequencies).tolist()
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


# ---- reading ----


class _Table(NamedTuple):
    """For each slot: its symbol, the symbol's frequency, and the slot's place in the symbol."""

    symbols: list[int]
    frequencies: list[int]
    places: list[int]


def decode(data: bytes, bound: int, count: int, signed: bool) -> tuple[_Codes, Signs | None]:
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
        left = count - number * CODER_BLOCK
        own, marks = _read_block(block, bound, min(CODER_BLOCK, left), signed)
        codes.append(own)
        signs.append(marks)
    return np.concatenate(codes), np.concatenate(signs) if signed else None


def _read_alike(source: Source, bound: int, count: int) -> _Codes:
    kind = source.number(1)
    if kind >= RANS + LANE_KINDS:
        raise DecodeError(UNKNOWN_KIND)
    if kind == RAW:
        return _read_packed(source, bound, count)
    if kind == CONSTANT:
        code = source.number(2)
        if code >= bound:
            raise DecodeError("a code is not below its bound")
        return np.full(count, code, np.uint16)
    return _read_rans(source, bound, count, 4 << (kind - RANS))


def _read_sparse(source: Source, bound: int, count: int) -> _Codes:
    if bound > 256:
        raise DecodeError(UNKNOWN_KIND)
    source.number(1)
    own = Source(source.take(source.number(LENGTH_SIZE)))
    mask = _read_alike(own, 256, packed_size(count, 1))
    if own.at < len(own.data):
        raise DecodeError("bytes are left over at the end of a coded block")
    bits = np.unpackbits(mask.astype(np.uint8), bitorder="little").astype(bool)
    if bits[count:].any():
        raise DecodeError("unused bits at the end of a section are not zero")
    codes = np.zeros(count, np.uint16)
    if bits.any():
        dense = _read_alike(source, bound, int(bits.sum()))
        if (dense == 0).any():
            raise DecodeError("a sparse block's mask has a bit for a code that is 0")
        codes[bits[:count]] = dense
    return codes


def _read_block(data: bytes, bound: int, count: int, signed: bool) -> tuple[_Codes, Signs]:
    source = Source(data)
    sparse = data[:1] == bytes([SPARSE])
    codes = (_read_sparse if sparse else _read_alike)(source, bound, count)
    signs = np.zeros(count, np.uint8)
    nonzero = int(np.count_nonzero(codes))
    joined = source.take(packed_size(nonzero, 1)) if signed else b""
    if source.at < len(data):
        raise DecodeError("bytes are left over at the end of a coded block")
    if signed:
        signs[codes != 0] = unpack(np.frombuffer(joined, np.uint8), 1, 2, nonzero)
    return codes, signs


def _read_packed(source: Source, bound: int, count: int) -> _Codes:
    packed = np.frombuffer(source.take(packed_size(count, _width(bound))), np.uint8)
    return unpack(packed, _width(bound), bound, count)


def _read_rans(source: Source, bound: int, count: int, lanes: int) -> _Codes:
    base, allowed = 0, range(bound)
    if bound > 256:
        base = source.number(2)
        if not 1 <= base < bound:
            raise DecodeError(_BAD_TABLE)
        allowed = range(min(bound - base + 1, ESCAPE))
    table = _read_table(source, allowed, escape=bound > 256)
    states = np.frombuffer(source.take(4 * lanes), "<u4").tolist()
    if not all(LOW <= state < HIGH for state in states):
        raise DecodeError(_BAD_STATE)
    symbols = _decode_symbols(source, table, states, count)
    if any(state != LOW for state in states):
        raise DecodeError(_BAD_STATE)
    if bound <= 256:
        return symbols
    escaped = _read_packed(source, bound, int((symbols == ESCAPE).sum()))
    offsets = escaped.astype(np.int64) - base
    if ((escaped == 0) | ((offsets >= 0) & (offsets < WINDOW))).any():
        raise DecodeError("an escaped code has a symbol of its own")
    codes = np.where(symbols == 0, 0, symbols.astype(np.int64) + base - 1).astype(np.uint16)
    codes[symbols == ESCAPE] = escaped
    return codes


_BAD_TABLE = "a coded block's table of frequencies is impossible"
_BAD_STATE = "a lane of a coded block starts or ends in an impossible state"


def _read_table(source: Source, allowed: range, escape: bool) -> _Table:
    bits = BitSource(source)
    first, last = bits.take(8), bits.take(8)
    table = _Table([], [], [])
    for symbol in range(first, last + 1):
        number = bits.take(4)
        if number > LARGEST_CLASS or (number == 0 and symbol in (first, last)):
            raise DecodeError(_BAD_TABLE)
        if number == 0:
            continue
        frequency = (1 << (number - 1)) + bits.take(number - 1)
        known = symbol in allowed or (escape and symbol == ESCAPE)
        if not known or len(table.symbols) + frequency > TOTAL:
            raise DecodeError(_BAD_TABLE)
        table.symbols.extend([symbol] * frequency)
        table.frequencies.extend([frequency] * frequency)
        table.places.extend(range(frequency))
    if len(table.symbols) != TOTAL or bits.value != 0:
        raise DecodeError(_BAD_TABLE)
    return table


def _decode_symbols(source: Source, table: _Table, states: list[int], count: int) -> _Codes:
    """Takes `states` back to where encoding began."""
    symbols = np.empty(count, np.uint16)
    for i in range(count):
        lane = i % len(states)
        slot = states[lane] % TOTAL
        x = table.frequencies[slot] * (states[lane] // TOTAL) + table.places[slot]
        states[lane] = x << 16 | source.number(2) if x < LOW else x
        symbols[i] = table.symbols[slot]
    return symbols
