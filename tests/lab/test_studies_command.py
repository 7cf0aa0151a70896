"""`fewbits-lab` as a user meets it."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fewbits_lab import figures, store
from fewbits_lab.cli import main
from fewbits_lab.experiment import Experiment
from fewbits_lab.index import EXPERIMENTS, RECORDED
from fewbits_lab.results import paths

ROOT = Path(__file__).parents[2]


def command(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "fewbits_lab.cli", *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_list_names_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    kinds: dict[str, tuple[Any, ...]] = {"computed": EXPERIMENTS, "recorded": RECORDED}
    assert {one["kind"] for one in listed} == kinds.keys()
    for kind, studies in kinds.items():
        assert [one["name"] for one in listed if one["kind"] == kind] == [e.name for e in studies]
    commands = {one["name"]: one["command"] for one in listed}
    assert commands["nc-table1"] == "fewbits-lab run nc-table1"
    assert commands["transport"] == "sudo python -m fewbits_lab.studies.transport.run"
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["name", "kind", "what", "it", "is"]
    assert [line.split()[:2] for line in lines[1:]] == [
        [one["name"], one["kind"]] for one in listed
    ]


def test_the_document_lists_all_studies() -> None:
    """`-resnet20` in its table stands for the name before with another ending."""
    text = (ROOT / "docs" / "lab.md").read_text(encoding="utf-8")
    computed, recorded, *_ = (
        set(re.findall(r"`([\w-]+)`", " ".join(re.findall(r"(?m)^\| (`.*?) \|", part))))
        for part in text.partition("\n## Studies\n")[2].split("\n### ")
    )
    computed |= {f"nc-training{name}" for name in computed if name.startswith("-")}
    assert {one.name for one in EXPERIMENTS} == {name for name in computed if name[0] != "-"}
    assert {one.name for one in RECORDED} == recorded


def test_errors_begin_with_the_name_of_the_program() -> None:
    done = command("run", "nc-table", "--out", "nowhere", code=2)
    assert done.stderr.startswith("fewbits-lab: unknown study 'nc-table': did you mean 'nc-table")
    words = [sys.executable, "-m", "fewbits.cli", "inspect", "missing.fb"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stderr.startswith("fewbits: missing.fb: ")


def test_run_writes_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "results"
    first = command("run", "nc-table1", "--out", out)
    assert "computed" in first.stdout
    assert {path.name for path in out.iterdir()} == {
        "index.html", "nc-table1.csv", "nc-table1.json", "nc-table1.svg",
    }  # fmt: skip
    assert main(["run", "nc-table1", "nc-table8", "--out", str(out), "--json"]) == 0
    second = json.loads(capsys.readouterr().out)
    assert [one["computed"] for one in second] == [False, True]
    assert second[0].pop("seconds") >= 0
    assert second[0] == {
        "name": "nc-table1", "rows": 12, "printed": 12, "departures": 3, "computed": False,
    }  # fmt: skip
    # The page also has what earlier runs left.
    assert main(["run", "nc-table8", "--out", str(out), "--force"]) == 0
    page = (out / "index.html").read_text()
    assert page.count("data:image/svg+xml,") == 2


def test_the_page_is_made_again_from_json_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Byte for byte, with recorded results of which one makes two figures."""
    given, first, second = (tmp_path / name for name in ("given", "first", "second"))
    given.mkdir()
    for name in ("links", "accuracy"):
        (given / f"{name}.json").write_bytes(paths()[name].read_bytes())
    (given / "unknown.json").write_text("{}")
    assert main(["run", "nc-table1", "--out", str(first), "--recorded", str(given)]) == 0
    (second / "recorded").mkdir(parents=True)
    for path in (*first.glob("*.json"), *first.glob("recorded/*.json")):
        (second / path.relative_to(first)).write_bytes(path.read_bytes())
    capsys.readouterr()
    assert main(["report", str(second), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"page": str(second / "index.html")}
    files = {path.relative_to(first): path.read_bytes() for path in first.rglob("*.*")}
    assert files == {path.relative_to(second): path.read_bytes() for path in second.rglob("*.*")}
    assert files[Path("index.html")].count(b"data:image/svg+xml,") == 4
    assert Path("recorded/unknown.json") not in files


def test_a_recorded_full_run_stands_beside_a_quick_one_and_decides(tmp_path: Path) -> None:
    given, out = tmp_path / "given", tmp_path / "out"
    assert main(["run", "nc-table1", "--out", str(given)]) == 0
    words = ["run", "nc-table1", "--out", str(out), "--recorded", str(given)]
    assert main([*words, "--quick"]) == 0
    page = (out / "index.html").read_text()
    full, quick = page.index('id="nc-table1-recorded"'), page.index('id="nc-table1"')
    assert full < quick
    assert "not computed anew by this run" in page[full:quick]
    assert "the quick run</summary><article" in page[full:quick]
    assert 'href="recorded/nc-table1.csv"' in page
    assert (out / "recorded" / "nc-table1.csv").is_file()
    claims = page.split('id="section-claims"')[1].split("</section>")[0]
    assert claims.count('<a href="#nc-table1-recorded">') == 3
    assert '<a href="#nc-table1">' not in claims
    # A full run here needs no other.
    assert main([*words, "--force"]) == 0
    page = (out / "index.html").read_text()
    assert 'id="nc-table1-recorded"' not in page
    assert page.split('id="section-claims"')[1].count('<a href="#nc-table1">') == 3


def test_a_run_with_other_settings_is_refused_before_anything_is_computed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "nc-table1", "--out", str(tmp_path), "--quick"]) == 0
    capsys.readouterr()
    assert main(["run", "nc-table8", "nc-table1", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert f"{tmp_path} has nc-table1 with seed 7, quick, without --data" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "nc-table8.json").exists()


def test_a_page_without_recorded_results_says_so(tmp_path: Path) -> None:
    assert main(["run", "nc-table1", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "index.html").read_text()
    assert "No recorded results (links.json" in page
    assert "<code>--recorded DIR</code>" in page


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("nc-table1.json", "{", "nc-table1.json is damaged"),
        ("recorded/links.json", "{", "links.json is not JSON"),
        ("recorded/links.json", '{"settings": []}', "links.json is damaged, or not what"),
        ("recorded/switch-links.json", "{}", "switch-links.json is damaged, or not what"),
    ],
)
def test_damaged_results_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, message: str
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert main(["report", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "index.html").exists()


def _wrong(row: dict[str, Any]) -> dict[str, Any]:
    return {name: 1 if isinstance(value, str) else [value] for name, value in row.items()}


SPOILT: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "no rows": lambda own: own | {"rows": []},
    "an odd number of rows": lambda own: own | {"rows": own["rows"][:1]},
    "other types": lambda own: own | {"rows": [_wrong(row) for row in own["rows"]]},
    "another machine": lambda own: own | {"made": {"machine": {}}},
    "another time": lambda own: own | {"made": {"seconds": "long"}},
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=list(SPOILT))
def test_rows_that_cannot_be_shown_are_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:
    words = ["run", "nc-table5", "--out", str(tmp_path)]
    assert main(words) == 0
    path = tmp_path / "nc-table5.json"
    path.write_text(json.dumps(spoil(json.loads(path.read_text()))))
    capsys.readouterr()
    assert main(["report", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "nc-table5.json is damaged, or a result of another version" in error
    assert error.count("\n") == 1
    assert main([*words, "--force"]) == 0


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("links.json", b"\xff\xfe", "links.json is not UTF-8 text"),
        ("other.txt", b"", "has no recorded results"),
    ],
)
def test_a_folder_of_nothing_recorded_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, data: bytes, message: str
) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / name).write_bytes(data)
    words = ["--out", str(tmp_path / "out"), "--recorded", str(tmp_path / "given")]
    assert main(["run", "nc-table1", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_report_needs_a_folder_of_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place, message in (
        (tmp_path / "absent", "absent: there is no such folder"),
        (tmp_path, "has no results of fewbits-lab"),
    ):
        assert main(["report", str(place)]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1


def test_a_report_of_recorded_results_computes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures are blank: drawing takes half a minute, and `test_page_in_browser` looks at them."""
    blank = '<svg xmlns="http://www.w3.org/2000/svg" width="9pt" height="9pt"/>\n'
    monkeypatch.setattr(figures, "svg", lambda _: blank)
    assert main(["report", str(tmp_path / "page"), "--recorded"]) == 0
    assert "links.json" in (tmp_path / "page" / "index.html").read_text()


def test_an_interrupted_run_says_so_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["run", "nc-table1", "nc-table8", "--out", str(tmp_path)]
    real = store.obtain

    def obtain(experiment: Experiment[Any], *rest: Any, **named: Any) -> store.StudyResult:
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
        (["run", "nothing", "--out", "x"], "unknown study 'nothing': known are"),
        (["run", "nothing"], "unknown study 'nothing': known are"),
        (["run", "nc-table1"], "--out DIR is required"),
        (["squeeze"], "list"),
        (["run", "nc-table1", "--out", __file__], "must be a folder"),
        (["run", "nc-table1", "--out", f"{__file__}/deeper"], "not a directory"),
        (["run", "nc-table1", "--out", ""], "--out must name a folder"),
        (["run", "comparison", "--out", "x", "--seed", "-1"], "--seed: expected a whole number"),
        (["run", "comparison", "--out", "x", "--seed", "1e99"], "--seed: expected a whole number"),
        (["run", "comparison", "--out", "x", "--seed", "9999999999"], "from 0 to 2147483647"),
        (["all", "--quck", "--out", "x"], "unrecognized arguments: --quck"),
        (["run", "nc-table1", "--out", "x", "--recorded", "/absent"], "--recorded must be a"),
        (["run", "nc-table1", "--out", "x", "--data", "/absent"], "--data must be a folder"),
        (["run", "nc-table1", "--out", "x", "--data", ""], "--data must be a folder"),
    ],
)
def test_nonsense_is_refused_in_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main([*words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.soak
def test_all_of_them_quickly(tmp_path: Path) -> None:
    done = json.loads(command("all", "--quick", "--out", tmp_path, "--json").stdout)
    assert len(done) == len(EXPERIMENTS)
    assert (tmp_path / "index.html").stat().st_size > 100_000
