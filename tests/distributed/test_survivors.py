"""Ranks that survive another one: as if a job without it had begun, and with it again later."""

import json
import random
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest
from launch import Launcher, Outcome

TIMEOUT, RANKS = 8.0, 4
KINDS = ("natural", "ef14", "rans", "tiny", "two-bit", "star")
TRIALS = 50


def check(launcher: Launcher, seed: int, kind: str, *, half: bool = False) -> tuple[float, int]:
    """One rank of four is killed at a random moment of a random step.

    With `half` it dies when it has told one of the others that the step has ended. Returns the
    longest step, and how many ranks have ended a step because others had.
    """
    chosen = random.Random(seed)
    kill, victim = chosen.randrange(0, 5), chosen.randrange(1, RANKS + 1)
    with tempfile.TemporaryDirectory(prefix="fewbits-") as folder:
        common: dict[str, Any] = {"kind": kind, "folder": folder, "timeout": TIMEOUT}
        outcomes = launcher.run(
            "survivors", RANKS + 2, kill=kill, victim=victim, deadline=90.0, **common,
            moment=None if half else chosen.uniform(0, 0.04),
        )  # fmt: skip
        killed, rest = outcomes[victim], outcomes[1:victim] + outcomes[victim + 1 :]
        assert killed.status == -signal.SIGKILL, killed
        assert all(each.status == 0 for each in rest), [each.stderr[-3000:] for each in rest]
        *left, again = rest
        begin, names = lost_at(left)
        compare_all(left, again, kill)
        end = again.result["begins"]
        told = launcher.results(
            "fresh", RANKS - 1, names=names, begin=begin, end=end, deadline=100.0, **common
        )
    assert end > begin
    for plain in told:
        assert plain["digests"] == {
            str(step): left[0].result["digests"][str(step)] for step in range(begin, end)
        }
    for each in left:
        lost_ranks, lost_values = each.result["lost"]
        assert lost_ranks == 1
        assert (lost_values > 0) == (kind in ("ef14", "tiny"))
    waits = [wait for each in left for wait in each.result["waits"]]
    assert max(waits) < TIMEOUT, waits
    return max(waits), sum(each.result["caught_up"] for each in left)


def lost_at(left: list[Outcome]) -> tuple[int, list[int]]:
    """The first step without the lost rank, and the names of the others in their new order."""
    changes = [each.result["changes"][0] for each in left]
    steps = {step for step, _, _ in changes}
    assert len(steps) == 1, changes
    assert {size for _, _, size in changes} == {RANKS - 1}
    order = sorted(left, key=lambda each: each.result["changes"][0][1])
    return steps.pop(), [each.result["name"] for each in order]


def compare_all(left: list[Outcome], again: Outcome, kill: int) -> None:
    """All have the same after every step; the one that came again from its first step on."""
    for each in left:
        assert each.result["digests"] == left[0].result["digests"]
        assert len(each.result["digests"]) == kill + 8  # no step was lost
    begins = again.result["begins"]
    assert begins >= kill + 4
    common = {str(step): left[0].result["digests"][str(step)] for step in range(begins, kill + 8)}
    assert again.result["digests"] == common
    assert common


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(own, marks=pytest.mark.soak) for own in range(2, TRIALS))]
)
def test_a_killed_rank_costs_the_others_no_step_and_comes_again(
    launcher: Launcher, seed: int
) -> None:
    check(launcher, seed, KINDS[seed % len(KINDS)])


@pytest.mark.parametrize("kind", ["ef14", pytest.param("rans", marks=pytest.mark.soak)])
def test_a_step_that_one_rank_has_ended_is_ended_by_all(launcher: Launcher, kind: str) -> None:
    _, caught_up = check(launcher, 7, kind, half=True)
    assert caught_up == RANKS - 2


@pytest.mark.soak
def test_a_rank_that_was_given_up_is_told_so(launcher: Launcher) -> None:
    outcomes = launcher.run("stopped", 5, victim=2, timeout=4.0)
    assert outcomes[2].error == "PeerError", outcomes[2]
    assert "start it again" in outcomes[2].message
    left = [outcomes[rank].result for rank in (1, 3, 4)]
    assert all(each == left[0] for each in left)
    assert left[0]["size"] == RANKS - 1


def test_a_rank_that_closes_early_leaves_the_others(launcher: Launcher) -> None:
    outcomes = launcher.run("leaves", 4, early=2, timeout=6.0)
    assert [each.status for each in outcomes] == [0] * 4, outcomes
    first, last = outcomes[1].result, outcomes[3].result
    assert first == last
    assert first["size"] == 2
    assert first["digest"] != outcomes[2].result["digest"]


@pytest.mark.soak
def test_two_may_be_lost_at_once_and_all_may_be_lost(launcher: Launcher, tmp_path: Path) -> None:
    outcomes = launcher.run("losses", 7, folder=str(tmp_path), timeout=6.0, deadline=90.0)
    host, *killed = outcomes[:5]
    assert host.status == 0
    assert [each.status for each in killed] == [-signal.SIGKILL] * RANKS
    told = [json.loads((tmp_path / f"told-{rank}").read_text()) for rank in range(1, 5)]
    assert told[1] == told[3]
    assert told[0] == told[2]
    assert told[1]["sizes"] == [4, 4, 2, 2, 2]
    assert told[1]["digests"][:2] == told[0]["digests"]
    assert told[1]["skipped"] == [False, False, False, True, False]
    assert len(set(told[1]["digests"])) == 5  # Adam moves on by its moments
    late = outcomes[5:]
    assert [each.status for each in late] == [0, 0], [each.stderr[-2000:] for each in late]
    assert late[0].result == late[1].result
    assert late[0].result["begins"] == 0
    assert late[0].result["sizes"] == [2] * 6
