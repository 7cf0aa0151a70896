"""Faults in a reduction: all ranks raise in the same exchange, and nothing runs afterwards."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from delays import Watch
from fewbits import Rng
from fewbits.backend.buffers import Buffer
from fewbits.backend.kernel import Kernel, Written
from fewbits.collectives.comm import LocalComm, exchange
from fewbits.collectives.payload import Unit
from fewbits.collectives.reduction import Reduction, ReductionTask, commit, give_up
from fewbits.core.operator import Operator, Parts
from fewbits.core.vector import Vector
from fewbits.errors import DecodeError, DisagreementError, EncodeError, PeerError
from fewbits.operators.identity import Identity
from fewbits.reference.formats import FLOAT32, Format
from fewbits.reference.tally import Tally
from fewbits.wire.sections import Floats, Section
from unit.collectives.local import COLLECTIVES, SIZES, Rank, Tampered, gradient, together, units

EVERY = pytest.mark.parametrize("collective", COLLECTIVES)
COUNT = sum(SIZES)
RNG = Rng.from_seed(3)


@dataclass(frozen=True, slots=True)
class Fragile(Identity):
    """An operator without a native kernel whose encoder runs out of memory."""

    code: ClassVar[int] = 9001
    name: ClassVar[str] = "fragile"

    def kernel(self, d: int, format: Format) -> Kernel:
        return Operator.kernel(self, d, format)

    def decode(self, parts: Parts, out: Vector, *, threads: int = 1) -> Tally:
        return Identity().decode((parts[0][: out.bits.nbytes],), out)

    def encode(self, x: Vector, rng: Rng, into: Parts, *, threads: int = 1) -> Written:
        raise MemoryError("no room")


@dataclass(frozen=True, slots=True)
class Sound(Fragile):
    """The same to the other ranks, but it works."""

    def encode(self, x: Vector, rng: Rng, into: Parts, *, threads: int = 1) -> Written:
        return Identity().encode(x, rng, into, threads=threads)


@dataclass(frozen=True, slots=True)
class Longer(Sound):
    """The same name and other lengths: another version of the operator."""

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        return (Floats("values", d + 1, format),)

    def encode(self, x: Vector, rng: Rng, into: Parts, *, threads: int = 1) -> Written:
        return Sound.encode(self, x, rng, (into[0][: x.bits.nbytes],), threads=threads)


def steps(
    rank: Rank, collective: str, batches: list[list[Unit]], number: int = 3, **vectors: np.ndarray
) -> None:
    """Three steps of some batches each; `done` counts what ended without an error."""
    reductions = [
        COLLECTIVES[collective](ReductionTask(batch, FLOAT32, rank.comm)) for batch in batches
    ]
    for _ in range(number):
        for reduction in reductions:
            values = gradient(rank.comm.rank, sum(u.count for u in batches[0]))
            reduction.run(values, RNG, rank.progress)
            rank.done += 1
        commit(rank.comm, rank.progress)
        rank.done += 10


def culprits(
    collective: str, there: list[Unit], elsewhere: list[Unit], world: int = 3, culprit: int = 1
) -> list[Rank]:
    """Three ranks of which the culprit has another batch."""
    return together(
        world,
        lambda rank: steps(rank, collective, [there if rank.comm.rank == culprit else elsewhere]),
    )


@EVERY
@pytest.mark.parametrize("world", [2, 3, 5])
def test_a_failing_encoder_is_told_to_all(collective: str, world: int) -> None:
    ranks = culprits(collective, units(uplink=Fragile()), units(uplink=Sound()), world)
    for rank in ranks:
        assert rank.done == 0
        if rank.comm.rank == 1:
            assert type(rank.error) is MemoryError
        else:
            assert type(rank.error) is PeerError
            assert "rank 1 failed at step 0: MemoryError: no room" in str(rank.error)


@pytest.mark.parametrize("collective", ["sharded", "star"])
def test_a_failing_master_is_told_to_all(collective: str) -> None:
    ranks = culprits(
        collective,
        units(downlink=Fragile()),
        units(downlink=Sound()),
        culprit=0 if collective == "star" else 1,
    )
    kinds = sorted(type(rank.error).__name__ for rank in ranks)
    assert kinds == ["MemoryError", "PeerError", "PeerError"]
    assert all(rank.done == 0 for rank in ranks)


@EVERY
def test_a_fault_before_the_reduction_is_told_to_all(collective: str) -> None:
    def work(rank: Rank) -> None:
        if rank.comm.rank == 1:
            give_up(rank.comm, rank.progress, KeyError("no such tensor"))
        steps(rank, collective, [units()])

    for rank in together(3, work):
        assert rank.done == 0
        assert type(rank.error) is (KeyError if rank.comm.rank == 1 else PeerError)
        assert "no such tensor" in str(rank.error)


def tampering(
    collective: str, change: Callable[[int, list, list], None], batches: int = 1, culprit: int = 1
) -> list[Rank]:
    """Three ranks of which the culprit meets changes on what it receives."""

    def work(rank: Rank) -> None:
        if rank.comm.rank == culprit:
            rank.comm = Tampered(rank.comm, change)
        steps(rank, collective, [units()] * batches)

    return together(3, work)


@pytest.mark.parametrize(
    ("collective", "payload", "culprit", "sender"),
    [
        ("sharded", 0, 1, 2),
        ("sharded", 1, 1, 0),
        ("sharded", 5, 2, 1),  # the last of the step: told when it is committed
        ("star", 0, 0, 2),
        ("star", 1, 1, 0),
        ("gather", 0, 1, 2),
        ("gather", 2, 1, 2),
    ],
)
def test_damaged_bytes_are_told_to_all_before_the_step_ends(
    collective: str, payload: int, culprit: int, sender: int
) -> None:
    def change(count: int, outgoing: list, incoming: list) -> None:
        if count == 2 * payload + 1:  # headers and payloads in turn
            incoming[sender].array()[0] ^= 1

    for rank in tampering(collective, change, batches=3, culprit=culprit):
        assert rank.done < 10, "the step was committed"
        if rank.comm.rank == culprit:
            assert type(rank.error) is DecodeError
            assert f"the bytes from rank {sender} were damaged" in str(rank.error)
        else:
            assert type(rank.error) is PeerError
            assert f"rank {culprit} failed at step 0: DecodeError" in str(rank.error)


@EVERY
def test_bytes_that_no_encoder_writes_name_their_sender(collective: str) -> None:
    """Behind a right checksum: a sign on a zero."""

    def work(rank: Rank) -> None:
        reduction = COLLECTIVES[collective](ReductionTask(units((8, 8, 8)), FLOAT32, rank.comm))
        if rank.comm.rank == 2:
            _spoil(reduction)
        for _ in range(2):
            reduction.run(np.zeros(24, np.uint32), RNG, rank.progress)
            commit(rank.comm, rank.progress)
            rank.done += 1

    ranks = together(3, work)
    named = [rank for rank in ranks if type(rank.error) is DecodeError]
    assert named
    assert all("bytes from rank 2" in str(rank.error) for rank in named)
    assert all(type(rank.error) in (DecodeError, PeerError) for rank in ranks)
    assert all(rank.done == 0 for rank in ranks)


def _spoil(reduction: Reduction) -> None:
    """Set a sign in every buffer after it was encoded."""
    batch = reduction.sender
    encode = batch.encode

    def patched(values: np.ndarray, rng: Rng) -> Tally:
        tally = encode(values, rng)
        for payload in batch.payloads:
            for number in range(len(payload.slots)):
                payload.parts(number)[1].array()[0] |= 1
        return tally

    batch.encode = patched


@EVERY
@pytest.mark.parametrize("world", [2, 3, 5])
def test_other_lengths_are_a_disagreement_on_all(collective: str, world: int) -> None:
    # Two units: in a world of five some ranks own nothing and are sent nothing.
    ranks = culprits(collective, units((3, 4), Longer()), units((3, 4), Sound()), world)
    for rank in ranks:
        assert type(rank.error) is DisagreementError, rank.error
        assert "rank 1" in str(rank.error) or rank.comm.rank == 1
        assert rank.done == 0


OTHER = {
    "operator": units(uplink="identity"),
    "master": units(downlink="identity"),
    "order": list(reversed(units())),
    "names": [Unit("q/0", u.start, u.count, u.uplink, u.downlink) for u in units()],
    "sizes": units((*SIZES[:-2], 1002, 2)),
}


@EVERY
@pytest.mark.parametrize("what", OTHER)
def test_another_plan_is_a_disagreement_on_all(collective: str, what: str) -> None:
    for rank in culprits(collective, OTHER[what], units()):
        assert type(rank.error) is DisagreementError
        assert "do not run the same" in str(rank.error)
        assert rank.done == 0


def test_another_scheme_is_a_disagreement_on_all() -> None:
    collectives = ("star", "sharded", "sharded")
    ranks = together(3, lambda rank: steps(rank, collectives[rank.comm.rank], [units()]))
    assert [type(rank.error) for rank in ranks] == [DisagreementError] * 3


@EVERY
@pytest.mark.parametrize("field", ["step", "sequence"])
def test_another_place_is_a_disagreement_on_all(collective: str, field: str) -> None:
    def work(rank: Rank) -> None:
        if rank.comm.rank == 1:
            setattr(rank.progress, field, 1)
        steps(rank, collective, [units()])

    for rank in together(3, work):
        assert type(rank.error) is DisagreementError
        assert field in str(rank.error)
        assert rank.done == 0


@EVERY
def test_a_rank_that_ends_its_step_too_early_is_a_disagreement(collective: str) -> None:
    batches = [units(), units((5,))]

    def work(rank: Rank) -> None:
        steps(rank, collective, batches[:1] if rank.comm.rank == 1 else batches)

    for rank in together(3, work):
        assert type(rank.error) is DisagreementError
        assert "the end of the step" in str(rank.error)
        assert rank.done < 10


@EVERY
def test_a_missing_rank_is_named_when_the_timeout_is_over(collective: str) -> None:
    def work(rank: Rank) -> None:
        if rank.comm.rank != 1:
            steps(rank, collective, [units()])

    watch = Watch()
    ranks = together(4, work, timeout=0.3)
    assert watch.elapsed() >= 0.3
    assert watch.took() < 2
    for rank in ranks:
        if rank.comm.rank != 1:
            assert type(rank.error) is PeerError
            assert "[1]" in str(rank.error)


def test_several_missing_ranks_take_one_timeout() -> None:
    comm = LocalComm.group(4, timeout=0.2)[0]
    buffers = [np.zeros(1, np.uint8)] * 4
    watch = Watch()
    with pytest.raises(PeerError, match=r"\[1, 2, 3\]"):
        exchange(comm, (buffers, buffers))
    assert watch.took() < 0.5


def test_local_comm_refuses_other_lengths() -> None:
    comms = LocalComm.group(2)
    exchange(comms[0], ([None, Buffer.of(np.zeros(3, np.uint8))], [None, None]))
    with pytest.raises(PeerError, match="rank 0 sent 3 bytes, not 2"):
        exchange(comms[1], ([None, None], [Buffer.of(np.zeros(2, np.uint8)), None]))


def test_nothing_runs_after_a_fault() -> None:
    """The fault of the last payload of a batch is known before the next batch is reduced."""
    calls: list[int] = []

    def change(count: int, outgoing: list, incoming: list) -> None:
        calls.append(count)
        if count == 3:
            incoming[2].array()[0] ^= 1

    ranks = tampering("sharded", change, batches=3)
    assert [rank.done for rank in ranks] == [1, 1, 1]
    assert calls[-1] == 4, "after the header that told it there was another exchange"


@EVERY
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, COUNT // 2, COUNT - 1])
@pytest.mark.parametrize("worker", ["identity", "natural", "float16", "natural:rounding=nearest"])
def test_the_policy_for_what_is_not_finite(
    collective: str, value: float, place: int, worker: str
) -> None:
    def work(rank: Rank) -> tuple[np.ndarray, bool]:
        x = gradient(rank.comm.rank, COUNT).view(np.float32)
        if rank.comm.rank == 1:
            x[place] = value
        reduction = COLLECTIVES[collective](ReductionTask(units(uplink=worker), FLOAT32, rank.comm))
        result = reduction.run(x.view(np.uint32), RNG, rank.progress).copy()
        commit(rank.comm, rank.progress)
        return result, rank.progress.saw_nonfinite

    for rank in together(3, work, nonfinite="propagate"):
        result, saw = rank.result
        assert saw
        assert np.flatnonzero(~np.isfinite(result)).tolist() == [place]
    for rank in together(3, work, nonfinite="skip"):
        assert rank.result[1], "every rank knows that it must skip"
    for rank in together(3, work, nonfinite="raise"):
        assert type(rank.error) is EncodeError
        assert "rank 1 at step 0: 1 gradient values are NaN or infinite" in str(rank.error)


def test_a_step_is_committed_by_all_or_by_none() -> None:
    def work(rank: Rank) -> None:
        rank.progress.sequence = 5
        if rank.comm.rank == 2:
            rank.progress.fault = DecodeError("late")
        commit(rank.comm, rank.progress)

    for rank in together(3, work):
        assert rank.progress.step == 0
        assert rank.progress.sequence == 5
        assert type(rank.error) is (DecodeError if rank.comm.rank == 2 else PeerError)

    def healthy(rank: Rank) -> None:
        rank.progress.sequence = 5
        commit(rank.comm, rank.progress)

    for rank in together(3, healthy):
        assert (rank.progress.step, rank.progress.sequence) == (1, 0)
