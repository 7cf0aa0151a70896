"""Replicas of shards (HSDP) and parameters on several meshes: results, bytes, states and faults."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hsdp import WAYS
from launch import Launcher
from raised import check_raised, others

GATE = ["accumulation of shards", "another divisor", "no shards"]
FORMATS = {"bfloat16": 0.02, "float16": 0.02}  # sums in 16 bits differ by more than their order


@pytest.mark.parametrize(
    "names",
    [GATE, pytest.param([name for name in WAYS if name not in GATE], marks=pytest.mark.soak)],
    ids=["gate", "others"],
)
def test_replicas_train_as_without_compression(launcher: Launcher, names: list[str]) -> None:
    uplinks = [{"uplink": "identity"}, {"uplink": "natural"}]
    results = launcher.results(
        "hsdp ways", 4, names=names, compressions=[None, *uplinks], deadline=240.0
    )
    for name in names:
        told = [result[name] for result in results]
        for plain, exact, lossy in told:
            assert exact["losses"] == pytest.approx(plain["losses"], rel=FORMATS.get(name, 1e-5)), (
                name
            )
            assert lossy["losses"][-1] != exact["losses"][-1]
            assert lossy["losses"][-1] < 1.2 * plain["losses"][-1]
        shards = {"no shards": 1, "no replicas": 4}.get(name, 2)
        for number in range(3):
            assert len({runs[number]["final"] for runs in told}) == shards, name


@pytest.mark.parametrize(
    ("spec", "least"), [("natural", 3.4), ("natural:coder=rans", 7.0)], ids=["natural", "rans"]
)
def test_only_what_replicas_exchange_is_compressed(
    launcher: Launcher, spec: str, least: float
) -> None:
    results = launcher.results("hsdp bytes", 4, compression={"uplink": spec})
    for result in results:
        report = result["report"]
        assert report["nodes"] == 2
        assert report["ratio"] > least
        # Each rank sends half of its gradient to the other shard of its replica, uncompressed.
        assert report["inside_bytes"] > 0.48 * 4 * report["elements"] * report["steps"]
        assert "MB in this rank's replica, uncompressed" in result["text"]
        assert "to the other replica" in result["text"]


def test_the_shard_dimension_is_compressed_too_if_wanted(launcher: Launcher) -> None:
    both = {"uplink": "natural", "inside": "natural"}
    results = launcher.results("hsdp bytes", 4, compression=both)
    for result in results:
        report = result["report"]
        assert report["ratio"] > 3.4
        assert report["inside_bytes"] < 0.2 * 4 * report["elements"] * report["steps"]


def test_parameters_may_be_gathered_in_bfloat16(launcher: Launcher) -> None:
    gathered = [
        launcher.results("hsdp bytes", 4, compression={"uplink": "natural", "gather": gather})
        for gather in (None, "bfloat16")
    ]
    for wide, narrow in zip(*gathered, strict=True):
        assert wide["report"]["gathered_bytes"] == 2 * narrow["report"]["gathered_bytes"]
        assert narrow["losses"] == pytest.approx(wide["losses"], rel=0.02)
        assert narrow["losses"] != wide["losses"]


def test_parameters_may_lie_on_several_meshes(launcher: Launcher) -> None:
    names = ["apart", "beside replicas", "within", "overlapping"]
    results = launcher.results("hsdp meshes", 4, names=names, uplinks=[None, "identity", "natural"])
    for result in results:
        for name in names[:-1]:
            plain, exact, lossy = result[name]
            assert exact == pytest.approx(plain, rel=1e-4, abs=1e-4), name
            assert lossy != exact
            assert lossy == pytest.approx(plain, rel=0.2, abs=0.2)
        for error in result["overlapping"][1:]:
            assert "attach needs one mesh that has the ranks of all others" in error


def test_what_meshes_cannot_have_is_refused(launcher: Launcher) -> None:
    for result in launcher.results("hsdp refused", 4):
        assert "inside= is for replicas of shards" in result["inside alone"]
        assert "is biased and has no memory" in result["biased inside"]
        assert "staged=True" in result["stream"]
        assert "gather must be 'bfloat16'" in result["gather"]
        assert "set_all_reduce_hook" in result["hook"]


RESUMED = [
    {"uplink": "top-k:fraction=0.02|natural", "feedback": "ef14:momentum=0.9"},
    {"uplink": "natural:coder=rans", "feedback": "ef21"},
    {"uplink": "natural"},
]


def test_a_resumed_run_of_replicas_ends_with_the_same_bits(
    launcher: Launcher, tmp_path: Path
) -> None:
    pytest.importorskip("safetensors")
    results = launcher.results(
        "sharded resumed", 4, compressions=RESUMED, folder=str(tmp_path), replicas=2, deadline=120.0
    )
    for result in results:
        for number, (whole, again) in enumerate(result["ends"]):
            assert whole == again, RESUMED[number]
            assert whole[2] == 6


def _saved(
    launcher: Launcher, folder: Path, feedback: str, runs: Sequence[tuple[tuple[int, ...], bool]]
) -> list[list[dict[str, Any]]]:
    compression = {"uplink": "top-k:fraction=0.02|natural", "feedback": feedback}
    return [
        launcher.results(
            "hsdp saved",
            shape[0] * (shape[1] if len(shape) > 1 else 1),
            folder=str(folder), shape=shape, there=there, compression=compression, deadline=120.0,
        )
        for shape, there in runs
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second", "feedback"),
    [
        ((2, 2), (2, 1), "ef14"),
        pytest.param((4,), (2,), "ef14", marks=pytest.mark.soak),
        pytest.param((4,), (2,), "ef21", marks=pytest.mark.soak),
        pytest.param((2, 2), (2, 1), "ef21", marks=pytest.mark.soak),
        pytest.param((2, 1), (2, 2), "ef14:momentum=0.9", marks=pytest.mark.soak),
        pytest.param((4, 1), (2, 2), "ef14", marks=pytest.mark.soak),
    ],
)
def test_torch_saves_the_state_and_reshards_it(
    launcher: Launcher,
    tmp_path: Path,
    first: tuple[int, ...],
    second: tuple[int, ...],
    feedback: str,
) -> None:
    runs = [(first, True), (first, False), (second, False)]
    whole, again, fewer = _saved(launcher, tmp_path, feedback, runs)
    assert [result["final"] for result in whole] == [result["final"] for result in again]
    senders = [shape[0] for shape in (first, second)]
    for result in fewer:
        assert (result["step"], result["after"]) == (3, 5)
        assert result["weights"] == whole[0]["weights"]
        errors = whole[0]["errors"]
        assert any(errors.values())
        for name, error in errors.items():
            # Errors keep their sum. Shifts and momenta keep their mean over senders.
            factor = 1.0
            if feedback == "ef21" and name.startswith("worker"):
                factor = senders[1] / senders[0]
            if feedback != "ef14:momentum=0.9":
                assert result["errors"][name] == pytest.approx(error * factor, rel=1e-4, abs=1e-5)


def test_a_killed_rank_is_an_error_in_all_replicas(launcher: Launcher) -> None:
    outcomes = launcher.run(
        "sharded fail", 4, place="between replicas", deed="kill", hurry=False, replicas=2
    )
    assert outcomes[1].status == -9
    check_raised(others(outcomes), "PeerError", 2.0, naming="rank 1:")


def test_what_fails_on_one_rank_fails_in_all_replicas(launcher: Launcher) -> None:
    outcomes = launcher.run(
        "sharded fail", 4, place="between replicas", deed="memory", hurry=False, replicas=2
    )
    check_raised(outcomes[1:2], "MemoryError", 2.0, naming="")
    check_raised(others(outcomes), "PeerError", 10.0, naming="rank 1")
