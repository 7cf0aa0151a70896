"""A run that is killed and restarted ends with the bits of one that was not."""

import signal
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launch import Launcher

package = pytest.importorskip("safetensors.numpy")

FIXED, VARYING = "top-k:fraction=0.02|natural", "natural:coder=rans"
SCHEMES = ("sharded", "star", "gather")
METHODS = ("ef14", "ef14:momentum=0.9", "ef21", "diana", "ef-bv")
BUCKETS = (25, 1, 0.3)


def run(method: str, uplink: str, collective: str, bucket: float, **more: Any) -> dict[str, Any]:
    chosen = "natural" if method == "diana" and uplink == FIXED else uplink
    return {"feedback": method, "uplink": chosen, "collective": collective, "bucket": bucket} | more


SOME = [
    run("ef14:momentum=0.9", FIXED, "sharded", 0.3),
    run("ef21", VARYING, "sharded", 1),
    run("diana", VARYING, "star", 0.3, pair=True),
    run("dgc:momentum=0.9", FIXED, "gather", 25),
    run("ef14", VARYING, "star", 1),
    run("ef21", FIXED, "sharded", 0.3, pair=True),
    run("ef-bv", FIXED, "gather", 25),
    run("ef14:decay=0.95", FIXED, "sharded", 1),
]
ALL = [run(*each) for each in product(METHODS, (FIXED, VARYING), SCHEMES, BUCKETS)]


def check(
    launcher: Launcher, folder: Path, runs: list[dict[str, Any]], seed: int, **options: Any
) -> None:
    """A uninterrupted, B killed, C restarted, with other bucket sizes where names are given."""
    options = {"world": 2, "deadline": 3600.0} | options
    whole = launcher.results("interrupted", runs=runs, folder=str(folder / "none"), **options)
    killed = launcher.run(
        "interrupted", runs=runs, folder=str(folder / "kept"), every=5, death=seed, **options
    )
    assert [outcome.status for outcome in killed] == [-signal.SIGKILL] * options["world"]
    buckets = cycle(BUCKETS)
    others = [own if own.get("pair") else own | {"bucket": next(buckets)} for own in runs]
    resumed = launcher.results("interrupted", runs=others, folder=str(folder / "kept"), **options)
    for before, after in zip(whole, resumed, strict=True):
        assert all(0 < begin < options["steps"] for begin in after["begins"])
        assert after["ends"] == before["ends"]
    for first, *others in zip(*(result["ends"] for result in whole), strict=True):
        for other in others:
            assert other[:2] == first[:2]  # parameters and the optimizer's momenta
            assert other[2] != first[2]  # each rank's memories are its own
    by_method: dict[str, set[str]] = {}
    for own, (parameters, _, _) in zip(runs, whole[0]["ends"], strict=True):
        by_method.setdefault(str(own | {"bucket": None}), set()).add(parameters)
    assert all(len(ends) == 1 for ends in by_method.values())  # whatever the buckets


def test_a_killed_run_ends_as_if_it_had_not_been(launcher: Launcher, tmp_path: Path) -> None:
    check(launcher, tmp_path, SOME[:4], seed=7, steps=12)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, len(ALL), 6))
def test_any_killed_run_ends_as_if_it_had_not_been(
    launcher: Launcher, tmp_path: Path, first: int
) -> None:
    check(launcher, tmp_path, ALL[first : first + 6], seed=first, steps=60)


@pytest.mark.soak
def test_the_representative_runs_at_four_ranks(launcher: Launcher, tmp_path: Path) -> None:
    check(launcher, tmp_path, SOME, seed=3, steps=60, world=4)


REFUSED = {
    "missing": "has no rank-1-of-2.safetensors",
    "cut short": "is damaged",
    "one bit": "the state was damaged: checksums differ",
    "another rank's": "the state is of another rank: 0, here 1",
    "missing for all": "must hold every rank of one run",
    "another step": "is at step",
    "operator": "the state is of another configuration",
    "feedback": "the state is of another feedback: 'ef21', here 'ef14'",
    "no feedback": "the state is of another feedback: 'ef21', here None",
    "model": "the state is of another model",
    "collective": "the state is of another configuration",
}


def test_what_one_rank_cannot_load_all_ranks_refuse(launcher: Launcher) -> None:
    results = launcher.results("refused")
    for rank, result in enumerate(results):
        told = result["told"]
        assert told.pop("nothing")[0] == told.pop("good again")[0] == "none"
        assert told.keys() == REFUSED.keys()
        for name, (error, message, seconds) in told.items():
            assert error == "DisagreementError", (rank, name, error, message)
            assert seconds < 1, name
            assert REFUSED[name] in message or rank == 0, (name, message)
            if rank == 0 and name in ("missing", "cut short", "one bit", "another rank's"):
                assert message.startswith("rank 1 at step ")
        assert result["untouched"]
    assert results[0]["final"] == results[1]["final"]


@pytest.mark.parametrize("pair", [False, True])
def test_files_are_read_without_unpickling_and_say_what_was_kept(
    launcher: Launcher, pair: bool
) -> None:
    for result in launcher.results("unpickled", run=run("ef14", FIXED, "sharded", 0.05, pair=pair)):
        assert result["same"]
        assert result["step"] == 1
        assert result["files"] == [f"rank-{rank}-of-2.safetensors" for rank in range(2)]
        assert result["at once"] == (result["files"] if pair else [])
        assert result["report"]["feedback"] == "ef14"
        elements = 33 * 300 + 300 + 300 * 65 + 65 + 65 * 3 + 3
        # The uplink's memory of all values and about half of the downlink's, each twice.
        assert 8 * elements < result["report"]["memory_bytes"] < 16 * elements
        assert "feedback    ef14, 0." in result["text"]


def total(folder: Path, side: str, ranks: int) -> dict[str, tuple[np.ndarray, int]]:
    """Sums over all ranks that have a memory, and how many those are."""
    sums: dict[str, tuple[np.ndarray, int]] = {}
    for rank in range(ranks):
        arrays = package.load_file(folder / f"rank-{rank}-of-{ranks}.safetensors")
        for key, array in arrays.items():
            if key.startswith(side):
                known, holders = sums.get(key, (np.zeros(array.shape), 0))
                sums[key] = known + array, holders + 1
    return sums


@pytest.mark.parametrize(
    ("method", "collective"),
    [
        ("ef14:momentum=0.9", "sharded"),
        ("ef21", "sharded"),
        pytest.param("ef21", "gather", marks=pytest.mark.soak),
        pytest.param("ef14", "star", marks=pytest.mark.soak),
    ],
)
def test_another_number_of_ranks_shares_out_what_was_kept(
    launcher: Launcher, tmp_path: Path, method: str, collective: str
) -> None:
    chosen = {"uplink": "natural:coder=rans", "feedback": method, "collective": collective}
    before, ranks = tmp_path / "first", 2
    launcher.results("saved", 2, run=chosen, folder=str(before))
    for now in (4, 2):
        results = launcher.results(
            "saved", now, run=chosen, folder=str(tmp_path / str(now)), from_=str(before), steps=1
        )
        assert {result["step"] for result in results} == {4}
        assert len({result["final"] for result in results}) == 1
        folder = tmp_path / str(now) / "taken"
        was, shared = total(before, "worker", ranks), total(folder, "worker", now)
        assert was.keys() == shared.keys() != set()
        for key, (array, _) in was.items():
            assert shared[key][1] == now
            factors = np.full((len(array), 1), now / ranks)  # of sums whose means are kept
            if method.startswith("ef14"):
                factors[0] = 1
            lost = np.linalg.norm(shared[key][0] - factors * array)
            assert lost <= 1e-6 * np.linalg.norm(factors * array)
            assert np.linalg.norm(array[0]) > 0
        for side in ("mean", "master"):
            was, shared = (total(*each) for each in ((before, side, ranks), (folder, side, now)))
            for key, (array, copies) in was.items():
                # Everyone has it until the next step tells who the owner is.
                assert shared[key][1] == now
                assert np.allclose(shared[key][0] / now, array / copies, rtol=1e-6, atol=0)
            assert was.keys() == shared.keys()
        before, ranks = folder, now
