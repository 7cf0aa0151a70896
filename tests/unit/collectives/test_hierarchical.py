"""Nodes: the scheme as written in NumPy, a flat reduction of node means, bytes, and faults."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import fewbits
from fewbits import Rng
from fewbits.collectives.correction import FeedbackState
from fewbits.collectives.header import SIZE
from fewbits.collectives.hierarchical import Hierarchical
from fewbits.collectives.nodes import RankNodes
from fewbits.collectives.owned import Sharded
from fewbits.collectives.payload import Unit
from fewbits.collectives.progress import Spending
from fewbits.collectives.reduction import ReductionTask, commit, give_up
from fewbits.collectives.units import total_format
from fewbits.errors import DecodeError, DisagreementError, EncodeError, PeerError, SpecError
from fewbits.feedback import feedback
from fewbits.feedback.store import Store
from fewbits.operators.identity import Identity
from fewbits.reference.formats import BFLOAT16, FLOAT32, FLOAT64, FORMATS, Format
from fewbits.reference.tally import Tally
from unit.collectives.local import (
    SIZES,
    Rank,
    Tampered,
    floats,
    gradient,
    same_everywhere,
    together,
    units,
)
from unit.collectives.test_faults import Fragile, Sound
from unit.collectives.test_means import natural

RNG = Rng.from_seed(11)
COUNT = sum(SIZES)
SHAPES = [(2, 2), (2, 3), (3, 2), (1, 2), (2, 1), (4, 2)]
SHAPE = pytest.mark.parametrize(("count", "width"), SHAPES)


def nodes(count: int, width: int) -> RankNodes:
    """Ranks of a node follow each other."""
    return RankNodes.of(
        [range(rank % width, count * width, width) for rank in range(count * width)]
    )


def run(
    rank: Rank,
    where: RankNodes,
    batches: Sequence[Sequence[Unit]],
    *,
    format: Format = FLOAT32,
    steps: int = 1,
    memory: FeedbackState | None = None,
    threads: int = 1,
) -> list[np.ndarray]:
    """The means of every step, batch after batch; values begin anew in each batch."""
    rank.progress.near = frozenset(where.inside(rank.comm.rank)) - {rank.comm.rank}
    tasks = [
        ReductionTask(each, format, rank.comm, threads, memory, nodes=where) for each in batches
    ]
    reductions = [Hierarchical(task) for task in tasks]
    found = []
    for step in range(steps):
        for each, reduction in zip(batches, reductions, strict=True):
            values = gradient(rank.comm.rank, sum(unit.count for unit in each), format, step)
            found.append(reduction.run(values, RNG, rank.progress).copy())
            rank.done += 1
        commit(rank.comm, rank.progress)
        if memory is not None:
            memory.store.end_step(well=True)
    return found


def node_mean(where: RankNodes, node: int, format: Format, step: int = 0) -> np.ndarray:
    """The mean of a node's ranks: a sum in the order of places, divided once."""
    total = np.zeros(COUNT, total_format(format).name)
    for members in where.groups:
        total = total + floats(gradient(members[node], COUNT, format, step), format)
    return total / total.dtype.type(where.width)


@SHAPE
@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
def test_the_mean_is_the_scheme_as_written(count: int, width: int, format: Format) -> None:
    where, batch, wide = nodes(count, width), units(), total_format(format)
    ranks = together(count * width, lambda rank: run(rank, where, [batch], format=format)[0])
    result = same_everywhere([rank.result for rank in ranks])
    total = np.zeros(COUNT, wide.name)
    for node in range(count):
        own = node_mean(where, node, format).view(wide.bits)
        if count > 1:
            own = natural(own, RNG.fork("private", 0, node), batch, wide)
        total = total + own.view(wide.name)
    mean = total / total.dtype.type(count)
    if count > 1:
        mean = natural(mean.view(wide.bits), RNG.fork("second hop", 0), batch, wide)
    assert result.tobytes() == mean.tobytes()


@pytest.mark.parametrize(
    ("method", "uplink", "downlink"),
    [
        (None, "natural:coder=rans", None),
        ("ef14", "top-k:fraction=0.1|natural", None),
        ("ef14:momentum=0.9", "natural", "identity"),
        ("ef21", "top-k:fraction=0.1|natural", "natural"),
        ("diana", "natural:coder=rans", None),
        ("ef-bv", "natural", None),
    ],
)
def test_nodes_are_a_flat_group_of_their_means(
    method: str | None, uplink: str, downlink: str | None
) -> None:
    """Also with memories, over several steps: a node is to the others what a rank is in a flat
    group, whatever the number of its ranks. Sizes of payloads vary, so promises are kept too.
    """
    where, batch, steps = nodes(3, 2), units(uplink=uplink, downlink=downlink), 5

    def state() -> FeedbackState | None:
        return None if method is None else FeedbackState(feedback(method), Store())

    def flat(rank: Rank) -> list[np.ndarray]:
        memory = state()
        reduction = Sharded(ReductionTask(batch, FLOAT32, rank.comm, 1, memory))
        found = []
        for step in range(steps):
            values = node_mean(where, rank.comm.rank, FLOAT32, step)
            found.append(reduction.run(values.view(np.uint32), RNG, rank.progress).copy())
            commit(rank.comm, rank.progress)
            if memory is not None:
                memory.store.end_step(well=True)
        return found

    expected = together(3, flat)[0].result
    ranks = together(6, lambda rank: run(rank, where, [batch], steps=steps, memory=state()))
    for rank in ranks:
        assert rank.error is None
        assert [each.tobytes() for each in rank.result] == [each.tobytes() for each in expected]


def test_batches_owners_and_threads_change_no_bit() -> None:
    where, batch = nodes(2, 2), units()
    first = together(4, lambda rank: run(rank, where, [batch])[0])[0].result
    other = RankNodes(((0, 2), (1, 3)))
    moved = [Unit(u.name, u.start, u.count, u.uplink, u.downlink, 3) for u in batch]
    for each, threads in ((batch, 3), (moved, 1)):
        ranks = together(4, lambda rank: run(rank, other, [each], threads=threads)[0])  # noqa: B023
        assert same_everywhere([rank.result for rank in ranks]).tobytes() == first.tobytes()


def test_the_composed_error_is_within_the_flat_bound() -> None:
    """E‖ĝ − g‖² ≤ ((1 + ω)(1 + ω/N) − 1) · the mean of the nodes' squares, here for N = 2.

    100 seeds: the mean of the squared error then has a standard error far below the slack of ω.
    """
    where, batch = nodes(2, 2), units((64,))
    omega = batch[0].uplink.guarantee(64).omega
    assert omega is not None
    own = [node_mean_of(where, node, 64) for node in range(2)]
    exact = (own[0] + own[1]) / 2

    def work(rank: Rank) -> np.ndarray:
        reduction = Hierarchical(ReductionTask(batch, FLOAT32, rank.comm, nodes=where))
        values = gradient(rank.comm.rank, 64)
        results = []
        for seed in range(100):
            mean = reduction.run(values.copy(), Rng.from_seed(seed), rank.progress)
            results.append(mean.astype(np.float64))
            commit(rank.comm, rank.progress)
        return np.array(results)

    found = together(4, work)[0].result
    squares = ((found - exact) ** 2).sum(axis=1)
    bound = ((1 + omega) * (1 + omega / 2) - 1) * np.mean([(each**2).sum() for each in own])
    assert 0 < squares.mean() < bound
    # Unbiased: the mean of 100 draws is off by at most 5 standard deviations in each coordinate.
    spread = found.std(axis=0) / 10
    assert (np.abs(found.mean(axis=0) - exact) <= 5 * spread + 1e-9).all()


def node_mean_of(where: RankNodes, node: int, count: int) -> np.ndarray:
    own = [gradient(members[node], count).view(np.float32) for members in where.groups]
    return np.mean(np.array(own, np.float64), axis=0)


@pytest.mark.parametrize("uplink", ["natural", "natural:coder=rans"])
def test_a_model_crosses_the_link_of_a_node_once(uplink: str) -> None:
    count, width, steps = 4, 2, 3
    where, batch = nodes(count, width), units((4096,) * 16, uplink)
    worked = together(count * width, lambda rank: run(rank, where, [batch], steps=steps))
    spent: list[Spending] = [rank.progress.spent for rank in worked]

    def flat(rank: Rank) -> None:
        reduction = Sharded(ReductionTask(batch, FLOAT32, rank.comm))
        rank.progress.near = frozenset(where.inside(rank.comm.rank)) - {rank.comm.rank}
        for step in range(steps):
            values = gradient(rank.comm.rank, 16 * 4096, FLOAT32, step)
            reduction.run(values, RNG, rank.progress)
            commit(rank.comm, rank.progress)

    flats = [rank.progress.spent for rank in together(count * width, flat)]
    between, before = (sum(each.payload_bytes for each in own) / count for own in (spent, flats))
    one = sum(section.size for unit in batch for section in unit.uplink.layout(4096, FLOAT32))
    if uplink == "natural":
        assert between == steps * 2 * (count - 1) / count * one
        assert between == before / width
    else:
        assert between < 0.53 * before
    for each in spent:
        assert each.inside_bytes > 2 * steps * 8 * 4096 * 4  # half of the values, there and back
        headers = (count * width - width) * SIZE * steps * 5  # four hops, and the end of a step
        assert each.header_bytes == headers


@SHAPE
@pytest.mark.parametrize("culprit", ["worker", "owner"])
def test_a_failing_codec_is_told_to_all_nodes(count: int, width: int, culprit: str) -> None:
    where, bad = nodes(count, width), count * width - 1
    fragile = {"uplink": Fragile()} if culprit == "worker" else {"downlink": Fragile()}
    sound = {"uplink": Sound()} if culprit == "worker" else {"downlink": Sound()}

    def work(rank: Rank) -> None:
        mine = units((5,) * 12, **(fragile if rank.comm.rank == bad else sound))
        run(rank, where, [mine], steps=2)

    ranks = together(count * width, work)
    for rank in ranks:
        if count == 1:
            assert rank.error is None, "nothing is compressed in a single node"
        elif rank.comm.rank == bad:
            assert type(rank.error) is MemoryError
            assert rank.done == 0
        else:
            assert type(rank.error) is PeerError
            assert f"rank {bad} failed at step 0: MemoryError: no room" in str(rank.error)
            assert rank.done == 0


@pytest.mark.parametrize("payload", range(4))
@pytest.mark.parametrize("sender", [1, 2])
def test_damaged_bytes_of_every_hop_are_told_to_all_nodes(payload: int, sender: int) -> None:
    def change(count: int, outgoing: list, incoming: list) -> None:
        met = incoming[sender]
        if count == 2 * payload + 1 and met is not None and met.size:
            met.array()[0] ^= 1

    def work(rank: Rank) -> None:
        if rank.comm.rank == 0:
            rank.comm = Tampered(rank.comm, change)
        run(rank, nodes(2, 2), [units((64,) * 8)] * 2)

    for rank in together(4, work):
        inside = payload in (0, 3)  # rank 1 is in the node of rank 0, rank 2 is across
        if inside != (sender == 1):
            assert rank.error is None
        elif rank.comm.rank == 0:
            assert type(rank.error) is DecodeError
            assert f"the bytes from rank {sender} were damaged" in str(rank.error)
        else:
            assert type(rank.error) is PeerError
            assert "rank 0 failed at step 0: DecodeError" in str(rank.error)


def test_bytes_that_no_encoder_writes_name_their_sender_by_its_rank() -> None:
    def work(rank: Rank) -> None:
        where = nodes(2, 2)
        reduction = Hierarchical(ReductionTask(units((8,) * 8), FLOAT32, rank.comm, nodes=where))
        if rank.comm.rank == 3:
            between: Any = reduction._between
            encode = between.sender.encode

            def spoilt(values: np.ndarray, rng: Rng) -> Tally:
                tally = encode(values, rng)
                for payload in between.sender.payloads:
                    for number in range(len(payload.slots)):
                        payload.parts(number)[1].array()[0] |= 1  # a sign on a zero
                return tally

            between.sender.encode = spoilt
        reduction.run(np.zeros(64, np.uint32), RNG, rank.progress)
        commit(rank.comm, rank.progress)

    ranks = together(4, work)
    assert type(ranks[1].error) is DecodeError
    assert "bytes from rank 3" in str(ranks[1].error)
    assert all(type(rank.error) in (DecodeError, PeerError) for rank in ranks)


def test_a_fault_before_the_reduction_and_a_skipped_call_reach_all_nodes() -> None:
    def gives_up(rank: Rank) -> None:
        if rank.comm.rank == 1:
            give_up(rank.comm, rank.progress, KeyError("no such tensor"))
        run(rank, nodes(2, 2), [units()])

    for rank in together(4, gives_up):
        assert type(rank.error) is (KeyError if rank.comm.rank == 1 else PeerError)

    def skips(rank: Rank) -> None:
        run(rank, nodes(2, 2), [units()] * (1 if rank.comm.rank == 2 else 2))

    for rank in together(4, skips):
        assert type(rank.error) is DisagreementError
        assert "the end of the step" in str(rank.error)


def test_a_missing_rank_is_named_in_all_nodes() -> None:
    def work(rank: Rank) -> None:
        if rank.comm.rank != 3:
            run(rank, nodes(2, 2), [units()])

    for rank in together(4, work, timeout=0.3):
        if rank.comm.rank != 3:
            assert type(rank.error) is PeerError
            assert "[3]" in str(rank.error)


@pytest.mark.parametrize("place", [0, COUNT // 2, COUNT - 1])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_policy_for_what_is_not_finite(value: float, place: int) -> None:
    def work(rank: Rank) -> tuple[np.ndarray, bool]:
        x = gradient(rank.comm.rank, COUNT).view(np.float32)
        if rank.comm.rank == 1:
            x[place] = value
        task = ReductionTask(units(), FLOAT32, rank.comm, nodes=nodes(2, 2))
        result = Hierarchical(task).run(x.view(np.uint32), RNG, rank.progress).copy()
        commit(rank.comm, rank.progress)
        return result, rank.progress.saw_nonfinite

    for rank in together(4, work, nonfinite="propagate"):
        assert rank.result[1]
        assert np.flatnonzero(~np.isfinite(rank.result[0])).tolist() == [place]
    for rank in together(4, work, nonfinite="raise"):
        assert type(rank.error) is EncodeError
        assert "rank 1 at step 0: 1 gradient values are NaN or infinite" in str(rank.error)


def test_an_exact_unit_is_the_mean_of_node_means() -> None:
    where = nodes(2, 2)
    batch = [Unit("exact/0", 0, COUNT, Identity(), Identity())]
    for format in (FLOAT64, BFLOAT16):
        ranks = together(4, lambda rank: run(rank, where, [batch], format=format)[0])  # noqa: B023
        mean = (node_mean(where, 0, format) + node_mean(where, 1, format)) / 2
        assert same_everywhere([rank.result for rank in ranks]).tobytes() == mean.tobytes()


def test_nodes_of_ranks_that_do_not_follow_each_other() -> None:
    where = RankNodes.of([(0, 1), (1, 0), (2, 3), (3, 2)])
    assert where.groups == ((0, 1), (2, 3))
    assert [where.inside(rank) for rank in range(4)] == [(0, 2), (1, 3), (0, 2), (1, 3)]
    assert (where.count, where.width) == (2, 2)


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ([(0, 2), (0, 2), (0, 2), (1, 3)], r"rank 1 is not in its own across= group \(0, 2\)"),
        ([(0, 2), (1, 3), (2, 3), (1, 3)], r"rank 0 has the across= group \(0, 2\), rank 2 has"),
        ([(0, 1, 2), (0, 1, 2), (0, 1, 2), (3,)], r"different sizes, 0\+1\+2/3"),
        ([(0, 9), (1, 3), (0, 2), (1, 3)], r"rank 0 has across= ranks \(0, 9\) of 4"),
        ([(0, 0, 2), (1, 3), (0, 2), (1, 3)], r"rank 0 has across= ranks \(0, 0, 2\)"),
    ],
)
def test_groups_that_are_no_arrangement_are_refused(
    told: Sequence[Sequence[int]], text: str
) -> None:
    with pytest.raises(SpecError, match=text + ".*pass each rank its own group across nodes"):
        RankNodes.of(told)


def test_the_operator_of_a_unit_is_used_between_nodes_only() -> None:
    """Values that `natural` would change stay as they are where there is a single node."""
    ranks = together(2, lambda rank: run(rank, nodes(1, 2), [units()])[0])
    exact = node_mean(nodes(1, 2), 0, FLOAT32)
    assert same_everywhere([rank.result for rank in ranks]).tobytes() == exact.tobytes()
    assert fewbits.operator("natural") == units()[0].uplink
