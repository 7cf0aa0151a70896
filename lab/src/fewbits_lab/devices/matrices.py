"""Instructions by which a warp moves matrices between registers and shared memory.

A matrix has 8 rows of 8 halfwords. A row is 16 bytes at an address that one thread gives: threads 0
to 7 those of the first matrix, 8 to 15 those of the second, and so on. Thread `t` holds two
neighbours of row `t / 4`, or of column `t / 4` if the matrix is transposed on its way, the first in
the low half of its register.
"""

from typing import NamedTuple

import numpy as np

from fewbits_lab.devices.lanes import BlockGroup, OperandSource, Step, address, several, source
from fewbits_lab.devices.memory import Lanes
from fewbits_lab.devices.ptx import Instruction, PtxError, PtxProgram
from fewbits_lab.devices.warps import WARP

_ROWS, _HALF, _ROW_BYTES = 8, 2, 16
_SHAPE = ("sync", "aligned", "m8n8")


class _Matrices(NamedTuple):
    registers: list[str]
    where: OperandSource
    transposed: bool


def store_matrices(program: PtxProgram, own: Instruction) -> Step:
    """stmatrix: from registers to shared memory."""
    shape = _read(program, own, place=0)
    reads = [source(program, text, "b32") for text in shape.registers]

    def step(group: BlockGroup) -> None:
        block, warp = _takers(group, own)
        rows = _rows(group, shape)
        for matrix, read in enumerate(reads):
            halves = np.ascontiguousarray(read(group)).view(np.uint16).reshape(-1, _HALF)
            for half in range(_HALF):
                at = _places(rows, matrix, half, transposed=shape.transposed)
                group.shared.store(block, warp, at, halves[:, half], _HALF)

    return step


def load_matrices(program: PtxProgram, own: Instruction) -> Step:
    """ldmatrix: from shared memory to registers."""
    shape = _read(program, own, place=1)

    def step(group: BlockGroup) -> None:
        block, warp = _takers(group, own)
        rows, mask = _rows(group, shape), group.mask(own)
        for matrix, target in enumerate(shape.registers):
            halves = [
                group.shared.load(
                    block, warp, _places(rows, matrix, half, transposed=shape.transposed), _HALF
                )
                for half in range(_HALF)
            ]
            group.write(target, np.stack(halves, axis=1).view(np.uint32)[:, 0], mask)

    return step


def _read(program: PtxProgram, own: Instruction, place: int) -> _Matrices:
    """What the operands say; the address is the one at `place`."""
    words = own.words
    registers = several(own.operands[1 - place])
    transposed = "trans" in words
    expected = [*_SHAPE, f"x{len(registers)}", *["trans"] * transposed]
    if words[1 : 1 + len(expected)] != expected or words[-1] != "b16":
        raise PtxError("not known")
    if len(registers) not in (1, 2, 4) or not words[-2].startswith("shared"):
        raise PtxError("not known")
    return _Matrices(registers, address(program, own.operands[place]), transposed)


def _takers(group: BlockGroup, own: Instruction) -> tuple[Lanes, Lanes]:
    if not group.mask(own).all():
        raise PtxError("not all threads of the warp take part")
    return group.read("block"), group.read("%warpid").astype(np.int16)


def _rows(group: BlockGroup, shape: _Matrices) -> Lanes:
    """Addresses of the rows of all matrices, a line for each warp."""
    rows = shape.where(group).reshape(-1, WARP)[:, : _ROWS * len(shape.registers)]
    if (rows % np.uint64(_ROW_BYTES)).any():
        raise PtxError(f"a row is misaligned, of {_ROW_BYTES} bytes")
    return rows


def _places(rows: Lanes, matrix: int, half: int, *, transposed: bool) -> Lanes:
    """Where each thread's first or second halfword of a matrix lies."""
    thread = np.arange(WARP)
    across, along = thread // 4, thread % 4 * _HALF + half
    row, column = (along, across) if transposed else (across, along)
    at: Lanes = rows[:, _ROWS * matrix + row] + (_HALF * column).astype(np.uint64)
    return at.reshape(-1)
