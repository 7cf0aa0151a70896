"""The table of `fewbits train` while it grows, and lines where there is no terminal."""

import io
import re

import pytest

from fewbits.train import board, progress
from fewbits.train.board import Board


class Terminal(io.StringIO):
    """What a terminal shows of what is written to it."""

    def isatty(self) -> bool:
        return True

    def screen(self) -> list[str]:
        lines, at = [""], 0
        for part in re.split(r"(\x1b\[\d*[A-Z]|\n)", self.getvalue()):
            if match := re.fullmatch(r"\x1b\[(\d+)F", part):
                at -= int(match[1])
                assert at >= 0
            elif part == "\x1b[J":
                lines[at:] = [""]
            elif part == "\x1b[K":
                lines[at] = ""
            elif part == "\n":
                at += 1
                lines += [""] * (at == len(lines))
            else:
                lines[at] += part
        return lines[:-1] if not lines[-1] else lines


def result(operator: str, total: float) -> dict:
    run = {"operator": operator, "accuracy": 0.958, "bytes_per_step": 2e6,
           "step_ms": {"total": total}}  # fmt: skip
    return {"event": "result", "run": run}


STEP = {"event": "step", "epoch": 1, "epochs": 6, "step": 7, "steps": 11, "loss": 0.5}


def test_a_terminal_shows_one_table_that_grows_and_then_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal, ended = Terminal(), []
    monkeypatch.setattr(board.sys, "stderr", terminal)
    monkeypatch.setattr(board, "_INTERVAL", -1.0)
    own = Board(["none", "natural:coder=rans"], ended)
    own.show(STEP)
    titles, first, second = terminal.screen()
    assert titles.split() == ["operator", "state", "accuracy", "MB", "sent", "step", "ms", "speed"]
    assert first.split()[:5] == ["none", "epoch", "1/6,", "7/11,", "0"]
    assert second.split() == ["natural:coder=rans", "waits"]
    own.show(result("none", 600.0))
    assert own.running == "natural:coder=rans"
    own.show(result("natural:coder=rans", 150.0))
    _, first, second = terminal.screen()
    assert first.split() == ["none", "done", "95.8", "%", "2.000", "600.0", "1.00×"]
    assert second.split()[-2:] == ["150.0", "4.00×"]
    assert len(ended) == 2
    own.close()
    assert terminal.screen() in ([], [""])


def test_without_a_terminal_an_epoch_is_a_line_and_none_is_silent_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, now = io.StringIO(), [0.0]
    monkeypatch.setattr(board.sys, "stderr", log)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    own = Board(["none"], [])
    for seconds in range(100):
        now[0] = float(seconds)
        own.show(STEP)
    own.show({"event": "epoch", "epoch": 1, "epochs": 6, "accuracy": 0.5})
    own.close()
    assert log.getvalue().splitlines() == [
        "none: starting, 0 s",
        *(f"none: epoch 1/6, step 7/11, loss 0.5000, {at} s" for at in (30, 60, 90)),
        "none: epoch 1/6, accuracy 50.0 %, 99 s",
    ]
