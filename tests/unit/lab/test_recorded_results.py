"""The results that are kept fit the experiments of today, and no path of a machine is in them."""

import json
from pathlib import Path

import pytest

from fewbits import lab
from fewbits.lab import store

FOLDER = Path(__file__).parents[3] / "benchmarks" / "results" / "lab"
NAMES = ("bits-error", "nc-figure21", "gradients", "equal-bytes", "codec-speed", "peers")


@pytest.mark.parametrize("name", NAMES)
def test_a_kept_result_is_of_this_version_and_can_be_shown(name: str) -> None:
    text = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    document, experiment = json.loads(text), lab.find(name)
    assert len(text) < 150_000
    assert document["head"]["version"] == experiment.version
    assert document["head"]["settings"] == {"seed": 7, "quick": False, "data": True}
    rows = [experiment.row(**row) for row in document["rows"]]
    assert experiment.findings(rows)
    assert all(claim.agrees is not False or claim.why for claim in experiment.claims(rows))
    assert len(store.as_csv(experiment, rows).splitlines()) == len(rows) + 1
    assert "/home" not in text
    assert "/work" not in text


def test_the_figures_source_is_the_one_of_the_readme() -> None:
    """Both files are of one measurement."""
    kept = json.loads((FOLDER / "bits-error.json").read_text())["rows"]
    shown = json.loads((FOLDER.parent / "bits-error.json").read_text())
    curves = [row for curve in shown["curves"].values() for row in curve]
    every = [*shown["operators"], *curves, *shown["baselines"]]
    assert kept == every
