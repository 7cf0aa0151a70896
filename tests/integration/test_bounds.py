"""`fewbits bounds` as a user meets it, and the uncertainty principle on measured frames."""

import json
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import fewbits
import warm_command
from fewbits import registry
from fewbits.cli import bounds
from fewbits.errors import SpecError

SPECS = [*registry.all_example_specs(4096), *registry.catalogue().aliases]


def bounds_command(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = warm_command.run_text("bounds", *arguments)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_every_operator_is_measured_and_none_beats_the_bound(tmp_path: Path) -> None:
    start = time.perf_counter()
    figure = tmp_path / "bounds.svg"
    report = json.loads(bounds_command("--json", "--plot", figure).stdout)
    assert time.perf_counter() - start < 30  # 3 on a machine of one's own
    rows = {row["spec"]: row for row in report["operators"]}
    assert rows.keys() >= registry.catalogue().by_name.keys()
    for spec, row in rows.items():
        if row["error"] > 0:
            assert row["bits_per_value"] > row["least_bits_per_value"] > 0, spec
            assert row["product"] is None or row["product"] > 1
    assert rows["identity"]["error"] == 0
    assert rows["identity"]["least_bits_per_value"] is None
    drawn = ElementTree.parse(figure).getroot()
    titles = [node.text or "" for node in drawn.iter("{http://www.w3.org/2000/svg}title")]
    assert {title.rsplit(": ", 1)[0] for title in titles} == rows.keys() - {"identity"}


def test_sizes_are_those_of_frames() -> None:
    report = json.loads(bounds_command("natural", "--values", 1000, "--json").stdout)
    assert report["vector"] == "standard normal, 1000 float32 values, seed 7"
    x = np.random.default_rng(7).standard_normal(1000, np.float32)
    (row,) = report["operators"]
    assert row["bits_per_value"] == 8 * len(fewbits.compress(x, "natural", seed=7)) / 1000
    assert 0.05 < row["error"] < 0.125


def test_the_table_says_what_is_measured_and_what_is_computed() -> None:
    text = bounds_command("natural", "sign").stdout
    assert "measured: bits" in text
    assert "computed: least bits" in text
    assert text.index("\nsign ") < text.index("\nnatural ")  # by bits


def test_the_table_names_classes_and_what_scaling_makes_of_them() -> None:
    text = bounds_command("natural", "sign", "scale|natural", "--values", 4096).stdout
    cells = {line.split()[0]: line.split()[1:3] for line in text.splitlines()[1:4]}
    assert cells["natural"] == ["U(0.125)", "B(0.1111)"]
    assert cells["scale|natural"] == ["B(0.1111)", "-"]
    assert cells["sign"] == ["C(0.9998)", "-"]


def test_theorem_9_answers_with_steps_and_step_size() -> None:
    constants = ("--workers", 4, "--variance", 2, "--dissimilarity", 1, "--target", 0.05)
    words = ("--theorem", 9, "--uplink", "rand-k:fraction=0.125|natural", *constants)
    answer = json.loads(bounds_command(*words, "--json").stdout)
    floor = 9 / 8 * (9 * 2 + 8 * 1) / 4
    slope = 9 / 8 * (1 + 8 / 4)
    assert answer["omega_uplink"] == pytest.approx(8)
    assert answer["steps"] == int(np.ceil(2 * (floor + 0.05 * slope) / 0.05**2))
    assert answer["step_size"] == pytest.approx(0.05 / (floor + 0.05 * slope))
    text = bounds_command(*words).stdout
    assert "Algorithm 1" in text
    assert f"T = {answer['steps']:,}" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--theorem", "9", "natural"), "do not go with --theorem 9"),
        (("--theorem", "9", "--uplink", "sign"), "sign: Theorem 9 is about unbiased operators"),
        (("--theorem", "9", "--target", "0"), "the target must be positive"),
        (("--theorem", "9", "--uplink", "x|"), "x"),
        (("--gap", "2"), "--gap goes with --theorem 9 only"),
        (("naturel",), "did you mean 'natural'?"),
        (("--values", "0"), "whole number"),
        (("--values", "1e9"), "at most 16,777,216"),
        (("--plot", "out.png"), "ends in .svg"),
        (("natural", "--plot", "no/such/folder/out.svg"), "no such file"),
        (("natural|",), "nothing stands"),
    ],
)
def test_nonsense_is_refused_in_one_line(arguments: tuple[str, ...], words: str) -> None:
    done = bounds_command(*arguments, code=2)
    (line,) = done.stderr.splitlines()
    assert words in line
    assert done.stdout == ""


def vectors(d: int) -> list[np.ndarray]:
    """Flat, normal, heavy-tailed, one-hot and equal values; hard for one operator or another."""
    rng = np.random.default_rng(d)
    hot = np.zeros(d, np.float32)
    hot[d // 3] = 1
    return [
        rng.standard_normal(d).astype(np.float32),
        rng.standard_t(3, d).astype(np.float32),
        rng.uniform(-1, 1, d).astype(np.float32),
        np.full(d, 4 / 3, np.float32),
        hot,
    ]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("d", [100, 4096])
def test_the_uncertainty_principle_holds_for_every_measured_worst_case(spec: str, d: int) -> None:
    try:
        operator = fewbits.operator(spec)
        operator.layout(d, fewbits.reference.formats.FLOAT32)
    except SpecError:
        pytest.skip("not for this dimension")
    rows = [bounds.measured(spec, x) for x in vectors(d)]
    error, bits = max(row.error for row in rows), max(row.bits_per_value for row in rows)
    least, product = bounds.limit(error, bits, unbiased=rows[0].omega is not None)
    if spec != "identity":
        assert least is not None
        assert product is None or product >= 1
        assert bits >= least


def test_the_limit_is_that_of_the_scaled_operator_where_there_is_no_bias() -> None:
    assert bounds.limit(0.25, 1.0, unbiased=False) == (1.0, 1.0)
    assert bounds.limit(1 / 3, 1.0, unbiased=True) == pytest.approx((1.0, 1.0))
    assert bounds.limit(0.0, 32.0, unbiased=True) == (None, None)
    assert bounds.limit(1.5, 1.0, unbiased=False) == (None, None)
    assert bounds.limit(0.25, 1e6, unbiased=False) == (1.0, None)
