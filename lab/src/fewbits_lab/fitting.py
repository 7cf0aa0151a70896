"""The finest setting of an operator whose frame is no longer than a given number of bytes."""

import math
from collections.abc import Callable
from typing import NamedTuple

import fewbits
from fewbits.errors import SpecError
from fewbits_lab.vectors import VectorValues

HALVINGS = 16  # of the range of the knob's logarithm


class Knob(NamedTuple):
    """A spec with a place for one number, from the coarse end of its range to the fine one."""

    template: str
    coarse: float
    fine: float

    def spec(self, value: float) -> str:
        """The spec with this number."""
        return self.template.format(value)


def finest(
    size: Callable[[str], float], knob: Knob, budget: int, halvings: int = HALVINGS
) -> str | None:
    """The spec, found by halving on a logarithmic scale; None if even the coarse end is longer.

    `size` is the length of a spec's frame. It should grow from coarse to fine; where it does not
    quite, the result still fits.
    """
    best = knob.spec(knob.coarse)
    if size(best) > budget:
        return None
    low, high = math.log(knob.coarse), math.log(knob.fine)
    for _ in range(halvings):
        middle = (low + high) / 2
        spec = knob.spec(math.exp(middle))
        if size(spec) > budget:
            high = middle
        else:
            low, best = middle, spec
    return best


def frame_size(x: VectorValues, seed: int) -> Callable[[str], float]:
    """How long the frame of `x` is, by spec; infinite where its codes would be too wide for `x`."""

    def size(spec: str) -> float:
        try:
            return len(fewbits.compress(x, spec, seed=seed))
        except SpecError:
            return math.inf

    return size
