"""Counts of unusual values in a pass over a vector."""

from collections.abc import Sequence
from typing import NamedTuple


class Tally(NamedTuple):
    """The counts of one pass: saturated and nonfinite values."""

    saturated: int = 0
    nonfinite: int = 0
    escaped: int = 0  # blocks that were sent in their operator's second way


def total(tallies: Sequence[Tally]) -> Tally:
    return Tally(*(sum(counts) for counts in zip(*tallies, strict=True)))
