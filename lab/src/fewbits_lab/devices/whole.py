"""Instructions of PTX on whole numbers and fields of bits."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fewbits_lab.devices.memory import Lanes
from fewbits_lab.devices.ptx import PtxError
from fewbits_lab.devices.types import dtype

Operation = Callable[..., Any]
Known = tuple[Operation, list[str], str]  # with the types of the operands and of the result
_INTEGER: dict[str, Operation] = {
    "add": np.add, "sub": np.subtract, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "min": np.minimum, "max": np.maximum,
}  # fmt: skip


def whole(words: list[str]) -> Known | None:
    name, last = words[0], words[-1]
    if last in ("s16x2", "u16x2"):
        return _halves(words)
    if name in _INTEGER:
        return _INTEGER[name], [last, last], last
    if name in ("shl", "shr"):
        return _shift(name, last), [last, "u32"], last
    if name in _ONE:
        return _ONE[name], [last], "u32" if name in ("popc", "clz") else last
    if name in ("bfe", "bfi", "prmt", "lop3", "shf"):
        return _field(words)
    return None


def _halves(words: list[str]) -> Known | None:
    """Two numbers of 16 bits in one of 32."""
    name, last = words[0], words[-1]
    if name not in ("add", "min", "max") or len(words) != 2:
        return None
    kind = dtype(last.removesuffix("x2"))

    def both(*terms: Lanes) -> Any:
        parts = (np.ascontiguousarray(term).view(kind) for term in terms)
        return _INTEGER[name](*parts).view(np.uint32)

    return both, [last, last], last


def _not(a: Lanes) -> Any:
    return ~a


def _clz(a: Lanes) -> Any:
    bits = 8 * a.dtype.itemsize
    left = [(a >> np.array(bit, a.dtype)) != 0 for bit in range(bits)]
    return (bits - np.sum(left, axis=0)).astype(np.uint32)


def _popc(a: Lanes) -> Any:
    return np.bitwise_count(a).astype(np.uint32)


def _reversed(a: Lanes) -> Any:
    out = np.zeros_like(a)
    for bit in range(8 * a.dtype.itemsize):
        out |= (a >> np.array(bit, a.dtype) & np.array(1, a.dtype)) << np.array(
            8 * a.dtype.itemsize - 1 - bit, a.dtype
        )
    return out


_ONE: dict[str, Operation] = {
    "not": _not, "neg": np.negative, "abs": np.abs, "popc": _popc, "clz": _clz, "brev": _reversed,
    "mov": np.array,
}  # fmt: skip


def _shift(name: str, last: str) -> Operation:
    bits = 8 * dtype(last).itemsize

    def shift(a: Lanes, count: Lanes) -> Any:
        most = bits - 1
        moved = np.minimum(count, most).astype(a.dtype)
        if name == "shr":
            out = a >> moved
            return out if a.dtype.kind == "i" else np.where(count > most, a.dtype.type(0), out)
        return np.where(count > most, a.dtype.type(0), a << moved)

    return shift


def product_of(words: list[str]) -> Known:
    name, half, last = words[0], words[1], words[-1]
    own = dtype(last)
    wide = np.dtype(f"{own.kind}{2 * own.itemsize}") if own.itemsize < 8 else None
    result = f"{last[0]}{16 * own.itemsize}" if half == "wide" else last
    if half not in ("lo", "wide", "hi") or (wide is None and half != "lo"):
        raise PtxError(f"{'.'.join(words)} is not known")

    def product(a: Lanes, b: Lanes, *c: Lanes) -> Any:
        if half == "lo":
            out = a * b
        else:
            assert wide is not None
            out = a.astype(wide) * b.astype(wide)
            if half == "hi":
                out = (out >> np.array(8 * own.itemsize, wide)).astype(own)
        return out + c[0] if c else out

    return product, [last, last] + ([result] if name == "mad" else []), result


def _field(words: list[str]) -> Known | None:
    last = words[-1]
    op = words[0] if words[0] in ("bfe", "bfi") else ".".join(words)
    known: dict[str, Known] = {
        "bfe": (_bfe, [last, "u32", "u32"], last),
        "bfi": (_bfi, [last, last, "u32", "u32"], last),
        "prmt.b32": (_prmt, ["u32", "u32", "u32"], "u32"),
        "lop3.b32": (_lop3, ["u32", "u32", "u32", "u32"], "u32"),
        "shf.l.wrap.b32": (_funnel_left, ["u32", "u32", "u32"], "u32"),
        "shf.r.wrap.b32": (_funnel_right, ["u32", "u32", "u32"], "u32"),
    }
    return known.get(op)


def _bfe(a: Lanes, start: Lanes, length: Lanes) -> Any:
    """A field of bits; its highest one is the sign, if there are signs."""
    width = np.uint32(8 * a.dtype.itemsize)
    if (start + length > width).any() or (length == 0).any():
        raise PtxError("bfe of bits that are not there")
    return (a << (width - start - length).astype(a.dtype)) >> (width - length).astype(a.dtype)


def _bfi(a: Lanes, b: Lanes, start: Lanes, length: Lanes) -> Any:
    width = 8 * a.dtype.itemsize
    if (start + length > width).any() or (length >= width).any():
        raise PtxError("bfi of bits that are not there")
    one = a.dtype.type(1)
    ones = ((one << length.astype(a.dtype)) - one) << start.astype(a.dtype)
    return (b & ~ones) | (a << start.astype(a.dtype) & ones)


def _prmt(a: Lanes, b: Lanes, selector: Lanes) -> Any:
    both = a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32)
    out = np.zeros(a.size, np.uint32)
    for place in range(4):
        chosen = selector >> np.uint32(4 * place) & np.uint32(15)
        byte = (both >> ((chosen & np.uint32(7)) * np.uint32(8)).astype(np.uint64)) & np.uint64(255)
        sign = np.where(byte & np.uint64(128), np.uint64(255), np.uint64(0))
        byte = np.where(chosen & np.uint32(8), sign, byte)
        out |= byte.astype(np.uint32) << np.uint32(8 * place)
    return out


def _lop3(a: Lanes, b: Lanes, c: Lanes, table: Lanes) -> Any:
    out = np.zeros(a.size, np.uint32)
    for row in range(8):
        term = [own if row >> (2 - place) & 1 else ~own for place, own in enumerate((a, b, c))]
        out |= np.where(table >> np.uint32(row) & np.uint32(1), term[0] & term[1] & term[2], 0)
    return out.astype(np.uint32)


def _funnel_left(low: Lanes, high: Lanes, count: Lanes) -> Any:
    both = high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
    moved = both << (count & np.uint32(31)).astype(np.uint64)
    return (moved >> np.uint64(32)).astype(np.uint32)


def _funnel_right(low: Lanes, high: Lanes, count: Lanes) -> Any:
    both = high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
    return (both >> (count & np.uint32(31)).astype(np.uint64)).astype(np.uint32)
