"""Ranks in nodes over gloo: bits, bytes and reports, resumed runs, and every kind of fault."""

from pathlib import Path
from typing import Any

import pytest
from launch import Launcher
from raised import SLACK, check_raised, check_stopped, others
from test_resume import FIXED, VARYING, check, run

TWO_BY_TWO = {"nodes": 2}


def soak_places(*places: str) -> list[Any]:
    return [pytest.param(place, marks=pytest.mark.soak) for place in places]


def finals(launcher: Launcher, world: int, nodes: int | None, **options: Any) -> set[str]:
    """The parameters that ranks end with."""
    compression = {"uplink": "natural"} | ({} if nodes is None else {"nodes": nodes}) | options
    results = launcher.results("train", world, compression=compression)
    return {result["final"] for result in results}


def test_groups_may_be_named_in_three_ways(launcher: Launcher) -> None:
    names = ["mesh", "group", "ranks"]
    results = launcher.results("grouped", 4, runs=names)
    assert len({result[name] for result in results for name in names}) == 1
    for result in results:
        report = result["report mesh"]
        assert report["nodes"] == 2
        assert report["inside_bytes"] > 0
        assert "MB in this rank's node, uncompressed" in result["text mesh"]
        assert "headers to the other node" in result["text mesh"]
    # Without compression a node would send the model once, in 32 bits a value and not in 9.
    plain, sent = (
        sum(result["report mesh"][name] for result in results)
        for name in ("plain_bytes", "payload_bytes")
    )
    assert 3.5 < plain / sent < 32 / 9 + 0.01


def test_auto_chooses_the_axis_too(launcher: Launcher) -> None:
    results = launcher.results("chosen", 4, steps=130)
    assert len({result["final"] for result in results}) == 1
    for result in results:
        tried = {each["name"]: each for each in result["decision"]["choices"]}
        specs = ["bfloat16", "natural", "natural:coder=rans", "two-bit"]
        assert list(tried) == ["none", *(f"{s}{w}" for s in specs for w in ("", " between nodes"))]
        for name in ("natural", "natural between nodes"):  # measured, or ruled out by the model
            assert (tried[name]["measured"] is None) == (tried[name]["predicted"] is not None)
        assert result["decision"]["chosen"] in tried
        assert result["decision"] == results[0]["decision"]


def test_nodes_of_one_rank_are_a_flat_group_and_one_node_is_exact(launcher: Launcher) -> None:
    assert finals(launcher, 2, 2) == finals(launcher, 2, None)
    exact = finals(launcher, 2, None, uplink="identity")
    assert finals(launcher, 2, 1) == exact
    assert len(exact) == 1
    assert finals(launcher, 2, None) != exact


@pytest.mark.parametrize("uplink", ["natural:coder=rans", "tiny"])
def test_threads_and_buckets_change_no_bit(launcher: Launcher, uplink: str) -> None:
    ends: set[str] = set()
    for bucket, threads in ((25, 1), (0.05, 2)):
        results = launcher.results(
            "train",
            4,
            model={"bucket_cap_mb": bucket, "wide": 1100},
            compression={"uplink": uplink, "nodes": 2, "threads": threads},
            steps=4,
        )
        ends |= {result["final"] for result in results}
    assert len(ends) == 1


def test_a_killed_run_of_nodes_ends_as_if_it_had_not_been(
    launcher: Launcher, tmp_path: Path
) -> None:
    runs = [
        run("ef14:momentum=0.9", FIXED, "sharded", 0.3, **TWO_BY_TWO),
        run("ef21", VARYING, "sharded", 1, **TWO_BY_TWO),
    ]
    check(launcher, tmp_path, runs, seed=7, steps=12, world=4)


@pytest.mark.parametrize(
    "place", ["payload", "second hop", *soak_places("hook", "encode", "next bucket", "commit")]
)
def test_a_killed_rank_is_an_error_in_all_nodes(launcher: Launcher, place: str) -> None:
    outcomes = launcher.run("fail", 4, place=place, deed="kill", hurry=False, options=TWO_BY_TWO)
    assert outcomes[1].status == -9
    check_raised(others(outcomes), "PeerError", 2.0, naming="rank 1:", steps=None)


def test_a_killed_node_is_an_error_in_the_other_one(launcher: Launcher) -> None:
    outcomes = launcher.run(
        "lose", 4, culprits=[2, 3], place="encode", deed="kill", hurry=False, options=TWO_BY_TWO
    )
    assert [outcome.status for outcome in outcomes[2:]] == [-9, -9]
    check_raised(outcomes[:2], "PeerError", 2.0, naming="its connection closed", steps=None)


def test_a_stopped_rank_is_named_in_all_nodes(launcher: Launcher) -> None:
    outcomes = launcher.run(
        "fail", 4, place="hook", deed="stop", timeout=5.0, hurry=False, options=TWO_BY_TWO
    )
    check_stopped(outcomes, 5.0)


@pytest.mark.parametrize(
    ("place", "deed", "error"),
    [("encode", "memory", "MemoryError"), ("prepare", "raise", "ZeroDivisionError")],
)
def test_what_fails_on_one_rank_fails_in_all_nodes(
    launcher: Launcher, place: str, deed: str, error: str
) -> None:
    outcomes = launcher.run("fail", 4, place=place, deed=deed, options=TWO_BY_TWO)
    check_raised([outcomes[1]], error, SLACK, naming="", steps=None)
    check_raised(others(outcomes), "PeerError", SLACK, naming=f"rank 1 failed at step 4: {error}")


def test_nan_on_one_rank_is_told_in_all_nodes(launcher: Launcher) -> None:
    outcomes = launcher.run("poison", 4, options=TWO_BY_TWO)
    check_raised(outcomes, "EncodeError", SLACK, naming="rank 1 at step 4")


@pytest.mark.parametrize("how", ["nonfinite", "skip", "weights"])
def test_a_rank_astray_is_a_disagreement_in_all_nodes(launcher: Launcher, how: str) -> None:
    outcomes = launcher.run("stray", 4, how=how, more=TWO_BY_TWO)
    check_raised(outcomes, "DisagreementError", SLACK, naming="rank", steps=None)


REFUSED = {
    "whole mesh": ("SpecError", "a mesh of 2 dimensions (node, place)"),
    "other group": (None, "a group that this rank is not in"),
    "on one rank only": ("DisagreementError", "across: "),
    "sizes": ("SpecError", "different sizes, 0+1+2/3"),
    "not alike": ("SpecError", "pass each rank its own group across nodes"),
    "unknown rank": (None, "ranks [7] of across= are not in the model's process group"),
    "word": (None, "across= is 'node'"),
    "star": ("SpecError", "across= has a collective of its own"),
    "stream": ("SpecError", "across= sums inside a node on the host"),
}
OPTIONS = {
    "star": {"collective": "star"},
    "stream": {"device": "interpreted"},
}


def test_what_is_no_arrangement_is_refused_on_all_ranks(launcher: Launcher) -> None:
    for rank, result in enumerate(launcher.results("misplaced", 4, options=OPTIONS)):
        for how, (error, text) in REFUSED.items():
            kind, message = result[how]
            # A rank that finds nothing wrong itself is told of the fault of another one.
            assert kind in ({"SpecError", "PeerError"} if error is None else {error}), (rank, how)
            assert text in message, (rank, how, message)
