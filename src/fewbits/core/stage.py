"""Stages: maps of a vector to a shorter or rotated one, to be put before an operator."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.core.guarantee import Guarantee
from fewbits.core.named import Named
from fewbits.core.operator import Parts
from fewbits.core.vector import Vector, wide
from fewbits.errors import SpecError
from fewbits.kernels import reference
from fewbits.kernels.formats import Format
from fewbits.kernels.units import Tally
from fewbits.rng import Rng
from fewbits.wire.sections import Section


class Split(NamedTuple):
    """What is left of a vector for the next stage, and what was met on the way.

    The side sections are fixed by the number of values, so `split` always fills them.
    """

    vector: Vector
    tally: Tally


@dataclass(frozen=True, slots=True)
class Stage(Named):
    """All but the last of `a|b|c`: what it does not hand on goes into side sections of its own.

    A vector that is not finite must stay so: if some value of the input is NaN or infinite, then
    some value that `split` hands on is, and with it some value that `join` writes. Finite vectors
    stay finite in both directions.
    """

    @abstractmethod
    def reduced(self, d: int) -> int:
        """How many of `d` values are handed on."""

    @abstractmethod
    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        """The side sections, none of which varies in length."""

    @abstractmethod
    def split(self, x: Vector, rng: Rng, into: Parts, *, threads: int = 1) -> Split:
        """Fill the side sections and make the vector that the next stage gets."""

    @abstractmethod
    def join(self, parts: Parts, reduced: Vector, out: Vector, *, threads: int = 1) -> Tally:
        """The way back; `DecodeError` for side sections that `split` cannot have written."""

    def accumulate(self, parts: Parts, reduced: Vector, totals: npt.NDArray[Any]) -> Tally:
        """`join`, added to `totals`."""
        joined = Vector(np.empty(totals.size, reduced.format.bits), reduced.format)
        tally = self.join(parts, reduced, joined)
        with np.errstate(all="ignore"):  # NaN and infinity are the caller's to judge
            totals += wide(joined)
        return tally

    @property
    def keeps_largest(self) -> bool:
        """Whether it is the places and the values of the largest magnitudes that are handed on."""
        return False

    @abstractmethod
    def guarantee(self, d: int, format: Format, inner: Guarantee) -> Guarantee:
        """What holds for `d` values if `inner` holds for those handed on; its bits are kept."""


def scatter(chosen: npt.NDArray[np.uint32], reduced: Vector, out: Vector) -> Tally:
    """The reduced values at the chosen places, and zeros."""
    out.bits[:] = 0
    out.bits[chosen] = reduced.bits
    return Tally(0, reference.count_nonfinite(reduced.bits, reduced.format))


def scatter_add(chosen: npt.NDArray[np.uint32], reduced: Vector, totals: npt.NDArray[Any]) -> Tally:
    """Add the reduced values at the chosen places, each of which occurs once."""
    with np.errstate(all="ignore"):  # NaN and infinity are the caller's to judge
        totals[chosen] += wide(reduced)
    return Tally(0, reference.count_nonfinite(reduced.bits, reduced.format))


def check_fraction(fraction: float) -> None:
    """Refuse what is no share of a vector."""
    if not 0 < fraction <= 1:
        raise SpecError(f"fraction must be above 0 and at most 1, got {fraction}")


def kept(fraction: float, d: int) -> int:
    """How many of `d` values a fraction is: rounded to the nearest, and not 0 unless `d` is."""
    return min(d, max(1, int(fraction * d + 0.5)))
