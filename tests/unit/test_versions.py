"""The versions that are said to be tested, and the word on others."""

import re
import tomllib
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "stability.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def listed(what: str) -> list[str]:
    (row,) = re.findall(rf"^\| {what} \| (.*) \|$", PAGE, re.MULTILINE)
    return re.findall(r"`([\d.]+)`", row)


def test_an_untested_torch_is_told_with_both_versions() -> None:
    pytest.importorskip("torch")
    from fewbits import attached

    with pytest.warns(UserWarning, match=r"tested with torch 2\.13.*; this is 9\.1\.0\+cpu"):
        attached.warn_of_untested("9.1.0+cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attached.warn_of_untested(f"{attached.TESTED_TORCH[-1]}.9+cu130")
    assert listed("torch") == list(attached.TESTED_TORCH)


def test_lower_bounds_and_classifiers_are_what_was_run() -> None:
    extras = PROJECT["optional-dependencies"]
    assert PROJECT["dependencies"] == [f"numpy>={listed('NumPy, the core')[0]}"]
    assert f"torch>={listed('torch')[0]}" in extras["torch"]
    assert extras["flower"] == [f"flwr>={listed('Flower')[0]}"]
    pythons = listed("Python, the core")
    assert PROJECT["requires-python"] == f">={pythons[0]}"
    named = [own.rpartition(" ")[2] for own in PROJECT["classifiers"] if "Python :: 3." in own]
    assert named == pythons


def test_the_adapters_extra_brings_no_data_sets() -> None:
    extras = PROJECT["optional-dependencies"]
    assert not any("scikit" in own or "pillow" in own for own in extras["torch"])
    assert any("scikit-learn" in own for own in extras["demo"])
