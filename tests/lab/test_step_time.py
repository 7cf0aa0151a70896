"""Steps of large models: what is measured, modelled and not run, and what that decides."""

import os

import pytest

from fewbits.errors import SpecError
from fewbits_lab.experiment import StudySettings, silent
from fewbits_lab.studies.nc_step_time import gpu
from fewbits_lab.studies.nc_step_time import run as nc_step_time
from fewbits_lab.studies.nc_step_time import show as nc_step_time_show
from fewbits_lab.studies.time_saved import show as time_saved
from fewbits_lab.studies.time_saved.run import TimeSavedRow

EXPERIMENT = nc_step_time_show.NC_STEP_TIME


@pytest.fixture
def without_root(monkeypatch: pytest.MonkeyPatch) -> list[nc_step_time.NcStepTimeRow]:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return nc_step_time.rows(StudySettings(quick=True), silent)


def test_without_root_the_measurement_is_not_run_and_says_why(without_root) -> None:
    unrun = [row for row in without_root if row.kind == "not run"]
    assert {row.model for row in unrun} >= {"ResNet-110", "AlexNet", "nine ImageNet models"}
    assert "run it as root" in unrun[0].remark
    assert not [row for row in without_root if row.kind == "measured"]
    for claim in EXPERIMENT.claims(without_root):
        assert claim.agrees is None or claim.where == "Figure 9"
        assert claim.why or claim.agrees
    assert not EXPERIMENT.is_complete(without_root)
    EXPERIMENT.findings(without_root)
    EXPERIMENT.draw(without_root)


def test_the_model_counts_what_links_and_codecs_take() -> None:
    about = gpu.PaperModel(10_000_000, 0.0, 1)
    plain, natural = (gpu.step(about, name, 1e9) for name in ("none", "natural"))
    assert plain.sent_bytes == 4 * 10_000_000 * 14 / 8
    assert plain.seconds == pytest.approx(8 * plain.sent_bytes / 1e9, rel=0.01)
    assert natural.sent_bytes == pytest.approx(plain.sent_bytes * 9 / 32)
    assert natural.seconds > 8 * natural.sent_bytes / 1e9
    assert gpu.step(about, "natural, switch", 1e9).sent_bytes == 10_000_000


def test_the_computing_that_a_saving_follows_from() -> None:
    about = gpu.PaperModel(10_000_000, 1e9, 32)
    needed = gpu.compute_for(about, "natural", 1e10, 0.2)
    per_image = needed * gpu.SHARE * gpu.PEAK / 6 / about.batch
    own = about._replace(multiplications=per_image)
    plain, ours = (gpu.step(own, name, 1e10).seconds for name in ("none", "natural"))
    assert 1 - ours / plain == pytest.approx(0.2)


def measured(model: str, saved: float, low: float) -> nc_step_time.NcStepTimeRow:
    return nc_step_time.NcStepTimeRow(
        "measured", model, "natural", "", 10, 2, 1.0, 32, 0.9, 0.01, 1.0, 100, saved, low,
        saved + 1, 26.0, None,
    )  # fmt: skip


def test_claims_are_of_bytes_and_of_what_was_not_run(without_root) -> None:
    rows = [row for row in without_root if row.kind == "modelled"]
    less, *others = EXPERIMENT.claims([*rows, measured("ResNet-110", 5.0, 3.0)])
    assert less.by_formula
    assert less.ours.startswith("85.7 % less")
    assert others
    assert all(own.agrees is None and own.why for own in others)


def saved(model: str, share: float, percent: float) -> TimeSavedRow:
    return TimeSavedRow(model, "a link", 2, "natural", share, percent, share * 23 / 32)


def test_a_headline_holds_from_the_share_on_at_which_it_was_measured() -> None:
    rows = [saved("AlexNet", 95.0, 70.0), saved("x", 93.0, 66.5), saved("ResNet-110", 40.0, 27.0)]
    resnet, alexnet = time_saved.claims([*rows, saved("x", 90.0, 60.0)])
    assert (resnet.claimed, resnet.agrees, alexnet.agrees) == ("26 %", True, True)
    assert "takes 40 % and more of the plain step, measured; by the formula from 36 %" in resnet.why
    assert (
        "takes 93 % and more of the plain step, measured; by the formula from 92 %" in alexnet.why
    )
    lost = time_saved.claims([*rows, saved("x", 50.0, -5.0)])[0]
    assert "takes 93 % and more" in lost.why
    assert "at 50 %, on links as fast as this processor, it loses" in lost.why
    none = time_saved.claims([saved("ResNet-110", 8.0, 5.0), saved("AlexNet", 80.0, 60.0)])
    assert [claim.agrees for claim in none] == [True, None]
    assert time_saved.needed(26, 8 / 56) == pytest.approx(30.3, abs=0.05)
    assert time_saved.needed(66, 8 / 56) == pytest.approx(77, abs=0.05)


@pytest.mark.soak
def test_steps_on_shaped_links_take_the_time_of_their_bytes() -> None:
    from fewbits_lab.links import tools

    try:
        tools.check_ready()
    except SpecError as error:
        pytest.skip(str(error))
    linked = pytest.importorskip("fewbits_lab.studies.nc_step_time.linked")
    case = linked.LinkedCase("ResNet-110", ["none", "natural"], 2, 2)
    plain, natural = linked.measure([case], 2, 1e8)
    assert plain.parameters == natural.parameters == 1_727_962
    assert plain.sent_bytes == pytest.approx(4 * plain.parameters, rel=0.05)
    assert natural.sent_bytes == pytest.approx(plain.sent_bytes * 9 / 32, rel=0.1)
    assert min(plain.seconds) > 0.9 * 8 * plain.sent_bytes / 1e8
