"""A rank that dies, stops, fails or goes astray: a typed error on every rank, at once."""

import inspect
from typing import Any

import pytest
from faults import STEP, step_of
from launch import Launcher, Outcome
from raised import SLACK, check_ended, check_raised, check_stopped, others

from fewbits import ddp
from fewbits.transport.torch_comm import TorchComm

KILLS = [
    (2, "hook"),
    (2, "payload"),
    (4, "encode"),
    (4, "next bucket"),
]
MORE_KILLS = [
    (world, place)
    for world in (2, 4)
    for place in (
        "hook",
        "encode",
        "header",
        "payload",
        "first hop",
        "second hop",
        "next bucket",
        "commit",
    )
    for _ in range(5)
]


@pytest.mark.parametrize(
    ("world", "place"),
    [*KILLS, *(pytest.param(*case, marks=pytest.mark.soak) for case in MORE_KILLS)],
)
def test_a_killed_rank_is_an_error_on_all_others_within_two_seconds(
    launcher: Launcher, world: int, place: str
) -> None:
    outcomes = launcher.run("fail", world, place=place, deed="kill", hurry=False)
    assert outcomes[1].status == -9
    check_raised(others(outcomes), "PeerError", 2.0, naming="rank 1:", steps=step_of(place))
    check_ended(others(outcomes))


@pytest.mark.parametrize(
    ("world", "place"),
    [
        (2, "hook"),
        (4, "payload"),
        *(
            pytest.param(world, place, marks=pytest.mark.soak)
            for world in (2, 4)
            for place in ("hook", "encode", "payload", "second hop", "next bucket", "commit")
        ),
    ],
)
def test_a_stopped_rank_is_named_by_all_others_when_the_timeout_is_over(
    launcher: Launcher, world: int, place: str
) -> None:
    timeout = 5.0
    outcomes = launcher.run("fail", world, place=place, deed="stop", timeout=timeout, hurry=False)
    check_stopped(outcomes, timeout)
    assert {outcome.result["steps"] for outcome in others(outcomes)} == {step_of(place)}


def test_a_rank_that_never_attaches_is_an_error_on_all_others(launcher: Launcher) -> None:
    outcomes = launcher.run("absent", 3, timeout=2.0, deed="stop", hurry=False)
    # Making the group waits for its members and then gloo for theirs: twice the time at most.
    check_raised(others(outcomes), "PeerError", 4.0 + SLACK, naming="[0, 1, 2]", steps=None)


def test_no_default_timeout_is_longer_than_a_minute() -> None:
    for function in (ddp.attach, ddp.Compression.__init__, TorchComm.__init__):
        default = inspect.signature(function).parameters["timeout"].default
        assert 0 < default <= 60


@pytest.mark.parametrize(
    ("world", "place", "deed", "error"),
    [
        (2, "encode", "raise", "ZeroDivisionError"),
        (3, "encode", "memory", "MemoryError"),
        (4, "prepare", "memory", "MemoryError"),
        (2, "payload", "damage", "DecodeError"),
        (4, "first hop", "damage", "DecodeError"),
        *(
            pytest.param(world, place, deed, error, marks=pytest.mark.soak)
            for world in (2, 3, 4)
            for place, deed, error in (
                ("encode", "raise", "ZeroDivisionError"),
                ("encode", "memory", "MemoryError"),
                ("prepare", "raise", "ZeroDivisionError"),
                ("payload", "damage", "DecodeError"),
                ("first hop", "damage", "DecodeError"),
            )
        ),
    ],
)
def test_what_fails_on_one_rank_fails_on_all_in_the_same_step(
    launcher: Launcher, world: int, place: str, deed: str, error: str
) -> None:
    outcomes = launcher.run("fail", world, place=place, deed=deed)
    (own,) = [outcome for outcome in outcomes if outcome.rank == 1]
    step = step_of(place)
    check_raised([own], error, SLACK, naming="", steps=step)
    told = f"rank 1 failed at step {step}: {error}"
    check_raised(others(outcomes), "PeerError", SLACK, naming=told, steps=step)


@pytest.mark.parametrize(("world", "place"), [(2, "hook"), (4, "commit")])
def test_a_killed_rank_is_named_while_nothing_is_compressed(
    launcher: Launcher, world: int, place: str
) -> None:
    options = {"uplink": "auto"}
    outcomes = launcher.run("fail", world, place=place, deed="kill", hurry=False, options=options)
    check_raised(others(outcomes), "PeerError", 2.0, naming="rank 1:", steps=step_of(place))


def test_a_stopped_rank_is_named_while_nothing_is_compressed(launcher: Launcher) -> None:
    more = {"timeout": 5.0, "options": {"uplink": "auto"}, "hurry": False}
    outcomes = launcher.run("fail", 2, place="hook", deed="stop", **more)
    check_raised(others(outcomes), "PeerError", 5.0 + SLACK, naming="rank 1: no answer", steps=4)


@pytest.mark.parametrize("collective", ["star", "gather"])
def test_damaged_bytes_are_noticed_in_every_scheme(launcher: Launcher, collective: str) -> None:
    options = {"collective": collective}
    outcomes = launcher.run("fail", 3, place="first hop", deed="damage", options=options, culprit=0)
    check_raised(outcomes[:1], "DecodeError", SLACK, naming="bytes from rank 1")
    check_raised(outcomes[1:], "PeerError", SLACK, naming="rank 0 failed")


@pytest.mark.parametrize("world", [2, 3, pytest.param(4, marks=pytest.mark.soak)])
def test_nan_with_the_policy_raise_is_one_error_on_all_ranks(
    launcher: Launcher, world: int
) -> None:
    outcomes = launcher.run("poison", world)
    check_raised(outcomes, "EncodeError", SLACK, naming=f"rank 1 at step {STEP}")


def check_astray(outcomes: list[Outcome], **expected: Any) -> None:
    naming = expected.pop("naming", "rank")
    check_raised(outcomes, "DisagreementError", SLACK, naming=naming, **expected)


@pytest.mark.parametrize(
    ("how", "difference"),
    [
        ("operator", "uplink: natural"),
        ("downlink", "downlink: "),
        ("seed", "seed: "),
        ("collective", "collective: "),
        ("switch", "collective: "),
        ("nonfinite", "nonfinite: "),
        ("policy", "policy: "),
        ("bias", "candidates: "),
        ("version", "does not speak this version of the protocol"),
    ],
)
def test_another_configuration_is_refused_by_attach(
    launcher: Launcher, how: str, difference: str
) -> None:
    check_astray(launcher.run("stray", how=how), naming=difference, steps=None)


@pytest.mark.parametrize(
    ("how", "difference"),
    [("policy of a hook", "5 identity/identity"), ("dtype", "float64"), ("length", "bytes")],
)
def test_another_plan_is_refused_in_the_first_exchange(
    launcher: Launcher, how: str, difference: str
) -> None:
    check_astray(launcher.run("stray", 3, how=how), naming=difference, steps=0)


@pytest.mark.parametrize("how", ["swap", "skip"])
def test_a_call_out_of_order_is_refused_in_its_exchange(launcher: Launcher, how: str) -> None:
    check_astray(launcher.run("stray", 3, how=how), naming="first.weight")


def test_a_step_without_the_others_is_refused_in_the_next_exchange(launcher: Launcher) -> None:
    outcomes = launcher.run("stray", 3, how="no_sync")
    check_astray(others(outcomes), naming="ranks [1] have other parameters")
    # It took one step alone, before anyone could know.
    check_astray(outcomes[1:2], naming="ranks [1] have other parameters", steps=STEP + 1)


def test_other_weights_on_one_rank_are_refused_before_the_first_step(launcher: Launcher) -> None:
    outcomes = launcher.run("stray", 3, how="weights")
    check_astray(outcomes, naming="ranks [1] have other parameters", steps=0)
