"""Instructions by which the 32 threads of a warp talk to each other."""

import numpy as np

from fewbits_lab.devices.lanes import BlockGroup, Step, source
from fewbits_lab.devices.memory import Lanes
from fewbits_lab.devices.ptx import Instruction, PtxError, PtxProgram
from fewbits_lab.devices.types import dtype

WARP = 32
_REDUCED = {
    "add": np.add, "or": np.bitwise_or, "and": np.bitwise_and, "xor": np.bitwise_xor,
    "max": np.maximum, "min": np.minimum,
}  # fmt: skip


def _everyone(group: BlockGroup, own: Instruction, members: Lanes) -> None:
    if not group.mask(own).all() or (members != 0xFFFFFFFF).any():
        raise PtxError("not all threads of the warp take part")


def shuffle(program: PtxProgram, own: Instruction) -> Step:
    """shfl.sync: each thread gets another one's value."""
    mode = own.words[2]
    target, _, within = own.operands[0].partition("|")
    reads = [source(program, text, "b32") for text in own.operands[1:]]

    def step(group: BlockGroup) -> None:
        value, by, clamp, members = (read(group) for read in reads)
        _everyone(group, own, members)
        lane = group.read("%laneid").astype(np.int64)
        segment = (clamp >> np.uint32(8)).astype(np.int64) & 31
        last = (lane & segment) | (clamp.astype(np.int64) & 31 & ~segment)
        count = by.astype(np.int64) & 31
        other = {
            "bfly": lane ^ count, "up": lane - count, "down": lane + count,
            "idx": (lane & segment) | (count & ~segment),
        }[mode]  # fmt: skip
        inside = other >= last if mode == "up" else other <= last
        taken = np.where(inside, other, lane) + np.arange(group.size) // WARP * WARP
        group.write(target, value[taken], group.mask(own))
        if within:
            group.write(within, inside, group.mask(own))

    return step


def reduction(program: PtxProgram, own: Instruction) -> Step:
    """redux.sync: every thread gets the sum, the largest or the smallest of all."""
    name, kind = own.words[2], own.words[-1]
    if name not in _REDUCED or kind[0] == "f":
        raise PtxError("not known")
    value, members = (source(program, text, kind) for text in own.operands[1:])

    def step(group: BlockGroup) -> None:
        _everyone(group, own, members(group).view(np.uint32))
        warps = np.ascontiguousarray(value(group)).reshape(-1, WARP)
        found = _REDUCED[name].reduce(warps, axis=1, dtype=dtype(kind))
        group.write(own.operands[0], np.repeat(found, WARP), group.mask(own))

    return step


def vote(program: PtxProgram, own: Instruction) -> Step:
    """vote.sync: who of the warp says yes."""
    mode = own.words[2]
    says, members = (
        source(program, own.operands[1], "pred"),
        source(program, own.operands[2], "b32"),
    )
    negated = own.operands[1].startswith("!")
    if negated or mode not in ("ballot", "any", "all"):
        raise PtxError("not known")

    def step(group: BlockGroup) -> None:
        _everyone(group, own, members(group))
        warps = says(group).reshape(-1, WARP)
        if mode == "ballot":
            bits = warps.astype(np.uint32) << np.arange(WARP, dtype=np.uint32)
            found = np.bitwise_or.reduce(bits, axis=1)
        else:
            found = warps.any(axis=1) if mode == "any" else warps.all(axis=1)
        group.write(own.operands[0], np.repeat(found, WARP), group.mask(own))

    return step
