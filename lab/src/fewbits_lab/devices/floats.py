"""Instructions of PTX on floats, comparisons and conversions.

Results that are NaN are the canonical NaN, as on the device. A float that does not fit the integer
it becomes gives garbage: devices differ there, so nobody may use it. (Compilers do convert values
of which they throw the result away.)
"""

from typing import Any

import numpy as np

from fewbits_lab.devices.memory import Lanes
from fewbits_lab.devices.ptx import PtxError
from fewbits_lab.devices.types import dtype
from fewbits_lab.devices.whole import Known, Operation

_ARITHMETIC: dict[str, Operation] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "sqrt": np.sqrt,
}  # fmt: skip
_COMPARE: dict[str, Operation] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "gt": np.greater, "le": np.less_equal,
    "ge": np.greater_equal, "lo": np.less, "hi": np.greater, "ls": np.less_equal,
    "hs": np.greater_equal,
}  # fmt: skip
GARBAGE = 0xA5A5A5A5A5A5A5A5
JOINED: dict[str, Operation] = {
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
}  # fmt: skip


def canonical(values: Lanes) -> Any:
    """The same floats with the only NaN that a device makes."""
    nan = np.isnan(values)
    if nan.any():
        width = values.dtype.itemsize
        bits = values.view(f"u{width}").copy()
        bits[nan] = (1 << (8 * width - 1)) - 1
        return bits.view(values.dtype)
    return values


def floating(words: list[str]) -> Known | None:
    """Exact arithmetic of f32 and f64; neither contracted nor approximate."""
    name, last = words[0], words[-1]
    if name in ("neg", "abs", "mov"):
        return _sign_bit(name), [last], last
    if name in ("min", "max"):
        return _extreme(name, "NaN" in words), [last, last], last
    if name not in _ARITHMETIC or words[1] != "rn" or last not in ("f32", "f64"):
        return None
    own = _ARITHMETIC[name]
    count = 1 if name == "sqrt" else 2
    return lambda *terms: canonical(own(*terms)), [last] * count, last


def _sign_bit(name: str) -> Operation:
    """Negation and magnitude change one bit, of NaN too."""

    def changed(a: Lanes) -> Any:
        bits = a.view(f"u{a.dtype.itemsize}")
        sign = np.array(1 << (8 * a.dtype.itemsize - 1), bits.dtype)
        new = {"neg": bits ^ sign, "abs": bits & ~sign, "mov": bits}[name]
        return new.view(a.dtype)

    return changed


def _extreme(name: str, keeps_nan: bool) -> Operation:
    chosen = {"min": (np.fmin, np.minimum), "max": (np.fmax, np.maximum)}[name][keeps_nan]

    def extreme(a: Lanes, b: Lanes) -> Any:
        if ((a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))).any():
            raise PtxError(f"{name} of zeros of both signs")  # NumPy does not say which
        return canonical(chosen(a, b))

    return extreme


def pairs(words: list[str]) -> Known | None:
    """Two floats in 64 bits."""
    own = floating([*words[:-1], "f32"])
    if own is None or words[0] not in _ARITHMETIC:
        return None
    one = own[0]

    def both(*terms: Lanes) -> Any:
        return one(*(term.view(np.float32) for term in terms)).view(np.uint64)

    return both, ["f32x2"] * len(own[1]), "f32x2"


def comparison(words: list[str]) -> Known | None:
    """setp, also with a predicate that is joined; ordered comparisons of NaN are false."""
    name, last = words[1], words[-1]
    compare = _comparing(name, last)
    if compare is None:
        return None
    if len(words) == 3:
        return compare, [last, last], "pred"
    join = JOINED.get(words[2])
    if join is None:
        return None
    joined = join
    return lambda a, b, c: joined(compare(a, b), c), [last, last, "pred"], "pred"


def _comparing(name: str, last: str) -> Operation | None:
    if last[0] != "f":
        return _COMPARE.get(name)
    if name in ("num", "nan"):
        return lambda a, b: (np.isnan(a) | np.isnan(b)) == (name == "nan")
    unordered = name not in _COMPARE and name.endswith("u")
    compare = _COMPARE.get(name.removesuffix("u") if unordered else name)
    if compare is None:
        return None
    known = compare

    def compared(a: Lanes, b: Lanes) -> Any:
        nan = np.isnan(a) | np.isnan(b)
        return np.where(nan, unordered, known(a, b))

    return compared


def conversion(words: list[str]) -> Known | None:
    """Conversions between whole numbers, from float to whole and back, and between floats."""
    to, source = words[-2], words[-1]
    modes = words[1:-2]
    if to in ("f16x2", "bf16x2") and source == "f32" and modes == ["rn"]:
        return _to_pair(to), ["f32", "f32"], to
    if "f" not in (to[0], source[0]) and "bf16" not in (to, source):
        return (lambda a: a.astype(dtype(to)), [source], to) if not modes else None
    if to[0] in "us" and source in ("f32", "f64") and modes in (["rzi"], ["rni"]):
        return _to_whole(to, modes[0]), [source], to
    if source[0] in "us" and to in ("f32", "f64") and modes == ["rn"]:
        return lambda a: a.astype(dtype(to)), [source], to
    if (modes == ["rn"] or not modes) and to[0] in "fb" and source[0] in "fb":
        return _between(to, source)
    return None


def _to_whole(to: str, mode: str) -> Operation:
    own = np.iinfo(dtype(to))

    def converted(a: Lanes) -> Any:
        whole = np.trunc(a) if mode == "rzi" else np.rint(a)
        wide = whole.astype(np.float64)
        fits = (wide >= float(own.min)) & (wide < float(own.max) + 1)
        bits = np.where(fits, whole, 0).astype(dtype(to))
        garbage = np.full(a.size, GARBAGE, np.uint64).astype(f"u{bits.dtype.itemsize}")
        return np.where(fits, bits, garbage.view(bits.dtype))

    return converted


def _between(to: str, source: str) -> Known | None:
    if to == "bf16" and source == "f32":
        return _to_bfloat16, [source], to
    if source == "bf16" and to == "f32":
        return _from_bfloat16, [source], to
    if {to, source} <= {"f16", "f32", "f64"}:
        return lambda a: canonical(a.astype(dtype(to))), [source], to
    return None


def _to_pair(to: str) -> Operation:
    known = _between(to.removesuffix("x2"), "f32")
    assert known is not None
    one = known[0]

    def both(high: Lanes, low: Lanes) -> Any:
        parts = [one(own).view(np.uint16).astype(np.uint32) for own in (high, low)]
        return parts[0] << np.uint32(16) | parts[1]

    return both


def _to_bfloat16(a: Lanes) -> Any:
    bits = a.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(a), np.uint32(0x7FFF), rounded).astype(np.uint16)


def _from_bfloat16(a: Lanes) -> Any:
    return canonical((a.astype(np.uint32) << np.uint32(16)).view(np.float32))
