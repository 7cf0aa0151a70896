"""Matrices as factors: the scheme as written, what memories hold, replicas, and faults."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import fewbits
from fewbits import Rng
from fewbits.collectives import factored
from fewbits.collectives.correction import FeedbackState
from fewbits.collectives.factored import Factored
from fewbits.collectives.factors import MatrixPlace
from fewbits.collectives.gather import Gather
from fewbits.collectives.owned import Sharded
from fewbits.collectives.reduction import ReductionTask, commit
from fewbits.errors import DisagreementError, EncodeError, PeerError
from fewbits.feedback import feedback
from fewbits.feedback.store import Store
from fewbits.low_rank import LowRank, low_rank
from fewbits.reference import low_rank as reference
from fewbits.reference.formats import FLOAT32, FLOAT64, Format
from unit.collectives.local import Rank, together

RNG = Rng.from_seed(11)
SHAPES = [(20, 30), (41, 9), (12, 12)]
EXCHANGES = {"gather": Gather, "sharded": Sharded}
EXACT = "low-rank:rank=3|identity"
CODED = "low-rank:rank=3|sparse-dithering"

Gradients = Callable[[int, int, int], np.ndarray]  # of a rank, step and matrix


def places(order: Sequence[int] = range(len(SHAPES)), gap: int = 5) -> list[MatrixPlace]:
    """Matrices in some order, with other values between them."""
    found, start = [], gap
    for number in order:
        rows, columns = SHAPES[number]
        owners = (number, 0, 1, 2)
        found.append(MatrixPlace(f"w{number}", 0, start, rows, columns, owners, owners, 256))
        start += rows * columns + gap
    return found


def normal(rank: int, step: int, number: int) -> np.ndarray:
    return np.random.default_rng([rank, step, number]).standard_normal(SHAPES[number])


def thin(rank: int, step: int, number: int) -> np.ndarray:
    """Matrices of rank 2, the same in every step, whose columns and rows all ranks share."""
    rows, columns = SHAPES[number]
    draw = np.random.default_rng([1, number])
    left, right = draw.standard_normal((rows, 2)), draw.standard_normal((2, columns))
    return left @ np.diag([rank + 1.0, 2.0 - rank]) @ right


class Run:
    """What one rank of a run holds."""

    def __init__(
        self,
        rank: Rank,
        spec: str,
        exchange: Any,
        batches: Sequence[Sequence[MatrixPlace]],
        *,
        format: Format = FLOAT32,
        threads: int = 1,
        store: Store | None = None,
    ) -> None:
        self.rank, self.store, self.format = rank, store or Store(), format
        self.state = FeedbackState(feedback("ef14"), self.store)
        own = low_rank(spec)
        assert isinstance(own, LowRank)
        task = ReductionTask([], format, rank.comm, threads, self.state)
        self.parts = [(each, Factored(task, each, own, EXCHANGES[exchange])) for each in batches]

    def step(self, gradients: Gradients, *, well: bool = True) -> dict[str, np.ndarray]:
        progress, means = self.rank.progress, {}
        for batch, whole in self.parts:
            values = np.full(batch[-1].place.stop + 3, 7.0, self.format.name)
            for each in batch:
                number = int(each.name[1:])
                each.of([values])[...] = gradients(self.rank.comm.rank, progress.step, number)
            for _ in whole.hops([values.view(self.format.bits)], RNG, progress):
                pass
            means |= {each.name: each.of([values]).copy() for each in batch}
            outside = np.ones(values.size, bool)
            for each in batch:
                outside[each.place] = False
            assert (values[outside] == 7).all()
        commit(self.rank.comm, progress)
        self.store.end_step(well=well and not progress.saw_nonfinite)
        progress.saw_nonfinite = False
        return means


def run(
    world: int,
    spec: str,
    exchange: str,
    gradients: Gradients = normal,
    steps: int = 4,
    batches: Sequence[Sequence[int]] = (range(len(SHAPES)),),
    **options: Any,
) -> list[Any]:
    """What each rank has: the means of every step, and its memories at the end."""

    def work(rank: Rank) -> Any:
        own = Run(rank, spec, exchange, [places(each) for each in batches], **options)
        means = [own.step(gradients) for _ in range(steps)]
        return means, own.store.arrays()

    ranks = together(world, work)
    for rank in ranks:
        if rank.error is not None:
            raise rank.error
    return [rank.result for rank in ranks]


def bits(means: Any) -> bytes:
    return b"".join(each[name].tobytes() for each in means for name in sorted(each))


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("world", [1, 2, 3, 5])
@pytest.mark.parametrize("spec", [CODED, "low-rank:rank=8|natural:coder=rans", EXACT])
@pytest.mark.parametrize("format", [FLOAT32, FLOAT64], ids=lambda format: format.name)
def test_all_ranks_have_the_same_means(
    world: int, exchange: str, spec: str, format: Format
) -> None:
    found = run(world, spec, exchange, format=format)
    assert len({bits(means) for means, _ in found}) == 1
    bases = [{key: own[key].tobytes() for key in own if "basis" in key} for _, own in found]
    assert len(bases[0]) == len(SHAPES)
    assert all(each == bases[0] for each in bases)


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("world", [1, 2, 5])
@pytest.mark.parametrize("spec", [CODED, EXACT, "low-rank:rank=2|top-k:fraction=0.2|natural"])
def test_the_mean_and_the_memories_hold_all_that_ranks_had(
    world: int, exchange: str, spec: str
) -> None:
    """The mean of g + e over the ranks is the mean gradient plus the mean of the new memories,
    also with what is lost on the way back from owners."""

    def memories(steps: int) -> list[Any]:
        return run(world, spec, exchange, steps=steps, format=FLOAT64)

    before, after = memories(3), memories(4)
    for number in range(len(SHAPES)):
        gradient = np.mean([normal(rank, 3, number) for rank in range(world)], axis=0)
        then, now = _mean_memory(before, number), _mean_memory(after, number)
        told = after[0][0][3][f"w{number}"]
        np.testing.assert_allclose(told + now, gradient + then, atol=1e-12)
        assert np.abs(now).max() > 1e-3


def _mean_memory(found: list[Any], number: int) -> Any:
    errors = [own[f"worker/w{number}/0"].reshape(SHAPES[number]) for _, own in found]
    return np.mean(errors, axis=0)


@pytest.mark.parametrize("world", [1, 3])
def test_the_iteration_is_as_written(world: int) -> None:
    """With exact factors of one matrix, step by step in the order of the reference."""
    rows, columns = SHAPES[0]
    errors = [np.zeros((rows, columns), np.float32) for _ in range(world)]
    kept = np.zeros((columns, 3), np.float32)
    found = run(world, EXACT, "gather", batches=[[0]])
    for step in range(4):
        draws = RNG.fork("basis", step, "w0")
        basis = reference.basis(kept, lambda column, own=draws: own.fork(column).words(0, columns))
        m = [normal(rank, step, 0).astype(np.float32) + errors[rank] for rank in range(world)]
        left = reference.orthonormal(_mean([reference.left_factor(each, basis) for each in m]))
        own = [reference.right_factor(each, left) for each in m]
        kept = _mean(own)
        for rank in range(world):
            told, errors[rank] = reference.settled(m[rank], left, own[rank], kept)
            assert found[rank][0][step]["w0"].tobytes() == told.tobytes()
    for rank in range(world):
        assert found[rank][1]["worker/w0/0"].tobytes() == errors[rank].tobytes()
        assert found[rank][1]["basis/w0/0"].tobytes() == kept.tobytes()


def _mean(terms: Sequence[np.ndarray]) -> np.ndarray:
    total = np.zeros_like(terms[0])
    for each in terms:
        total = total + each
    return total / total.dtype.type(len(terms))


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_matrices_of_low_rank_arrive_whole(exchange: str) -> None:
    """The basis holds their columns after one step, so the second one tells all, also of before."""
    (means, memories), *_ = run(2, EXACT, exchange, thin, steps=3)
    for number in range(len(SHAPES)):
        wanted = (thin(0, 0, number) + thin(1, 0, number)) / 2
        told = sum(means[step][f"w{number}"] for step in range(3))
        np.testing.assert_allclose(told, 3 * wanted, atol=1e-4)
        assert np.abs(memories[f"worker/w{number}/0"]).max() < 1e-4


def test_coded_factors_converge_on_matrices_of_low_rank() -> None:
    (means, _), *_ = run(2, CODED, "gather", thin, steps=30)
    for number in range(len(SHAPES)):
        wanted = (thin(0, 0, number) + thin(1, 0, number)) / 2
        told = np.mean([each[f"w{number}"] for each in means], axis=0)
        assert np.linalg.norm(told - wanted) < 0.05 * np.linalg.norm(wanted)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_means_depend_neither_on_batches_nor_on_threads(exchange: str) -> None:
    wanted = run(3, CODED, exchange)
    for batches, threads in (([[0], [1], [2]], 1), ([[2, 0], [1]], 2), ([[1, 2, 0]], 3)):
        found = run(3, CODED, exchange, batches=batches, threads=threads)
        for (means, memories), (others, theirs) in zip(wanted, found, strict=True):
            assert bits(means) == bits(others)
            assert memories.keys() == theirs.keys()
            assert all(memories[key].tobytes() == theirs[key].tobytes() for key in memories)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_run_goes_on_from_its_memories(exchange: str) -> None:
    whole = run(3, CODED, exchange, steps=6)
    saved = [own for _, own in run(3, CODED, exchange, steps=3)]

    def work(rank: Rank) -> Any:
        store = Store()
        store.load(saved[rank.comm.rank])
        rank.progress.step = 3
        own = Run(rank, CODED, exchange, [places([1]), places([2, 0])], store=store)
        return [own.step(normal) for _ in range(3)], own.store.arrays()

    for (means, memories), rank in zip(whole, together(3, work), strict=True):
        assert rank.error is None
        assert bits(rank.result[0]) == bits(means[3:])
        assert all(own.tobytes() == rank.result[1][key].tobytes() for key, own in memories.items())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_step_that_is_not_finite_leaves_no_trace(exchange: str, bad: float) -> None:
    """The means of that matrix are not finite on any rank; later steps are as if it had not been,
    but for its number."""

    def gradients(sick: int | None) -> Gradients:
        def made(rank: int, step: int, number: int) -> np.ndarray:
            own = normal(rank, step, number)
            if step == sick and rank == 1 and number == 1:
                own[2, 3] = bad
            return own

        return made

    def work(rank: Rank, sick: int | None) -> Any:
        own = Run(rank, CODED, exchange, [places()])
        own.step(gradients(sick))
        before = own.store.arrays()
        means = own.step(gradients(sick))
        return means, before, own.store.arrays()

    for rank in together(3, lambda rank: work(rank, 1)):
        assert rank.error is None
        means, before, after = rank.result
        assert not np.isfinite(means["w1"]).any()
        assert np.isfinite(means["w0"]).all()
        assert all(before[key].tobytes() == after[key].tobytes() for key in before)


@pytest.mark.parametrize("gradients", [normal, thin])
@pytest.mark.parametrize("spec", [EXACT, CODED])
def test_a_message_loses_no_more_than_its_matrix_and_the_operators_share(
    spec: str, gradients: Gradients
) -> None:
    own = low_rank(spec)
    assert own is not None
    kept = 1 - own.operator.guarantee(1000).error

    def work(rank: Rank) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        run, found = Run(rank, spec, "gather", [places()]), []
        whole = run.parts[0][1]
        for step in range(3):
            before = run.store.arrays()
            run.step(gradients)
            after = run.store.arrays()
            for number, shape in enumerate(SHAPES):
                message = gradients(rank.comm.rank, step, number) + before[
                    f"worker/w{number}/0"
                ].reshape(shape)
                left = after[f"worker/w{number}/0"]
                factor = message.T @ whole._orthonormal[number].astype(float)
                found.append((message, left, factor))
        return found

    for rank in together(3, work):
        assert rank.error is None
        for message, left, factor in rank.result:
            squares = [float(np.sum(each.astype(float) ** 2)) for each in (message, left, factor)]
            assert squares[1] <= squares[0] - kept * squares[2] + 1e-5 * squares[0]
            assert squares[2] > 0


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize(
    ("place", "bad", "words"),
    [
        (slice(2), [np.nan, np.inf], "2 gradient values are NaN or infinite"),
        (slice(None), 3e38, "gradient values are finite, but too large"),
    ],
)
def test_all_ranks_are_told_of_what_is_not_finite(
    exchange: str, place: slice, bad: Any, words: str
) -> None:
    """By the gradient's own values, whatever became of its factors."""

    def gradients(rank: int, step: int, number: int) -> np.ndarray:
        own = normal(rank, step, number)
        if rank == 1 and number == 1:
            own[0, place] = bad
        return own

    def work(rank: Rank) -> Any:
        own = Run(rank, CODED, exchange, [places()])
        basis = own.store.arrays()["basis/w1/0"]
        own.store.load({"basis/w1/0": np.ones_like(basis)})  # so that large values add up
        return own.step(gradients)

    for rank in together(3, work, nonfinite="raise"):
        assert isinstance(rank.error, EncodeError)
        assert f"rank 1 at step 0: {words}" in str(rank.error)


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("place", ["_project", "_project_back", "_settle"])
def test_a_rank_that_fails_is_named_on_all(
    monkeypatch: pytest.MonkeyPatch, exchange: str, place: str
) -> None:
    sound = getattr(Factored, place)

    def failing(self: Factored, *given: Any) -> Any:
        if self is broken[0]:
            raise RuntimeError("no memory")
        return sound(self, *given)

    broken: list[Any] = []
    monkeypatch.setattr(factored.Factored, place, failing)

    def work(rank: Rank) -> Any:
        own = Run(rank, CODED, exchange, [places()])
        if rank.comm.rank == 2:
            broken.append(own.parts[0][1])
        while not broken:
            pass
        return own.step(normal)

    ranks = together(3, work)
    for rank in ranks[:2]:
        assert isinstance(rank.error, PeerError)
        assert "rank 2 failed at step 0: RuntimeError: no memory" in str(rank.error)
    assert isinstance(ranks[2].error, RuntimeError)


def test_ranks_that_differ_are_told() -> None:
    def work(rank: Rank) -> Any:
        spec = f"low-rank:rank={2 + (rank.comm.rank == 1)}|identity"
        return Run(rank, spec, "gather", [places()]).step(normal)

    for rank in together(2, work):
        assert isinstance(rank.error, DisagreementError)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_rank_without_gradients_keeps_its_memory(exchange: str) -> None:
    """One that has no inputs, or whose backward pass has not reached a parameter."""

    def work(rank: Rank) -> Any:
        own = Run(rank, CODED, exchange, [places()])
        own.step(normal)
        before = own.store.arrays()
        if rank.comm.rank == 1:
            rank.progress.without_inputs = True
        if rank.comm.rank == 2:
            rank.progress.unused = frozenset({"w1"})
        means = own.step(lambda *_: 0.0 * normal(*_) if rank.comm.rank == 1 else normal(*_))
        return means, before, own.store.arrays()

    ranks = together(3, work)
    assert len({bits([rank.result[0]]) for rank in ranks}) == 1
    mine = {f"worker/w{number}/0" for number in range(len(SHAPES))}
    for rank, wanted in ((0, set()), (1, mine), (2, {"worker/w1/0"})):
        _, before, after = ranks[rank].result
        kept = {key for key in before if before[key].tobytes() == after[key].tobytes()}
        # An owner's memory also takes up what is lost on its way back.
        assert kept == wanted if exchange == "gather" else kept <= wanted


def test_a_basis_that_told_nothing_is_drawn_anew() -> None:
    """A matrix that was zero at first is compressed as well as any other afterwards."""

    def late(rank: int, step: int, number: int) -> np.ndarray:
        return thin(rank, step, number) * (step >= 3)

    (means, memories), *_ = run(2, EXACT, "gather", late, steps=3)
    assert not any(each.any() for own in means for each in own.values())
    assert not any(memories[key].any() for key in memories)
    (means, _), *_ = run(2, EXACT, "gather", late, steps=6)
    wanted = (thin(0, 0, 1) + thin(1, 0, 1)) / 2
    np.testing.assert_allclose(sum(each["w1"] for each in means), 3 * wanted, atol=1e-4)


def test_operators_that_may_lose_all_are_refused() -> None:
    with pytest.raises(fewbits.SpecError, match="loses less than all"):
        low_rank("low-rank|rand-k:fraction=0.01|natural")
