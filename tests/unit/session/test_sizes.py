"""How much is exchanged together never shows in the means, and all ranks agree on it."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from fewbits import PeerError
from fewbits.collectives.comm import LocalComm
from fewbits.collectives.progress import RankProgress
from fewbits.session import ArrayValues, Job, ModelParameter, ModelParameters, Options, Session
from fewbits.session.defaults import routes
from fewbits.session.joining import Joiner
from fewbits.session.sizes import FEW, ExchangeSizes
from fewbits.theory import cost
from fewbits.theory.cost import PIECE

RANKS = 2
LEAST = RANKS * 65_536  # of a piece: every rank owns a unit of it
BUCKETS = [[(300, 10)], [(5,), (70, 1000)], [(3,)], [(650, 600), (11,)], [(90, 90)]]
JOBS = [
    [ModelParameter(f"{number}.{at}", shape) for at, shape in enumerate(shapes)]
    for number, shapes in enumerate(BUCKETS)
]
COUNTS = [sum(parameter.size for parameter in own) for own in JOBS]
WHOLE = (PIECE, 0)
OTHERS = [(LEAST, 0), (PIECE, 80_000), (LEAST, 10**6), (10**9, 10**9)]


def sessions(uplink: str = "natural") -> list[Session]:
    chosen = Options(policy=lambda name, shape: "identity" if len(shape) == 1 else None)
    given = ModelParameters([each for own in JOBS for each in own])
    return [
        Session(comm, routes(uplink, None, chosen, given), chosen)
        for comm in LocalComm.group(RANKS, 10.0)
    ]


def everyone(own: Sequence[Session], work: Callable[[Session], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(own)) as threads:
        return list(threads.map(work, own))


def sized(own: Session, sizes: tuple[int, int]) -> None:
    """Exchange so much together from now on."""
    own.start()
    reducer = own._chooser.reducer
    reducer.sizes.piece, reducer.sizes.join = sizes  # type: ignore[attr-defined]
    reducer.sizes._steps = 2  # type: ignore[attr-defined] # nothing is measured any more
    reducer._known.clear()  # type: ignore[attr-defined]


def step(own: Session, number: int) -> list[bytes]:
    """The means of all jobs of a step."""
    made = []
    for at, parameters in enumerate(JOBS):
        rng = np.random.default_rng([own.comm.rank, number, at])
        values = rng.standard_normal(COUNTS[at]).astype(np.float32)
        made.append(values)
        job = Job(at, ArrayValues(values), parameters, is_last=at == len(JOBS) - 1)
        own.submit(job)
    own.wait(job)
    return [values.tobytes() for values in made]


def means(uplink: str, sizes: Sequence[tuple[int, int]]) -> list[list[bytes]]:
    """Those of all steps, each with its sizes, which all ranks have."""
    group, found = sessions(uplink), []
    for number, own in enumerate(sizes):
        everyone(group, lambda each: sized(each, own))  # noqa: B023
        first, *rest = everyone(group, lambda each: step(each, number))  # noqa: B023
        assert all(other == first for other in rest)
        found.append(first)
    everyone(group, Session.close)
    return found


@pytest.mark.parametrize("uplink", ["natural", "natural:coder=rans", "tiny"])
def test_means_have_the_same_bits_for_all_sizes_and_after_a_change(uplink: str) -> None:
    expected = means(uplink, [WHOLE] * 5)
    assert len({each[0] for each in expected}) == 5
    for sizes in OTHERS:
        assert means(uplink, [sizes] * 5) == expected
    assert means(uplink, [WHOLE, WHOLE, *OTHERS[1:]]) == expected


def test_fewer_exchanges_are_made_where_jobs_are_joined() -> None:
    sent = []
    for sizes in (WHOLE, (10**9, 10**9)):
        group = sessions()
        for number in range(4):
            everyone(group, lambda own: sized(own, sizes))  # noqa: B023
            everyone(group, lambda own: step(own, number))  # noqa: B023
        sent.append(group[0].figures()["header_bytes"])
        everyone(group, Session.close)
    # Two hops of each of five jobs, or of one; the first step does not know what follows.
    assert sent == [256 * 4 * 11, 256 * (11 + 3 * 3)]


@pytest.mark.parametrize("sizes", [(LEAST, 0), (LEAST, 80_000)])
def test_a_fault_at_any_piece_reaches_all_ranks(sizes: tuple[int, int]) -> None:
    pieces, position = 1, 0
    while position < pieces:
        group = sessions()
        for number in range(4):
            everyone(group, lambda own: sized(own, sizes) if number < 2 else None)  # noqa: B023
            everyone(group, lambda own: step(own, number))  # noqa: B023
        known = group[1]._chooser.reducer._known  # type: ignore[attr-defined]
        reductions = [each for index in sorted(known) for _, each in known[index][1]]
        pieces = len(reductions)

        def fail(*_: object) -> None:
            raise KeyError("gone")

        reductions[position].encode = fail
        errors = everyone(group, caught)
        assert [type(error) for error in errors] == [PeerError, KeyError]
        assert "gone" in str(errors[0])
        everyone(group, Session.close)
        position += 1
    assert pieces > 3


def caught(own: Session) -> Exception | None:
    try:
        step(own, 4)
    except Exception as error:
        return error
    return None


def test_ranks_that_measure_otherwise_agree() -> None:
    """A rank's link and codec differ, even by nonsense; the largest wish counts."""
    figures = [(0.5, 0.3), (0.02, 0.9), (3.0, 1.0)]
    for wrong in (None, math.nan, math.inf):
        comms = LocalComm.group(len(figures), 10.0)

        def work(comm: LocalComm) -> tuple[int, int]:
            own, progress = ExchangeSizes(), RankProgress()
            codec, seconds = figures[comm.rank]
            progress.link.see(10**6, wrong if comm.rank == 1 and wrong else seconds)  # noqa: B023
            assert not own.end_step(comm, progress, 10**7, 10)
            progress.spent.codec_cpu_seconds, progress.spent.payload_bytes = codec, 10**7
            own.end_step(comm, progress, 10**7, 10)
            assert not own.end_step(comm, progress, 10**7, 10)
            return own.piece, own.join

        with ThreadPoolExecutor(len(comms)) as threads:
            found = list(threads.map(work, comms))
        assert len(set(found)) == 1
        assert PIECE <= found[0][0] <= 10**7
        assert 0 <= found[0][1] <= PIECE


def test_the_link_is_as_fast_as_the_best_of_large_transfers() -> None:
    link = RankProgress().link
    assert link.seconds_for(10**6, 0.0) == 0
    for size, seconds in ((10**4, 0.5), (10**6, 1.1), (9 * 10**5, 0.55), (10**4, 1e-6), (0, 0.0)):
        link.see(size, seconds)
    assert link.seconds_for(18 * 10**5, 0.05) == pytest.approx(1.0)


@pytest.mark.parametrize(("values", "batches"), [(FEW, 9), (10**8, 1)])
def test_nothing_is_asked_where_nothing_could_change(values: int, batches: int) -> None:
    comm = LocalComm.group(2, 0.1)[0]  # nobody answers
    sizes = ExchangeSizes()
    assert not any(sizes.end_step(comm, RankProgress(), values, batches) for _ in range(4))


def test_the_size_of_a_piece_is_where_hiding_costs_least() -> None:
    coding, wire, exchange, values = 0.03, 0.09, 0.0004, 10**7

    def seconds(pieces: float) -> float:
        return max(coding, wire) + min(coding, wire) / pieces + 2 * pieces * exchange

    best = values / cost.piece_values(values, coding, wire, exchange)
    assert 1 < best < 20
    assert seconds(best) < min(seconds(0.8 * best), seconds(1.25 * best))
    assert cost.piece_values(values, coding, 0.0, exchange) == values
    assert cost.piece_values(values, coding, wire, 0.0) == values
    assert cost.joined_values(values, wire, exchange) * wire / values == pytest.approx(2 * exchange)
    assert cost.joined_values(values, 0.0, exchange) == values


def jobs(*counts: int, dtype: Any = np.float32) -> list[Job]:
    last = len(counts) - 1
    return [
        Job(at, ArrayValues(np.zeros(count, dtype)), (), is_last=at == last)
        for at, count in enumerate(counts)
    ]


def handed(joiner: Joiner, step: Sequence[Job], most: int) -> list[list[int]]:
    """The sizes that are exchanged after each job."""
    found = [[own.values.count for own in joiner.add(job, most)] for job in step]
    joiner.end_step()
    return found


def test_a_job_waits_for_the_next_one_only_if_they_will_be_joined() -> None:
    joiner = Joiner()
    alone = [[6], [3], [3], [40], [2]]
    assert handed(joiner, jobs(6, 3, 3, 40, 2), 10) == alone  # what follows is not known
    assert handed(joiner, jobs(6, 3, 3, 40, 2), 10) == [[], [9], [3], [40], [2]]
    assert handed(joiner, jobs(6, 3, 3, 40, 2), 0) == alone
    assert handed(joiner, jobs(6, 4, 3, 40, 2), 10) == [[], [10], [3], [40], [2]]
    assert handed(joiner, jobs(6, 2), 10) == [[], [8]]
    assert handed(joiner, jobs(6, 2, 1), 10) == [[], [8], [1]]
    assert handed(joiner, jobs(6, 2, dtype=np.float64), 10) == [[6], [2]]
