"""Units lie where FSDP puts the values of their parameters."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import fewbits  # noqa: E402
from fewbits import fsdp  # noqa: E402
from fewbits.collectives.payload import UNIT  # noqa: E402
from fewbits.fsdp.shards import ShardedParameter, ShardLayout  # noqa: E402
from fewbits.operators.identity import Identity  # noqa: E402
from fewbits.session import Routing  # noqa: E402
from fewbits.theory.cost import PIECE  # noqa: E402

RANKS = pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
SHAPES = [(7, 5), (3,), (1, 4), (400, 700), (8,)]


def routing() -> Routing:
    return Routing(fewbits.operator("natural"), Identity(), lambda name, shape: None)


def parameters() -> tuple[ShardedParameter, ...]:
    return tuple(ShardedParameter(f"p{number}", shape) for number, shape in enumerate(SHAPES))


def flat(ranks: int) -> tuple[list[Any], Any]:
    """Parameters of which every element is another number, and FSDP's vector of them."""
    tensors, first = [], 1
    for shape in SHAPES:
        count = math.prod(shape)
        tensors.append(torch.arange(first, first + count).double().reshape(shape))
        first += count
    rows = sum(-(-shape[0] // ranks) * math.prod(shape[1:]) for shape in SHAPES)
    out = torch.full((ranks, rows), -1.0, dtype=torch.float64)
    torch._chunk_cat(tensors, 0, ranks, out=out)
    return tensors, out.reshape(-1)


@RANKS
def test_every_unit_has_the_values_of_its_place_in_its_parameter(ranks: int) -> None:
    tensors, vector = flat(ranks)
    layout = ShardLayout(parameters(), ranks)
    assert layout.width * ranks == vector.numel()
    units = layout.units(routing())
    for unit in units:
        number = int(unit.parameter.removeprefix("p"))
        rank, chunk = map(int, unit.name.rpartition("/")[2].split("."))
        assert unit.shard == rank
        shard = torch.chunk(tensors[number], ranks)[rank].reshape(-1)
        expected = shard[chunk * UNIT : (chunk + 1) * UNIT]
        assert torch.equal(vector[unit.place], expected)
    covered = np.sort(np.concatenate([vector[unit.place].numpy() for unit in units]))
    assert covered.tolist() == list(range(1, 1 + sum(map(math.prod, SHAPES))))


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_another_dimension_may_be_cut(ranks: int) -> None:
    tensor = torch.arange(6 * 8 * 3).reshape(6, 8, 3)
    vector = torch.cat([part.reshape(-1) for part in torch.chunk(tensor, ranks, 1)])
    layout = ShardLayout((ShardedParameter("p", (6, 8, 3), 1),), ranks)
    for unit, part in zip(layout.units(routing()), torch.chunk(tensor, ranks, 1), strict=True):
        assert torch.equal(vector[unit.place], part.reshape(-1))


@RANKS
def test_pieces_are_columns_of_about_a_million_elements(ranks: int) -> None:
    many = tuple(ShardedParameter(f"q{number}", (401, 1000)) for number in range(9))
    layout = ShardLayout(parameters() + many, ranks)
    pieces = layout.pieces(routing())
    rows = np.arange(layout.width * ranks).reshape(ranks, -1)
    places = {unit.name: unit.start for unit in layout.units(routing())}
    columns = [piece for piece, _ in pieces]
    assert columns[0].start == 0
    assert columns[-1].stop == layout.width
    assert all(a.stop == b.start for a, b in pairwise(columns))
    for piece, units in pieces:
        assert (piece.stop - piece.start) * ranks <= PIECE + 2 * ranks * UNIT
        assert {unit.shard for unit in units} == set(range(ranks))
        vector = rows[:, piece].reshape(-1)
        for unit in units:
            own, start = vector[unit.place], places[unit.name]
            assert own.tolist() == list(range(start, start + unit.count))
    assert len(pieces) > 1
    names = [unit.name for _, units in pieces for unit in units]
    assert sorted(names) == sorted(unit.name for unit in layout.units(routing()))


def test_a_model_that_is_not_sharded_is_refused() -> None:
    with pytest.raises(fewbits.SpecError, match="to which fully_shard was applied"):
        fsdp.attach(nn.Linear(3, 3), "natural")
