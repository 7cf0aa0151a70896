"""Progress of the commands: a bar on a terminal, lines elsewhere; numbers with a limit."""

import argparse
import time

import pytest

from fewbits.cli import console
from fewbits.cli.console import ProgressBar


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "BEAT", 0.05)


def test_without_a_terminal_long_work_is_never_silent_and_ends_with_a_line(
    beats: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "PATIENCE", 0.05)
    with ProgressBar("one of many", 10) as bar:
        bar.show(3)
        until, said = time.monotonic() + 20, ""
        while "30%" not in said and time.monotonic() < until:  # though nothing is shown any more
            time.sleep(0.01)
            said += capsys.readouterr().err
    assert said.startswith("fewbits: one of many: 30%, 0 s\n")
    assert "fewbits: one of many: done, " in capsys.readouterr().err


def test_quick_work_has_a_line_only_as_an_item_of_a_list(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ProgressBar("quick"):
        pass
    assert capsys.readouterr().err == ""
    with ProgressBar("item", each=True):
        pass
    assert capsys.readouterr().err == "fewbits: item: done, 0 s\n"
    with pytest.raises(KeyError), ProgressBar("failed", each=True):
        raise KeyError
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("text", ["0", "-1", "65", "1.5", "many", "nan"])
def test_a_number_beyond_its_limit_is_refused_with_the_limit(text: str) -> None:
    read = console.up_to(64)
    assert (read("1"), read("64"), read("6.4e1")) == (1, 64, 64)
    with pytest.raises(argparse.ArgumentTypeError, match=f"from 1 to 64, got '{text}'"):
        read(text)
