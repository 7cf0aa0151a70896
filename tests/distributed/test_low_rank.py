"""Training whose matrices travel as factors: replicas, resumption, and what is not finite."""

from pathlib import Path

import pytest
from launch import Launcher
from test_replicas import SETTINGS
from test_resume import BUCKETS, check, run, total

LOW_RANK = "low-rank:rank=4|sparse-dithering"
RUNS = [(LOW_RANK, "sharded"), ("low-rank:rank=2|natural:coder=rans", "gather")]


def replicas(launcher: Launcher, world: int, setting: str, steps: int, every: int = 1) -> None:
    """All ranks' digests are equal after each step, and change from one to the next."""
    chosen = SETTINGS[setting]
    threads = chosen["threads"]
    results = launcher.run(
        "replicas",
        world,
        threads=threads[:world] if isinstance(threads, list) else threads,
        runs=RUNS,
        steps=steps,
        every=every,
        deadline=1200.0,
        **({"inner": chosen["inner"]} if chosen["inner"] else {}),
    )
    for outcome in results:
        assert outcome.status == 0, outcome
        assert outcome.result == results[0].result
    seen = {digest for digests in results[0].result.values() for digest in digests}
    assert len(seen) == len(RUNS) * (steps // every)


@pytest.mark.parametrize(("world", "setting"), [*zip((2, 4, 2, 4), SETTINGS, strict=True)])
def test_replicas_stay_identical(launcher: Launcher, world: int, setting: str) -> None:
    replicas(launcher, world, setting, steps=3)


@pytest.mark.soak
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("world", [2, 4])
def test_replicas_stay_identical_for_a_thousand_steps(
    launcher: Launcher, world: int, setting: str
) -> None:
    replicas(launcher, world, setting, steps=1000, every=50)


def test_replicas_of_many_ranks_average_shares(launcher: Launcher) -> None:
    """Beyond two ranks every rank averages a share, and encodes it once more: here of five."""
    replicas(launcher, 5, "OMP=1", steps=3)


def test_bucket_sizes_and_threads_do_not_change_a_bit(launcher: Launcher) -> None:
    finals = set()
    for megabytes, threads in ((25, 1), (1, 2), (0.05, 3)):
        results = launcher.results(
            "train",
            steps=3,
            model={"wide": 2500, "bucket_cap_mb": megabytes},
            compression={"uplink": LOW_RANK, "policy": "default", "threads": threads},
        )
        finals |= {result["final"] for result in results}
    assert len(finals) == 1


KILLED = [run("none", LOW_RANK, "sharded", bucket) | {"feedback": None} for bucket in BUCKETS]


def test_a_killed_run_ends_as_if_it_had_not_been(launcher: Launcher, tmp_path: Path) -> None:
    check(launcher, tmp_path, KILLED, seed=7, steps=12)


@pytest.mark.soak
def test_any_killed_run_ends_as_if_it_had_not_been(launcher: Launcher, tmp_path: Path) -> None:
    check(launcher, tmp_path, KILLED, seed=11, steps=60)


def test_another_number_of_ranks_keeps_the_sum_of_memories(
    launcher: Launcher, tmp_path: Path
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    own = KILLED[0]
    launcher.results("saved", 4, run=own, folder=str(before))
    results = launcher.results("saved", 3, run=own, folder=str(after), from_=str(before))
    assert len({result["final"] for result in results}) == 1
    kept, taken = total(before, "worker/", 4), total(after / "taken", "worker/", 3)
    assert kept.keys() == taken.keys()
    for key, (array, holders) in kept.items():
        assert holders == 4
        assert abs(array - taken[key][0]).max() < 1e-5 * abs(array).max()
