"""The evidence for presets: what was run, and ranks in one process are those of DDP."""

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from fewbits.presets import PRESETS
from fewbits_lab.results import results
from fewbits_lab.studies.feedback import show as feedback_show
from fewbits_lab.studies.feedback import text as feedback
from fewbits_lab.studies.feedback.show import LARGEST_DIFFERENCE

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "feedback.md").read_text()
RANKS, SEED = 2, 3


def script(name: str) -> ModuleType:
    pytest.importorskip("torch")
    return importlib.import_module(f"fewbits_lab.{name}")


def test_every_configuration_was_trained_alike() -> None:
    names = feedback_show.ORDER
    found = results("feedback")
    for data, task in found["tasks"].items():
        expected = {(name, lr, seed) for name in names for lr in task["rates"] for seed in range(5)}
        runs = [run for run in found["runs"] if run["data"] == data]
        assert {(run["name"], run["lr"], run["seed"]) for run in runs} == expected
        assert len(runs) == len(expected)


@pytest.mark.parametrize("data", ["digits", "mnist"])
def test_tiny_has_the_fewest_bits_of_what_is_equal_to_plain_with_every_model(data: str) -> None:
    found, cnn = results("feedback"), results("feedback-cnn")["runs"]
    specs = {run["name"]: (run["operator"], run["feedback"]) for run in found["runs"]}
    tiny = (PRESETS["tiny"].operator, PRESETS["tiny"].feedback)
    own = feedback_show.summaries(found, data)
    (name,) = [name for name, spec in specs.items() if spec == tiny]
    assert own[name].equal
    for other in own.keys() - {feedback_show.FEEDBACK_PLAIN, name}:
        if own[other].equal and own[other].bits < own[name].bits:
            of_plain, of_other = (
                feedback_show.best([run for run in cnn if run["name"] == one])
                for one in ("plain", other)
            )
            gaps = [a["accuracy"] - b["accuracy"] for a, b in zip(of_plain, of_other, strict=True)]
            assert 100 * np.mean(gaps) > LARGEST_DIFFERENCE
    assert f"`tiny`: {feedback.label({'operator': tiny[0], 'feedback': tiny[1]})[8:]}" in PAGE


def test_averages_of_natural_are_ten_times_nearer_than_nearest_fp8() -> None:
    found = results("bias")["draws"]
    assert found["number"] == 20_000
    for own in found["gradients"].values():
        assert own["natural"] <= own["e4m3"] / 10


def test_the_reference_of_e4m3_is_that_of_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    bias = script("studies.bias.run")
    draw = np.random.default_rng(1)
    x = (draw.standard_normal((3, 1000)) * np.exp(3 * draw.standard_normal((3, 1000)))).astype("f4")
    blocks, scale = bias.scaled(x, 448.0)
    cast = blocks.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert np.array_equal(bias.e4m3(x), bias.unscaled(cast, scale, x))
