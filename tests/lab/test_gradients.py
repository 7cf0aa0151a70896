"""Recorded gradients: what is counted on them, and comparisons that could come out otherwise."""

import math

import numpy as np
import pytest

import fewbits
from fewbits.errors import SpecError
from fewbits.train import data
from fewbits_lab import fitting, vectors
from fewbits_lab.experiment import StudySettings, silent
from fewbits_lab.fitting import Knob
from fewbits_lab.recordings import gradients
from fewbits_lab.recordings import training as recording
from fewbits_lab.studies.equal_bytes import run as equal_bytes
from fewbits_lab.studies.equal_bytes import show as equal_bytes_show
from fewbits_lab.studies.gradients import run as by_layer
from fewbits_lab.studies.nc_figure21 import run as nc_figure21
from fewbits_lab.studies.nc_figure21 import show as nc_figure21_show


@pytest.fixture(scope="module")
def steps() -> list[recording.RecordedStep]:
    return recording.record("cnn", data.load("digits"), (1, 3), 7)


@pytest.fixture
def few(steps: list[recording.RecordedStep], monkeypatch: pytest.MonkeyPatch) -> StudySettings:
    """Two steps of one model in place of all."""
    own = tuple(gradients.RecordedModel("cnn", "digits", step) for step in steps)
    monkeypatch.setattr(gradients, "_recorded", lambda *_: own)
    return StudySettings(quick=True)


def test_gradients_are_those_of_the_loss(steps: list[recording.RecordedStep]) -> None:
    """Ten classes: the first loss is near ln 10; the same seed records the same bits."""
    assert [step.number for step in steps] == [1, 3]
    assert steps[0].loss == pytest.approx(math.log(10), abs=0.1)
    again = recording.record("cnn", data.load("digits"), (1,), 7)
    assert np.array_equal(again[0].vector, steps[0].vector)
    assert not np.array_equal(steps[1].vector, steps[0].vector)
    assert steps[0].vector.size == sum(own.size for own in steps[0].gradients.values())


def test_recording_leaves_torch_as_it_was() -> None:
    import torch

    before = torch.random.get_rng_state(), torch.get_num_threads()
    recording.record("cnn", data.load("digits"), (1,), 7)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert torch.get_num_threads() == before[1]


def test_data_that_is_not_there_is_refused_or_replaced(tmp_path: object) -> None:
    assert gradients._dataset("cnn", str(tmp_path)).name == "digits"
    assert gradients._dataset("gpt", None).is_text
    with pytest.raises(SpecError, match="--data must be a folder"):
        gradients._dataset("cnn", "nowhere")


def test_exponents_are_counted() -> None:
    x = np.float32([0, -0.0, 1, 1.99, -2, 3.9, 0.5, -0.3, 2.0**-149])
    assert nc_figure21.exponents(x) == {None: 2, -149: 1, -2: 1, -1: 1, 0: 2, 1: 2}


def test_shares_of_exponents_leave_zeros_out(few: StudySettings) -> None:
    table = nc_figure21.rows(few, silent)
    for step in (1, 3):
        assert sum(row.share for row in table if row.step == step) == pytest.approx(1)
    wide = nc_figure21_show.share_within(table, -149, 127)
    narrow = nc_figure21_show.share_within(table, -12, -12)
    assert wide == 1
    assert 0 < narrow < 0.5
    bulk, clip = nc_figure21_show.claims(table)
    assert bulk.agrees
    assert clip.agrees
    row = nc_figure21.NcFigure21Row
    far = [row("m", "d", 1, -60, 9, 0.9), row("m", "d", 1, -10, 1, 0.1)]
    assert [claim.agrees for claim in nc_figure21_show.claims(far)] == [False, False]
    assert all(claim.why for claim in nc_figure21_show.claims(far))


def test_layers_are_the_whole_model_cut_up(few: StudySettings) -> None:
    table = by_layer.rows(few, silent)
    whole = [row for row in table if row.layer == by_layer.ALL]
    assert len(whole) == 2
    for one in whole:
        parts = [row for row in table if row.step == one.step and row.layer != by_layer.ALL]
        assert sum(row.values for row in parts) == one.values
        assert {row.layer for row in parts} >= {by_layer.GRADIENTS_SMALL, "3.0.weight"}
    for row in table:
        assert 0 < row.entropy < math.log2(row.distinct) + 1e-9
        assert 0 < row.error < 1.5 / 8  # one draw, in which a few values have most of the norm
        # A frame has signs too, of values that are not 0, a table and a header.
        sent = row.entropy + (1 - row.zeros)
        assert 0.8 * sent < row.rans_bits < sent + 0.1 + 8 * 400 / row.values


def test_operators_have_no_more_bytes_than_the_baselines(
    few: StudySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(equal_bytes, "_QUICK_VALUES", 1 << 15)
    table = equal_bytes.rows(few, silent)
    for budget in equal_bytes.BUDGETS:
        own = [row for row in table if row.budget == budget]
        room = min(row.bits for row in own if row.baseline)
        names = {row.operator for row in own if not row.baseline}
        assert names >= {"sparse, subtractive", "sparse, stochastic", "standard dithering"}
        for row in own:
            assert row.baseline or room / 2 <= row.bits <= room
        if budget <= 4:  # beyond, codes of 16 bits end what sparse layers can use
            tuned = [row for row in own if row.operator.startswith("sparse")]
            assert all(row.bits > 0.95 * room for row in tuned)
    for name in ("sparse, stochastic", "sparse, subtractive", "sparse, least squares"):
        errors = [row.error for row in table if row.operator == name]
        assert errors == sorted(errors, reverse=True)
        assert errors[0] > 10 * errors[-1] > 0
    one_bit = next(row for row in table if row.operator == "EDEN, 1 bit")
    assert one_bit.error == pytest.approx(0.571, rel=0.1)
    assert any("Behind" in text for text in equal_bytes_show.findings(table))


def test_the_finest_setting_fits_and_the_next_does_not() -> None:
    x = vectors.gaussian(20_000, 5)
    size = fitting.frame_size(x, 1)
    for knob in (
        Knob("sparse-dithering:nu={:.6g}", 60, 1e-4),
        Knob("top-k:fraction={:.6g}|natural", 1e-4, 1),
        Knob("standard-dithering:p=2,levels={:.0f},coder=rans", 1, 5000),
    ):
        spec = fitting.finest(size, knob, 5000)
        assert spec is not None
        assert 4800 < len(fewbits.compress(x, spec, seed=1)) <= 5000


def test_settings_that_are_refused_count_as_too_long() -> None:
    size = fitting.frame_size(vectors.gaussian(1 << 18, 5), 1)
    assert size("sparse-dithering:nu=1e-6") == math.inf
    assert fitting.finest(size, Knob("sparse-dithering:nu={:.6g}", 1, 1e-7), 1 << 30) is not None
    assert fitting.finest(size, Knob("sparse-dithering:nu={:.6g}", 1, 1e-3), 100) is None
