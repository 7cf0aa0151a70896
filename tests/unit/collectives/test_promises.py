"""Payloads that travel with their headers, and what happens when something else comes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from fewbits.backend.buffers import Buffer
from fewbits.collectives import promises
from fewbits.collectives.comm import LocalComm, Mail, Pending
from fewbits.collectives.header import SIZE, Phase, RankHeader
from fewbits.collectives.payload import Payload, Unit
from fewbits.collectives.promises import Promises
from fewbits.collectives.reduction import ReductionTask, commit, give_up
from fewbits.collectives.scatter import Scatter
from fewbits.errors import DisagreementError, PeerError
from fewbits.reference.formats import FLOAT32
from fewbits.registry import operator
from fewbits.rng import Rng
from unit.collectives.local import COLLECTIVES, Rank, gradient, together

RNG = Rng.from_seed(3)
EVERY = pytest.mark.parametrize("collective", list(COLLECTIVES))
SHORT, LONG = 700, 9000


def batch(count: int) -> list[Unit]:
    natural = operator("natural")
    edges = [0, count // 3, count // 2, count]
    return [
        Unit(f"w{count}/{i}", start, end - start, natural, natural)
        for i, (start, end) in enumerate(pairwise(edges))
    ]


class Counting(LocalComm):
    """Counts exchanges and what was sent in each."""

    def __init__(self, comm: LocalComm) -> None:
        super().__init__(comm.rank, comm._mailboxes, comm.timeout)
        self.sent: list[list[int]] = []

    def start(self, *mail: Mail, lane: int = 0, expected: object = None) -> Pending:
        sizes = [
            b.size for out, _ in mail for r, b in enumerate(out) if b is not None and r != self.rank
        ]
        self.sent.append(sizes)
        return super().start(*mail, lane=lane, expected=expected)


class Forgetful(Promises):
    """Promises nothing for the next step."""

    def next_step(self, batch: int, payloads: Sequence[Payload]) -> list[int]:
        return [0] * len(payloads)


def run(
    collective: str, plan: list[list[int]], *, world: int = 3, forget: bool = False
) -> list[Rank]:
    """Steps of batches of these lengths; `forget` makes no use of promises."""

    def work(rank: Rank) -> list[np.ndarray]:
        comm = Counting(rank.comm)
        rank.comm = comm
        means = []
        for step in plan:
            for count in step:
                if forget:
                    rank.progress.promises = Forgetful()
                reduction = COLLECTIVES[collective](ReductionTask(batch(count), FLOAT32, comm))
                means.append(reduction.run(gradient(comm.rank, count), RNG, rank.progress).copy())
            commit(comm, rank.progress)
        return means

    ranks = together(world, work)
    for rank in ranks:
        assert rank.error is None, rank.error
    return ranks


@EVERY
def test_a_step_like_the_last_one_needs_one_exchange_for_each_hop(collective: str) -> None:
    hops = 1 if collective == "gather" else 2
    for rank in run(collective, [[LONG, SHORT]] * 4):
        exchanges = len(rank.comm.sent)
        unsettled = 2 * (1 + hops) + 1  # the first hops' payloads follow their headers
        assert exchanges == 2 * unsettled + 2 * (2 * hops + 1)


@EVERY
@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize(
    "plan",
    [
        [[SHORT, LONG], [SHORT, LONG], [LONG, SHORT]],
        [[LONG], [LONG], [SHORT], [LONG]],
        [[SHORT], [SHORT], [LONG]],
        [[LONG, SHORT], [LONG, SHORT], [LONG], [LONG, SHORT]],
        [[SHORT], [SHORT], [SHORT, LONG], [LONG, LONG]],
        [[0], [0], [SHORT], [0]],
    ],
)
def test_wrong_promises_cost_bytes_and_nothing_else(
    collective: str, plan: list[list[int]], world: int
) -> None:
    promised = run(collective, plan, world=world)
    plain = run(collective, plan, world=world, forget=True)
    for a, b in zip(promised, plain, strict=True):
        assert len(a.result) == len(b.result)
        for x, y in zip(a.result, b.result, strict=True):
            assert x.tobytes() == y.tobytes()
        sent = sum(map(sum, a.comm.sent))
        spent = a.progress.spent
        assert spent.payload_bytes + spent.header_bytes == sent
        assert sent >= sum(map(sum, b.comm.sent))


@EVERY
def test_a_fault_where_a_payload_was_promised_is_told_to_all(collective: str) -> None:
    def work(rank: Rank) -> None:
        reduction = COLLECTIVES[collective](ReductionTask(batch(LONG), FLOAT32, rank.comm))
        for _ in range(3):
            reduction.run(gradient(rank.comm.rank, LONG), RNG, rank.progress)
            commit(rank.comm, rank.progress)
        if rank.comm.rank == 1:
            give_up(rank.comm, rank.progress, KeyError("gone"))
        reduction.run(gradient(rank.comm.rank, LONG), RNG, rank.progress)

    for rank in together(3, work):
        assert type(rank.error) is (KeyError if rank.comm.rank == 1 else PeerError)
        assert "gone" in str(rank.error)


class Boastful(LocalComm):
    """Promises rank 0 what it likes in headers of one phase; it keeps no promise."""

    def __init__(self, comm: LocalComm, phase: Phase, promise: Callable[[int], int]) -> None:
        super().__init__(comm.rank, comm._mailboxes, comm.timeout)
        self._phase, self._promise = phase, promise

    def start(self, *mail: Mail, lane: int = 0, expected: object = None) -> Pending:
        (outgoing, incoming), *rest = mail
        if outgoing[0] is not None and outgoing[0].size == SIZE and lane == 0:
            header = RankHeader.decode(outgoing[0], self.rank)
            if header.phase is self._phase:
                boast = replace(header, promise=self._promise(header.promise))
                outgoing = [boast.encode(), *outgoing[1:]]
        return super().start((outgoing, incoming), *rest, lane=lane, expected=expected)


def boasted(
    monkeypatch: pytest.MonkeyPatch, make: Callable, phase: Phase, promise: Callable[[int], int]
) -> tuple[Rank, int]:
    """Rank 0 beside one that boasts, and the most bytes that were made room for."""
    largest = [0]

    class Watched(Buffer):
        """Notes sizes."""

        @classmethod
        def zeros(cls, size: int) -> Buffer:
            largest[0] = max(largest[0], size)
            assert size < 2**30, "room for a promise that nobody can need"
            return Buffer.zeros(size)

    monkeypatch.setattr(promises, "Buffer", Watched)

    def work(rank: Rank) -> None:
        if rank.comm.rank == 1:
            rank.comm = Boastful(rank.comm, phase, promise)
        own = make(ReductionTask(batch(LONG), FLOAT32, rank.comm))
        try:
            for _ in range(3):
                own.run(gradient(rank.comm.rank, LONG), RNG, rank.progress)
                commit(rank.comm, rank.progress)
        finally:
            for lane in rank.comm._mailboxes[1][0] if rank.comm.rank == 0 else ():
                lane.put(b"")  # so that the other one does not wait

    return together(2, work)[0], largest[0]


def sharded_to_owners(task: ReductionTask) -> Scatter:
    units = [replace(unit, shard=number % 2) for number, unit in enumerate(task.units)]
    return Scatter(replace(task, units=units))


PHASES = [
    *((name, phase) for name in ("sharded", "star") for phase in (1, 2, 3)),
    *((name, phase) for name in ("gather", "scatter") for phase in (1, 3)),
]


@pytest.mark.parametrize("promise", [2**40, 2**63, 9 * LONG])
@pytest.mark.parametrize(("collective", "phase"), PHASES)
def test_a_promise_beyond_what_the_batch_can_need_is_refused_before_there_is_room_for_it(
    monkeypatch: pytest.MonkeyPatch, collective: str, phase: int, promise: int
) -> None:
    make = COLLECTIVES.get(collective, sharded_to_owners)
    rank, room = boasted(monkeypatch, make, Phase(phase), lambda _: promise)
    assert type(rank.error) is DisagreementError
    assert f"rank 1 promises {promise} bytes, this rank expects at most" in str(rank.error)
    assert room < promise


@EVERY
def test_one_byte_more_than_the_largest_payload_is_too_much(
    monkeypatch: pytest.MonkeyPatch, collective: str
) -> None:
    """Sizes of `natural` are fixed, so every honest promise is the largest that may be."""
    rank, _ = boasted(
        monkeypatch, COLLECTIVES[collective], Phase.FIRST_HOP, lambda honest: honest + (honest > 0)
    )
    if collective == "star":  # rank 1 owns nothing and never promises
        assert rank.error is None
    else:
        assert type(rank.error) is DisagreementError
    rank, _ = boasted(monkeypatch, COLLECTIVES[collective], Phase.FIRST_HOP, lambda honest: honest)
    assert rank.error is None
