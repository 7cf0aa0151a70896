"""The study of scale: its formulas are what few ranks really send."""

import pytest

from fewbits import lab
from fewbits.lab import scale as model
from fewbits.lab.experiment import silent
from fewbits.lab.experiments import scale
from fewbits.schemes.payload import CHUNK


@pytest.mark.parametrize(("ranks", "count"), [(2, 4), (3, 7), (5, 2), (4, 17)])
@pytest.mark.parametrize("spec", ["natural", "bfloat16"])
def test_the_formula_for_bytes_is_exact_where_sizes_are_fixed(
    spec: str, ranks: int, count: int
) -> None:
    """More chunks than ranks, fewer, and more than a piece holds."""
    bits = {"natural": 9.0, "bfloat16": 16.0}[spec]
    assert model.bits_per_value(spec, 1) == bits
    sent = model.measured(spec, count * CHUNK, ranks, 3)
    round_ = model.exchange(count * CHUNK, ranks, 1e9, model.codec(spec, bits))
    assert sent.busiest == round_.bytes
    assert sent.headers == model.header_bytes(count * CHUNK, ranks)


def test_rows_are_measured_or_modelled_and_verdicts_follow_from_seconds() -> None:
    rows = scale.rows(lab.Settings(quick=True), silent)
    measured = [row for row in rows if row.kind == scale.MEASURED]
    modelled = [row for row in rows if row.kind == scale.MODELLED]
    assert {row.workers for row in measured} == {2, 4}
    assert max(abs(row.megabytes / row.formula - 1) for row in measured) < 0.03
    assert {row.workers for row in modelled} == set(scale.WORKERS)
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
    text = " ".join(scale.findings(rows))
    assert "Measured: bytes of 2 to 4 ranks" in text
