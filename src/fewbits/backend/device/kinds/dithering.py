"""Rows that round to levels of their blocks' norms."""

import math
from typing import Any

import numpy as np
import torch

from fewbits.backend.device.kernels.dithering import dithering_encode
from fewbits.backend.device.kernels.rows import AT_OWN, PROGRAM_VALUES
from fewbits.backend.device.kernels.scales import add_terms, largest, send_scales
from fewbits.backend.device.kernels.undithering import dithering_decode
from fewbits.backend.device.language import INTERPRETED
from fewbits.backend.device.launches import (
    Launch,
    LineNumbers,
    RowGroup,
    blocks,
    launch_blocks,
    work_of,
)
from fewbits.backend.device.memory import torch_device
from fewbits.backend.kernel import Kernel
from fewbits.reference.blocks import SUMMATION_BLOCK
from fewbits.reference.dithering import Levels
from fewbits.reference.formats import FLOAT64, Format

_NORMS = {1.0: 1, 2.0: 2, math.inf: 0}
_SCALES = 256  # that a program sends
_TOGETHER = 16  # sums of blocks that a program makes
_WIDE = 8, 4  # bytes of a sum, and of a scale
_BYTE = 8


def refusal(kernel: Kernel, format: Format) -> str | None:
    how = Levels(*kernel.numbers)
    if how.coded:
        return "coder=rans: use coder=packed"
    if how.p not in _NORMS:
        return f"the norm p={how.p:g}: use 1, 2 or inf"
    if format == FLOAT64:
        return "float64 values: use float32"
    return None


def launches(group: RowGroup) -> list[Launch]:
    how = Levels(*group.kernel.numbers)
    constants: dict[str, Any] = {
        "EXPONENT": group.format.exponent,
        "MANTISSA": group.format.mantissa,
        "SIZE": how.block,
    }
    codes = constants | {
        "LEVELS": how.levels,
        "NATURAL": how.natural,
        "POWERS": how.natural_scale,
        "WIDTH": (2 * how.levels + 1).bit_length(),
        "ALIGNED": group.is_aligned(2),
    }
    if group.direction != "encode":
        codes["ADD"] = group.direction == "accumulate"
        return _launches(group, how, dithering_decode, codes)
    found = _launches(group, how, dithering_encode, codes)
    return [*_scales(group, how, constants), *found]


def _launches(group: RowGroup, how: Levels, kernel: Any, constants: dict[str, Any]) -> list[Launch]:
    block = min(group.block, _most(group, how, constants))
    return launch_blocks(kernel, group.numbers, group.counts, block, constants | {"BLOCK": block})


def _most(group: RowGroup, how: Levels, constants: dict[str, Any]) -> int:
    """How many values a program may take: fewer where each takes more registers."""
    reads, narrow = group.direction != "encode", group.format.itemsize == 2
    if not how.natural and (reads or narrow):  # in float64
        return PROGRAM_VALUES // 4
    if constants["WIDTH"] > _BYTE or (reads and narrow and how.natural_scale):
        return PROGRAM_VALUES // 4
    is_plain = not how.block and not how.natural_scale and _BYTE % constants["WIDTH"] == 0
    return group.block if is_plain and (constants["ALIGNED"] or not reads) else PROGRAM_VALUES // 2


def _scales(group: RowGroup, how: Levels, constants: dict[str, Any]) -> list[Launch]:
    """Find and send the scales of every row."""
    norm = _NORMS[how.p]
    # Values whose sum or maximum is found apart: a block, or a part of the vector.
    size = how.block or SUMMATION_BLOCK
    memory = _reserve(group, -(-group.counts // size), sums=norm != 0)
    if norm == 0:
        known = constants | {"ALIGNED": group.is_aligned(0), "BLOCK": group.block}
        first = Launch(largest, blocks(group), known, scratch=memory)
    else:
        together = max(1, group.block // size)
        if group.device != INTERPRETED:
            together = min(together, _TOGETHER)
        own = constants | {"SQUARE": norm == 2, "SIZE": size, "TOGETHER": together}
        work = work_of(group.numbers, group.counts, size * together)
        first = Launch(add_terms, work, own, warps=4, scratch=memory)
    each = -(-group.counts // how.block) if how.block else np.ones_like(group.counts)
    sent = constants | {"NORM": norm, "POWERS": how.natural_scale, "BLOCK": _SCALES}
    return [first, Launch(send_scales, work_of(group.numbers, each, _SCALES), sent, warps=4)]


def _reserve(group: RowGroup, counts: LineNumbers, *, sums: bool) -> Any:
    """Memory for scales, and for sums, of every row; their addresses go to the rows' lines."""
    ends = np.cumsum(counts)
    starts, total = ends - counts, int(ends[-1])
    sizes = _WIDE if sums else (0, _WIDE[1])
    memory = torch.zeros(total * sum(sizes), dtype=torch.uint8, device=torch_device(group.device))
    address = memory.data_ptr()
    group.lines[group.numbers, AT_OWN] = address + total * sizes[0] + starts * sizes[1]
    group.lines[group.numbers, AT_OWN + 1] = address + starts * sizes[0]
    return memory
