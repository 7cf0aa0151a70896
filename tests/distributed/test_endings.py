"""Programs that end without a word, or with an error: none of them aborts or stays."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from launch import Launcher

STATUS = {"plain": 0, "raise": 1, "exit": 7, "rounds": 0, "backward": 1, "shards": 0}
WAYS = [(how, False) for how in STATUS] + [(how, True) for how in ("plain", "raise", "exit")]
MANY = int(os.environ.get("FEWBITS_ENDINGS", "30"))


@pytest.fixture
def busy() -> Iterator[None]:
    """Two other programs that never rest."""
    command = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(command) for _ in range(2)]
    yield
    for each in others:
        each.kill()
        each.wait()


def check_ends(launcher: Launcher, how: str, close: bool) -> None:
    for outcome in launcher.run("ends", how=how, close=close, hurry=False):
        assert outcome.status == STATUS[how], outcome
        assert outcome.error == ("UserError" if STATUS[how] == 1 else None), outcome
        assert outcome.lived is not None
        assert outcome.lived < 20.0


@pytest.mark.parametrize(("how", "close"), [("rounds", False), ("backward", False), ("exit", True)])
def test_a_program_ends_with_its_own_status(launcher: Launcher, how: str, close: bool) -> None:
    check_ends(launcher, how, close)


@pytest.mark.soak
@pytest.mark.usefixtures("busy")
def test_no_program_of_many_aborts_on_a_busy_machine(launcher: Launcher) -> None:
    """FEWBITS_ENDINGS says how many."""
    for number in range(MANY):
        check_ends(launcher, *WAYS[number % len(WAYS)])


def test_an_exchange_is_given_up_before_the_interpreter_ends(launcher: Launcher) -> None:
    """The other rank's bytes come while the interpreter ends, when no thread may run any more."""
    first, second = launcher.run("ends", how="late", hurry=False)
    for outcome in (first, second):
        assert outcome.status == 0, outcome
        assert outcome.lived is not None
        assert outcome.lived < 10.0
