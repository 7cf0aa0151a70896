"""Data sets, ridge regression, workers sorted by label, and what their frames take."""

from pathlib import Path

import numpy as np
import pytest

import fewbits
from fewbits.errors import SpecError
from fewbits_lab.problems import datasets, descent
from fewbits_lab.problems.logistic import Logistic
from fewbits_lab.problems.ridge import Ridge
from fewbits_lab.problems.workers import CONDITION, Workers
from fewbits_lab.studies.methods import run as methods
from fewbits_lab.studies.methods import show as methods_show
from fewbits_lab.studies.oc_regressions import run as oc_regressions
from fewbits_lab.studies.oc_regressions.run import REGRESSIONS_BIASED, REGRESSIONS_UNBIASED


def test_libsvm_files_are_read_and_named(tmp_path: Path) -> None:
    (tmp_path / "toy.txt").write_text("1 1:0.5 3:2\n2 2:1\n2 1:-1 3:1\n")
    samples = datasets.libsvm(str(tmp_path), "toy")
    assert samples is not None
    assert samples.targets.tolist() == [-1, 1, 1]
    assert samples.features.tolist() == [[0.5, 0, 2], [0, 1, 0], [-1, 0, 1]]
    assert datasets.libsvm(str(tmp_path), "other") is None
    with pytest.raises(SpecError, match="--data must be a folder"):
        datasets.libsvm(str(tmp_path / "toy.txt"), "toy")


def test_ridge_regression_knows_its_gradient_and_solution() -> None:
    samples = datasets.diabetes()
    assert samples.features.shape == (442, 20)
    assert np.abs(samples.features).max(axis=0) == pytest.approx(np.ones(20))
    problem = Ridge(samples.features, samples.targets, 0.01)
    rng = np.random.default_rng(4)
    x, direction = rng.standard_normal((2, 20))

    def value(at: np.ndarray) -> float:
        left = samples.features @ at - samples.targets
        return float(left @ left / 2 / len(left) + 0.005 * (at @ at))

    slope = (value(x + 1e-5 * direction) - value(x - 1e-5 * direction)) / 2e-5
    assert problem.gradient(x) @ direction == pytest.approx(slope, rel=1e-6)
    assert np.linalg.norm(problem.gradient(problem.solution)) < 1e-12
    grown = [
        np.linalg.norm(problem.gradient(a) - problem.gradient(b)) / np.linalg.norm(a - b)
        for a, b in rng.standard_normal((50, 2, 20))
    ]
    assert 0.1 * problem.smoothness < max(grown) <= problem.smoothness


def test_sparse_features_change_nothing() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((60, 7)) * (rng.random((60, 7)) < 0.3)
    dense, thin = Logistic(rows, 0.1), Logistic(sparse.csr_array(rows), 0.1)
    x = rng.standard_normal(7)
    assert thin.gradient(x) == pytest.approx(dense.gradient(x))
    assert thin.value(x) == pytest.approx(dense.value(x))
    assert thin.smoothness == pytest.approx(dense.smoothness)
    assert thin.solution == pytest.approx(dense.solution)


def test_workers_sorted_by_label_disagree_and_their_mean_is_the_whole() -> None:
    workers = Workers.sorted_by_label(datasets.breast_cancer(), 10)
    whole, x = workers.whole, np.random.default_rng(1).standard_normal(30)
    mean = np.mean([workers.gradient(i, x) for i in range(10)], axis=0)
    assert mean == pytest.approx(whole.gradient(x))
    assert whole.smoothness / whole.regularisation == pytest.approx(CONDITION)
    assert workers.excess(whole.start) == 1
    assert workers.excess(whole.solution) == 0
    own = [np.linalg.norm(workers.gradient(i, whole.solution)) for i in range(10)]
    assert min(own) > 0.05
    assert workers.smoothness.whole <= workers.smoothness.mean_square


@pytest.mark.parametrize(("kind", "least"), [("ridge", 6.0), ("logistic", 4.5)])
def test_sparse_dithering_saves_what_is_claimed_in_sections(kind: str, least: float) -> None:
    (task,) = [
        own for own in oc_regressions.tasks(None) if (own.kind, own.data) == (kind, "breast cancer")
    ]
    plain = descent.plain_steps(task.problem)
    for spec in (REGRESSIONS_BIASED, REGRESSIONS_UNBIASED):
        omega = fewbits.operator(spec).guarantee(30).omega or 0.0
        compress = oc_regressions._framed(spec, 7)
        run = descent.descend(task.problem, compress, 1 / (1 + omega), 3 * plain)
        assert run.steps is not None
        sections, key, frames = run.bits
        assert 32 * 30 * plain >= least * sections
        assert key == 0
        assert frames > sections


def test_every_method_meets_every_operator_that_suits_it() -> None:
    cases = methods.cases()
    assert len(set(cases)) == len(cases)
    for name in ("dcgd", "diana", "ef-bv", "marina", "dasha"):
        mine = {case.operator for case in cases if case.method == name} - {"identity"}
        assert mine == set(methods.OPERATORS) - {methods.METHODS_TOP}
    for name in ("ef14", "ef21"):
        assert {case.operator for case in cases if case.method == name} == set(methods.OPERATORS)


def test_points_of_a_run_say_where_it_got() -> None:
    workers = Workers.sorted_by_label(datasets.breast_cancer(10), 4, condition=5.0)
    case = methods.MethodCase("diana", "natural")
    table = list(methods.course(case, workers, "breast cancer", 7, 400))
    (own,) = methods_show.summaries(table)
    assert own.reached is not None
    assert own.reached.excess <= 1e-4
    assert own.end <= methods.END
    assert table[-1].last
    assert [row.round for row in table] == sorted(row.round for row in table)
    (text,) = methods_show.findings(table)
    assert text.startswith(f"diana with natural: 10⁻⁴ after {own.reached.round} rounds")
    stalled = list(methods.course(methods.MethodCase("dcgd", "natural"), workers, "x", 7, 60))
    assert methods_show.summaries(stalled)[0].end > methods.END
