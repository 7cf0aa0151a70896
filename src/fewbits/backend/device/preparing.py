"""A table made ready for a device: its lines, and the launches that run it.

Rows of one kernel and format are one launch. Rows that share memory keep their order: each goes to
a later wave than those before it whose values or sections it touches.
"""

from typing import Any, NamedTuple

import numpy as np

from fewbits.backend.device import registry, relays
from fewbits.backend.device.kernels.rows import (
    AT_COUNT,
    AT_OWN,
    AT_SECTIONS,
    AT_VALUES,
    LINE_WIDTH,
    SECTION_COLUMNS,
)
from fewbits.backend.device.launches import Launch, LineNumbers, RowGroup
from fewbits.backend.kernel import Kernel, Kind, RowDirection
from fewbits.backend.table import Table
from fewbits.errors import SpecError
from fewbits.reference.formats import Format


class TableRecipe(NamedTuple):
    """Lines of all rows, which rows' values are counted, and launches in their order."""

    lines: LineNumbers
    counted: np.ndarray[tuple[int], np.dtype[np.int32]]
    launches: list[Launch]
    scratch: Any  # memory that lines name


def recipe(
    direction: RowDirection, table: Table, device: str, *, together: int = 1, checked: bool = False
) -> TableRecipe:
    """How to run a table."""
    lines = _lines(table)
    encodes = table.rows["encodes"].astype(np.bool_) | (direction == "encode")
    launches: list[Launch] = []
    left, scratch = np.arange(len(table)), None
    if direction == "accumulate" and together > 1:
        launches, left = relays.fused(table, lines, device, together)
        scratch = relays.own_totals(table, lines, device, together, left)
    launches += [
        launch
        for wave in _waves(table, lines, left)
        for group in _groups(direction, table, lines, wave, device, checked)
        for launch in registry.launches(group)
    ]
    return TableRecipe(lines, encodes.astype(np.int32), launches, scratch)


def _lines(table: Table) -> LineNumbers:
    sections, _ = table.places()
    if table.columns > SECTION_COLUMNS:
        raise SpecError(f"a device has no kernel for rows of {table.columns} sections")
    lines = np.zeros((len(table), LINE_WIDTH), np.int64)
    lines[:, AT_VALUES] = table.rows["values"].view(np.int64)
    lines[:, AT_COUNT] = table.rows["count"].view(np.int64)
    lines[:, AT_SECTIONS : AT_SECTIONS + sections.shape[1]] = sections.view(np.int64)
    combining = table.rows["kind"] == Kind.COMBINE
    lines[combining, AT_OWN : AT_OWN + 2] = table.rows["factors"][combining].view(np.int64)
    return lines


def _waves(table: Table, lines: LineNumbers, rows: LineNumbers) -> list[list[int]]:
    """Rows by the wave they go to; empty rows need none."""
    last: dict[int, int] = {}
    waves: list[list[int]] = []
    _, sizes = table.places()
    for number in rows.tolist():
        line, own = lines[number].tolist(), sizes[number].tolist()
        if not line[AT_COUNT]:
            continue
        touched = [line[AT_VALUES]]
        touched += [at for at, size in zip(line[AT_SECTIONS:], own, strict=False) if size]
        wave = 1 + max(last.get(address, -1) for address in touched)
        last.update(dict.fromkeys(touched, wave))
        if wave == len(waves):
            waves.append([])
        waves[wave].append(number)
    return waves


def _groups(
    direction: RowDirection,
    table: Table,
    lines: LineNumbers,
    wave: list[int],
    device: str,
    checked: bool,
) -> list[RowGroup]:
    found: dict[tuple[RowDirection, Kernel, Format, bool], list[int]] = {}
    kept = np.zeros(len(table), np.int64)
    for number in wave:
        kernel, format = table.kernels[number], table.formats[number]
        assert kernel is not None
        assert format is not None
        if kernel.before and kernel.before[0].kind is Kind.TOP_K:  # one group for any number
            kept[number] = kernel.before[0].numbers[0]
            first = kernel.before[0]._replace(numbers=())
            kernel = kernel._replace(before=(first, *kernel.before[1:]))
        own = _own_direction(direction, table, number)
        remains = bool(table.rows[number]["remains"])
        found.setdefault((own, kernel, format, remains), []).append(number)
    groups = []
    for (own, kernel, format, remains), numbers in found.items():
        counts, divisors = lines[numbers, AT_COUNT], table.rows["first"][numbers]
        group = RowGroup(
            own, kernel, format, np.array(numbers), counts, lines, divisors, device, checked,
            kept[numbers], remains,
        )  # fmt: skip
        groups.append(group)
    return groups


def _own_direction(direction: RowDirection, table: Table, number: int) -> RowDirection:
    row = table.rows[number]
    if row["encodes"]:
        return "encode"
    return "decode" if row["decodes"] else direction
