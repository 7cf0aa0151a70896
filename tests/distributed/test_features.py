"""What DDP offers works with compression as it does without."""

from typing import Any

import pytest
from launch import Launcher

import fewbits
from fewbits import presets
from fewbits.collectives.header import SIZE
from fewbits.collectives.payload import UNIT
from fewbits.presets import PRESETS
from fewbits.reference.formats import BY_NAME, FLOAT32, FLOAT64
from fewbits.session import auto

FEATURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "several buckets": {"model": {"bucket_cap_mb": 0.05}},
    "no_sync and accumulation": {"accumulate": 3},
    "join": {"uneven": True, "steps": 5},
    "join of several buckets": {"uneven": True, "steps": 5, "model": {"bucket_cap_mb": 0.05}},
    "unused, frozen, empty and scalar parameters": {
        "model": {"kind": "odd", "find_unused_parameters": True}
    },
    "static graph": {"model": {"static_graph": True, "bucket_cap_mb": 0.05}},
    "gradients as views of buckets": {
        "model": {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.05}
    },
    "views, accumulation": {"model": {"gradient_as_bucket_view": True}, "accumulate": 2},
    "float64": {"model": {"dtype": "float64"}},
    "bfloat16": {"model": {"dtype": "bfloat16"}},
    "float16": {"model": {"dtype": "float16"}},
    "mixed dtypes": {"model": {"dtype": "mixed"}},
}


@pytest.mark.parametrize("feature", FEATURES)
def test_the_identity_gives_the_bits_of_plain_ddp(launcher: Launcher, feature: str) -> None:
    # Two ranks: halving is exact and a + b = b + a, so the order of sum and division is no matter.
    plain = launcher.results("train", **FEATURES[feature])
    exact = launcher.results("train", compression={"uplink": "identity"}, **FEATURES[feature])
    lossy = launcher.results("train", compression={"uplink": "natural"}, **FEATURES[feature])
    assert {result["final"] for result in exact} == {plain[0]["final"]}
    assert [result["losses"] for result in exact] == [result["losses"] for result in plain]
    assert lossy[0]["final"] == lossy[1]["final"] != plain[0]["final"]
    assert lossy[0]["report"]["ratio"] > 0


@pytest.mark.parametrize(
    "feature",
    ["views, accumulation", "mixed dtypes", pytest.param("float16", marks=pytest.mark.soak)],
)
def test_auto_begins_with_the_bits_of_plain_ddp(launcher: Launcher, feature: str) -> None:
    plain = launcher.results("train", **FEATURES[feature])
    tried = launcher.results("train", compression={"uplink": "auto"}, **FEATURES[feature])
    assert {result["final"] for result in tried} == {plain[0]["final"]}
    assert {result["report"]["trying"] for result in tried} == {"none"}


@pytest.mark.parametrize("world", [2, 4])
def test_auto_decides_the_same_on_all_ranks(launcher: Launcher, world: int) -> None:
    candidates = 1 + len((*presets.EVERYDAY, presets.SLOW_LINK))
    # Where none is the slowest for certain, each is tried twice.
    steps = auto.SETTLE + 2 * candidates * (auto.WARM + auto.TIMED_STEPS)
    results = launcher.results("train", world, compression={"uplink": "auto"}, steps=steps)
    assert len({result["final"] for result in results}) == 1
    decisions = [result["report"]["decision"] for result in results]
    assert decisions[0] is not None
    assert decisions == decisions[:1] * world
    assert results[0]["report"]["trying"] is None


@pytest.mark.parametrize("collective", ["sharded", "star", "gather"])
@pytest.mark.parametrize("world", [3, 5])
def test_other_worlds_and_schemes_train(launcher: Launcher, collective: str, world: int) -> None:
    plain = launcher.results("train", world, steps=3)
    exact = launcher.results(
        "train", world, steps=3, compression={"uplink": "identity", "collective": collective}
    )
    lossy = launcher.results(
        "train", world, steps=3, compression={"uplink": "natural", "collective": collective}
    )
    for results in (exact, lossy):
        assert len({result["final"] for result in results}) == 1
    # Only the order of the sums differs: a few units in the last place of float32 after 3 steps.
    for a, b in zip(exact, plain, strict=True):
        assert a["losses"] == pytest.approx(b["losses"], rel=1e-5)
    assert lossy[0]["final"] != exact[0]["final"]


def test_one_rank_trains_as_without(launcher: Launcher) -> None:
    (plain,) = launcher.results("train", 1)
    (alone,) = launcher.results("train", 1, compression={"uplink": "natural"})
    assert alone["final"] == plain["final"]
    assert alone["report"]["payload_bytes"] == 0
    assert "one rank" in alone["text"]


MANY = {
    "float32": ([0, 1, 7, 3001], ["float32"] * 4),
    "all dtypes": ([5, 1, 7, 3001, 2], ["float16", "float64", "bfloat16", "float32", "bfloat16"]),
    "empty only": ([0, 3], ["float64", "float32"]),
}


@pytest.mark.parametrize("collective", ["sharded", "star", "gather"])
@pytest.mark.parametrize("sizes", MANY)
def test_means_are_those_in_rank_order(launcher: Launcher, collective: str, sizes: str) -> None:
    options = {"sizes": MANY[sizes][0], "dtypes": MANY[sizes][1], "collective": collective}
    exact = launcher.results("means", 3, uplink="identity", **options)
    lossy = launcher.results("means", 3, uplink="natural", **options)
    assert all(result["exact"] for result in exact)
    assert not any(result["exact"] for result in lossy)
    for results in (exact, lossy):
        assert len({result["digest"] for result in results}) == 1
        assert all(result["finite"] for result in results)


def test_the_pair_of_state_and_hook_works_without_names(launcher: Launcher) -> None:
    plain = launcher.results("train", model={"bucket_cap_mb": 0.05})
    for uplink in ("identity", "natural"):
        pair = launcher.results(
            "train", model={"bucket_cap_mb": 0.05}, compression={"uplink": uplink}, pair=True
        )
        assert pair[0]["final"] == pair[1]["final"]
        assert (pair[0]["final"] == plain[0]["final"]) == (uplink == "identity")


def test_the_pair_gives_the_same_bits_for_every_bucket_size(launcher: Launcher) -> None:
    finals = {
        launcher.results(
            "train",
            model={"bucket_cap_mb": megabytes},
            compression={"uplink": "natural"},
            pair=True,
        )[0]["final"]
        for megabytes in (25, 0.05)
    }
    assert len(finals) == 1


def test_one_direction_only(launcher: Launcher) -> None:
    both = launcher.results("train", compression={"uplink": "natural"})
    there = launcher.results("train", compression={"uplink": "natural", "downlink": "identity"})
    back = launcher.results("train", compression={"uplink": "identity", "downlink": "natural"})
    finals = [results[0]["final"] for results in (both, there, back)]
    assert len(set(finals)) == 3
    for results in (both, there, back):
        assert results[0]["final"] == results[1]["final"]
    sent = [
        sum(result["report"]["payload_bytes"] for result in results)
        for results in (both, there, back)
    ]
    assert sent[0] < sent[1] == sent[2]


@pytest.mark.parametrize("collective", ["sharded", "star", "gather"])
def test_entropy_coding_changes_the_bytes_and_nothing_else(
    launcher: Launcher, collective: str
) -> None:
    results = {
        spec: launcher.results(
            "train",
            3,
            steps=6,
            model={"wide": 1100},
            compression={"uplink": spec, "collective": collective},
        )
        for spec in ("natural", "natural:coder=rans")
    }
    assert len({own["final"] for per_spec in results.values() for own in per_spec}) == 1
    packed, coded = (
        sum(own["report"]["payload_bytes"] for own in per_spec) for per_spec in results.values()
    )
    assert coded < 0.7 * packed


@pytest.mark.parametrize(("preset", "bits"), [("one-bit", 1.0), ("two-bit", 2.0)])
@pytest.mark.parametrize("world", [2, 3])
def test_a_preset_sends_the_bits_of_its_name_and_keeps_replicas_equal(
    launcher: Launcher, world: int, preset: str, bits: float
) -> None:
    """Gradients are more peaked than a Gaussian, so they take fewer bits, never more."""
    spelt = {"uplink": PRESETS[preset].operator, "policy": "default"}
    runs = [
        launcher.results("train", world, steps=4, model={"wide": 1100}, compression=own)
        for own in ({"uplink": preset, "policy": "default"}, spelt)
    ]
    assert len({own["final"] for results in runs for own in results}) == 1
    reports = [own["report"] for own in runs[0]]
    large, small = 33 * 1100 + 1100 * 65, 1100 + 65 + 65 * 3 + 3
    assert {own["compressed_elements"] for own in reports} == {large}
    ways = 4 * 2 * (world - 1)  # steps, and the ways of every value
    coded = sum(own["payload_bytes"] for own in reports) - 4 * ways * small
    assert 0.5 * bits < 8 * coded / (ways * large) < 1.05 * bits


SPECS = [
    ("natural", "natural", "float32"),
    ("natural", "identity", "bfloat16"),
    ("float16", "natural", "float64"),
]


@pytest.mark.parametrize("collective", ["sharded", "star", "gather"])
@pytest.mark.parametrize(("uplink", "downlink", "dtype"), SPECS)
def test_the_report_counts_the_bytes_of_the_layout(
    launcher: Launcher, collective: str, uplink: str, downlink: str, dtype: str
) -> None:
    world, steps = 3, 2
    results = launcher.results(
        "train",
        world,
        steps=steps,
        model={"dtype": dtype, "wide": 1100},
        compression={"uplink": uplink, "downlink": downlink, "collective": collective},
    )
    format = BY_NAME[dtype]
    total = FLOAT64 if format == FLOAT64 else FLOAT32
    there = back = elements = 0
    for size in (33 * 1100, 1100, 1100 * 65, 65, 65 * 3, 3):
        elements += size
        for at in range(0, size, UNIT):
            count = min(UNIT, size - at)
            there += sum(s.size for s in fewbits.operator(uplink).layout(count, format))
            back += sum(s.size for s in fewbits.operator(downlink).layout(count, total))
    reports = [result["report"] for result in results]
    hops = 1 if collective == "gather" else 2
    expected = world * there if collective == "gather" else there + back
    assert sum(r["payload_bytes"] for r in reports) == steps * (world - 1) * expected
    for report in reports:
        assert report["header_bytes"] == steps * (world - 1) * SIZE * (hops + 1)
        plain = 2 * (world - 1) * elements * format.itemsize // world
        assert report["plain_bytes"] == steps * plain
        assert (report["steps"], report["ranks"]) == (steps, world)
        assert report["elements"] == report["compressed_elements"] == elements


def test_the_default_policy_compresses_large_matrices_only(launcher: Launcher) -> None:
    result = launcher.results("train", compression={"uplink": "natural", "policy": "default"})[0]
    report = result["report"]
    assert report["compressed_elements"] == 257 * 65
    assert report["exact"] == {
        "one-dimensional": 257 + 65 + 3,
        "under 16384 elements": 33 * 257 + 65 * 3,
    }
    assert "uplink natural, downlink natural" in result["text"]


def test_a_step_leaves_global_random_generators_alone(launcher: Launcher) -> None:
    for result in launcher.results("globals_kept"):
        assert result["kept"] == [True, True, True]


def test_two_models_in_one_process_do_not_meet(launcher: Launcher) -> None:
    together = launcher.results("several", together=True)
    apart = launcher.results("several", together=False)
    assert together[0] == together[1] == apart[0] == apart[1]


@pytest.mark.parametrize("group", [None, [0, 2]], ids=["all ranks", "some ranks"])
def test_closing_ends_and_attaching_begins_anew(
    launcher: Launcher, group: list[int] | None
) -> None:
    world = 2 if group is None else 3
    finals = {}
    for how in ("never", "same", "new", "twice"):
        results = launcher.results("again", world, how=how, group=group)
        members = [results[rank] for rank in group or range(world)]
        assert len({result["final"][0] for result in members}) == 1
        assert {result["threads"] for result in members} == {1}
        finals[how] = members[0]["final"]
    assert finals["same"] == finals["twice"] == finals["never"] != finals["new"]


@pytest.mark.parametrize("close", [True, False])
def test_a_program_just_ends(launcher: Launcher, close: bool) -> None:
    for outcome in launcher.run("naturally", close=close, hurry=False):
        assert outcome.status == 0, outcome
        assert "Traceback" not in outcome.stderr
