"""Training with memories: the same on all ranks, and right with everything that DDP offers."""

import warnings
from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest
from launch import Launcher
from test_features import FEATURES
from test_replicas import OPERATORS, OTHERS

import fewbits
from fewbits import SpecError, ddp
from fewbits.feedback import feedback

METHODS = ("ef14", "ef14:momentum=0.9", "ef21", "diana", "ef-bv")
SCHEMES = ("sharded", "star", "gather")
TOP = "top-k:fraction=0.05|natural"


def allowed(method: str, spec: str) -> bool:
    try:
        feedback(method).rule(fewbits.operator(spec), 1000)
    except SpecError:
        return False
    return True


PAIRS = [(m, o) for m in METHODS for o in OPERATORS[1:] + OTHERS if allowed(m, o)]
PAIRS += [("dgc:momentum=0.9", TOP), ("ef14:decay=0.95", TOP)]


def check_replicas(
    launcher: Launcher, world: int, runs: list[dict[str, Any]], **options: Any
) -> None:
    results = launcher.results("kept", world, runs=runs, deadline=3600.0, **options)
    for result in results:
        assert result == results[0]
    digests = [digest for own in results[0].values() for digest in own]
    assert len(results[0]) == len(runs)
    assert len(digests) == len(runs) * (options["steps"] // options.get("every", 1))


@pytest.mark.parametrize("world", [2, 4])
def test_replicas_stay_identical_with_every_operator_and_every_method(
    launcher: Launcher, world: int
) -> None:
    """Each operator with one of its methods; all pairs and schemes are for the soak."""
    chosen = {}
    for number, spec in enumerate(OPERATORS[1:] + OTHERS):
        own = [method for method, other in PAIRS if other == spec]
        chosen[spec] = own[(number + world) % len(own)]
    assert set(chosen.values()) == set(METHODS)
    runs = [
        {"uplink": spec, "feedback": method, "collective": SCHEMES[(number + world) % 3]}
        for number, (spec, method) in enumerate(chosen.items())
    ]
    check_replicas(launcher, world, runs[:: world // 2], steps=2)


@pytest.mark.soak
@pytest.mark.parametrize("collective", SCHEMES)
@pytest.mark.parametrize("world", [2, 4])
def test_replicas_stay_identical_for_two_hundred_steps(
    launcher: Launcher, world: int, collective: str
) -> None:
    runs = [
        {"uplink": spec, "feedback": method, "collective": collective} for method, spec in PAIRS
    ]
    check_replicas(
        launcher, world, runs, steps=200, every=20, threads=["1", "2", None, "2"][:world]
    )


def some(values: Iterable[tuple[Any, ...]], every: int) -> list[Any]:
    """One of so many in the gate, the others in the soak."""
    return [
        pytest.param(*own, marks=() if number % every == 0 else pytest.mark.soak)
        for number, own in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("feature", "method"), some(product(FEATURES, ("ef14:momentum=0.9", "ef21", "ef-bv")), 5)
)
def test_what_ddp_offers_works_with_memories(launcher: Launcher, feature: str, method: str) -> None:
    options = FEATURES[feature]
    run = {"uplink": TOP, "feedback": method}
    first, second = launcher.results("train", compression=run, **options)
    assert first["final"] == second["final"]
    assert first["report"]["feedback"] == method
    assert first["report"]["memory_bytes"] > 0


def test_what_ddp_would_send_does_not_depend_on_the_width_of_memories(launcher: Launcher) -> None:
    options = {"model": {"dtype": "bfloat16"}, "steps": 2}
    plain, corrected = (
        launcher.results("train", compression={"uplink": "natural"} | more, **options)[0]
        for more in ({}, {"feedback": "ef14"})
    )
    assert corrected["report"]["plain_bytes"] == plain["report"]["plain_bytes"]
    assert corrected["final"] != plain["final"]


@pytest.mark.parametrize("method", ["ef14:momentum=0.9", "ef-bv"])
def test_bucket_sizes_do_not_change_a_bit(launcher: Launcher, method: str) -> None:
    runs = [
        {"uplink": "natural:coder=rans", "feedback": method, "wide": 1100, "bucket": bucket}
        for bucket in (25, 0.2, 0.05)
    ]
    result = launcher.results("kept", runs=runs, steps=4)[0]
    assert result["0"] == result["1"] == result["2"]
    assert len(set(result["0"])) == 4


@pytest.mark.parametrize(("method", "collective"), some(product(METHODS, SCHEMES), 4))
def test_a_rank_whose_inputs_ended_keeps_its_memory(
    launcher: Launcher, method: str, collective: str
) -> None:
    run = {"uplink": "natural", "feedback": method, "collective": collective}
    first, second = launcher.results("joined", run=run)
    assert first["final"] == second["final"]
    uplink, mean, downlink = second["same"]
    assert uplink
    if method.startswith("ef14"):
        assert downlink == (collective != "sharded")  # only an owner has an error of the way back
    else:
        assert mean == (collective == "star")  # what it averages goes on without its inputs
        assert downlink == (collective == "gather")
    assert first["same"][0]  # it was the last to end, so nothing came after


@pytest.mark.parametrize("method", some(product(["ef14:momentum=0.9", "ef21"]), 2))
def test_an_accumulated_gradient_is_one_gradient(launcher: Launcher, method: str) -> None:
    run = {"uplink": TOP, "feedback": method}
    once = launcher.results("direct", run=run)
    parts = launcher.results("direct", run=run, parts=3)
    assert once == [own | {"report": one["report"]} for own, one in zip(parts, once, strict=True)]


@pytest.mark.parametrize("model", [{}, {"static_graph": True}, {"find_unused_parameters": True}])
def test_gradients_that_vanish_do_not_stop_what_is_left_from_being_sent(
    launcher: Launcher, model: dict[str, bool]
) -> None:
    run = {"uplink": "top-k:fraction=0.25|natural", "feedback": "ef14"}
    seen = launcher.results("direct", run=run, zero_from=3, steps=8, **model)[0]["seen"]
    sizes = [step["size"] for step in seen]
    assert all(step["norm"] > 0 for step in seen[3:6])
    assert sizes[7] < sizes[2] / 2
    assert not any(step["same"] for step in seen[:6])


SICK = (2, 5)


@pytest.mark.parametrize(
    ("policy", "method", "collective"),
    some(product(("propagate", "skip"), ("ef14:momentum=0.9", "ef21"), SCHEMES), 5),
)
def test_an_infinite_gradient_costs_one_step_and_no_memory(
    launcher: Launcher, policy: str, method: str, collective: str
) -> None:
    run = {"uplink": "natural", "feedback": method, "collective": collective, "nonfinite": policy}
    options = {"run": run, "steps": 8, "sick": SICK, "scaler": policy == "propagate"}
    results = launcher.results("direct", **options)
    assert results[0]["final"] == results[1]["final"]
    for result in results:
        seen = result["seen"]
        lost = [number for number, step in enumerate(seen) if not step["moved"]]
        assert tuple(lost) == SICK
        assert tuple(number for number, step in enumerate(seen) if step["same"]) == SICK
        assert all(step["finite"] for step in seen)
        assert result["report"]["nonfinite_steps"] == len(SICK)
        assert [step["skipped"] for step in seen].count(True) == (2 if policy == "skip" else 0)


@pytest.mark.parametrize("collective", some(product(SCHEMES), 3))
def test_after_an_error_everyone_can_go_back_and_on(launcher: Launcher, collective: str) -> None:
    run = {"uplink": "natural", "feedback": "ef21", "collective": collective, "nonfinite": "raise"}
    first, second = launcher.results("direct", run=run, steps=5, sick=[2], again=True)
    assert first["final"] == second["final"]
    for result in (first, second):
        assert result["seen"][2] == {"error": "EncodeError", "same": True}
        assert all(step["moved"] and step["finite"] for step in result["seen"][3:])


def test_a_layer_that_no_rank_uses_keeps_its_memory(launcher: Launcher) -> None:
    """DDP drops the mean of such a layer: whatever of the memory were in it would be lost."""
    for result in launcher.results("unused"):
        memories = [memory for memory, _ in result["seen"]]
        assert [dropped for _, dropped in result["seen"]] == [False] * 3 + [True] * 2
        assert memories[2] > 0
        assert memories[2] == memories[3] == memories[4]
        assert memories[1] != memories[2]


def test_momentum_inside_the_feedback_is_refused_for_one_rank(launcher: Launcher) -> None:
    options = {"uplink": "natural", "feedback": "ef14:momentum=0.9"}
    (outcome,) = launcher.run("train", 1, compression=options)
    assert outcome.error == "SpecError"
    assert "give the momentum to the optimizer" in outcome.message


def test_a_biased_operator_without_feedback_warns_once_and_says_what_to_pass() -> None:
    with warnings.catch_warnings(record=True, action="always") as caught:
        ddp.Compression(TOP)
    assert len(caught) == 1
    assert "pass feedback='ef14'" in str(caught[0].message)
    with warnings.catch_warnings(action="error"):
        ddp.Compression(TOP, feedback="ef14")
        ddp.Compression("natural")


@pytest.mark.parametrize(
    ("uplink", "options", "text"),
    [
        (TOP, {"feedback": "diana"}, "diana needs an unbiased operator"),
        ("natural", {"feedback": "diana", "downlink": TOP}, "diana needs an unbiased operator"),
        ("natural", {"feedback": "ef15"}, "must be ef14, dgc, ef21, diana or ef-bv, got 'ef15'"),
        ("natural", {"feedback": True}, "feedback is a name such as 'ef14', got bool"),
    ],
)
def test_what_cannot_be_corrected_is_refused_at_once(
    uplink: str, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(SpecError, match=text):
        ddp.Compression(uplink, **options)
