"""Payloads that travel with their headers, and what happens when something else comes."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from fewbits.collectives.comm import LocalComm, Mail, Pending
from fewbits.collectives.payload import Payload, Unit
from fewbits.collectives.promises import Promises
from fewbits.collectives.reduction import ReductionTask, commit, give_up
from fewbits.errors import PeerError
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

    def start(self, *mail: Mail, lane: int = 0) -> Pending:
        sizes = [
            b.size for out, _ in mail for r, b in enumerate(out) if b is not None and r != self.rank
        ]
        self.sent.append(sizes)
        return super().start(*mail, lane=lane)


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
