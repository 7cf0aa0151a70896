"""One hop to the owners: what each of them ends up with, and what it costs."""

from typing import Any

import numpy as np
import pytest

import fewbits
from fewbits import Rng
from fewbits.coding.bitpack import packed_size
from fewbits.collectives.correction import FeedbackState
from fewbits.collectives.gather import Gather
from fewbits.collectives.payload import Unit
from fewbits.collectives.reduction import ReductionTask, commit
from fewbits.collectives.scatter import Scatter
from fewbits.collectives.units import total_format
from fewbits.feedback import feedback
from fewbits.feedback.store import Store
from fewbits.operators.identity import Identity
from fewbits.reference import natural as natural_reference
from fewbits.reference.formats import FLOAT32, FORMATS, Format
from fewbits.rng import token
from unit.collectives.local import Rank, floats, gradient, together

COUNTS = (7, 1001, 64)  # of a rank's units
GAP = 5  # elements that belong to no unit, after each of them
WORLDS = pytest.mark.parametrize("world", [1, 2, 3, 5])


def shards(world: int, worker: str = "natural") -> tuple[list[Unit], int]:
    """Units of all ranks with gaps between them, and the length of the vector."""
    units, start = [], 0
    for rank in range(world):
        for number, count in enumerate(COUNTS):
            operator = fewbits.operator(worker)
            units.append(Unit(f"p{number}/{rank}.0", start, count, operator, Identity(), rank))
            start += count + GAP
    return units, start


def scattered(world: int, worker: str, *, format: Format = FLOAT32, **options: Any) -> list[Rank]:
    """Every rank's own values and what it sent."""
    units, length = shards(world, worker)

    def work(rank: Rank) -> np.ndarray:
        scatter = Scatter(ReductionTask(units, format, rank.comm), **options)
        values = gradient(rank.comm.rank, length, format)
        result = scatter.run(values, Rng.from_seed(11), rank.progress)
        commit(rank.comm, rank.progress)
        return own(units, result, rank.comm.rank)

    ranks = together(world, work)
    for rank in ranks:
        assert rank.error is None, rank.error
    return ranks


def own(units: list[Unit], values: np.ndarray, rank: int) -> np.ndarray:
    return np.concatenate([values[unit.place] for unit in units if unit.shard == rank])


def natural(values: np.ndarray, sender: int, units: list[Unit], format: Format) -> np.ndarray:
    """The natural operator of one sender on every unit, from the NumPy reference alone."""
    out = values.copy()
    rng = Rng.from_seed(11).fork("private", 0, sender)
    for unit in units:
        codes = natural_reference.rounded(
            values[unit.place], format, Rng(rng.child_key(token(unit.name)))
        )
        out[unit.place] = natural_reference.values(codes.exponents, codes.signs, format)
    return out


@WORLDS
@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
@pytest.mark.parametrize("worker", ["identity", "natural"])
def test_owners_have_the_mean_in_rank_order(world: int, format: Format, worker: str) -> None:
    units, length = shards(world, worker)
    total = np.zeros(length, total_format(format).name)
    for sender in range(world):
        bits = gradient(sender, length, format)
        sent = bits if worker == "identity" else natural(bits, sender, units, format)
        total += floats(sent, format)
    mean = total / total.dtype.type(world)
    for number, rank in enumerate(scattered(world, worker, format=format)):
        assert rank.result.tobytes() == own(units, mean, number).tobytes()
    for number, rank in enumerate(scattered(world, worker, format=format, divisor=1)):
        assert rank.result.tobytes() == own(units, total, number).tobytes()


@WORLDS
def test_a_rank_sends_the_codes_of_all_shards_but_its_own(world: int) -> None:
    codes = sum(packed_size(count, 8) + packed_size(count, 1) for count in COUNTS)
    for rank in scattered(world, "natural"):
        assert rank.progress.spent.payload_bytes == (world - 1) * codes


@pytest.mark.parametrize("method", ["ef14", "ef14:momentum=0.9", "ef21", "diana", "ef-bv"])
@pytest.mark.parametrize("worker", ["natural", "natural:coder=rans"])
def test_with_memories_owners_have_what_everyone_has_who_gathers(method: str, worker: str) -> None:
    world, steps = 3, 4
    units, length = shards(world, worker)

    def work(rank: Rank) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
        collective = Scatter if scatters else Gather
        loop = FeedbackState(feedback(method), Store())
        reduction = collective(ReductionTask(units, FLOAT32, rank.comm, feedback=loop))
        results = []
        for step in range(steps):
            values = gradient(rank.comm.rank, length, step=step)
            result = reduction.run(values, Rng.from_seed(11), rank.progress)
            results.append(own(units, result, rank.comm.rank))
            commit(rank.comm, rank.progress)
            loop.store.end_step(well=True)
        return results, loop.store.arrays()

    scatters = False
    expected = together(world, work)
    scatters = True
    for rank, other in zip(together(world, work), expected, strict=True):
        assert rank.error is other.error is None
        results, memories = rank.result
        for step, one in enumerate(results):
            assert one.tobytes() == other.result[0][step].tobytes()
        assert len({result.tobytes() for result in results}) == steps
        workers = {key for key in other.result[1] if key.startswith("worker")}
        shifts = {f"mean/{u.name}" for u in units if u.shard == rank.comm.rank}
        assert memories.keys() == workers | (set() if method.startswith("ef14") else shifts)
        for key, array in memories.items():
            assert array.tobytes() == other.result[1][key].tobytes(), key
            assert array.any()


def test_a_mean_that_one_owner_knows_to_be_infinite_is_known_to_all_when_the_step_ends() -> None:
    for policy, error in (("propagate", None), ("skip", None), ("raise", fewbits.EncodeError)):

        def work(rank: Rank) -> None:
            commit(rank.comm, rank.progress, nonfinite=rank.comm.rank % 2)

        for rank in together(3, work, nonfinite=policy):
            assert rank.progress.saw_nonfinite == (error is None)
            assert rank.error is None if error is None else type(rank.error) is error
            assert error is None or "rank 1 at step 0: 1 of its mean gradients" in str(rank.error)
