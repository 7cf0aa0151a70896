"""Groups of rows that sum: CLEAR, terms, DIVIDE and maybe an encoding, in one launch.

Terms and encodings that the relay kernel does not know run row by row, on totals of their own.
"""

from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch

from fewbits.backend.device.kernels.rows import AT_COUNT, AT_OWN, AT_SECTIONS, AT_VALUES
from fewbits.backend.device.kernels.sums import (
    CAST_TERMS,
    NATURAL_TERMS,
    TO_CAST,
    TO_NATURAL,
    TO_TOTALS,
    relay,
)
from fewbits.backend.device.kinds import casts, natural, sums
from fewbits.backend.device.launches import (
    WIDE_ACCESS,
    Launch,
    LineNumbers,
    block_on,
    launch_blocks,
)
from fewbits.backend.device.memory import torch_device
from fewbits.backend.kernel import Kernel, Kind, total_itemsize
from fewbits.backend.table import Table
from fewbits.reference.formats import BY_CODE, FLOAT32, Format

_FUSED = {Kind.NATURAL: natural, Kind.CAST: casts}
_SECTIONS = {Kind.NATURAL: 2, Kind.CAST: 1}


class _Sum(NamedTuple):
    """What groups have in common that one launch serves."""

    term: Kernel
    format: Format
    terms: int
    divisor: int
    onward: Kernel | None


def fused(
    table: Table, lines: LineNumbers, device: str, together: int
) -> tuple[list[Launch], LineNumbers]:
    """Launches of the groups that can be fused, and the rows that are left."""
    found: dict[_Sum, list[int]] = {}
    left: list[int] = []
    for first in range(0, len(table), together):
        own = _sum_of(table, range(first, first + together))
        if own is None:
            left += range(first, first + together)
        else:
            found.setdefault(own, []).append(first)
    launches = [
        launch
        for own, rows in found.items()
        for launch in _launches(own, np.array(rows), lines, device)
    ]
    return launches, np.array(left, np.int64)


def _sum_of(table: Table, rows: range) -> _Sum | None:
    """The sum that a group of rows makes; None if it is another, or cannot be fused."""
    kernels = [table.kernels[row] for row in rows]
    formats, encodes = [table.formats[row] for row in rows], table.rows["encodes"][rows.start :]
    onward = kernels[-1] if encodes[len(rows) - 1] else None
    ends = len(rows) - (onward is not None)
    steps = [kernels[0], kernels[ends - 1]]
    terms = kernels[1 : ends - 1]
    if [own and own.kind for own in steps] != [Kind.CLEAR, Kind.DIVIDE] or not terms:
        return None
    term, format = terms[0], formats[0]
    assert term is not None
    assert format is not None
    same = all(own == term for own in terms) and set(formats[:ends]) == {format}
    alike = len(set(table.rows["count"][rows.start : rows.stop].tolist())) == 1
    if not (same and alike and _is_known(term, format)) or encodes[:ends].any():
        return None
    if onward is not None and not (_is_known(onward, FLOAT32) and formats[-1] == FLOAT32):
        return None
    divisor = int(table.rows["first"][rows[ends - 1]])
    return _Sum(term, format, len(terms), divisor, onward)


def _is_known(kernel: Kernel, format: Format) -> bool:
    kind = _FUSED.get(kernel.kind)
    return kind is not None and not kernel.before and kind.refusal(kernel, format) is None


def _launches(own: _Sum, firsts: LineNumbers, lines: LineNumbers, device: str) -> list[Launch]:
    divide = firsts + 1 + own.terms
    lines[divide, AT_OWN] = sums.divisor_bits(own.divisor)
    counts, block = lines[firsts, AT_COUNT], block_on(device)
    term, onward = own.term, own.onward
    constants: dict[str, Any] = {
        "TERMS": NATURAL_TERMS if term.kind is Kind.NATURAL else CAST_TERMS,
        "EXPONENT": own.format.exponent,
        "FROM": BY_CODE[term.option].code if term.kind is Kind.CAST else 0,
        "TO": own.format.code,
        "ONWARD": _onward(onward),
        "NEAREST": onward is not None and bool(onward.option & natural.NEAREST_OPTION),
        "TARGET": onward.option if onward is not None else 0,
        "EXACT": sums.is_exact(own.divisor),
        "BLOCK": block,
        "ALIGNED": _is_aligned(own, firsts, lines),
        "RARE": True,
    }
    return launch_blocks(relay, firsts, counts, block, constants, (own.terms,))


def _onward(kernel: Kernel | None) -> int:
    if kernel is None:
        return TO_TOTALS
    return TO_NATURAL if kernel.kind is Kind.NATURAL else TO_CAST


def _is_aligned(own: _Sum, firsts: LineNumbers, lines: LineNumbers) -> bool:
    places = [
        lines[firsts + 1 + number, AT_SECTIONS + section]
        for number in range(own.terms)
        for section in range(_SECTIONS[own.term.kind])
    ]
    if own.onward is None:
        places.append(lines[firsts, AT_VALUES])
    else:
        last = firsts + 2 + own.terms
        count = _SECTIONS[own.onward.kind]
        places += [lines[last, AT_SECTIONS + section] for section in range(count)]
    return not any(np.any(own % WIDE_ACCESS) for own in places)


def own_totals(
    table: Table, lines: LineNumbers, device: str, together: int, left: LineNumbers
) -> Any:
    """Give sums that are encoded and share their totals memory of their own.

    The host lets all sums of a thread use one total; here they run side by side.
    """
    firsts = [first for first in left[::together].tolist() if _is_passing(table, first, together)]
    if len(set(lines[firsts, AT_VALUES].tolist())) == len(firsts):
        return None
    sizes = [
        -(-int(lines[first, AT_COUNT]) * _item(table, first) // WIDE_ACCESS) * WIDE_ACCESS
        for first in firsts
    ]
    memory = torch.zeros(sum(sizes), dtype=torch.uint8, device=torch_device(device))
    starts = accumulate(sizes, initial=memory.data_ptr())
    for first, start in zip(firsts, starts, strict=False):
        lines[first : first + together, AT_VALUES] = start
    return memory


def _is_passing(table: Table, first: int, together: int) -> bool:
    """Whether a group's total is only made to be encoded."""
    kernel, row = table.kernels[first], table.rows[first]
    is_sum = kernel is not None and kernel.kind is Kind.CLEAR and bool(row["count"])
    last = table.rows[first + together - 1]
    return is_sum and bool(last["encodes"]) and not last["remains"]


def _item(table: Table, row: int) -> int:
    format = table.formats[row]
    assert format is not None
    return total_itemsize(format)
