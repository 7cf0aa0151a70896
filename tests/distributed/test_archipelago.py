"""Islands that are DDP or FSDP2 groups: one model, a part of it on each rank's way to its peers."""

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launch import Launcher
from raised import others
from rounds import H

RUNS: list[dict[str, Any]] = [
    {"kind": "ddp", "uplink": "identity"},
    {"kind": "fsdp", "uplink": "identity"},
    {"kind": "ddp", "uplink": "natural", "fragments": H, "delay": 1, "blend": 0.5},
    {"kind": "fsdp", "uplink": "natural", "feedback": "ef14"},
    {"kind": "normed", "uplink": "natural:coder=rans"},
]


def test_islands_are_one_model_and_each_rank_sends_its_part(launcher: Launcher) -> None:
    results = launcher.results("islands_of_ranks", 4, runs=RUNS, steps=2 * H + 1)
    found = []
    for number, run in enumerate(RUNS):
        first, *rest = (result["runs"][number] for result in results)
        for other in rest:
            assert other["digest"] == first["digest"]
            if "blend" not in run:
                assert other["ends"] == first["ends"]
        assert len(first["ends"]) == (2 * H + 1 if "fragments" in run else 2)
        elements = [result["runs"][number]["elements"] for result in results]
        assert elements[:2] == elements[2:]
        assert min(elements) > 0.4 * sum(elements[:2])
        found.append(first)
    ddp, fsdp = (np.array(own["whole"]) for own in found[:2])
    assert np.abs(ddp - fsdp).max() < 1e-5 * np.abs(ddp).max()
    values, rounds = ddp.size, 3
    sent = [result["runs"][0]["sent"] for result in results]
    # Of two islands each sends the whole model there and back once, with all of its ranks.
    assert sum(sent[:2]) + sum(sent[2:]) == 2 * 4 * values * rounds
    last = [result["runs"][-1]["buffers"] for result in results]
    assert last[0] == last[1] == last[2] == last[3]


def test_islands_that_are_saved_and_loaded_go_on_with_the_same_bits(
    launcher: Launcher, tmp_path: Path
) -> None:
    pytest.importorskip("safetensors")
    for run in (RUNS[2], RUNS[3]):
        folder = tmp_path / str(run["kind"])
        pairs = [
            launcher.results("islands_of_ranks", 4, runs=[run], steps=2 * H, **more)
            for more in ({}, {"folder": str(folder)})
        ]
        assert len(list(folder.iterdir())) == 4
        for whole, halved in zip(*pairs, strict=True):
            assert halved["runs"][0]["digest"] == whole["runs"][0]["digest"]


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_a_lost_rank_of_an_island_is_an_error_on_all_others(launcher: Launcher, kind: str) -> None:
    outcomes = launcher.run("lost_of_island", 4, kind=kind, hurry=False)
    assert outcomes[3].status == -signal.SIGKILL
    for outcome in others(outcomes, 3):
        assert outcome.error == "PeerError", outcome
        assert outcome.result["rounds"] == 1
