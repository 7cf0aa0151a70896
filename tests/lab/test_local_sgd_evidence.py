"""The evidence for LocalSGD: ranks in one process are real ones, and what was run."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fewbits_lab.results import results
from fewbits_lab.studies.local_sgd import text as localsgd

ROOT = Path(__file__).resolve().parents[2]
RANKS, SEED, H, BATCH = 2, 3, 4, 256
OPERATOR = "natural:coder=rans"


def script(name: str) -> ModuleType:
    pytest.importorskip("torch")
    return importlib.import_module(f"fewbits_lab.{name}")


def train(*arguments: str) -> dict[str, Any]:
    command = [
        sys.executable, "-m", "fewbits.train", "--json", "--operator", OPERATOR,
        "--seed", str(SEED), "--workers", str(RANKS), "--batch-size", str(BATCH),
        "--local-steps", str(H), "--outer", "nesterov", *arguments,
    ]  # fmt: skip
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, capture_output=True, env=environment)
    run: dict[str, Any] = json.loads(done.stdout)["runs"][0]
    assert run["replicas_agree"]
    return run


@pytest.mark.soak
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    """Six processes; the gate has the same of the adapter alone."""
    kept = ("--checkpoint", str(tmp_path))
    first = train("--epochs", "1", *kept)
    resumed, whole = train("--epochs", "2", "--resume", *kept), train("--epochs", "2")
    for figure in ("parameters_sha256", "accuracy", "loss", "test_loss", "steps"):
        assert resumed[figure] == whole[figure] != first[figure], figure
    assert whole["ratio"] > 4


def runs_of_it() -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = results("local-sgd")["runs"]
    return runs


def test_every_method_was_run_with_every_operator_and_seed() -> None:
    study = script("studies.local_sgd.run")
    expected = {
        (data, method, operator, seed)
        for data, task in study.LOCAL_TASKS.items()
        for method in study.LOCAL_METHODS
        for operator in task.operators
        for seed in range(study.LOCAL_SEEDS)
    }
    found = [(r["data"], r["method"], r["operator"], r["seed"]) for r in runs_of_it()]
    assert set(found) == expected
    assert len(found) == len(expected)
    assert all(run["equal"] for run in runs_of_it())


def test_bytes_are_those_of_the_operators_frames_within_five_percent() -> None:
    for run in runs_of_it():
        if localsgd.WITH in run["operator"]:  # its messages are not the changes alone
            continue
        assert run["plain"] / run["sent"] == pytest.approx(localsgd.predicted_ratio(run), rel=0.05)
