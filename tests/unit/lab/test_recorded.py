"""The results that come with the sources: a run goes on from them, and they say what was run."""

import json
from pathlib import Path

import pytest

from fewbits import lab
from fewbits.lab import store

RECORDED = Path(__file__).parents[3] / "benchmarks" / "results" / "lab"
NAMES = [
    "nc-training-mnist", "nc-training-resnet20", "nc-training-alexnet", "nc-training-gpt",
    "nc-step-time",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_recorded_training_is_taken_up_and_explains_itself(name: str) -> None:
    experiment = lab.find(name)
    rows = store.finished(experiment, lab.Settings(data="any folder"), RECORDED)
    assert rows, "recorded with other settings or an older version"
    claims = experiment.claims(rows)
    assert claims
    assert all(claim.agrees is True or claim.why for claim in claims)
    assert experiment.findings(rows)


@pytest.mark.parametrize("name", NAMES)
def test_recorded_results_name_no_machine(name: str) -> None:
    text = (RECORDED / f"{name}.json").read_text()
    assert not [line for line in text.splitlines() if '"/' in line or "/home" in line]
    assert json.loads(text)["head"]["settings"] == {"seed": 7, "quick": False, "data": True}
