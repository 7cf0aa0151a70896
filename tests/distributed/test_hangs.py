"""Nobody waits for ever: threads that die, hang or were left behind are typed errors."""

import pytest
from launch import Launcher
from raised import SLACK, check_raised, others


@pytest.mark.parametrize(
    ("deed", "named"),
    [("exit", "SystemExit 3"), ("cancel", "CancelledError enough"), ("interrupt", "Keyboard")],
)
def test_what_is_no_error_ends_the_exchange_on_all_ranks(
    launcher: Launcher, deed: str, named: str
) -> None:
    outcomes = launcher.run("fail", place="encode", deed=deed)
    check_raised(outcomes[1:], "PeerError", SLACK, naming=named)
    assert "direct cause" in outcomes[1].stderr  # the error is chained to what was raised
    check_raised(others(outcomes), "PeerError", SLACK, naming="rank 1:")


def test_an_interrupted_reduction_in_the_calling_thread_cannot_go_on(launcher: Launcher) -> None:
    outcomes = launcher.run("sharded interrupted", timeout=2.0)
    assert outcomes[1].result["first"] == "KeyboardInterrupt"
    assert outcomes[1].error == "PeerError"
    assert "KeyboardInterrupt" in outcomes[1].message


def test_an_exchange_that_does_not_move_is_given_up(launcher: Launcher) -> None:
    outcomes = launcher.run("stuck", grace=0.5, timeout=1.0)
    check_raised(outcomes[1:], "PeerError", 2.5 + 2 * SLACK, naming="moved here for 2.5 s")
    check_raised(others(outcomes), "PeerError", 1.0 + SLACK, naming="rank 1: no answer")


def test_a_thread_that_is_gone_is_an_error(launcher: Launcher) -> None:
    outcomes = launcher.run("gone")
    check_raised(outcomes[1:], "PeerError", 2 * SLACK, naming="has ended", steps=0)
    check_raised(others(outcomes), "PeerError", 1.5 + SLACK, naming="rank 1: no answer", steps=0)


@pytest.mark.parametrize("adapter", ["ddp", "fsdp", "localsgd"])
def test_a_fork_after_attach_cannot_train_and_harms_nobody(
    launcher: Launcher, adapter: str
) -> None:
    for result in launcher.results("forked", adapter=adapter):
        assert "SpecError" in result["child"]
        assert "fork first" in result["child"]
        assert result["child"].endswith(" closed")
        assert result["steps"] == 1
