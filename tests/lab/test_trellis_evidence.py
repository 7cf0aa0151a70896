"""The evidence for `trellis` and `two-bit`: what was measured, and that it says what pages say."""

import math
from pathlib import Path

import numpy as np
import pytest

from fewbits.presets import PRESETS
from fewbits_lab.results import results
from fewbits_lab.studies.bits_error import text as bits_error
from fewbits_lab.studies.trellis_bits import run, show, text
from fewbits_lab.studies.two_bit_training import run as training
from fewbits_lab.studies.two_bit_training import show as training_show

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("resnet", "alexnet", "gpt")
VECTORS = ["gaussian", *(f"{model}-step{step:04}" for model in MODELS for step in (2, 10, 40))]


def test_every_vector_was_measured_at_every_number_of_bits() -> None:
    rows = results("trellis-bits")["runs"]
    keys = [(row["vector"], row["operator"], row["bits"]) for row in rows]
    assert len(set(keys)) == len(keys)
    asked = {
        (vector, operator, bits)
        for vector in VECTORS
        for operator in (run.EDEN, run.SCALAR, run.TRELLIS)
        for bits in run.EQUAL_RATES
    }
    assert asked <= set(keys)
    assert all(row["bits_per_value"] <= row["bits"] for row in rows if row["operator"] in run.FORMS)


def test_frames_say_the_same_again() -> None:
    """One case, measured once more: frames are the same on every machine."""
    x = run.vector("gaussian")
    (row,) = [
        row
        for row in results("trellis-bits")["runs"]
        if (row["vector"], row["operator"], row["bits"]) == ("gaussian", run.TRELLIS, 2.0)
    ]
    found = run.measured([x], row["spec"], x)
    assert found.bits == row["bits_per_value"]
    assert found.error == pytest.approx(row["relative_squared_error"], rel=1e-9)


def test_the_trellis_is_ahead_of_eden_everywhere() -> None:
    document = results("trellis-bits")
    found = show.errors(document["runs"])
    for vector in VECTORS:
        for bits in run.EQUAL_RATES:
            assert found[vector, run.TRELLIS, bits] < found[vector, run.EDEN, bits]
    assert "in 100 of 100 cases" in show.findings(document)[0]
    assert not show.equal_table(document["runs"]).lost


def test_the_scalar_quantiser_is_ahead_of_the_trellis_on_long_gradients_only() -> None:
    found = show.errors(results("trellis-bits")["runs"])
    for vector in VECTORS:
        for bits in run.EQUAL_RATES:
            scalar, own = (found[vector, name, bits] for name in (run.SCALAR, run.TRELLIS))
            assert own < scalar or (vector != "gaussian" and bits >= 5)


def test_an_error_above_edens_is_told() -> None:
    rows = [
        {"vector": "gaussian", "operator": name, "bits": bits, "relative_squared_error": error}
        for bits, errors in ((7.0, (3.0, 2.0, 1.0)), (8.0, (2.0, 1.0, 4.0)))
        for name, error in zip((run.EDEN, run.SCALAR, run.TRELLIS), errors, strict=True)
    ]
    said = show.findings({"runs": rows})
    assert "in 1 of 2 cases" in said[0]
    assert "EDEN is ahead on gaussian at 8 bits." in said[1]
    assert "2.00 times less error" in said[1]
    assert show.equal_table(rows).lost == {1}


def test_the_bound_is_below_every_unbiased_row_of_the_gaussian_vector() -> None:
    for row in results("trellis-bits")["runs"]:
        unbiased = row["operator"] in (run.EDEN, run.FP8, run.SCALAR, run.TRELLIS)
        if row["vector"] == "gaussian" and unbiased:
            assert row["relative_squared_error"] > show.least(row["bits_per_value"])


def test_errors_on_recorded_gradients_are_far_below_those_before_phase_tables() -> None:
    table = show.before_table(results("trellis-bits")["runs"])
    assert len(table.rows) == 4 * 6
    assert not table.lost


def test_a_search_fills_its_budget_or_has_none() -> None:
    x = np.random.default_rng(3).standard_normal(20_000, np.float32)
    row = run.measure(x, run.TRELLIS, 3.0)
    assert row is not None
    assert 0.98 * 3 < row["bits_per_value"] <= 3
    assert run.measure(x, run.NEAREST_TRELLIS, 0.5) is None


def test_eden_between_whole_numbers_of_bits_lies_between_its_errors() -> None:
    assert run.eden_formula(1.0) == pytest.approx(math.pi / 2 - 1)
    assert run.eden_formula(2.0) < run.eden_formula(1.5) < run.eden_formula(1.0)
    assert run.eden_formula(0.5) == pytest.approx(2 * math.pi / 2 - 1)


def test_the_presets_are_those_that_were_measured() -> None:
    for name, bits in (("one-bit", 1.0), ("two-bit", 2.0)):
        measured = float(text.nu(run.TRELLIS, bits).removeprefix("nu="))
        given = float(PRESETS[name].operator.partition("nu=")[2].partition(",")[0])
        assert given == pytest.approx(measured, rel=0.05)


def test_a_gpt_was_trained_with_two_bits_and_the_page_has_the_verdict() -> None:
    document = results("two-bit-training")
    assert document["spec"] == PRESETS["two-bit"].operator
    outcomes = training_show.outcomes(document["runs"])
    assert list(outcomes) == [task.steps for task in training.TEXT_TASKS]
    said = " ".join(training_show.findings(document))
    page = " ".join((ROOT / "docs" / "accuracy.md").read_text().split())
    for steps, found in outcomes.items():
        assert len(found.gaps) == 3
        assert found.share >= 0.98
        assert found.whole >= 12
        assert found.units >= 14
        own = said.partition(f"After {steps} steps")[2].partition(" errors.")[0]
        assert own.endswith(f"{'within' if found.within else 'beyond'} two standard")
        assert f"After {steps} steps{own} errors." in page


def test_the_gain_of_the_trellis_is_below_the_largest_and_above_that_of_lattices() -> None:
    """Leech's lattice, the best of 24 dimensions, gains 1.03 dB (Conway and Sloane)."""
    said = bits_error.granular()
    gain = float(said.partition("a gain of ")[2].partition(" dB")[0])
    assert 1.03 < gain < 1.53
    assert said in (ROOT / "docs" / "theory.md").read_text()


def test_every_number_of_states_was_measured_and_the_goals_are_met() -> None:
    table = show.states_table(results("trellis-bits")["runs"])
    assert [row[0] for row in table.rows] == [f"{bits:g}" for bits in run.STATE_RATES]
    assert not table.lost


def test_speeds_below_their_goals_are_marked() -> None:
    document, table = results("trellis-bits-speed"), show.speed_table()
    assert document["simd"] == "avx2"
    for place, row in enumerate(document["runs"]):
        slow = row["encode"] < 0.18 or row["decode"] < 0.27
        assert (place in table.lost) == (slow and "trellis" in row["operator"])


def test_a_number_of_states_that_misses_its_goal_is_marked() -> None:
    """Of 0.2 bits above the bound."""
    rows = [
        {"operator": name, "bits": bits, "bits_per_value": bits + 0.2,
         "relative_squared_error": 4.0**-bits}
        for name in run.STATE_FORMS for bits in run.STATE_RATES
    ]  # fmt: skip
    table = show.states_table(rows)
    assert {table.rows[place][0] for place in table.lost} == {"0.5", "1", "1.5", "2", "3", "4", "6"}
