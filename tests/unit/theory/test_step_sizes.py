"""The methods' steps: limits, order, relations between rules, and runs at the rules' own ends."""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from fewbits.errors import SpecError
from fewbits.theory import step_sizes
from fewbits.theory.step_sizes import Smoothness

EQUAL = Smoothness.equal(2.0)
APART = Smoothness(whole=2.0, mean_square=3.0, largest=5.0)
Rule = Callable[[Smoothness, float], float]

UNBIASED: dict[str, Rule] = {
    "dcgd": lambda s, omega: step_sizes.dcgd(s, omega, 4),
    "dcgd, both ways": lambda s, omega: step_sizes.dcgd(s, omega, 4, omega),
    "diana": lambda s, omega: step_sizes.diana(s, omega, 4).step,
    "diana, not convex": lambda s, omega: step_sizes.diana(s, omega, 4, convex=False).step,
    "ef-bv": lambda s, omega: step_sizes.ef_bv(s, 0.0, omega, omega / 4).step,
    "ef-bv, linear": lambda s, omega: step_sizes.ef_bv(s, 0.0, omega, omega / 4, linear=True).step,
    "marina": lambda s, omega: step_sizes.marina(s, omega, 4).step,
    "dasha": lambda s, omega: step_sizes.dasha(s, omega, 4).step,
}
CONTRACTIVE: dict[str, Rule] = {
    "ef14": step_sizes.ef14,
    "ef21": step_sizes.ef21,
    "ef21, linear": lambda s, alpha: step_sizes.ef21(s, alpha, linear=True),
}
ALL = UNBIASED | CONTRACTIVE


@pytest.mark.parametrize("name", ALL)
def test_without_compression_the_rule_is_gradient_descents(name: str) -> None:
    assert ALL[name](EQUAL, 0.0) == pytest.approx(1 / 2.0)
    constants = {"marina": 3.0, "diana": 5.0}
    assert ALL[name](APART, 0.0) == pytest.approx(1 / constants.get(name, 2.0))


@pytest.mark.parametrize("name", ALL)
def test_more_compression_and_rougher_functions_need_shorter_steps(name: str) -> None:
    grid = (0.0, 0.01, 0.125, 0.5, 0.9, 0.999) if name in CONTRACTIVE else (0.0, 0.125, 1, 9, 99)
    steps = [ALL[name](APART, constant) for constant in grid]
    assert all(long > short > 0 for long, short in pairwise(steps))
    for constant in grid:
        assert ALL[name](EQUAL, constant) >= ALL[name](APART, constant)


@pytest.mark.parametrize("omega", [0.125, 1.0, 30.0])
def test_many_workers_average_the_noise_away(omega: float) -> None:
    many = 10**14
    assert step_sizes.dcgd(EQUAL, omega, many) == pytest.approx(1 / 2)
    assert step_sizes.diana(EQUAL, omega, many).step == pytest.approx(1 / 2)
    assert step_sizes.marina(EQUAL, omega, many).step == pytest.approx(1 / 2, rel=1e-5)
    assert step_sizes.dasha(EQUAL, omega, many).step == pytest.approx(1 / 2, rel=1e-4)


def test_printed_forms() -> None:
    """The literature's letters, on numbers: delta is 1 - alpha."""
    delta, omega, n, whole, mean, largest = 0.3, 4.0, 6, 2.0, 3.0, 5.0
    theta = 1 - math.sqrt(1 - delta)
    beta = (1 - delta) / theta
    own = 1 / (whole + mean * math.sqrt(beta / theta))
    assert step_sizes.ef21(APART, 1 - delta) == pytest.approx(own)
    r = 1 - delta
    s = math.sqrt((1 + r) / (2 * r)) - 1
    assert step_sizes.ef21(APART, r, linear=True) == pytest.approx(1 / (whole + mean / s))
    assert step_sizes.dcgd(APART, omega, n) == pytest.approx(1 / (whole + 2 * omega * largest / n))
    master = step_sizes.dcgd(APART, omega, n, 0.5)
    assert master == pytest.approx(1 / (whole + 2 * 1.5 * omega * largest / n + whole * 0.5))
    p, step = step_sizes.marina(APART, omega, n)
    assert p == 1 / (1 + omega)
    assert step == pytest.approx(1 / (mean * (1 + math.sqrt((1 - p) * omega / (p * n)))))
    assert step_sizes.diana(APART, omega, n).shift == 1 / (1 + omega)
    about = 1 / (largest * (1 + 6 * omega / n))
    assert step_sizes.diana(APART, omega, n).step == pytest.approx(about, rel=0.03)
    assert step_sizes.dasha(APART, omega, n).momentum == 1 / (2 * omega + 1)


def test_the_derived_rules_allow_what_the_cited_ones_do() -> None:
    for omega in (0.01, 0.125, 1.0, 10.0, 1000.0):
        cited = 1 / (2.0 + 3.0 * math.sqrt(16 * omega * (2 * omega + 1) / 4))
        own = step_sizes.dasha(APART, omega, 4).step
        assert cited < own < math.sqrt(8) * cited
        assert (1 / own - 2.0) * math.sqrt(8) == pytest.approx(1 / cited - 2.0)
        published_code = 1 / (2.0 + 3.0 * math.sqrt(omega * (4 * omega + 1) / 4))
        assert published_code / math.sqrt(2) < own < published_code
    for alpha in (0.0, 0.1, 0.5, 0.9, 0.999):
        for growth in (1.0, 4.0, 49.0):
            cited = 1 / (14 * (2 / (1 - alpha) + growth) * 2.0)
            assert cited < step_sizes.ef14(APART, alpha, growth) / 2


def test_ef_bv_is_best_scaling_for_unbiased_and_ef21_for_contractive_operators() -> None:
    for omega in (0.125, 1.0, 30.0):
        shift, scale, _ = step_sizes.ef_bv(APART, 0.0, omega, omega / 4)
        assert shift == pytest.approx(1 / (1 + omega))
        assert scale == pytest.approx(1 / (1 + omega / 4))
        scaled = step_sizes.ef_bv(APART, 0.0, omega, omega).step
        # Without averaging it is EF21 with C / (1 + omega), which has alpha = omega / (1 + omega).
        assert scaled == pytest.approx(step_sizes.ef21(APART, omega / (1 + omega)))
    assert step_sizes.ef_bv(APART, 0.5, 0.0, 0.0)[:2] == (1.0, 1.0)


class Quadratics:
    """f_i = x'A_i x / 2 - b_i'x with different A_i and b_i, and their true constants."""

    def __init__(self, n: int, d: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        factors = rng.standard_normal((n, d, d)) / math.sqrt(d)
        self.matrices = factors @ factors.transpose(0, 2, 1) + 0.1 * np.eye(d)
        self.matrices *= rng.uniform(0.5, 2, (n, 1, 1))
        self.shifts = rng.standard_normal((n, d))
        self.n, self.d, self.rng = n, d, rng
        largest = np.array([np.linalg.eigvalsh(m)[-1] for m in self.matrices])
        whole = np.linalg.eigvalsh(self.matrices.mean(axis=0))[-1]
        self.smoothness = Smoothness(whole, math.sqrt((largest**2).mean()), largest.max())
        self.solution = np.linalg.solve(self.matrices.mean(axis=0), self.shifts.mean(axis=0))

    def gradients(self, x: np.ndarray) -> np.ndarray:
        return np.einsum("nij,j->ni", self.matrices, x) - self.shifts

    def gap(self, x: np.ndarray) -> float:
        z = x - self.solution
        return float(z @ self.matrices.mean(axis=0) @ z) / 2

    def random_k(self, rows: np.ndarray, k: int) -> np.ndarray:
        """Unbiased, omega = d / k - 1, drawn for each row on its own."""
        keep = self.rng.permuted(np.tile(np.arange(self.d) < k, (len(rows), 1)), axis=1)
        return np.where(keep, rows * (self.d / k), 0.0)

    def top_k(self, rows: np.ndarray, k: int) -> np.ndarray:
        """Contractive, alpha = 1 - k / d."""
        least = np.sort(np.abs(rows), axis=1)[:, -k][:, None]
        return np.where(np.abs(rows) >= least, rows, 0.0)


D, K, N, STEPS = 12, 3, 5, 2500
OMEGA, ALPHA = D / K - 1, 1 - K / D


def run_diana(own: Quadratics, rule: step_sizes.Shifted) -> float:
    x, h = np.zeros(D), np.zeros((N, D))
    for _ in range(STEPS):
        sent = own.random_k(own.gradients(x) - h, K)
        x, h = x - rule.step * (h + rule.scale * sent).mean(axis=0), h + rule.shift * sent
    return own.gap(x)


def run_marina(own: Quadratics, rule: step_sizes.MarinaConstants) -> float:
    x = np.zeros(D)
    g = own.gradients(x).mean(axis=0)
    for _ in range(STEPS):
        new = x - rule.step * g
        if own.rng.random() < rule.probability:
            g = own.gradients(new).mean(axis=0)
        else:
            g = g + own.random_k(own.gradients(new) - own.gradients(x), K).mean(axis=0)
        x = new
    return own.gap(x)


def run_dasha(own: Quadratics, rule: step_sizes.DashaConstants) -> float:
    x = np.zeros(D)
    g = own.gradients(x)
    for _ in range(STEPS):
        new = x - rule.step * g.mean(axis=0)
        old = own.gradients(x)
        g = g + own.random_k(own.gradients(new) - old - rule.momentum * (g - old), K)
        x = new
    return own.gap(x)


def run_ef21(own: Quadratics, step: float) -> float:
    x = np.zeros(D)
    g = own.gradients(x)
    for _ in range(STEPS):
        x = x - step * g.mean(axis=0)
        g = g + own.top_k(own.gradients(x) - g, K)
    return own.gap(x)


def test_every_method_with_shifts_converges_at_its_longest_step() -> None:
    """Workers differ, so compressed gradient descent alone cannot: that it stalls is shown too."""
    own = Quadratics(N, D, seed=3)
    s, start = own.smoothness, own.gap(np.zeros(D))
    ends = {
        "diana": run_diana(own, step_sizes.diana(s, OMEGA, N)),
        "diana, not convex": run_diana(own, step_sizes.diana(s, OMEGA, N, convex=False)),
        "ef-bv": run_diana(own, step_sizes.ef_bv(s, 0.0, OMEGA, OMEGA / N)),
        "marina": run_marina(own, step_sizes.marina(s, OMEGA, N)),
        "dasha": run_dasha(own, step_sizes.dasha(s, OMEGA, N)),
        "ef21": run_ef21(own, step_sizes.ef21(s, ALPHA)),
        "ef21, linear": run_ef21(own, step_sizes.ef21(s, ALPHA, linear=True)),
    }
    assert all(gap < 1e-6 * start for gap in ends.values()), ends
    step = step_sizes.dcgd(s, OMEGA, N)
    x, gaps = np.zeros(D), []
    for _ in range(STEPS):
        x = x - step * own.random_k(own.gradients(x), K).mean(axis=0)
        gaps.append(own.gap(x))
    assert 1e-4 * start < float(np.mean(gaps[STEPS // 2 :])) < start


def test_error_feedback_keeps_its_derived_bound() -> None:
    """One function for all workers; the mean squared gradient over T steps, at half the step."""
    own = Quadratics(1, D, seed=4)
    for k in (1, 3, 6):
        step = step_sizes.ef14(own.smoothness, 1 - k / D) / 2
        x, e, total = np.zeros(D), np.zeros((1, D)), 0.0
        gap = own.gap(x)
        for count in range(1, 2001):
            g = own.gradients(x)
            total += float((g**2).sum())
            assert total / count <= 4 * gap / (step * count)
            v = e + step * g
            sent = own.top_k(v, k)
            x, e = x - sent.mean(axis=0), v - sent
        assert own.gap(x) < 0.1 * gap


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Smoothness(2.0, 1.0, 5.0), "must not decrease"),
        (lambda: Smoothness(1.0, 1.0, math.inf), "must not decrease"),
        (lambda: Smoothness.equal(0.0), "smoothness must be positive"),
        (lambda: step_sizes.dcgd(EQUAL, 1.0, 0), "at least 1 worker, got 0"),
        (lambda: step_sizes.dcgd(EQUAL, -1.0, 1), "omega must be"),
        (lambda: step_sizes.ef21(EQUAL, 1.0), "below 1, got 1"),
        (lambda: step_sizes.ef14(EQUAL, -0.5), "alpha must be at least 0"),
        (lambda: step_sizes.ef14(EQUAL, 0.5, 0.5), "growth must be at least 1"),
        (lambda: step_sizes.ef_bv(EQUAL, 1.0, 0.0, 0.0), "the bias must be"),
        (lambda: step_sizes.marina(EQUAL, math.nan, 1), "omega must be"),
    ],
)
def test_what_makes_no_sense_is_refused(make: object, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        make()
