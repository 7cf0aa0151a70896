"""Values that travel as a stream: the bits of the flow through the host, and faults in time."""

from typing import Any

import pytest
from launch import Launcher
from raised import check_raised, others, soak
from test_features import FEATURES

HOST, DEVICE = "cpu", "interpreted"
LONG = {"timeout": 100.0}  # seconds: kernels are interpreted
ONE_BUCKET = {"bucket_cap_mb": 1}
OPERATORS = ("natural", "float16", "identity", "natural-dithering", "tiny")


def run(launcher: Launcher, world: int, device: str | None, **arguments: Any) -> list[Any]:
    return launcher.results("streamed", world, devices=[device] * world, **arguments)


def finals(results: list[Any]) -> set[str]:
    return {result["final"] for result in results}


@pytest.mark.parametrize(
    ("world", "uplink"), [(2, "natural"), (3, "tiny"), *soak((2, 3), OPERATORS)]
)
def test_a_stream_gives_the_bits_of_the_flow_through_the_host(
    launcher: Launcher, world: int, uplink: str
) -> None:
    usual = run(launcher, world, None, uplink=uplink)
    stream = run(launcher, world, HOST, uplink=uplink)
    assert len(finals(usual)) == 1
    assert finals(stream) == finals(usual)
    assert [result["streams"] for result in usual + stream] == [False] * world + [True] * world
    assert stream[0]["report"]["steps"] == 20


@pytest.mark.parametrize(
    "options",
    [
        {"uplink": "natural-dithering", "feedback": "diana"},
        pytest.param({"uplink": "natural", "feedback": "ef14"}, marks=pytest.mark.soak),
        pytest.param({"uplink": "natural", "feedback": "ef21"}, marks=pytest.mark.soak),
        pytest.param({"uplink": "natural", "feedback": "ef-bv"}, marks=pytest.mark.soak),
        pytest.param(
            {"uplink": "top-k:fraction=0.1|natural", "feedback": "ef14:momentum=0.9"},
            marks=pytest.mark.soak,
        ),
        pytest.param(
            {"uplink": "natural", "feedback": "ef14:momentum=0.5", "downlink": "identity"},
            marks=pytest.mark.soak,
        ),
        pytest.param({"uplink": "tiny", "model": {"dtype": "bfloat16"}}, marks=pytest.mark.soak),
        pytest.param({"uplink": "natural", "model": {"dtype": "float16"}}, marks=pytest.mark.soak),
        pytest.param({"uplink": "natural", "model": {"dtype": "mixed"}}, marks=pytest.mark.soak),
        pytest.param(
            {"uplink": "tiny", "model": {"kind": "odd", "find_unused_parameters": True}},
            marks=pytest.mark.soak,
        ),
    ],
)
def test_memories_and_formats(launcher: Launcher, options: dict[str, Any]) -> None:
    usual, stream = (run(launcher, 3, device, **options) for device in (None, HOST))
    assert finals(stream) == finals(usual)
    assert len(finals(stream)) == 1


@pytest.mark.parametrize(
    ("policy", "uplink"),
    [("skip", "tiny"), *soak(("propagate", "skip"), OPERATORS, but=[("skip", "tiny")])],
)
def test_values_that_are_not_finite(launcher: Launcher, policy: str, uplink: str) -> None:
    sick = {"sick": 5, "steps": 9, "nonfinite": policy, "uplink": uplink}
    usual, stream = (run(launcher, 2, device, **sick) for device in (None, HOST))
    assert finals(stream) == finals(usual)
    assert {tuple(result["skipped"]) for result in usual + stream} == {
        (5,) if policy == "skip" else ()
    }
    for name in ("nonfinite_steps", "skipped_steps", "steps"):
        assert {each["report"][name] for each in stream} == {each["report"][name] for each in usual}


@pytest.mark.parametrize("uplink", ["natural", pytest.param("tiny", marks=pytest.mark.soak)])
def test_a_value_that_is_not_finite_raises_on_all_ranks(launcher: Launcher, uplink: str) -> None:
    sick: dict[str, Any] = {"sick": 5, "nonfinite": "raise", "uplink": uplink}
    outcomes = launcher.run("streamed", 3, devices=[HOST] * 3, **sick)
    check_raised(outcomes, "EncodeError", 2.0, naming="rank 1 at step 5: ", steps=5)


@pytest.mark.parametrize("uplink", ["tiny", pytest.param("natural", marks=pytest.mark.soak)])
def test_a_run_goes_on_from_what_a_stream_has_saved(launcher: Launcher, uplink: str) -> None:
    whole = run(launcher, 2, None, uplink=uplink, steps=8)
    resumed = run(launcher, 2, HOST, uplink=uplink, steps=8, resume=4)
    assert finals(resumed) == finals(whole)


@pytest.mark.parametrize("world", [2, pytest.param(3, marks=pytest.mark.soak)])
@pytest.mark.parametrize("place", ["swap", pytest.param("gather", marks=pytest.mark.soak)])
def test_a_killed_rank(launcher: Launcher, world: int, place: str) -> None:
    outcomes = launcher.run("broken", world, deed="kill", place=place, hurry=False)
    assert outcomes[1].status == -9
    check_raised(others(outcomes), "PeerError", 3.0, naming="lost rank 1:", steps=3)


@pytest.mark.parametrize("place", ["gather", pytest.param("swap", marks=pytest.mark.soak)])
def test_who_was_busy_when_a_rank_died_blames_nobody_else(launcher: Launcher, place: str) -> None:
    nap = 2.0  # seconds: the others have left long before
    outcomes = launcher.run("broken", 3, deed="kill", place=place, nap=nap, hurry=False)
    first, _, busy = outcomes
    check_raised([first], "PeerError", nap, naming="lost rank 1: its connection closed", steps=3)
    assert "rank 2" not in first.message.replace("no answer yet from ranks [2]", "")
    check_raised([busy], "PeerError", nap + 3.0, naming="lost rank 1: its conn", steps=3)
    assert busy.elapsed is not None
    assert busy.elapsed > nap - 0.5
    assert "rank 0" not in busy.message


@pytest.mark.parametrize(
    ("place", "guard"), [("swap", True), *soak(("swap", "gather"), (True, False))]
)
def test_damaged_bytes(launcher: Launcher, place: str, guard: bool) -> None:
    outcomes = launcher.run("broken", deed="damage", place=place, guard=guard)
    first, second = outcomes
    step = 3 if guard else 4  # without a guard the next step tells
    check_raised([second], "DecodeError", 2.0, naming="bytes from rank 0 were damaged", steps=step)
    check_raised([first], "PeerError", 2.0, naming="rank 1 failed at step 3", steps=step)


def test_a_fused_optimizer_skips_a_bad_step_and_nobody_waits(launcher: Launcher) -> None:
    outcomes = launcher.run("broken", deed="damage", place="swap", guard=True, fused=True)
    check_raised(outcomes[1:], "DecodeError", 2.0, naming="rank 0", steps=4)
    for outcome in outcomes:
        digests = outcome.result["digests"]
        assert digests[3] == digests[4] != digests[2]  # step 3 has moved nothing


def test_an_error_of_the_host_is_told(launcher: Launcher) -> None:
    outcomes = launcher.run("broken", deed="raise", place="swap")
    check_raised(outcomes[1:], "ZeroDivisionError", 2.0, naming="out of luck", steps=3)
    check_raised(outcomes[:1], "PeerError", 3.0, naming="rank 1", steps=3)


@pytest.mark.parametrize("uplink", ["natural", "tiny"])
def test_the_host_waits_for_nothing(launcher: Launcher, uplink: str) -> None:
    results = launcher.results("waited", devices=[HOST] * 2, uplink=uplink)
    assert [result["calls"] for result in results] == [[], []]
    planted = launcher.results("waited", devices=[HOST] * 2, uplink=uplink, plant=True)
    assert all(result["calls"] for result in planted)
    assert all("item in" in call for result in planted for call in result["calls"])


@pytest.mark.parametrize(
    ("devices", "options"),
    [
        ([DEVICE, HOST], {"uplink": "natural", "steps": 3}),
        *soak([[DEVICE] * 2, [DEVICE, None], [DEVICE] * 3], [{"uplink": "natural"}]),
        *soak([[DEVICE] * 2], [{"uplink": "tiny"}]),
        *soak([[DEVICE, HOST, None]], [{"uplink": "natural"}]),
        *soak([[DEVICE, HOST, None]], [{"uplink": uplink} for uplink in OPERATORS[1:]]),
        *soak([[DEVICE] * 3], [{"uplink": "tiny"}]),
        *soak(
            [[DEVICE, None]],
            [
                {"uplink": uplink, "nonfinite": policy, "sick": 5}
                for uplink in ("natural", "tiny")
                for policy in ("propagate", "skip")
            ],
        ),
        *soak([[DEVICE, None]], [{"uplink": "tiny", "resume": 2, "steps": 4}]),
        *soak([[DEVICE] * 2], [{"uplink": "natural", "model": {"dtype": "bfloat16"}, "steps": 4}]),
        *soak([[DEVICE] * 2], [{"uplink": "natural", "feedback": "diana", "steps": 4}]),
        *soak([[DEVICE, HOST]], [{"uplink": "natural", "model": {}, "steps": 4}]),
    ],
)
def test_a_device_gives_the_bits_of_the_host(
    launcher: Launcher, devices: list[str | None], options: dict[str, Any]
) -> None:
    world = len(devices)
    options = {"model": ONE_BUCKET} | options
    usual = launcher.results("streamed", world, devices=[None] * world, **options)
    stream = launcher.results("streamed", world, devices=devices, deadline=400.0, **LONG, **options)
    assert len(finals(usual)) == 1
    assert finals(stream) == finals(usual)
    assert all(result["streams"] for result in stream)
    assert [each["skipped"] for each in stream] == [each["skipped"] for each in usual]


@pytest.mark.soak
def test_a_device_with_a_value_that_is_not_finite_raises(launcher: Launcher) -> None:
    sick: dict[str, Any] = {"sick": 5, "nonfinite": "raise", "uplink": "natural", **LONG}
    outcomes = launcher.run("streamed", 2, devices=[DEVICE] * 2, model=ONE_BUCKET, **sick)
    check_raised(outcomes, "EncodeError", 20.0, naming="rank 1 at step 5: ", steps=5)


@pytest.mark.soak
@pytest.mark.parametrize("place", ["swap", "gather"])
def test_a_killed_rank_of_a_device(launcher: Launcher, place: str) -> None:
    broken = {"deed": "kill", "place": place, "device": DEVICE, "hurry": False}
    outcomes = launcher.run("broken", 3, deadline=200.0, **broken)
    assert outcomes[1].status == -9
    check_raised(others(outcomes), "PeerError", 20.0, naming="lost rank 1:", steps=3)


@pytest.mark.soak
@pytest.mark.parametrize("uplink", ["natural", "tiny"])
def test_the_host_waits_for_no_device(launcher: Launcher, uplink: str) -> None:
    options: dict[str, Any] = {"devices": [DEVICE] * 2, "uplink": uplink, **LONG}
    options |= {"model": ONE_BUCKET, "deadline": 200.0}
    results = launcher.results("waited", **options)
    assert [result["calls"] for result in results] == [[], []]
    planted = launcher.results("waited", plant=True, **options)
    assert all(result["calls"] for result in planted)


REFUSED = [
    ({"uplink": "natural:coder=rans", "device": HOST}, "use its packed coder, or pass staged=True"),
    ({"uplink": "auto", "device": HOST}, "name one, or pass staged=True"),
    ({"collective": "star", "device": HOST}, "use 'sharded', or pass staged=True"),
    ({"uplink": "spherical", "feedback": "ef14", "device": DEVICE}, "staged=True"),
    ({"uplink": "trellis", "device": DEVICE}, "use standard-dithering, or "),
    ({"uplink": "trellis:bits=2", "device": DEVICE}, "use standard-dithering, or "),
    ({"uplink": "two-bit", "device": DEVICE}, "use standard-dithering, or "),
    ({"uplink": "scale|natural", "feedback": "ef14", "device": DEVICE}, "staged=True"),
    ({"uplink": "low-rank", "device": DEVICE}, "works on the host: pass staged=True"),
    (
        {"uplink": "top-k|natural", "feedback": "dgc", "device": DEVICE},
        "works on the host: pass staged=True",
    ),
    ({"device": "cuda"}, "device='cuda', but the model is on 'cpu'"),
    ({"device": "tpu"}, "device must be cpu, cuda or interpreted, got 'tpu'"),
    ({"device": HOST, "staged": True}, "leave device out"),
]


def test_what_a_stream_cannot_do_is_refused_in_one_line(launcher: Launcher) -> None:
    told = launcher.results("unstreamed", cases=[options for options, _ in REFUSED])
    for result in told:
        for (options, expected), (error, message) in zip(REFUSED, result["told"], strict=True):
            assert error == "SpecError", options
            assert expected in message, options
            assert "\n" not in message


def test_one_rank_alone_may_be_refused_and_all_are_told(launcher: Launcher) -> None:
    outcomes = launcher.run("streamed", devices=[DEVICE, None], uplink="sign", feedback="ef14")
    assert [outcome.error for outcome in outcomes] == ["SpecError", "PeerError"]
    assert "staged=True" in outcomes[0].message
    assert "rank 0 failed" in outcomes[1].message


@pytest.mark.parametrize("uplink", ["natural:coder=rans", "tiny"])
def test_values_that_are_staged_have_the_same_bits(launcher: Launcher, uplink: str) -> None:
    usual = run(launcher, 2, None, uplink=uplink, steps=5)
    staged = run(launcher, 2, None, uplink=uplink, steps=5, staged=True)
    assert finals(usual) == finals(staged)
    assert not any(result["streams"] for result in staged)


@pytest.mark.soak
@pytest.mark.parametrize("uplink", ["natural", "tiny"])
@pytest.mark.parametrize("feature", FEATURES)
def test_what_ddp_offers_works_with_a_stream(launcher: Launcher, feature: str, uplink: str) -> None:
    usual = launcher.results("train", compression={"uplink": uplink}, **FEATURES[feature])
    options = {"uplink": uplink, "device": HOST}
    stream = launcher.results("train", compression=options, **FEATURES[feature])
    assert finals(stream) == finals(usual)
