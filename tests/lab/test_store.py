"""Results are kept, taken up again, and shown on a page that needs nothing else."""

import csv
import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fewbits.errors import SpecError
from fewbits_lab import figures, store
from fewbits_lab.experiment import Experiment, StudySettings
from fewbits_lab.index import EXPERIMENTS, find
from fewbits_lab.printed import Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Comparison):
    operator: str
    size: float | None


def make(calls: list[StudySettings], name: str = "trial") -> Experiment[Row]:
    def compute(settings, tick):
        calls.append(settings)
        tick(1.0)
        wrong = Row(printed="2.0", ours=3.25, reproduces=False, reason="a <slip> &c",
                    operator="one, two", size=None)  # fmt: skip
        return [wrong, replace(wrong, ours=2.0, reproduces=True, reason="", size=1e-3)]

    def draw(rows):
        drawn, (plot,) = figures.panels("trial")
        plot.plot([row.ours for row in rows])
        return drawn

    def findings(rows):
        return [f"{len(rows)} rows < 3"]

    return Experiment(name, "A <trial>", "About & so on", Row, compute, draw, findings)


def test_a_finished_result_is_not_computed_again(tmp_path: Path) -> None:
    calls: list[StudySettings] = []
    experiment, settings = make(calls), StudySettings(seed=3)
    first = store.obtain(experiment, settings, tmp_path)
    again = store.obtain(experiment, settings, tmp_path)
    assert (first.fresh, again.fresh) == (True, False)
    assert (first.rows, first.made) == (again.rows, again.made)
    assert len(calls) == 1
    store.obtain(experiment, settings, tmp_path, force=True)
    store.obtain(experiment, StudySettings(seed=4), tmp_path, force=True)
    store.obtain(replace(experiment, version=2), StudySettings(seed=4), tmp_path)
    assert calls == [settings, settings, StudySettings(seed=4), StudySettings(seed=4)]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"head": 1, "rows": []}', "half"])
def test_a_damaged_result_is_computed_again(tmp_path: Path, damage: str) -> None:
    calls: list[StudySettings] = []
    experiment = make(calls)
    rows = store.obtain(experiment, StudySettings(), tmp_path).rows
    path = tmp_path / "trial.json"
    text = path.read_text()
    path.write_text(text[: len(text) // 2] if damage == "half" else damage)
    with pytest.raises(SpecError, match=r"trial\.json is damaged.* makes it anew"):
        store.load(experiment, tmp_path)
    assert store.obtain(experiment, StudySettings(), tmp_path).fresh
    again = store.load(experiment, tmp_path)
    assert again is not None
    assert again.rows == rows
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("wrong", [{"operator": 1}, {"ours": "2"}, {"size": [1.0]}, None])
def test_rows_of_other_types_are_computed_again(
    tmp_path: Path, wrong: dict[str, object] | None
) -> None:
    experiment = make([])
    store.obtain(experiment, StudySettings(), tmp_path)
    path = tmp_path / "trial.json"
    document = json.loads(path.read_text())
    document["rows"] = [document["rows"][0] | wrong] if wrong else []
    path.write_text(json.dumps(document))
    with pytest.raises(SpecError, match=r"trial\.json is damaged"):
        store.load(experiment, tmp_path)
    assert store.obtain(experiment, StudySettings(), tmp_path).fresh


def test_a_result_says_when_where_and_how_it_was_made(tmp_path: Path) -> None:
    store.obtain(make([]), StudySettings(), tmp_path)
    document = json.loads((tmp_path / "trial.json").read_text())
    assert document["head"]["settings"] == {"seed": 7, "quick": False, "data": None}
    made = document["made"]
    assert made.keys() == {"on", "seconds", "machine"}
    assert {"cpu", "fewbits", "python", "numpy", "torch"} <= made["machine"].keys()


def test_a_result_of_another_version_is_named(tmp_path: Path) -> None:
    store.obtain(make([]), StudySettings(), tmp_path)
    with pytest.raises(SpecError, match="is of version 1, trial of 2: 'fewbits-lab run trial"):
        store.load(replace(make([]), version=2), tmp_path)


def test_a_result_of_another_experiment_is_named(tmp_path: Path) -> None:
    store.obtain(make([], "other"), StudySettings(), tmp_path)
    (tmp_path / "other.json").rename(tmp_path / "trial.json")
    with pytest.raises(SpecError, match=r"is another experiment's, of 'other' and not of trial"):
        store.load(make([]), tmp_path)


def test_csv_has_all_digits_and_nothing_where_nothing_is(tmp_path: Path) -> None:
    result = store.obtain(make([]), StudySettings(), tmp_path)
    lines = store.as_csv(result.experiment, result.rows).splitlines()
    first, second = csv.DictReader(lines)
    assert list(first) == ["operator", "size", "printed", "ours", "reproduces", "reason"]
    assert first["operator"] == "one, two"
    assert (first["size"], second["size"]) == ("", "0.001")
    assert first["reproduces"] == "False"


def test_a_result_does_not_name_the_folder_of_its_data(tmp_path: Path) -> None:
    calls: list[StudySettings] = []
    experiment = make(calls)
    store.obtain(experiment, StudySettings(data="/some/where"), tmp_path)
    text = (tmp_path / "trial.json").read_text()
    assert "where" not in text
    assert json.loads(text)["head"]["settings"]["data"] is True
    assert not store.obtain(experiment, StudySettings(data="/else"), tmp_path).fresh
    assert store.obtain(experiment, StudySettings(), tmp_path, force=True).fresh


@pytest.mark.parametrize(
    "other", [StudySettings(seed=8), StudySettings(quick=True), StudySettings(data="/some/where")]
)
def test_a_result_of_other_settings_is_not_lost(tmp_path: Path, other: StudySettings) -> None:
    calls: list[StudySettings] = []
    experiment = make(calls)
    store.obtain(experiment, StudySettings(), tmp_path)
    before = (tmp_path / "trial.json").read_bytes()
    there = r"has trial with seed 7, full, without --data, and not with .*: --force replaces it"
    with pytest.raises(SpecError, match=there):
        store.obtain(experiment, other, tmp_path)
    assert (tmp_path / "trial.json").read_bytes() == before
    assert len(calls) == 1
    assert store.obtain(experiment, other, tmp_path, force=True).fresh


def test_what_was_not_run_is_not_finished(tmp_path: Path) -> None:
    calls: list[StudySettings] = []
    lacking = replace(make(calls), is_complete=lambda rows: len(rows) > 2)
    for settings in (StudySettings(), StudySettings(), StudySettings(data="/some/where")):
        assert store.obtain(lacking, settings, tmp_path).fresh
    assert len(calls) == 3


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecError, match="must be a folder"):
        store.check_ready(tmp_path / "file")


def test_names_are_unique_and_found() -> None:
    names = [experiment.name for experiment in EXPERIMENTS]
    assert len(set(names)) == len(names)
    for experiment in EXPERIMENTS:
        assert find(experiment.name) is experiment
    with pytest.raises(SpecError, match="did you mean 'nc-table1'"):
        find("table1")
    with pytest.raises(SpecError, match=f"known are {', '.join(names)}$"):
        find("zzzz")
