"""What is measured: laws, rates and bounds that must hold whatever the seed."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import fewbits
from fewbits import registry
from fewbits.theory import uncertainty as principle
from fewbits_lab import vectors
from fewbits_lab.experiment import StudySettings, silent
from fewbits_lab.problems import descent, logistic
from fewbits_lab.studies.comparison import run as comparison
from fewbits_lab.studies.nc_figure3 import run as nc_figure3
from fewbits_lab.studies.oc_convergence import run as oc_convergence
from fewbits_lab.studies.oc_convergence import show as oc_convergence_show
from fewbits_lab.studies.oc_spherical import run as oc_spherical
from fewbits_lab.studies.oc_sweep import run as oc_sweep
from fewbits_lab.studies.oc_sweep import show as oc_sweep_show
from fewbits_lab.studies.uncertainty import run as uncertainty

QUICK = StudySettings(quick=True)


def check_uncertainty(rows: list[uncertainty.UncertaintyRow]) -> None:
    for row in rows:
        if row.error == 0:
            assert row.product is None
        elif row.alpha < 1:
            assert row.product >= 1, row
            assert row.bits_per_value >= principle.uncertainty_bits(row.alpha, 1)
        else:
            pytest.fail(f"nothing is kept: {row}")


def test_nobody_breaks_the_uncertainty_principle() -> None:
    rows = uncertainty.rows(QUICK, silent)
    assert {row.d for row in rows} == {100}
    assert len(rows) >= 30
    measured = {row.operator for row in rows}
    assert measured >= {fewbits.operator(name).spec for name in registry.catalogue().aliases}
    assert measured >= registry.catalogue().by_name.keys()
    assert [row.operator for row in rows if row.product is None] == ["identity"]
    check_uncertainty(rows)


@pytest.mark.soak
def test_nobody_breaks_the_uncertainty_principle_in_higher_dimensions() -> None:
    rows = uncertainty.rows(StudySettings(), silent)
    assert {row.d for row in rows} == {100, 1000, 10_000}
    check_uncertainty(rows)
    # A test that nothing could fail would be none: the best comes within a fifth.
    assert min(row.product for row in rows if row.product) < 1.25


def test_worst_errors_keep_the_promises() -> None:
    """The measured worst case is at most the guarantee, and at least half of the tight ones."""
    kinds = vectors.families(100, 3)
    for spec in ("natural", "sparse-dithering:nu=0.1,rounding=stochastic", "top-k|natural"):
        row = uncertainty.worst(spec, kinds, range(12))
        bound = fewbits.operator(spec).guarantee(100).error
        assert bound / 2 < row.error < 1.15 * bound


def test_frequencies_of_levels_are_the_chances() -> None:
    for row in nc_figure3.rows(QUICK, silent):
        deviation = math.sqrt(row.ours * (1 - row.ours) / row.trials)
        assert abs(row.measured - row.ours) <= 4 * deviation
        assert row.reproduces in (None, True)


@pytest.mark.soak
def test_frames_of_spherical_are_near_their_law() -> None:
    for row in oc_spherical.rows(QUICK, silent):
        if row.measured is not None:
            assert row.measured == pytest.approx(row.ours, rel=0.03), row


def test_the_simulated_cap_has_the_mean_of_the_law() -> None:
    """Mean error and rate of the simulated operator, by formulas of the real one."""
    from fewbits.families import caps

    alpha, d, trials = 0.5, 8, 4000
    compress = oc_convergence._spherical(alpha, d, seed=5)
    x = np.random.default_rng(1).standard_normal(d)
    sent = [compress(x, number) for number in range(trials)]
    errors = np.array([np.sum((one.value - x) ** 2) / (x @ x) for one in sent])
    assert errors.max() <= alpha + 1e-12
    mean = 2 - alpha - 2 * math.sqrt(1 - alpha) * caps.mean_cosine(alpha, d)
    assert abs(errors.mean() - mean) <= 4 * errors.std() / math.sqrt(trials)
    bits = np.array([one.bits[0] for one in sent]) - oc_convergence.NORM_BITS
    chance = caps.probability(alpha, d)
    expected = caps.rice_bits(chance, caps.rice_parameter(chance, 40))
    assert abs(bits.mean() - expected) <= 4 * bits.std() / math.sqrt(trials)


def test_descent_counts_steps_and_bits() -> None:
    problem = descent.Quadratic.random(20, 10.0, 2)
    assert np.linalg.eigvalsh(problem.matrix) == pytest.approx(np.geomspace(0.1, 1, 20))
    plain = descent.plain_steps(problem)
    run = descent.descend(problem, lambda g, _: descent.SentVector(g, (32.0 * 20, 1.0)), 1.0, 1000)
    assert run == (plain, (32.0 * 20 * plain, 1.0 * plain))
    lost = descent.descend(problem, lambda g, _: descent.SentVector(0 * g, (1.0,)), 1.0, 7)
    assert lost == (None, (7.0,))
    fitted = descent.conditioned(lambda c: descent.Quadratic.random(6, c, 3), 100)
    assert descent.plain_steps(fitted) == pytest.approx(100, abs=2)


def test_steps_are_measured_in_units_of_the_smoothness() -> None:
    """A function times 5 has gradients times 5 and is descended in as many steps."""

    @dataclass(frozen=True)
    class Steeper:
        own: descent.Quadratic
        smoothness: float = 5.0

        start = property(lambda self: self.own.start)
        solution = property(lambda self: self.own.solution)

        def gradient(self, x: np.ndarray) -> np.ndarray:
            return 5 * self.own.gradient(x)

    own = descent.Quadratic.random(12, 8.0, 2)
    assert descent.plain_steps(Steeper(own)) == descent.plain_steps(own) > 20


def test_logistic_regression_knows_its_gradient_smoothness_and_solution() -> None:
    samples = logistic.breast_cancer()
    assert samples.shape == (569, 10)
    assert np.abs(samples).max(axis=0) == pytest.approx(np.ones(10))
    problem = logistic.Logistic(samples, 0.01)
    rng = np.random.default_rng(4)
    x, direction = rng.standard_normal((2, 10))

    def value(at: np.ndarray) -> float:
        return float(np.logaddexp(0, -samples @ at).mean() + 0.005 * (at @ at))

    slope = (value(x + 1e-5 * direction) - value(x - 1e-5 * direction)) / 2e-5
    assert problem.gradient(x) @ direction == pytest.approx(slope, rel=1e-6)
    assert np.linalg.norm(problem.gradient(problem.solution)) < 1e-12
    pairs = rng.standard_normal((200, 2, 10))
    grown = [
        np.linalg.norm(problem.gradient(a) - problem.gradient(b)) / np.linalg.norm(a - b)
        for a, b in pairs
    ]
    # Attained at the origin, along the leading direction of the samples.
    assert max(grown) <= problem.smoothness
    lead = np.linalg.eigh(samples.T @ samples)[1][:, -1]
    steepest = np.linalg.norm(problem.gradient(1e-4 * lead) - problem.gradient(0 * lead)) / 1e-4
    assert steepest == pytest.approx(problem.smoothness, rel=1e-3)


def test_the_figures_are_met_on_real_data() -> None:
    rows = {(row.problem, row.operator): row for row in oc_convergence.rows(QUICK, silent)}
    assert rows.keys() == oc_convergence.PRINTED.keys()
    for problem, case in oc_convergence.PROBLEMS.items():
        assert rows[problem, "basic"].steps == pytest.approx(case.steps, abs=2)
        assert rows[problem, "basic"].reproduces
        assert rows[problem, "spherical"].reproduces
        # Each saves at least two thirds of what the figure says it saves.
        for operator in (oc_convergence.BIASED, oc_convergence.CONVERGENCE_UNBIASED):
            row = rows[problem, operator]
            assert row.ours < 1.5 * float(row.printed)
    first, second = oc_convergence_show.findings(list(rows.values()))
    assert "ridge (scikit-learn's diabetes data" in first
    assert "logistic (scikit-learn's breast cancer data" in second
    assert all(claim.agrees for claim in oc_convergence_show.claims(list(rows.values())))
    assert {row.seeds for row in rows.values()} == {1, 2}


def test_the_figures_take_the_papers_files_where_they_are(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for name, targets in (
        ("bodyfat", rng.random(60)),
        ("breast-cancer", 2 + 2 * (rng.random(60) < 0.4)),
    ):
        lines = [
            f"{target:g} " + " ".join(f"{at}:{value:.3f}" for at, value in enumerate(row, 1))
            for target, row in zip(targets, rng.standard_normal((60, 4)), strict=True)
        ]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    ridge, logistic = (
        oc_convergence._problem(name, str(tmp_path)) for name in oc_convergence.PROBLEMS
    )
    assert (ridge[0], logistic[0]) == ("bodyfat", "breast-cancer")
    assert ridge[1].start.size == logistic[1].start.size == 4
    ours = oc_convergence._problem("ridge", None)
    assert ours[0] == oc_convergence.PROBLEMS["ridge"].ours
    assert ours[1].start.size == 14


def test_findings_are_about_the_rows() -> None:
    def row(
        rounding: str, nu: float, steps: float | None, size: float | None
    ) -> oc_sweep.OcSweepRow:
        less = 1000 / size if size else None
        return oc_sweep.OcSweepRow(rounding, nu, None, steps, None, None, size, None, less, 0, 1)

    table = [
        row("none", 0.0, 100.0, 1000.0),
        row("nearest", 0.1, 99.0, 200.0),
        row("nearest", 1.0, 101.0, 100.0),
        row("nearest", 2.0, None, None),
        row("stochastic", 0.1, 110.0, 240.0),
        row("stochastic", 1.0, 90.0, 250.0),
        row("stochastic", 2.0, 300.0, 500.0),
        row("subtractive", 0.1, 105.0, 250.0),
    ]
    nearest, stochastic, _, bias = oc_sweep_show.findings(table)
    assert "from ν = 0.1 to 1 steps go from 0.99 to 1.01 times" in nearest
    assert "fewest at ν = 1, 10.0 times fewer" in nearest
    assert "fewest at ν = 0.1, 4.2 times fewer" in stochastic
    assert "sends 1.20 to 2.50 times what nearest rounding sends, for ν up to 1" in bias
    assert "more steps at 1 of 2 values" in bias


def test_the_sweep_shows_what_rates_predict() -> None:
    """One ν of each kind, on the sweep's own problem."""
    problem = descent.Quadratic.random(oc_sweep.D, oc_sweep.SWEEP_CONDITION, 7)
    plain = descent.plain_steps(problem)
    for rounding in ("nearest", "stochastic"):
        row = oc_sweep._row(rounding, 0.25, [problem], [plain])
        assert row.lost == 0
        assert row.steps <= 1.05 * row.predicted
        assert row.bytes_rans < 4 * oc_sweep.D * plain / 7
        assert (row.omega is None) == (rounding == "nearest")


@pytest.mark.soak
def test_the_sweep_answers_the_papers_questions() -> None:
    """On one worker bias costs nothing: fewer bytes than unbiased rounding at every ν."""
    rows = oc_sweep.rows(StudySettings(), silent)
    steps = {(row.rounding, row.nu): row for row in rows}
    for nu in oc_sweep.NUS:
        biased, unbiased = steps["nearest", nu], steps["stochastic", nu]
        assert unbiased.lost == 0
        assert unbiased.steps <= 1.05 * unbiased.predicted
        if nu <= 1:
            assert biased.steps <= 1.05 * steps["none", 0.0].steps
            assert biased.bytes_rans < unbiased.bytes_rans
    best = max((row for row in rows if row.rounding == "stochastic"),
               key=lambda row: row.times_less_paper)  # fmt: skip
    assert 0.05 <= best.nu <= 0.5  # the paper's 0.25 is among the best


def test_gains_count_iterations() -> None:
    half = vectors.VectorMeasure(bits=2.0, error=0.5)
    assert comparison.gain(half, unbiased=False) == 8
    assert comparison.gain(half, unbiased=True) == pytest.approx(32 / 3)
    assert comparison.gain(vectors.VectorMeasure(1.0, 2.0), unbiased=False) == 0
