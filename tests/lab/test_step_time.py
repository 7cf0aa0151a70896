"""Steps of large models: what is measured, modelled and not run, and what that decides."""

import os
from dataclasses import replace

import pytest

from fewbits.errors import SpecError
from fewbits_lab.experiment import StudySettings, silent
from fewbits_lab.studies.nc_step_time import gpu
from fewbits_lab.studies.nc_step_time import run as nc_step_time
from fewbits_lab.studies.nc_step_time import show as nc_step_time_show

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


def test_headlines_are_decided_by_what_was_measured(without_root) -> None:
    rows = [row for row in without_root if row.kind == "modelled"]
    rows += [measured("ResNet-110", 5.0, 3.0), measured("AlexNet", 70.0, 67.0)]
    resnet, alexnet, less, *others = EXPERIMENT.claims(rows)
    assert (resnet.claimed, resnet.agrees) == ("26 %", False)
    assert [claim.by_formula for claim in (resnet, alexnet, less)] == [False, False, True]
    assert "measured 5.0 % of a step" in resnet.ours
    assert "computes for 90 %" in resnet.why
    assert (alexnet.claimed, alexnet.agrees, alexnet.why) == ("66 %", True, "")
    assert less.ours.startswith("85.7 % less")
    assert all(own.agrees is None and own.why for own in others)
    unsure = [*rows[:-1], replace(rows[-1], reduction_low=60.0)]
    assert not EXPERIMENT.claims(unsure)[1].agrees


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
