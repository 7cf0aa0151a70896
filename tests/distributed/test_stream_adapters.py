"""FSDP2 and LocalSGD whose values travel as a stream: the bits of the way through the host."""

import signal
from typing import Any

import pytest
from launch import Launcher
from raised import soak
from rounds import ROUND, H

HOST, DEVICE = "cpu", "interpreted"
LONG = {"timeout": 100.0}  # seconds: kernels are interpreted
SMALL: dict[str, Any] = {"wide": 5, "deadline": 400.0}
DEVICES = [[DEVICE] * 2, [DEVICE, None], [HOST] * 3, [DEVICE, HOST, None]]


@pytest.mark.parametrize(
    ("devices", "uplinks", "steps"),
    [
        ([HOST] * 2, ["natural", "tiny"], 4),
        *soak(DEVICES, [["natural"], ["tiny"]], [20]),
        *soak(DEVICES[:1], [["natural-dithering"], ["bfloat16"], ["identity"]], [4]),
    ],
)
def test_shards(
    launcher: Launcher, devices: list[str | None], uplinks: list[str], steps: int
) -> None:
    ways = [{}, {"devices": devices, **LONG}]
    told = [{"uplink": uplink} | way for uplink in uplinks for way in ways]
    results = launcher.results(
        "sharded runs", len(devices), compressions=told, apart=False, steps=steps, **SMALL
    )
    for result in results:
        runs = result["runs"]
        assert [run["streams"] for run in runs] == [False, True] * len(uplinks)
        assert [run["final"] for run in runs[::2]] == [run["final"] for run in runs[1::2]]
        assert [run["losses"] for run in runs[::2]] == [run["losses"] for run in runs[1::2]]
        assert len({run["final"] for run in runs}) == len(uplinks)
        assert {run["report"]["steps"] for run in runs} == {steps}


@pytest.mark.parametrize(
    ("devices", "run", "rounds"),
    [
        ([HOST] * 2, {"uplink": "natural", "outer": "nesterov", "overlap": True}, 3),
        ([HOST] * 2, {"uplink": "tiny", "nonfinite": "skip", "sick": H + 1}, 3),
        *soak(DEVICES, [{"uplink": uplink} for uplink in ("natural", "tiny")], [20]),
        *soak(
            DEVICES[:2],
            [
                {"uplink": "natural", "outer": "nesterov", "overlap": True},
                {"uplink": "natural", "outer": "sgd", "normed": True},
                {"uplink": "natural", "nonfinite": "skip", "sick": H + 1},
                {"uplink": "natural", "nonfinite": "propagate", "sick": H + 1},
                {"uplink": "natural", "dtype": "bfloat16"},
            ],
            [3],
        ),
    ],
)
def test_rounds(
    launcher: Launcher, devices: list[str | None], run: dict[str, Any], rounds: int
) -> None:
    run = {"wide": 5} | run
    runs = [run, run | {"devices": devices, **LONG}]
    results = launcher.results(
        "train_rounds", len(devices), runs=runs, steps=rounds * H, deadline=SMALL["deadline"]
    )
    for result in results:
        usual, stream = result["runs"]
        assert [usual["streams"], stream["streams"]] == [False, True]
        for name in ("rounds", "final", "skipped", "buffers"):
            assert stream[name] == usual[name], name
        assert stream["report"]["steps"] == usual["report"]["steps"]
    assert len({result["runs"][1]["final"] for result in results}) == 1


@pytest.mark.soak
@pytest.mark.parametrize("device", [HOST, DEVICE])
def test_a_killed_rank(launcher: Launcher, device: str) -> None:
    run = {"wide": 5, "device": device}
    outcomes = launcher.run("lost", 3, place="local", deed="kill", run=run, hurry=False)
    assert outcomes[1].status == -signal.SIGKILL
    for outcome in (outcomes[0], outcomes[2]):
        assert outcome.error == "PeerError", outcome
        assert "lost rank 1" in outcome.message, outcome
        assert outcome.result["rounds"] == ROUND


REFUSED = [
    ({"uplink": "natural:coder=rans"}, "use coder=packed, or run it on the host, with staged=True"),
    ({"uplink": "spherical"}, "use standard-dithering, or run it on the host, with staged=True"),
    ({"uplink": "scale|natural"}, "staged=True"),
]
COLLECTIVE = ({"uplink": "natural", "collective": "star"}, "use 'sharded', or pass staged=True")


@pytest.mark.parametrize(
    ("scenario", "cases"), [("sharded runs", REFUSED), ("train_rounds", [*REFUSED, COLLECTIVE])]
)
def test_what_a_stream_cannot_do_is_refused_in_one_line(
    launcher: Launcher, scenario: str, cases: list[tuple[dict[str, Any], str]]
) -> None:
    for options, expected in cases:
        run = options | {"device": DEVICE}
        arguments: dict[str, Any] = {"runs": [{"wide": 5, **run}], "steps": 1}
        if scenario == "sharded runs":
            arguments = {"compressions": [run], "wide": 5}
        for outcome in launcher.run(scenario, **arguments):
            assert outcome.error == "SpecError", outcome
            assert expected in outcome.message
            assert "\n" not in outcome.message
