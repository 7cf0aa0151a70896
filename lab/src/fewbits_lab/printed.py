"""Printed values beside ours: what agrees, and why the rest does not."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Fields of a row that has a printed value; `printed` is None where nothing was printed.

    A row that does not reproduce has a reason. One that does may have a remark in its place.
    """

    printed: str | None
    ours: float
    reproduces: bool | None
    reason: str = ""


def agrees(ours: float, printed: str, *, within: float | None = None) -> bool:
    """Whether `ours` is what is printed, to its digits, or `within` a share of it.

    A share is for values that depend on random numbers, or were read off a figure.
    """
    value = float(printed)
    if within is not None:
        return abs(ours - value) <= within * abs(value)
    if "e" in printed:
        digits = len(printed.partition("e")[0].partition(".")[2])
        return float(f"{ours:.{digits}e}") == value
    places = len(printed.partition(".")[2])
    return f"{ours:.{places}f}" == f"{value:.{places}f}"


def departures(rows: Iterable[object]) -> list[Comparison]:
    """The rows whose printed value does not reproduce."""
    compared = [row for row in rows if isinstance(row, Comparison)]
    return [row for row in compared if row.reproduces is False]
