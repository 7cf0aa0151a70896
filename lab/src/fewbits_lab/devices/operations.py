"""The functions of arithmetic instructions, found by opcode; approximate ones are refused."""

import numpy as np

from fewbits_lab.devices.floats import JOINED, comparison, conversion, floating, pairs
from fewbits_lab.devices.ptx import PtxError
from fewbits_lab.devices.whole import Known, Operation, product_of, whole

# Of a division, a flush to zero, a rounding to another side: bits that the CPU does not make.
INEXACT = frozenset(("approx", "full", "ftz", "rz", "rm", "rp", "sat", "satfinite"))


def operation(words: list[str]) -> Known | None:
    """The function of an opcode, the types of its operands and of its result; None if unknown."""
    name, last = words[0], words[-1]
    if INEXACT & set(words):
        raise PtxError(f"{'.'.join(words)} is not exact")
    if name == "fma":
        raise PtxError(f"{'.'.join(words)} is contracted")
    if name == "cvt":
        return conversion(words)
    if name == "setp":
        return comparison(words)
    if last == "pred":
        return _on_predicates(name)
    if name in ("mul", "mad") and last[0] in "us":
        return product_of(words)
    if last == "f32x2":
        return pairs(words)
    return floating(words) if last[0] == "f" else whole(words)


def _on_predicates(name: str) -> Known | None:
    if name in JOINED:
        return JOINED[name], ["pred", "pred"], "pred"
    known: dict[str, Operation] = {"not": np.logical_not, "mov": np.array}
    return (known[name], ["pred"], "pred") if name in known else None
