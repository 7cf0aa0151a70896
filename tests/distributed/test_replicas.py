"""Every rank ends every step with the same bits, whatever threads and buckets there are."""

from typing import Any

import pytest
from launch import Launcher

import cases
from fewbits import registry

SETTINGS: dict[str, dict[str, Any]] = {
    "one thread by torch": {"threads": None, "inner": 1},
    "OMP=1": {"threads": "1", "inner": None},
    "OMP=2": {"threads": "2", "inner": None},
    "mixed": {"threads": ["1", "2", None, "2"], "inner": None},
}
OPERATORS = (
    "identity",
    "float16",
    "bfloat16",
    "natural",
    "natural:rounding=nearest",
    "natural:coder=rans",
)
# With OPERATORS: every operator, every stage, and every way in which one of them can draw or scale.
OTHERS = (
    "natural-dithering",
    "standard-dithering:p=2,block=64,scale=natural,coder=rans",
    "sparse-dithering:scale=least-squares",
    "sparse-dithering:rounding=stochastic,coder=paper,block=512",
    "sparse-dithering:rounding=subtractive",
    "spherical",
    "sign:block=1024",
    "top-k:fraction=0.25|natural",
    "hadamard:block=64|rand-k:fraction=0.5|natural",
    "hadamard:signs=private|sparse-dithering:scale=matched",
)
REST = cases.others(*OPERATORS, *OTHERS)  # those that have come since


def check(
    launcher: Launcher,
    world: int,
    setting: str,
    operators: tuple[str, ...] = OPERATORS,
    **options: Any,
) -> None:
    """All ranks' digests are equal at every checkpoint and differ from one to the next."""
    chosen = SETTINGS[setting]
    runs = [
        (uplink, collective) for uplink in operators for collective in ("sharded", "star", "gather")
    ]
    threads = chosen["threads"]
    results = launcher.run(
        "replicas",
        world,
        threads=threads[:world] if isinstance(threads, list) else threads,
        runs=runs,
        **options,
        deadline=1200.0,
        **({"inner": chosen["inner"]} if chosen["inner"] else {}),
    )
    for outcome in results:
        assert outcome.status == 0, outcome
        assert outcome.result == results[0].result
    digests = results[0].result
    assert len(digests) == len(runs)
    for uplink in operators:
        # Division by a power of two commutes with every operator, so the downlink may do it or not;
        # but not with a cast whose smallest numbers are as large as some of the gradient's.
        commutes = uplink != "float16"
        assert (digests[f"{uplink} star"] == digests[f"{uplink} sharded"]) == commutes
        assert (digests[f"{uplink} gather"] == digests[f"{uplink} star"]) == (uplink == "identity")
        plain = uplink.removesuffix(":coder=rans")  # a coder loses nothing
        assert digests[f"{uplink} gather"] == digests[f"{plain} gather"]
    seen = {digest for run in digests.values() for digest in run}
    checkpoints = options["steps"] // options.get("every", 1)
    maps = {uplink.removesuffix(":coder=rans") for uplink in operators}
    kinds = 2 * len(maps) - ("identity" in maps) + ("float16" in maps)
    assert len(seen) == kinds * checkpoints


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("world", [2, 4])
def test_replicas_stay_identical(launcher: Launcher, world: int, setting: str) -> None:
    check(launcher, world, setting, steps=2)  # 8 times 15 runs: 240 steps in all


@pytest.mark.parametrize("world", [2, pytest.param(4, marks=pytest.mark.soak)])
def test_replicas_stay_identical_with_every_other_operator(launcher: Launcher, world: int) -> None:
    check(launcher, world, "mixed", (*OTHERS, *REST), steps=2)


def test_no_operator_is_without_a_test_of_its_replicas() -> None:
    used = {
        part.partition(":")[0] for spec in (*OPERATORS, *OTHERS, *REST) for part in spec.split("|")
    }
    assert used == registry.catalogue().by_name.keys() | registry.catalogue().stages.keys()


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_replicas_stay_identical_with_an_optimizer_that_has_state(
    launcher: Launcher, optimizer: str
) -> None:
    check(launcher, 2, "mixed", steps=2, optimizer=optimizer)


@pytest.mark.soak
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("world", [2, 4])
def test_replicas_stay_identical_for_a_thousand_steps(
    launcher: Launcher, world: int, setting: str
) -> None:
    check(launcher, world, setting, steps=1000, every=50)


def test_bucket_sizes_and_threads_do_not_change_a_bit(launcher: Launcher) -> None:
    finals = set()
    for megabytes, threads in ((25, 1), (1, 2), (0.05, 3), (0.05, 1)):
        results = launcher.results(
            "train",
            steps=3,
            model={"wide": 2500, "bucket_cap_mb": megabytes},
            compression={"uplink": "natural", "seed": 5, "threads": threads},
        )
        finals |= {result["final"] for result in results}
    assert len(finals) == 1


def test_the_seed_decides_the_run(launcher: Launcher) -> None:
    finals = [
        launcher.results("train", compression={"uplink": "natural", "seed": seed})[0]["final"]
        for seed in (1, 1, 2)
    ]
    assert finals[0] == finals[1] != finals[2]


def test_tables_of_kernels_may_differ_between_ranks(launcher: Launcher, simd: str) -> None:
    results = launcher.results("train", compression={}, simd=[simd, "portable"])
    assert results[0]["final"] == results[1]["final"]
