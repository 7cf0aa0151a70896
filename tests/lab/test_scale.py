"""The study of scale: its formulas are what few ranks really send."""

import pytest

from fewbits.collectives.payload import UNIT
from fewbits_lab.experiment import StudySettings, silent
from fewbits_lab.studies.federated_scale import run as federated_scale
from fewbits_lab.studies.scale import model
from fewbits_lab.studies.scale import run as scale
from fewbits_lab.studies.scale import show as scale_show


@pytest.mark.parametrize(("ranks", "count"), [(2, 4), (3, 7), (5, 2), (4, 17)])
@pytest.mark.parametrize("spec", ["natural", "bfloat16"])
def test_the_formula_for_bytes_is_exact_where_sizes_are_fixed(
    spec: str, ranks: int, count: int
) -> None:
    """More chunks than ranks, fewer, and more than a piece holds."""
    bits = {"natural": 9.0, "bfloat16": 16.0}[spec]
    assert model.bits_per_value(spec, 1) == bits
    sent = model.measured(spec, count * UNIT, ranks, 3)
    round_ = model.exchange(count * UNIT, ranks, 1e9, model.codec(spec, bits))
    assert sent.busiest == round_.bytes
    assert sent.headers == model.header_bytes(count * UNIT, ranks)


def test_rows_are_measured_or_modelled_and_verdicts_follow_from_seconds() -> None:
    rows = scale.rows(StudySettings(quick=True), silent)
    measured = [row for row in rows if row.kind == scale.SCALE_MEASURED]
    modelled = [row for row in rows if row.kind == scale.SCALE_MODELLED]
    assert {row.workers for row in measured} == {2, 4}
    assert max(abs(row.megabytes / row.formula - 1) for row in measured) < 0.03
    assert {row.workers for row in modelled} == set(scale.SCALE_WORKERS)
    for row in modelled:
        if row.best == row.operator:
            assert row.gain > 1
        if row.pays_below_gbit is not None and row.workers < 1000 and row.local_steps == 1:
            # Latency is left out of the border: 20 µs a hop.
            waits = 2 * 14 * model.LATENCY
            if row.gbit_per_second < 0.9 * row.pays_below_gbit and row.step_seconds > 100 * waits:
                assert row.gain > 1, row
            if row.gbit_per_second > 1.1 * row.pays_below_gbit and row.step_seconds > 100 * waits:
                assert row.gain < 1, row
    assert {row.best for row in modelled} == {"do not compress", "natural", "natural:coder=rans"}
    text = " ".join(scale_show.findings(rows))
    assert "Measured: bytes of 2 to 4 ranks" in text


def test_a_crowd_of_the_scale_study_comes_to_its_target() -> None:
    crowd = federated_scale.Crowd(10, 7)
    plain, natural = (
        federated_scale.course(crowd, contender, 10) for contender in federated_scale.CONTENDERS[:2]
    )
    assert plain.rounds is not None
    assert natural.rounds is not None
    assert natural.rounds <= plain.rounds + 2
    assert plain.up_bytes > 3 * natural.up_bytes
    assert natural.seconds < plain.seconds
