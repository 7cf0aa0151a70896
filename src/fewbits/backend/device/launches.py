"""Launches of kernels: what the host hands over, and how they start."""

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from fewbits.backend.device.kernels.rows import (
    AT_SECTIONS,
    AT_VALUES,
    PROGRAM_VALUES,
    TAIL_WARPS,
    WARPS,
)
from fewbits.backend.device.language import INTERPRETED
from fewbits.backend.kernel import Kernel, RowDirection
from fewbits.reference.formats import Format

LineNumbers = npt.NDArray[np.int64]
_INTERPRETED_BLOCK = 1 << 13  # a program costs the interpreter as much as these values
WIDE_ACCESS = 16
_one_at_a_time = threading.Lock()


class RowGroup(NamedTuple):
    """Rows of one kernel and format that do one thing, in any order.

    `lines` are the lines of all rows of the table as the device will see them; a kind may write its
    own numbers there. `numbers` are the rows of this group.
    """

    direction: RowDirection
    kernel: Kernel
    format: Format
    numbers: LineNumbers
    counts: LineNumbers
    lines: LineNumbers
    divisors: npt.NDArray[np.uint64]
    device: str
    checked: bool  # values that are read must be those that a cast gives
    kept: LineNumbers | None = None  # how many values of each row a selection keeps
    remains: bool = False  # rows that encode leave there what they have not sent

    @property
    def block(self) -> int:
        return block_on(self.device)

    def is_aligned(self, sections: int) -> bool:
        """Whether values and the first sections of all rows begin at multiples of 16 bytes."""
        own = self.lines[self.numbers]
        where = own[:, AT_VALUES], own[:, AT_SECTIONS : AT_SECTIONS + sections]
        return not any(np.any(addresses % WIDE_ACCESS) for addresses in where)


class Launch(NamedTuple):
    """One start of a kernel; the four tables of `kernels.rows` come before its own arguments."""

    kernel: Any
    work: npt.NDArray[np.int32]
    constants: Mapping[str, Any]
    arguments: tuple[Any, ...] = ()
    warps: int = WARPS
    lines: Any = None  # in place of the table's, for the same rows
    scratch: Any = None  # memory of the kind's own, which is cleared first
    counts: bool = True  # what is met and refused; not where a row reads what it has written


def block_on(device: str) -> int:
    """How many values a program takes."""
    return _INTERPRETED_BLOCK if device == INTERPRETED else PROGRAM_VALUES


def blocks(group: RowGroup) -> npt.NDArray[np.int32]:
    """A line of row and block for each program."""
    return work_of(group.numbers, group.counts, group.block)


def work_of(numbers: LineNumbers, counts: LineNumbers, block: int) -> npt.NDArray[np.int32]:
    each = -(-counts // block)
    starts = np.repeat(np.cumsum(each) - each, each)
    return np.stack((np.repeat(numbers, each), np.arange(each.sum()) - starts), axis=1).astype(
        np.int32
    )


def launch_blocks(
    kernel: Any,
    numbers: LineNumbers,
    counts: LineNumbers,
    block: int,
    constants: Mapping[str, Any],
    arguments: tuple[Any, ...] = (),
) -> list[Launch]:
    """A launch for whole blocks and one for the rows' last ones, which alone need masks.

    Masks take registers, so more threads share a last block.
    """
    work = work_of(numbers, counts, block)
    is_tail = (work[:, 1] + 1).astype(np.int64) * block > np.repeat(counts, -(-counts // block))
    return [
        Launch(kernel, work[is_tail == tails], {**constants, "TAILS": tails}, arguments, warps)
        for tails, warps in ((False, WARPS), (True, TAIL_WARPS))
        if np.any(is_tail == tails)
    ]


def start(
    device: str, kernel: Any, programs: int, *arguments: Any, warps: int = WARPS, **constants: Any
) -> None:
    """Start a kernel on a device; products and sums of floats are never fused."""
    if not programs:
        return
    with _on(device), np.errstate(all="ignore"):
        kernel[(programs,)](*arguments, **constants, num_warps=warps, enable_fp_fusion=False)


def _on(device: str) -> AbstractContextManager[Any]:
    """Make a device the one that Triton starts kernels on; without one, they run one by one."""
    if device == INTERPRETED or not torch.cuda.is_available():
        return _one_at_a_time
    current: AbstractContextManager[Any] = torch.cuda.device(device)
    return current
