"""What each instruction does to a group of blocks."""

from collections.abc import Callable

import numpy as np

from fewbits_lab.devices import accesses, matrices, warps
from fewbits_lab.devices.floats import GARBAGE
from fewbits_lab.devices.lanes import BlockGroup, Step, source
from fewbits_lab.devices.operations import operation
from fewbits_lab.devices.ptx import Instruction, PtxError, PtxProgram
from fewbits_lab.devices.types import dtype

_IDLE = frozenset(("membar", "fence", "createpolicy", "griddepcontrol", "prefetch"))
_SPECIAL: dict[str, Callable[[PtxProgram, Instruction], Step]] = {
    "ld": accesses.load, "st": accesses.store, "atom": accesses.atomic, "red": accesses.atomic,
    "bar": accesses.barrier, "barrier": accesses.barrier, "selp": accesses.select,
    "shfl": warps.shuffle, "redux": warps.reduction, "vote": warps.vote,
    "stmatrix": matrices.store_matrices, "ldmatrix": matrices.load_matrices,
}  # fmt: skip


def stepped(program: PtxProgram, own: Instruction) -> Step:
    """The step of an instruction, made once; `PtxError` if the machine does not know it."""
    name = own.words[0]
    if name in _IDLE:
        return lambda _: None
    if name == "mov" and ("{" in own.operands[0] or "{" in own.operands[1]):
        return accesses.packed(program, own)
    if name in _SPECIAL:
        return _SPECIAL[name](program, own)
    known = operation(own.words)
    if known is None:
        raise PtxError("not known")
    function, kinds, result = known
    if len(kinds) != len(own.operands) - 1:
        raise PtxError("another number of operands")
    reads = [
        source(program, text, kind) for text, kind in zip(own.operands[1:], kinds, strict=True)
    ]
    target, to = own.operands[0], dtype(result)

    def step(group: BlockGroup) -> None:
        values = function(*(read(group) for read in reads)).astype(to, copy=False)
        group.write(target, values, group.mask(own))

    return _with_garbage(own, step) if name == "prmt" else step


def _with_garbage(own: Instruction, step: Step) -> Step:
    """Compilers let permutations take along bytes that nobody has written, if nobody uses them."""

    def filled(group: BlockGroup) -> None:
        words = {text for text in own.operands[1:3] if text.startswith("%")}
        unwritten = words - group.registers.keys()
        for register in unwritten:
            group.registers[register] = np.full(group.size, GARBAGE, np.uint64).astype(np.uint32)
        step(group)
        for register in unwritten - {own.operands[0]}:
            del group.registers[register]

    return filled
