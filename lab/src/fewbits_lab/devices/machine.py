"""Executes compiled PTX on the host: all threads of many blocks side by side, in NumPy.

It is made for the kernels of `fewbits.backend.device`, not for all of PTX, and refuses what it does
not know. It also refuses what a device would not forgive: accesses that are misaligned, stray or
not kept apart by a barrier, threads of a block that part ways, registers that nobody has written.
"""

import numpy as np

from fewbits_lab.devices.lanes import BlockGroup, Step
from fewbits_lab.devices.memory import GlobalMemory, Lanes
from fewbits_lab.devices.ptx import Instruction, PtxError, PtxProgram
from fewbits_lab.devices.steps import stepped

_TOGETHER = 64  # blocks at once
_LIMIT = 2_000_000  # instructions of a group of blocks
LaunchGrid = tuple[int, int, int]


class PtxMachine:
    """A program that is ready to run."""

    def __init__(self, program: PtxProgram, shared_bytes: int) -> None:
        self.program, self.shared_bytes = program, shared_bytes
        self._steps: list[Step | None] = [None] * len(program.instructions)

    def run(
        self, grid: LaunchGrid, arguments: list[int], memory: GlobalMemory, limit: int = _LIMIT
    ) -> int:
        """Run all blocks; how many instructions they took, each counted once for a block."""
        x, y, z = grid
        blocks = np.stack(
            [own.reshape(-1) for own in np.meshgrid(np.arange(x), np.arange(y), np.arange(z))], 1
        ).astype(np.uint32)
        executed = 0
        with np.errstate(all="ignore"):
            for start in range(0, len(blocks), _TOGETHER):
                own = blocks[start : start + _TOGETHER]
                waiting = [
                    BlockGroup.begin(self.program, own, arguments, memory, self.shared_bytes)
                ]
                while waiting:
                    executed += self._run_group(waiting.pop(), waiting, limit)
        return executed

    def _run_group(self, group: BlockGroup, waiting: list[BlockGroup], limit: int) -> int:
        instructions, executed = self.program.instructions, 0
        while group.at < len(instructions):
            own = instructions[group.at]
            group.at += 1
            group.taken += 1
            executed += group.count
            if group.taken > limit:
                raise PtxError(f"no end after {limit} instructions")
            name = own.words[0]
            if name in ("ret", "exit"):
                if not group.mask(own).all():
                    raise PtxError("threads of a block part ways")
                return executed
            if name == "bra":
                self._branch(group, own, waiting)
                continue
            try:
                self._step(group.at - 1, own)(group)
            except PtxError as error:
                raise PtxError(f"{error}: {own}") from None
        raise PtxError("the program runs over its end")

    def _branch(self, group: BlockGroup, own: Instruction, waiting: list[BlockGroup]) -> None:
        target = self.program.labels[own.operands[0]]
        mask = group.mask(own).reshape(group.count, -1)
        taken: Lanes = np.asarray(mask.all(axis=1))
        if (taken != mask.any(axis=1)).any():
            raise PtxError(f"threads of a block part ways: {own}")
        if taken.all():
            group.at = target
        elif taken.any():
            other = group.part(taken)
            other.at = target
            waiting.append(other)
            group.keep(~taken)

    def _step(self, place: int, own: Instruction) -> Step:
        known = self._steps[place]
        if known is None:
            known = self._steps[place] = stepped(self.program, own)
        return known
