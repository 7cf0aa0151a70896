"""Islands of real processes: one is killed and comes again, and nobody else loses a round."""

import hashlib
import random
import signal
from typing import Any

import numpy as np
import pytest
from launch import Launcher

from fewbits.localsgd.outer import outer

TIMEOUT, H, SHAPE = 8.0, 2, (40, 30)
TRIALS = 20


def change(rank: int, step: int) -> np.ndarray:
    """As in `islands.py`."""
    source = np.random.default_rng([rank, step])
    return (0.1 * source.standard_normal(SHAPE)).astype(np.float32)


def replayed(start: np.ndarray, rounds: list[list[int]]) -> list[str]:
    """What is common after each round, if just these islands took part in it, uncompressed."""
    rule, common, momentum = outer("nesterov"), start.copy(), np.zeros_like(start)
    found = []
    for number, ranks in enumerate(rounds):
        total = np.zeros_like(start)
        for rank in ranks:
            own = common.copy()
            for step in range(number * H, number * H + H):
                own -= change(rank, step).reshape(-1)
            total += common - own
        rule.apply(common, total / np.float32(len(ranks)), momentum)
        saved = momentum.tobytes() + common.tobytes()
        found.append(hashlib.sha256(saved).hexdigest())
    return found


def check(launcher: Launcher, seed: int, uplink: str) -> float:
    """Three islands train; one is killed in a random round and comes again three rounds later.

    Returns the longest that one of the others waited for the end of a round.
    """
    kill = random.Random(seed).randrange(1, 5)
    rounds = kill + 9
    outcomes = launcher.run(
        "islands", 5, rounds=rounds, kill=kill, seed=seed, uplink=uplink, timeout=TIMEOUT,
        deadline=120.0,
    )  # fmt: skip
    host, killed, *rest = outcomes
    assert host.status == 0, host
    assert killed.status == -signal.SIGKILL, killed
    assert [each.status for each in rest] == [0, 0, 0], [each.stderr[-2000:] for each in rest]
    one, other, again = (each.result for each in rest)
    assert again["begins"] >= kill + 3  # it took part from then on
    assert one["rounds"] == other["rounds"]
    assert len(one["rounds"]) == rounds  # no round was lost
    assert again["rounds"] == one["rounds"][again["begins"] :]
    assert len({each["final"] for each in (one, other, again)}) == 1
    check_who(one, other, again, kill)
    for each in (one, other):
        assert sum(wait > TIMEOUT for wait in each["waits"]) == 0, each["waits"]
    if uplink == "identity":
        numbers = {one["number"]: 2, other["number"]: 3, again["number"]: 1}
        ranks = [[numbers.get(each, 1) for each in counted] for counted, _ in one["rounds"]]
        start = np.frombuffer(bytes.fromhex(one["start"]), np.float32)
        assert replayed(start, ranks) == [common for _, common in one["rounds"]]
    return max(wait for each in (one, other) for wait in each["waits"])


def check_who(one: dict[str, Any], other: dict[str, Any], again: dict[str, Any], kill: int) -> None:
    """Everyone who lived took part in every round; the killed one until it died."""
    lost = {1, 2, 3} - {one["number"], other["number"]}
    always = {one["number"], other["number"]}
    for number, (counted, _) in enumerate(one["rounds"]):
        late = {again["number"]} if number >= again["begins"] else set()
        assert set(counted) - lost == always | late
        assert lost <= set(counted) or number >= kill
        assert not lost & set(counted) or number <= kill


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, TRIALS + 1))]
)
def test_an_island_that_is_killed_and_comes_again_costs_nobody_a_round(
    launcher: Launcher, seed: int
) -> None:
    check(launcher, seed, ("identity", "natural:coder=rans")[seed % 2])
