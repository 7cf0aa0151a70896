"""Mutants that are the same program as their original, proved by a machine and not by inputs.

Two proofs. The assembler makes the same machine code of both. Or the changed instruction works, at
the program's beginning, on nothing but the thread's number: then both are run for every thread.
"""

import re

import numpy as np

from fewbits_lab.devices.lanes import BlockGroup
from fewbits_lab.devices.machine_code import assembled, listing
from fewbits_lab.devices.memory import GlobalMemory, Lanes
from fewbits_lab.devices.ptx import PtxError, PtxProgram, parse
from fewbits_lab.devices.steps import stepped

SAME_CODE = "the assembler makes the same machine code"
SAME_NUMBERS = "every thread gets the same number"
_REGISTER = re.compile(r"%\w+(?:\.\w+)?")
# They read or write more than registers, or other threads' registers.
_NOT_ALONE = frozenset(
    (
        "ld",
        "st",
        "ldmatrix",
        "stmatrix",
        "atom",
        "red",
        "bar",
        "barrier",
        "shfl",
        "redux",
        "vote",
        "bra",
        "ret",
        "exit",
    )
)


def proof(original: str, mutant: str, target: str) -> str | None:
    """Why two texts are one program, or None if this cannot be shown."""
    if listing(assembled(original, target)) == listing(assembled(mutant, target)):
        return SAME_CODE
    try:
        return SAME_NUMBERS if _is_same_for_threads(parse(original), parse(mutant)) else None
    except PtxError:
        return None


def _is_same_for_threads(one: PtxProgram, other: PtxProgram) -> bool:
    pairs = zip(one.instructions, other.instructions, strict=True)
    (place,) = (number for number, (a, b) in enumerate(pairs) if a != b)
    found = [_of_threads(own, place) for own in (one, other)]
    return all(own is not None for own in found) and np.array_equal(*found)  # type: ignore[arg-type]


def _of_threads(program: PtxProgram, place: int) -> Lanes | None:
    """What an instruction gives each thread; None if it depends on more than the thread."""
    needed = _needed(program, place)
    if needed is None:
        return None
    block = np.zeros((1, 3), np.uint32)
    group = BlockGroup.begin(program, block, [], GlobalMemory(), 0)
    for number in sorted(needed):
        stepped(program, program.instructions[number])(group)
    return group.read(program.instructions[place].operands[0])


def _needed(program: PtxProgram, place: int) -> set[int] | None:
    """The instructions on which one depends, if the thread's number is all that they read."""
    written: dict[str, list[int]] = {}
    for number, own in enumerate(program.instructions):
        for register in _REGISTER.findall(own.operands[0]) if own.operands else ():
            written.setdefault(register, []).append(number)
    jumps = [number for number, own in enumerate(program.instructions) if own.words[0] == "bra"]
    targets = [program.labels[program.instructions[jump].operands[0]] for jump in jumps]
    beginning = min([*targets, *jumps, len(program.instructions)])
    needed, open_ = set(), [place]
    while open_:
        number = open_.pop()
        own = program.instructions[number]
        if number >= beginning or own.guard is not None or own.words[0] in _NOT_ALONE:
            return None
        if len(written[own.operands[0]]) != 1:
            return None
        needed.add(number)
        for register in _REGISTER.findall(" ".join(own.operands[1:])):
            if register == "%tid.x":
                continue
            if len(written.get(register, ())) != 1 or written[register][0] >= number:
                return None
            open_.append(written[register][0])
    return needed
