"""The theorems on bytes: worst vectors are the worst, and a map that cheats is found out."""

import pytest

from fewbits_lab import vectors
from fewbits_lab.experiment import StudySettings
from fewbits_lab.studies.theorems import exchanges, levels, natural, optimal, text
from fewbits_lab.studies.theorems.rows import Sampled, TheoremRow, judged
from fewbits_lab.vectors import VectorMeasure

QUICK = StudySettings(quick=True)
LOST = "does not hold"


def test_a_verdict_follows_from_the_numbers() -> None:
    assert judged("equals", 1.0, Sampled(1.1, 0.03), 0.0) == "holds"
    assert judged("equals", 1.0, Sampled(1.1, 0.02), 0.0) == LOST
    assert judged("at most", 1.0, Sampled(0.5), 0.0) == "holds"
    assert judged("at most", 1.0, Sampled(0.98), 0.0) == "holds, tight"
    assert judged("at most", 1.0, Sampled(1.01), 0.0) == LOST
    assert judged("at least", 1.0, Sampled(0.9), 0.0) == LOST
    assert judged("at least", 1.0, Sampled(0.9), 0.2) == "holds, tight"


@pytest.mark.parametrize("error", [0.0, 1.0], ids=["identity", "zero"])
def test_variances_refuse_a_map_that_returns_its_input_or_nothing(
    monkeypatch: pytest.MonkeyPatch, error: float
) -> None:
    monkeypatch.setattr(vectors, "measure", lambda *_: VectorMeasure(9.0, error))
    rows = [row for row in natural.variance(QUICK) if "unbiased" not in row.statement]
    fixed = "powers of two are fixed"
    assert [row.statement for row in rows if row.verdict != LOST] == ([] if error else [fixed])


def test_variances_are_reached_at_their_worst_vectors() -> None:
    rows = [*natural.variance(QUICK), *natural.dithering(QUICK)]
    assert len(rows) == 14
    assert not [row for row in rows if row.verdict == LOST]
    assert {
        row.verdict for row in rows if row.where == "Theorem 7" and row.relation != "equals"
    } == {"holds, tight"}


def test_the_programmes_worst_vector_takes_nearly_the_bits_of_the_bound() -> None:
    assert optimal.worst_bits(0.1) == pytest.approx(3.307, abs=5e-4)
    assert optimal.worst_bits(0.25) == pytest.approx(2.723, abs=5e-4)
    bits = [row for row in optimal.sparse_dithering(QUICK) if "bits of SD" in row.where]
    long = next(row for row in bits if row.d == 4096 and "just above" in row.vector)
    assert 3.30 < long.measured / 4096 < 3.33
    assert long.verdict == "holds, tight"


def test_recorded_rows_hold_and_say_what_was_asked() -> None:
    rows = text.measured()
    assert len(rows) > 80
    assert [row.statement for row in rows if row.verdict == LOST] == []
    assert {row.verdict for row in rows} == {"holds", "holds, tight"}
    composed = _one(rows, "rand-k:fraction=0.125|natural", "Theorem 5", "composition")
    assert composed.measured == pytest.approx(8, rel=0.02)
    sparse = [row.measured for row in rows if "C_nat∘S^q" in row.statement]
    assert sparse == [pytest.approx(3.16, abs=0.01), pytest.approx(35.5, abs=0.1)]
    equal = [row.measured for row in rows if row.where == levels.EQUAL]
    assert equal[:7] == [pytest.approx(1, abs=0.01)] * 7  # 2 to 8 levels
    assert all(later > 1.02 for later in equal[7:])


def test_the_second_moment_is_that_of_the_lemma() -> None:
    rows = exchanges.second_moment(QUICK)
    assert [row.relation for row in rows] == ["equals", "at most", "at most"]
    assert not [row for row in rows if row.verdict == LOST]
    assert all(row.measured > 0.9 for row in rows)


def _one(rows: list[TheoremRow], operator: str, where: str, statement: str) -> TheoremRow:
    (found,) = (
        row
        for row in rows
        if (row.operator, row.where, row.statement) == (operator, where, statement)
    )
    return found
