"""The results that are kept fit the experiments of today, and no path of a machine is in them."""

import json
import re
from pathlib import Path

import pytest

from fewbits_lab import runs, store
from fewbits_lab.experiment import nothing
from fewbits_lab.index import EXPERIMENTS, RECORDED, find
from fewbits_lab.results import STUDIES, paths

FULL = [own.name for own in EXPERIMENTS if own.name in paths()]


def test_there_are_some() -> None:
    assert len(FULL) >= 28


@pytest.mark.parametrize("name", FULL)
def test_a_kept_result_is_taken_up_and_explains_itself(name: str) -> None:
    experiment = find(name)
    found = store.read(experiment, paths()[name])
    assert found, "damaged"
    assert experiment.is_complete(found.rows)
    assert experiment.findings is nothing or experiment.findings(found.rows)
    assert all(claim.agrees is True or claim.why for claim in experiment.claims(found.rows))
    assert len(store.as_csv(experiment, found.rows).splitlines()) == len(found.rows) + 1


@pytest.mark.parametrize("name", FULL)
def test_a_kept_result_is_small_and_names_no_folder(name: str) -> None:
    text = paths()[name].read_text(encoding="utf-8")
    assert len(text) < 150_000
    assert '"/' not in text
    assert "/home" not in text
    settings = json.loads(text)["head"]["settings"]
    assert (settings["seed"], settings["quick"]) == (7, False)


def test_every_study_has_its_parts_and_nothing_lies_elsewhere() -> None:
    folders = [path for path in STUDIES.iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert len(folders) > 40
    for folder in folders:
        there = {path.name for path in folder.iterdir()}
        assert {"__init__.py", "run.py", "show.py"} <= there, folder.name
        assert [name for name in there if name.startswith("result")], folder.name
    kept = set(STUDIES.parent.rglob("*.json"))
    assert kept == set(paths().values())


def test_every_recorded_result_is_shown_or_said() -> None:
    shown = {own.result for own in RECORDED} | {own.name for own in EXPERIMENTS}
    sources = "".join(path.read_text() for path in STUDIES.parent.rglob("*.py"))
    said = set(re.findall(r"[\"']([a-z0-9-]+)[\"']", sources))
    assert paths().keys() <= shown | said


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("feedback", ("data", "name", "lr", "seed")),
        ("local-sgd", ("data", "method", "operator", "seed")),
        ("sharded-training", ("data", "worker", "seed", "repeat", "replicas")),
        ("streaming", ("data", "arrangement", "seed")),
        ("time-to-accuracy", ()),
    ],
)
def test_a_run_is_added_to_a_file_as_it_was(
    name: str, order: tuple[str, ...], tmp_path: Path
) -> None:
    document = json.loads(paths()[name].read_text())
    head = {key: value for key, value in document.items() if key != "runs"}
    copy = tmp_path / "result.json"
    for run in document["runs"]:
        runs.add(copy, run, head, order)
    assert copy.read_bytes() == paths()[name].read_bytes()
