"""Fragments: parts of a model that are exchanged one after the other, not all at once.

A fragment is made of whole rows of neighbouring parameters. A model is cut where fragments cost
about as many bytes each, by what each parameter's operator makes of a bell curve.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from fewbits.codec import compress
from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.localsgd.vectors import FlatTensors, PlacedTensor
from fewbits.policy import Choice
from fewbits.rng import Rng
from fewbits.session import ModelParameters, Routing

_SAMPLE = 16_384
Shape = tuple[int, ...]
Shares = Sequence[tuple[int, slice]]
"""What a fragment has: the numbers of vectors, and its places there."""


class Fragments(NamedTuple):
    """The cut: `shares` of each fragment, and the whole parameter of each cut one by its name."""

    shares: list[Shares]
    wholes: dict[str, tuple[str, Shape]]


@cache
def bits(operator: Operator) -> int:
    """Bits of a value, about: those of values in a bell's shape, which are the same everywhere."""
    halves = Rng.from_seed(0).words(0, 4 * _SAMPLE).astype(np.float64) * 2.0**-32 - 0.5
    frame = compress(halves.reshape(4, -1).sum(axis=0).astype(np.float32), operator, seed=0)
    return max(1, round(8 * len(frame) / _SAMPLE))


def cut(
    vectors: Sequence[FlatTensors], count: int, cost: Callable[[PlacedTensor], float]
) -> Fragments:
    """Cut vectors into `count` fragments of about the same cost, which is that of one value.

    The vectors' entries are cut with them. `SpecError` if there are fewer rows than fragments.
    """
    costs = [[cost(each) * each.size for each in vector.entries] for vector in vectors]
    total, spent, number = sum(map(sum, costs)), 0.0, 1
    ends: list[tuple[int, int]] = []  # vector and place where fragments end, but for the last one
    for index, vector in enumerate(vectors):
        for entry, own in zip(vector.entries, costs[index], strict=True):
            while number < count and spent + own >= total * number / count:
                share = (total * number / count - spent) / own if own else 1.0
                ends.append((index, entry.place.start + entry.row * round(share * entry.rows)))
                number += 1
            spent += own
    starts = [(0, 0), *ends]
    ends.append((len(vectors) - 1, vectors[-1].count))
    shares = [_shares(vectors, *both) for both in zip(starts, ends, strict=True)]
    if len(shares) != count or not all(shares):
        raise SpecError(f"the model has too few rows for {count} fragments: ask for fewer")
    wholes: dict[str, tuple[str, Shape]] = {}
    for index, vector in enumerate(vectors):
        wholes |= vector.cut([place for which, place in ends if which == index])
    return Fragments(shares, wholes)


def _shares(vectors: Sequence[FlatTensors], start: tuple[int, int], end: tuple[int, int]) -> Shares:
    """The places between two ends, without empty ones."""
    found = []
    for index in range(start[0], end[0] + 1):
        first = start[1] if index == start[0] else 0
        last = end[1] if index == end[0] else vectors[index].count
        if first < last:
            found.append((index, slice(first, last)))
    return found


def routed(
    vectors: Sequence[FlatTensors], routing: Routing, count: int, ranks: int = 1, place: int = 0
) -> tuple[Routing, list[list[Shares]]]:
    """Cut vectors into fragments, and each of them into a part for each of some ranks.

    Returns the routing of the parts of one rank, and by rank what it has of each fragment. A part
    of a parameter gets the operator that the whole one gets.
    """
    if count * ranks == 1:
        return routing, [[[(index, own.whole) for index, own in enumerate(vectors)]]]
    asked = replace(routing, choices={}, sizes={})

    def cost(entry: PlacedTensor) -> float:
        return bits(asked.operators(entry.described)[0])

    cut_in = cut(vectors, count * ranks, cost)
    shares = [cut_in.shares[rank::ranks] for rank in range(ranks)]
    parts = [
        each.described._replace(is_trained=not each.is_buffer)
        for own in shares[place]
        for index, part in own
        for each in vectors[index].within(part)
    ]

    def choose(name: str, shape: Shape) -> Choice | str | None:
        return routing.policy(*cut_in.wholes.get(name, (name, shape)))

    return replace(routing, model=ModelParameters(parts), policy=choose), shares
