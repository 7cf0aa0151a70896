"""Compression under FSDP: its results, its bytes, and what every rank raises when one fails."""

import inspect
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import STEP
from launch import Launcher, Outcome
from raised import SLACK, check_ended, check_raised, check_stopped, others, soak
from sharded import FEATURES, LOSSY, PLACES

import fewbits
from fewbits import fsdp
from fewbits.collectives.header import SIZE


def test_the_identity_gives_the_bits_of_plain_fsdp(launcher: Launcher) -> None:
    # Two ranks: halving is exact and a + b = b + a, so the order of sum and division is no matter.
    for told in launcher.results("sharded features", names=list(FEATURES), steps=3, deadline=240.0):
        for feature, workers in told.items():
            plain, exact = workers["none"], workers["identity"]
            assert exact["final"] == plain["final"], feature
            assert exact["losses"] == plain["losses"], feature
            lossy = workers.get("natural")
            assert (lossy is not None) == (feature in LOSSY)
            if lossy is not None:
                assert lossy["final"] != plain["final"], feature
                assert lossy["losses"] != plain["losses"], feature
                assert lossy["losses"][-1] < 1.2 * plain["losses"][-1], feature


def test_one_rank_trains_as_without(launcher: Launcher) -> None:
    (told,) = launcher.results("sharded features", 1, names=["plain"])
    finals = {uplink: run["final"] for uplink, run in told["plain"].items()}
    assert finals["none"] == finals["identity"] == finals["natural"]
    assert "one rank" in told["plain"]["natural"]["text"]


@pytest.mark.parametrize("replicas", [1, 2])
def test_four_ranks_train_as_without(launcher: Launcher, replicas: int) -> None:
    results = launcher.results("sharded features", 4, names=["plain"], replicas=replicas, steps=3)
    workers = [result["plain"] for result in results]
    for told in workers:
        # Only the order of the sums differs: a few units in the last place of float32.
        expected = pytest.approx(told["none"]["losses"], rel=1e-5)
        assert told["identity"]["losses"] == expected
        assert told["natural"]["losses"][-1] != told["identity"]["losses"][-1]
    for uplink in ("none", "identity", "natural"):
        finals = [told[uplink]["final"] for told in workers]
        assert len(set(finals)) == 4 // replicas  # replicas have the same shards, others do not
        if replicas == 2:
            assert finals[:2] == finals[2:]


@pytest.mark.parametrize("world", [2, 4])
def test_shards_have_the_mean_of_what_the_operator_makes_of_all_gradients(
    launcher: Launcher, world: int
) -> None:
    shapes = [(1001, 301), (5, 3), (7,), (1, 2)]
    moved = 0
    for result in launcher.results("sharded law", world, shapes=shapes, seed=3):
        assert result["exact"]
        moved += result["moved"]
        report = result["report"]
        assert report["ratio"] == pytest.approx(32 / 9, rel=0.05)
        assert report["compressed_share"] == 1.0
        assert report["steps"] == 3
        # Forward pass, reduction and the end of each step; with the lengths of the first ones.
        assert report["header_bytes"] == 3 * 3 * SIZE * (world - 1)
    assert moved == 3 * sum(map(math.prod, shapes))


def test_bytes_are_saved_as_the_operator_says(launcher: Launcher) -> None:
    specs = ["natural", "bfloat16", "natural-dithering", "top-k:fraction=0.05|natural"]
    told = [{"uplink": spec, "feedback": "ef14"} for spec in specs]
    for result in launcher.results("sharded runs", compressions=told, wide=3000, steps=2):
        for spec, run in zip(specs, result["runs"], strict=True):
            report = run["report"]
            ratio = report["plain_bytes"] / report["payload_bytes"]
            assert ratio == pytest.approx(_ratio(spec), rel=0.05), spec
            assert 1 < run["report"]["whole_ratio"] < run["report"]["ratio"]
            assert "less than plain reduce-scatter" in run["text"]
            assert "MB of parameters by FSDP, not compressed" in run["text"]
    assert _ratio("natural") == pytest.approx(32 / 9, rel=0.01)


def _ratio(spec: str) -> float:
    """Of a frame of one chunk of normal values."""
    values = np.random.default_rng(1).standard_normal(65_536).astype(np.float32)
    return values.nbytes / len(fewbits.compress(values, spec, seed=1))


def test_the_seed_decides_the_run_and_threads_do_not(launcher: Launcher) -> None:
    told = [{"seed": 1}, {"seed": 1, "threads": 3}, {"seed": 2}]
    for result in launcher.results("sharded runs", compressions=told, wide=2500):
        first, same, other = (run["final"] for run in result["runs"])
        assert first == same != other


FINITE = [True] * 4


@pytest.mark.parametrize("world", [2, 4])
def test_nan_arrives_where_it_would_without_compression(launcher: Launcher, world: int) -> None:
    places = [(1, 4 * rank + rank % 4, float("nan")) for rank in range(world)]
    results = launcher.results("sharded nonfinite", world, policy="propagate", places=places)
    for rank, result in enumerate(results):
        rows = [row != rank % 4 for row in range(4)]
        assert result["told"] == [[rows, True, False], [FINITE, True, False]]
        assert result["report"]["nonfinite_steps"] == 1


@pytest.mark.parametrize(
    "places",
    [[(1, 0, float("inf"))], [(0, 0, 3e38), (1, 0, 3e38)]],
    ids=["one rank's gradient", "the mean of finite gradients"],
)
def test_all_ranks_skip_what_one_of_them_keeps(
    launcher: Launcher, places: list[tuple[int, int, float]]
) -> None:
    for result in launcher.results("sharded nonfinite", 3, policy="skip", places=places):
        assert result["told"] == [[FINITE, False, True], [FINITE, True, False]]
        assert result["report"]["skipped_steps"] == 1
    for outcome in launcher.run("sharded nonfinite", 3, policy="raise", places=places):
        assert outcome.error == "EncodeError"
        assert "NaN or infinite" in outcome.message


RESUMED = [
    {"uplink": "top-k:fraction=0.02|natural", "feedback": "ef14:momentum=0.9"},
    {"uplink": "natural:coder=rans", "feedback": "ef21"},
    {"uplink": "natural", "feedback": "diana"},
    {"uplink": "natural"},
]


@pytest.mark.parametrize("world", [2, pytest.param(4, marks=pytest.mark.soak)])
def test_a_resumed_run_ends_with_the_same_bits(
    launcher: Launcher, tmp_path: Path, world: int
) -> None:
    pytest.importorskip("safetensors")
    results = launcher.results("sharded resumed", world, compressions=RESUMED, folder=str(tmp_path))
    for result in results:
        for number, (whole, again) in enumerate(result["ends"]):
            assert whole == again, RESUMED[number]
            assert whole[2] == 6
        assert "SpecError" in result["reshard"]
    memories = [{ends[0][1] for ends in result["ends"][:3]} for result in results]
    assert all(len(own) == 3 for own in memories)
    assert not memories[0] & memories[1]  # each rank's memories are its own


KILLS = [
    (2, "encode"),
    (2, "in an all-gather"),
    (3, "commit"),
    (4, "before an all-gather"),
]
STOPS = [(2, "encode"), (3, "in an all-gather")]
STRAYS = [(2, "no sync"), (4, "skip")]
WORLDS = (2, 3, 4)


@pytest.mark.parametrize(("world", "place"), [*KILLS, *soak(WORLDS, PLACES, but=KILLS)])
def test_a_killed_rank_is_an_error_on_all_others(
    launcher: Launcher, world: int, place: str
) -> None:
    outcomes = launcher.run("sharded fail", world, place=place, deed="kill", hurry=False)
    assert outcomes[1].status == -9
    naming = "lost rank 1 in the all-gather" if place == "in an all-gather" else "rank 1:"
    check_raised(others(outcomes), "PeerError", 2.0, naming=naming)
    check_ended(others(outcomes))


@pytest.mark.parametrize(("world", "place"), [*STOPS, *soak(WORLDS, PLACES, but=STOPS)])
def test_a_stopped_rank_is_named_by_all_others_when_the_timeout_is_over(
    launcher: Launcher, world: int, place: str
) -> None:
    timeout = 2.0
    outcomes = launcher.run(
        "sharded fail", world, place=place, deed="stop", timeout=timeout, hurry=False
    )
    # In the all-gather of FSDP one second more is spent on finding out who it is.
    check_stopped(outcomes, timeout, SLACK * (2 if place == "in an all-gather" else 1))
    assert {outcome.result["steps"] for outcome in others(outcomes)} == {STEP}


@pytest.mark.parametrize(
    ("world", "place", "deed", "error"),
    [
        (2, "encode", "raise", "ZeroDivisionError"),
        (4, "pieces", "memory", "MemoryError"),
        (3, "before an all-gather", "raise", "ZeroDivisionError"),
    ],
)
def test_what_fails_on_one_rank_fails_on_all_in_the_same_step(
    launcher: Launcher, world: int, place: str, deed: str, error: str
) -> None:
    hurry = place != "before an all-gather"  # there it is found when the process has ended
    outcomes = launcher.run("sharded fail", world, place=place, deed=deed, hurry=hurry)
    check_raised(outcomes[1:2], error, SLACK, naming="")
    naming = f"rank 1 failed at step {STEP}" if hurry else "rank 1"
    check_raised(others(outcomes), "PeerError", SLACK if hurry else 10.0, naming=naming)


def check_astray(outcomes: list[Outcome], **expected: Any) -> None:
    check_raised(outcomes, "DisagreementError", SLACK * 3, **expected)


@pytest.mark.parametrize(
    ("how", "difference"),
    [("operator", "coder=rans"), ("seed", "seed: "), ("policy", "policy: ")],
)
def test_another_configuration_is_refused_by_attach(
    launcher: Launcher, how: str, difference: str
) -> None:
    check_astray(launcher.run("sharded stray", how=how), naming=difference, steps=None)


@pytest.mark.parametrize(
    ("world", "how"), [*STRAYS, *soak(WORLDS, ["no sync", "skip"], but=STRAYS)]
)
def test_a_rank_that_goes_its_own_way_is_found_in_its_next_collective(
    launcher: Launcher, world: int, how: str
) -> None:
    outcomes = launcher.run("sharded stray", world, how=how)
    check_astray(others(outcomes), naming="rank 1", steps=STEP)
    check_astray(outcomes[1:2], naming="rank 0", steps=STEP + (how == "skip"))


def test_a_second_compression_is_refused(launcher: Launcher) -> None:
    for outcome in launcher.run("sharded twice"):
        assert outcome.error == "SpecError"
        assert "close() it first" in outcome.message
        assert outcome.result["again"]


def test_a_parameter_without_a_gradient_is_an_error_that_names_the_fix(launcher: Launcher) -> None:
    for outcome in launcher.run("sharded unused"):
        assert outcome.error == "SpecError"
        assert "set_reduce_scatter_unused_params(True)" in outcome.message


def test_the_default_timeout_is_not_longer_than_a_minute() -> None:
    for function in (fsdp.attach, fsdp.ShardedCompression.__init__):
        assert 0 < inspect.signature(function).parameters["timeout"].default <= 60
