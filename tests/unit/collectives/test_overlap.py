"""Reductions that overlap give the same bits and the same errors as one after the other."""

from typing import Any

import numpy as np
import pytest

from fewbits.collectives.overlap import Overlap
from fewbits.collectives.payload import UNIT, Unit, units_of
from fewbits.collectives.reduction import ReductionTask, commit, give_up
from fewbits.errors import PeerError
from fewbits.reference.formats import FLOAT32
from fewbits.registry import operator
from fewbits.rng import Rng
from unit.collectives.local import COLLECTIVES, Rank, gradient, together, units

pytest.importorskip("torch")

from fewbits.session.routing import cut
from fewbits.theory.cost import PIECE

RNG = Rng.from_seed(8)
EVERY = pytest.mark.parametrize("collective", list(COLLECTIVES))
SIZES = ((900, 31), (5,), (4000, 2, 77), (1,), (600,), (0, 300))


def batches(worker: str = "natural:coder=rans") -> list[list[Unit]]:
    """Batches whose lengths differ, with names of their own."""
    made = []
    for number, sizes in enumerate(SIZES):
        own = units(sizes, worker)
        made.append([_renamed(unit, f"b{number}.{unit.name}") for unit in own])
    return made


def _renamed(unit: Unit, name: str) -> Unit:
    return Unit(name, unit.start, unit.count, unit.uplink, unit.downlink)


def run(collective: str, world: int, *, overlap: bool, settle: int, steps: int = 4) -> list[Rank]:
    """Every rank's means of all batches in all steps; `settle` says after which to advance once."""

    def work(rank: Rank) -> list[bytes]:
        reductions = [
            COLLECTIVES[collective](ReductionTask(batch, FLOAT32, rank.comm)) for batch in batches()
        ]
        means: dict[tuple[int, int], Any] = {}
        for step in range(steps):
            running = Overlap()
            for number, reduction in enumerate(reductions):
                count = sum(SIZES[number])
                values = gradient(rank.comm.rank, count, FLOAT32, step)
                if not overlap:
                    means[step, number] = reduction.run(values, RNG, rank.progress).tobytes()
                    continue

                def done(mean: np.ndarray, key: tuple[int, int] = (step, number)) -> None:
                    assert key not in means
                    means[key] = mean.tobytes()

                running.add(reduction.hops(values, RNG, rank.progress), done)
                if number % settle == 0:
                    running.advance()
            running.finish()
            commit(rank.comm, rank.progress)
        return [means[key] for key in sorted(means)]

    ranks = together(world, work)
    for rank in ranks:
        assert rank.error is None, rank.error
    return ranks


@EVERY
@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("settle", [1, 2, 100])
def test_overlapped_reductions_have_the_bits_of_those_one_after_the_other(
    collective: str, world: int, settle: int
) -> None:
    plain = run(collective, world, overlap=False, settle=settle)
    for rank in run(collective, world, overlap=True, settle=settle):
        assert rank.result == plain[0].result
        assert len(rank.result) == 4 * len(SIZES)
        own = plain[rank.comm.rank].progress.spent
        assert rank.progress.spent.payload_bytes == own.payload_bytes
        assert rank.progress.spent.header_bytes == own.header_bytes


def test_messages_leave_before_those_of_the_batch_before_were_answered() -> None:
    """The second batch's first hop is sent while the first one's is under way."""
    sent: list[str] = []

    def hops(name: str) -> Any:
        sent.append(f"{name} first")
        yield
        sent.append(f"{name} second")
        yield
        return np.zeros(0)

    overlap, ended = Overlap(), list[str]()
    for name in "abc":
        overlap.add(hops(name), lambda _, name=name: ended.append(name))
    overlap.advance()
    assert sent == ["a first", "b first", "a second", "c first", "b second", "c second"]
    assert ended == ["a", "b"]
    overlap.finish()
    assert ended == ["a", "b", "c"]


@EVERY
@pytest.mark.parametrize("at", [0, 2, 5])
def test_a_fault_among_overlapped_reductions_is_raised_by_all(collective: str, at: int) -> None:
    def work(rank: Rank) -> None:
        reductions = [
            COLLECTIVES[collective](ReductionTask(batch, FLOAT32, rank.comm)) for batch in batches()
        ]
        for step in range(4):
            running = Overlap()
            for number, reduction in enumerate(reductions):
                if (step, number, rank.comm.rank) == (3, at, 1):
                    give_up(rank.comm, rank.progress, KeyError("gone"))
                values = gradient(rank.comm.rank, sum(SIZES[number]), FLOAT32, step)
                running.add(reduction.hops(values, RNG, rank.progress), lambda _: None)
            running.finish()
            commit(rank.comm, rank.progress)

    for rank in together(3, work, timeout=5.0):
        assert type(rank.error) is (KeyError if rank.comm.rank == 1 else PeerError)
        assert "gone" in str(rank.error)


@pytest.mark.parametrize("ranks", [2, 40])
def test_a_bucket_is_cut_where_units_begin_and_nothing_is_lost(ranks: int) -> None:
    natural = operator("natural")
    whole: list[Unit] = []
    for name, count in (("a", 3 * PIECE + 5), ("b", 7), ("c", 0), ("d", PIECE - 1), ("e", 70_000)):
        start = whole[-1].start + whole[-1].count if whole else 0
        whole += units_of(name, start, count, natural, natural)
    pieces = cut(whole, ranks)
    assert [unit.name for _, own in pieces for unit in own] == [unit.name for unit in whole]
    at = 0
    for place, own in pieces:
        assert place.start == at
        assert sum(unit.count for unit in own) == place.stop - place.start
        for unit in own:
            assert place.start + unit.start == next(w for w in whole if w.name == unit.name).start
        at = place.stop
    assert at == whole[-1].start + whole[-1].count
    sizes = [place.stop - place.start for place, _ in pieces]
    assert len(sizes) > 1
    assert min(sizes[:-1]) >= max(PIECE, ranks * UNIT)
    assert cut([], ranks) == []
