"""FedAvg with compressed updates: some clients or all, with and without memories."""

import numpy as np
import pytest

from fewbits import Rng, SpecError
from fewbits.methods import FedAvg, Fleet, local_descent
from fewbits.theory import step_sizes
from unit.methods.crowds import CLIENTS, SIZE, Quadratics

CROWD, RNG = Quadratics.of(), Rng.from_seed(5)
EQUAL = Quadratics(np.ones((CLIENTS, SIZE)), CROWD.centres)
TOP = "top-k:fraction=0.25|natural"


def made(operator: str, crowd: Quadratics = EQUAL, **options) -> FedAvg:
    train = local_descent(crowd.gradient, 0.2, 3)
    return FedAvg.of(Fleet.alone(CLIENTS), train, operator, SIZE, **options)


def test_exact_updates_of_one_step_are_gradient_descent() -> None:
    method = FedAvg.of(
        Fleet.alone(CLIENTS), local_descent(CROWD.gradient, 0.1, 1), "identity", SIZE
    )
    state, x = method.init(np.zeros(SIZE)), np.zeros(SIZE)
    for _ in range(5):
        state = method.step(state, RNG)
        x = x - 0.1 * np.mean([CROWD.gradient(i, x) for i in range(CLIENTS)], axis=0)
    assert state.x == pytest.approx(x, abs=1e-5)


@pytest.mark.parametrize(
    ("operator", "feedback"),
    [("natural", "diana"), ("natural", "ef-bv"), (TOP, "ef21"), ("identity", None)],
)
def test_all_come_to_the_solution(operator: str, feedback: str | None) -> None:
    method = made(operator, feedback=feedback)
    state = method.init(np.zeros(SIZE))
    for _ in range(120):
        state = method.step(state, RNG)
    assert EQUAL.distance(state.x) < 1e-6


def test_without_memories_noise_is_left() -> None:
    method = made("natural")
    state = method.init(np.zeros(SIZE))
    for _ in range(120):
        state = method.step(state, RNG)
    assert 1e-4 < EQUAL.distance(state.x) < 0.3


def test_weights_and_those_present_make_the_mean() -> None:
    weights = [1.0, 2.0, 3.0, 4.0, 5.0]
    method = made("identity", weights=weights)
    state = method.step(method.init(np.zeros(SIZE)), RNG, [3, 1])
    share = 1 - 0.8**3
    wanted = share * (2 * EQUAL.centres[1] + 4 * EQUAL.centres[3]) / 6
    assert state.x == pytest.approx(wanted, rel=1e-5)
    assert state.traffic.messages == 2


def test_the_server_has_the_mean_of_all_shifts_whoever_was_there() -> None:
    method = made(TOP, feedback="ef21")
    state = method.init(np.zeros(SIZE))
    for present in ([0, 1], [4], [2, 3], [1, 4]):
        state = method.step(state, RNG, present)
    mean = np.sum([memory[0] for memory in state.memories.values()], axis=0) / CLIENTS
    assert state.server[0] == pytest.approx(mean, rel=1e-9, abs=1e-12)
    assert np.abs(mean).max() > 0


def test_theorys_rate_meets_its_condition_and_converges() -> None:
    omega, steps, server = 0.125, 4, 0.9
    rate = step_sizes.fedcom(CROWD.smoothness, omega, CLIENTS, steps, server)
    unit = steps * CROWD.smoothness.largest * rate
    assert unit**2 + (1 + omega / CLIENTS) * server * unit == pytest.approx(1)
    train = local_descent(EQUAL.gradient, rate, steps)
    method = FedAvg.of(
        Fleet.alone(CLIENTS), train, "natural", SIZE, feedback="diana", server_step=server
    )
    state = method.init(np.zeros(SIZE))
    for _ in range(100):
        state = method.step(state, RNG)
    assert EQUAL.distance(state.x) < 1e-6
    with pytest.raises(SpecError, match="local step"):
        step_sizes.fedcom(CROWD.smoothness, omega, CLIENTS, 0)


@pytest.mark.parametrize("present", [[], [1, 1], [CLIENTS], [-1]])
def test_nonsense_about_who_is_there_is_refused(present: list[int]) -> None:
    method = made("natural")
    with pytest.raises(SpecError, match="present"):
        method.step(method.init(np.zeros(SIZE)), RNG, present)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(SpecError, match="weights"):
        made("natural", weights=[1.0])
    method = made("natural", feedback="diana")
    with pytest.raises(SpecError, match="all clients must take part"):
        method.step(method.init(np.zeros(SIZE)), RNG, [0])


def test_thousands_of_clients_in_one_process() -> None:
    clients = 3000
    centres = np.random.default_rng(1).standard_normal((clients, 4)) + 2

    def train(chosen, x, _):
        return x + 0.5 * (centres[list(chosen)] - x)

    method = FedAvg.of(Fleet.alone(clients), train, "natural", 4)
    state = method.step(method.init(np.zeros(4)), RNG)
    assert state.traffic.messages == clients
    error = state.x - 0.5 * centres.mean(axis=0)
    # Each message has a variance of at most 1/8 of its square, and messages are independent.
    deviation = np.sqrt((0.25 * centres**2).mean(axis=0) / 8 / clients)
    assert (np.abs(error) <= 5 * deviation).all()
    assert (np.abs(error) > 0).all()
