"""LocalSGD between processes: equal bits, typed errors, and runs that are killed and resumed."""

import signal
from pathlib import Path
from typing import Any

import pytest
from launch import Launcher, Outcome
from raised import SLACK, check_ended, check_stopped, others, soak
from rounds import ROUND, H

RANS = "natural:coder=rans"
RUNS: list[dict[str, Any]] = [
    {"uplink": "natural", "outer": "sgd", "normed": True},
    {"uplink": RANS, "outer": "nesterov", "dtype": "mixed"},
    {"uplink": RANS, "outer": "nesterov", "overlap": True, "collective": "star"},
    {"uplink": "top-k:fraction=0.1|natural", "feedback": "ef14", "collective": "gather"},
    {"uplink": "natural", "outer": "sgd", "normed": True, "seed": 1},
    {"uplink": "two-bit", "outer": "nesterov"},
]


def test_all_ranks_are_equal_after_every_outer_step(launcher: Launcher) -> None:
    results = launcher.results("train_rounds", 4, runs=RUNS, steps=3 * H + 1)
    for number, run in enumerate(RUNS):
        first, *others = (result["runs"][number] for result in results)
        assert len({tuple(own["alone"]) for own in (first, *others)}) == 4  # they do train alone
        for other in others:
            assert other["begins"] == first["begins"]  # rank 0's
            assert other["final"] == first["final"] != first["begins"]
            common, own = (zip(*each["rounds"], strict=True) for each in (first, other))
            (shared, first_models), (other_shared, models) = common, own
            assert other_shared == shared
            assert (models == first_models) is not run.get("overlap", False)
        assert len(set(shared)) == 3
        report = first["report"]
        assert report["steps"] == 4
        assert report["taken"] == 3 * H + 1
        assert f"in 4 rounds of up to {H}" in first["text"]
        assert report["ratio"] > 1.5
    finals = [own["final"] for own in results[0]["runs"]]
    assert len(set(finals)) == len(RUNS)


def test_statistics_of_all_ranks_are_one(launcher: Launcher) -> None:
    (one, other) = (
        result["runs"][0]
        for result in launcher.results("train_rounds", runs=RUNS[:1], steps=2 * H + 1)
    )
    mask, tracked, mean, variance = one["buffers"]
    assert one["buffers"] == other["buffers"]
    assert tracked == [2 * H + 1]
    assert mask == [float("-inf")] * 2
    assert any(mean)
    assert variance != [1.0] * len(variance)


@pytest.mark.parametrize("how", ["propagate", "skip"])
def test_what_is_not_finite_reaches_all_ranks_or_none(launcher: Launcher, how: str) -> None:
    run = {"nonfinite": how, "sick": H + 1}
    results = launcher.results("train_rounds", runs=[run], steps=2 * H)
    one, other = (result["runs"][0] for result in results)
    assert one["final"] == other["final"]
    assert one["finite"] is other["finite"] is (how == "skip")
    if how == "skip":
        assert one["skipped"] == other["skipped"] == [False, True]
        assert one["rounds"][0] == one["rounds"][1]  # back to where the round began


def check_raised(
    outcomes: list[Outcome], error: str, naming: str, within: float = SLACK, rounds: int = ROUND
) -> None:
    for outcome in outcomes:
        assert outcome.error == error, outcome
        assert naming in outcome.message, outcome
        assert outcome.took is not None, outcome
        assert outcome.took < within, outcome
        assert outcome.result["rounds"] == rounds, outcome


KILLS: list[tuple[int, str, dict[str, Any]]] = [
    (2, "local", {}),
    (4, "second hop", {}),
    (2, "encode", {"overlap": True}),
    (3, "commit", {"collective": "star"}),
    (3, "second hop", {"fragments": H, "delay": 1}),
]
STOPS = [(2, "local"), (3, "second hop")]
WORLDS, PLACES = (2, 3, 4), ("local", "encode", "second hop", "commit")
RUN_KINDS: list[dict[str, Any]] = [{}, {"overlap": True}, {"collective": "star"}]


@pytest.mark.parametrize(
    ("world", "place", "run"), [*KILLS, *soak(WORLDS, PLACES, RUN_KINDS, but=KILLS)]
)
def test_a_killed_rank_is_an_error_on_all_others(
    launcher: Launcher, world: int, place: str, run: dict[str, Any]
) -> None:
    outcomes = launcher.run("lost", world, place=place, deed="kill", run=run, hurry=False)
    assert outcomes[1].status == -signal.SIGKILL
    # With overlap the end of the next round is the first time that anyone waits.
    rounds = ROUND + 1 if run.get("overlap") and place != "local" else ROUND
    if "fragments" in run:  # a part of the model is sent in every step
        rounds = H * (ROUND + 1)
    check_raised(others(outcomes), "PeerError", "rank 1:", 2.0, rounds)
    check_ended(others(outcomes))


@pytest.mark.parametrize(("world", "place"), [*STOPS, *soak(WORLDS, PLACES, but=STOPS)])
def test_a_stopped_rank_is_named_when_the_timeout_is_over(
    launcher: Launcher, world: int, place: str
) -> None:
    timeout = 2.0
    outcomes = launcher.run("lost", world, place=place, deed="stop", timeout=timeout, hurry=False)
    check_stopped(outcomes, timeout)
    assert {outcome.result["rounds"] for outcome in others(outcomes)} == {ROUND}


def test_what_fails_on_one_rank_fails_on_all_in_the_same_round(launcher: Launcher) -> None:
    outcomes = launcher.run("lost", 3, place="encode", deed="raise")
    (own,) = [outcome for outcome in outcomes if outcome.rank == 1]
    check_raised([own], "ZeroDivisionError", "out of luck")
    told = f"rank 1 failed at step {H * (ROUND + 1)}: ZeroDivisionError"
    check_raised(others(outcomes), "PeerError", told)


@pytest.mark.parametrize("world", [3, *soak([2, 4])])
def test_a_round_that_ends_before_the_others_is_refused(launcher: Launcher, world: int) -> None:
    """One rank calls `sync()` alone, after a step of its round."""
    outcomes = launcher.run("lost", world, place="early", deed="raise")
    for outcome in outcomes:
        assert str(H * ROUND + 1) in outcome.message
        assert str(H * ROUND + H) in outcome.message
    check_raised(outcomes, "DisagreementError", "a rank skipped or repeated a call")


@pytest.mark.parametrize(
    ("run", "difference"),
    [
        ({"local_steps": H + 1}, "local_steps: "),
        ({"outer": "nesterov"}, "outer: "),
        ({"overlap": True}, "overlap: "),
        ({"uplink": RANS}, "uplink: "),
        ({"wide": 301}, "model: "),
        ({"normed": True}, "model: "),
        ({"dtype": "float64"}, "vectors: "),
    ],
)
def test_another_configuration_is_refused_by_attach(
    launcher: Launcher, run: dict[str, Any], difference: str
) -> None:
    for outcome in launcher.run("apart", run=run):
        assert outcome.error == "DisagreementError", outcome
        assert difference in outcome.message


SOME: list[dict[str, Any]] = [
    {"uplink": RANS, "outer": "sgd"},
    {"uplink": "natural", "outer": "nesterov", "feedback": "ef21", "normed": True},
    {"uplink": RANS, "outer": "nesterov", "overlap": True, "feedback": "ef14"},
    {"uplink": "top-k:fraction=0.1|natural", "feedback": "ef14", "collective": "star"},
    {"uplink": RANS, "outer": "nesterov", "fragments": H, "delay": 1, "blend": 0.5}
    | {"feedback": "ef14"},
    {
        "uplink": "natural",
        "overlap": True,
        "collective": "gather",
        "normed": True,
        "dtype": "mixed",
    },
]


def check_resumed(
    launcher: Launcher, folder: Path, runs: list[dict[str, Any]], seed: int, **options: Any
) -> None:
    """One uninterrupted, one killed at a random moment, one that goes on from what is left."""
    whole = launcher.results("interrupted_rounds", runs=runs, folder=str(folder / "no"), **options)
    kept = {"runs": runs, "folder": str(folder / "kept")} | options
    killed = launcher.run("interrupted_rounds", every=5, death=seed, **kept)
    assert {outcome.status for outcome in killed} == {-signal.SIGKILL}
    resumed = launcher.results("interrupted_rounds", **kept)
    for before, after in zip(whole, resumed, strict=True):
        assert all(0 < begin < options["steps"] for begin in after["begins"])
        assert after["ends"] == before["ends"]
    for first, *rest in zip(*(result["ends"] for result in whole), strict=True):
        for other in rest:
            assert other[:2] == first[:2]  # what is common, and after `sync` the parameters
            assert other[2] != first[2]  # each rank's momenta are its own


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.soak) for s in (2, 3, 4))])
def test_a_killed_run_ends_as_if_it_had_not_been(
    launcher: Launcher, tmp_path: Path, seed: int
) -> None:
    pytest.importorskip("safetensors")
    check_resumed(launcher, tmp_path, SOME, seed, steps=13)


@pytest.mark.soak
def test_a_killed_run_of_four_ranks_ends_as_if_it_had_not_been(
    launcher: Launcher, tmp_path: Path
) -> None:
    check_resumed(launcher, tmp_path, SOME, 5, steps=40, world=4)


def test_another_number_of_ranks_goes_on_from_the_same_parameters(
    launcher: Launcher, tmp_path: Path
) -> None:
    run = {"uplink": RANS, "outer": "nesterov", "feedback": "ef14"}
    saved = launcher.results("reloaded", 2, run=run, folder=str(tmp_path / "a"), save=True)
    more = launcher.results("reloaded", 3, run=run, folder=str(tmp_path / "a"), save=False)
    assert len({result["common"] for result in (*saved, *more)}) == 1
    assert {result["begins"] for result in more} == {saved[0]["final"]}
    assert len({result["final"] for result in more}) == 1
    launcher.results("reloaded", 2, run=run, folder=str(tmp_path / "b"), save=True, in_round=True)
    refused = launcher.run("reloaded", 3, run=run, folder=str(tmp_path / "b"), save=False)
    for outcome in refused:
        assert outcome.error == "DisagreementError"
        assert "call sync() before saving" in outcome.message
