"""The results that are kept fit the experiments of today, and no path of a machine is in them."""

import json
from pathlib import Path

import pytest

from fewbits import lab
from fewbits.lab import store

FOLDER = Path(__file__).parents[3] / "benchmarks" / "results" / "lab"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def test_there_are_some() -> None:
    assert len(NAMES) >= 11


@pytest.mark.parametrize("name", NAMES)
def test_a_kept_result_is_taken_up_and_explains_itself(name: str) -> None:
    experiment = lab.find(name)
    found = store.finished(experiment, lab.Settings(data="any folder"), FOLDER)
    assert found, "kept with other settings or of another version"
    assert experiment.findings(found.rows)
    assert all(claim.agrees is True or claim.why for claim in experiment.claims(found.rows))
    assert len(store.as_csv(experiment, found.rows).splitlines()) == len(found.rows) + 1


@pytest.mark.parametrize("name", NAMES)
def test_a_kept_result_is_small_and_names_no_folder(name: str) -> None:
    text = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    assert len(text) < 150_000
    assert '"/' not in text
    assert "/home" not in text
    assert json.loads(text)["head"]["settings"] == {"seed": 7, "quick": False, "data": True}


def test_the_figures_source_is_the_one_of_the_readme() -> None:
    """Both files are of one measurement."""
    kept = json.loads((FOLDER / "bits-error.json").read_text())["rows"]
    shown = json.loads((FOLDER.parent / "bits-error.json").read_text())
    curves = [row for curve in shown["curves"].values() for row in curve]
    every = [*shown["operators"], *curves, *shown["baselines"]]
    assert kept == every
