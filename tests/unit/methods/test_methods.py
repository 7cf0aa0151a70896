"""Methods do what their papers write, converge where they should, and stall where they must."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fewbits
from fewbits import Rng, SpecError, methods
from fewbits.methods import Clients, Dasha, Dcgd, EfBv, Fleet, Marina, State
from unit.methods.crowds import CLIENTS, SIZE, Quadratics

CROWD = Quadratics.of()
RNG = Rng.from_seed(11)
TOP = "top-k:fraction=0.25|natural"


def made(name: str, operator: str = "natural", **options: Any) -> Any:
    clients = Clients(Fleet.alone(CLIENTS), CROWD.gradient, CROWD.smoothness, SIZE)
    return methods.build(name, clients, operator, **options)


def run(method: Any, steps: int, start: np.ndarray | None = None) -> State:
    state = method.init(np.zeros(SIZE) if start is None else start)
    for _ in range(steps):
        state = method.step(state, RNG)
    return state


def sent(values: np.ndarray, operator: str, *path: int | str) -> np.ndarray:
    frame = fewbits.compress(values.astype(np.float32), operator, seed=RNG.fork(*path))
    return fewbits.decompress(frame).astype(np.float64)


def clients(of: Callable[[int], np.ndarray]) -> np.ndarray:
    return np.stack([of(client) for client in range(CLIENTS)])


def narrow(direction: np.ndarray) -> np.ndarray:
    """What an exact frame of float32 leaves of a direction."""
    return direction.astype(np.float32).astype(np.float64)


def test_dcgd_both_ways_is_as_written() -> None:
    method: Dcgd = made("dcgd", downlink="natural")
    x = np.zeros(SIZE)
    for t in range(4):
        told = clients(lambda i, x=x, t=t: sent(CROWD.gradient(i, x), "natural", t, i))
        x = x - method.step_size * sent(told.mean(axis=0), "natural", t, "server")
    assert run(method, 4).x == pytest.approx(x, rel=1e-12)


@pytest.mark.parametrize(("kind", "shift", "scale"), [
    ("ef21", 1, 1), ("diana", 8 / 9, 1), ("ef-bv", 8 / 9, 40 / 41),
])  # fmt: skip
def test_shifted_methods_are_as_written(kind: str, shift: float, scale: float) -> None:
    method: EfBv = made(kind)
    x, shifts = np.zeros(SIZE), np.zeros((CLIENTS, SIZE))
    for t in range(5):
        own = clients(
            lambda i, x=x, t=t, h=shifts: sent(CROWD.gradient(i, x) - h[i], "natural", t, i)
        )
        estimate = shifts.mean(axis=0) + scale * own.mean(axis=0)
        shifts = shifts + shift * own
        x = x - method.step_size * narrow(estimate)
    state = run(method, 5)
    assert state.x == pytest.approx(x, rel=1e-6)  # a sum in another order may round otherwise
    assert np.stack([state.memories[i][0] for i in range(CLIENTS)]) == pytest.approx(shifts)
    assert state.server[0] == pytest.approx(shifts.mean(axis=0))


def test_ef14_is_as_written() -> None:
    method = made("ef14", TOP)
    x, errors = np.zeros(SIZE), np.zeros((CLIENTS, SIZE))
    for t in range(5):
        wanted = clients(lambda i, x=x, e=errors: e[i] + CROWD.gradient(i, x))
        own = clients(lambda i, t=t, w=wanted: sent(w[i], TOP, t, i))
        errors = wanted - own
        x = x - method.step_size * narrow(own.mean(axis=0))
    state = run(method, 5)
    assert state.x == pytest.approx(x, rel=1e-6)  # a sum in another order may round otherwise
    assert np.stack([state.memories[i][0] for i in range(CLIENTS)]) == pytest.approx(errors)


def test_dasha_is_as_written() -> None:
    method: Dasha = made("dasha")
    x = np.zeros(SIZE)
    before = clients(lambda i: CROWD.gradient(i, x))
    known = narrow(before)
    assert method.momentum == pytest.approx(0.8)
    for t in range(5):
        x = x - method.step_size * narrow(known.mean(axis=0))
        after = clients(lambda i, x=x: CROWD.gradient(i, x))
        change = after - before - method.momentum * (known - before)
        known = known + clients(lambda i, t=t, c=change: sent(c[i], "natural", t, i))
        before = after
    assert run(method, 5).x == pytest.approx(
        x, rel=1e-6
    )  # a sum in another order may round otherwise


def test_marina_is_as_written_and_tosses_its_coin() -> None:
    method: Marina = made("marina", "rand-k:fraction=0.5|natural")
    x, estimate, coins = np.zeros(SIZE), np.zeros(SIZE), []
    before = clients(lambda i: CROWD.gradient(i, np.zeros(SIZE)))
    estimate = narrow(before).mean(axis=0)
    exact = CLIENTS * len(fewbits.compress(np.zeros(SIZE, np.float32), "identity"))
    state = method.init(x)
    assert state.traffic.up == exact
    for t in range(30):
        x = x - method.step_size * narrow(estimate)
        after = clients(lambda i, x=x: CROWD.gradient(i, x))
        state, up = method.step(state, RNG), state.traffic.up
        coins.append(state.traffic.up - up == exact)
        told = clients(lambda i, t=t, c=after - before: sent(c[i], str(method.operator), t, i))
        estimate = narrow(after).mean(axis=0) if coins[-1] else estimate + told.mean(axis=0)
        before = after
    assert state.x == pytest.approx(x, rel=1e-6)  # a sum in another order may round otherwise
    # 30 tosses: four standard deviations around the probability.
    spread = 4 * math.sqrt(30 * method.probability * (1 - method.probability))
    assert abs(sum(coins) - 30 * method.probability) <= spread
    assert 0 < sum(coins) < 30


@pytest.fixture(scope="module")
def workers() -> Any:
    datasets = pytest.importorskip("fewbits_lab.problems.datasets")
    lab_workers = pytest.importorskip("fewbits_lab.problems.workers")
    return lab_workers.Workers.sorted_by_label(datasets.breast_cancer(10), 4, condition=21.0)


def excess(workers: Any, name: str, operator: str, steps: int, **options: Any) -> float:
    start = workers.whole.start
    clients = Clients(Fleet.alone(4), workers.gradient, workers.smoothness, start.size)
    method = methods.build(name, clients, operator, **options)
    state = method.init(start)
    for _ in range(steps):
        state = method.step(state, RNG)
    return workers.excess(state.x)


@pytest.mark.parametrize("name", ["diana", "ef-bv", "ef21", "marina", "dasha"])
def test_shifts_and_differences_converge_on_workers_sorted_by_label(
    workers: Any, name: str
) -> None:
    assert excess(workers, name, "natural", 500 if name == "ef21" else 330) <= 1e-9


@pytest.mark.parametrize("downlink", ["identity", "natural"])
def test_without_them_descent_stalls(workers: Any, downlink: str) -> None:
    assert excess(workers, "dcgd", "natural", 200, downlink=downlink) > 1e-5
    assert excess(workers, "dcgd", "identity", 200) < 1e-6


def test_the_old_name_of_the_downlink_works_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match="master= is called downlink= now"):
        assert made("dcgd", "natural", master="natural").downlink == fewbits.operator("natural")


def test_traffic_is_the_length_of_frames() -> None:
    state = run(made("dcgd", "natural", downlink="natural"), 3)
    frame = fewbits.compress(np.ones(SIZE, np.float32), "natural")
    assert state.traffic.up == 3 * CLIENTS * len(frame) == state.traffic.down
    overhead = fewbits.inspect(frame).overhead
    assert state.traffic.up_sections == 3 * CLIENTS * (len(frame) - overhead)
    assert state.traffic.messages == 3 * CLIENTS


@pytest.mark.parametrize("name", ["dcgd", "diana", "marina", "dasha"])
def test_biased_operators_are_refused(name: str) -> None:
    with pytest.raises(SpecError, match="unbiased"):
        made(name, TOP)


def test_names_are_checked() -> None:
    with pytest.raises(SpecError, match="method must be dcgd, ef14"):
        made("sgd")
    with pytest.raises(SpecError, match="kind must be"):
        made("ef-bv", kind="ef14")
    with pytest.raises(SpecError, match="positive whole number"):
        Fleet.alone(0)


def test_a_step_changes_nothing_that_it_was_given() -> None:
    method = made("diana")
    state = method.init(np.zeros(SIZE))
    first, again = method.step(state, RNG), method.step(state, RNG)
    assert first.x.tobytes() == again.x.tobytes()
    assert not state.x.any()
    assert not any(memory.any() for memory in state.memories.values())
