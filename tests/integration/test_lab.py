"""`fewbits lab` as a user meets it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fewbits import lab
from fewbits.cli import main
from fewbits.lab import store


def command(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "fewbits.cli", "lab", *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_list_names_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in listed] == [e.name for e in lab.EXPERIMENTS]


def test_run_writes_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "results"
    first = command("run", "nc-table1", "--out", out)
    assert "computed" in first.stdout
    assert {path.name for path in out.iterdir()} == {
        "index.html", "nc-table1.csv", "nc-table1.json", "nc-table1.png",
    }  # fmt: skip
    assert main(["lab", "run", "nc-table1", "nc-table8", "--out", str(out), "--json"]) == 0
    second = json.loads(capsys.readouterr().out)
    assert [one["computed"] for one in second] == [False, True]
    assert second[0] == {
        "name": "nc-table1", "rows": 12, "printed": 12, "departures": 3, "computed": False,
    }  # fmt: skip
    # The page also has what earlier runs left.
    assert main(["lab", "run", "nc-table8", "--out", str(out), "--force"]) == 0
    page = (out / "index.html").read_text()
    assert page.count("data:image/png;base64,") == 2


def test_an_interrupted_run_says_so_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["lab", "run", "nc-table1", "nc-table8", "--out", str(tmp_path)]
    real = store.obtain

    def obtain(experiment: lab.Experiment[Any], *rest: Any, **named: Any) -> store.Result:
        if experiment.name == "nc-table8":
            raise KeyboardInterrupt
        return real(experiment, *rest, **named)

    with monkeypatch.context() as patched:
        patched.setattr(store, "obtain", obtain)
        assert main(words) == 130
    assert "interrupted: 1 of 2 results are in" in capsys.readouterr().err
    assert main([*words, "--json"]) == 0
    assert [one["computed"] for one in json.loads(capsys.readouterr().out)] == [False, True]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "nothing", "--out", "x"], "unknown experiment 'nothing': known are"),
        (["run", "nc-table1"], "--out"),
        ([], "list|run|all"),
        (["run", "nc-table1", "--out", __file__], "must be a folder"),
        (["run", "nc-table1", "--out", f"{__file__}/deeper"], "not a directory"),
        (["run", "nc-table1", "--out", ""], "--out must name a folder"),
        (["run", "comparison", "--out", "x", "--seed", "-1"], "--seed: expected a whole number"),
        (["run", "comparison", "--out", "x", "--seed", "1e99"], "--seed: expected a whole number"),
        (["run", "comparison", "--out", "x", "--seed", "9999999999"], "from 0 to 2147483647"),
        (["all", "--quck", "--out", "x"], "unrecognized arguments: --quck"),
    ],
)
def test_nonsense_is_refused_in_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.soak
def test_all_of_them_quickly(tmp_path: Path) -> None:
    done = json.loads(command("all", "--quick", "--out", tmp_path, "--json").stdout)
    assert len(done) == len(lab.EXPERIMENTS)
    assert (tmp_path / "index.html").stat().st_size > 100_000
