r"""How many steps of compressed SGD are enough: Theorem 9 of the paper on natural compression.

$n$ workers send $C_W(g_i)$, the master sends $C_M$ of their sum, and everybody steps by
$\eta / n$ times what it sends. Workers' operators have $\omega_W$, the master's has $\omega_M$, and
all draw *independently*: with equal seeds the noise of similar gradients is $n$ times as large.
$f$ is $L$-smooth and need not be convex, $\sigma^2$ is the mean variance of the workers' stochastic
gradients and $\zeta^2$ the mean of $\|\nabla f_i - \nabla f\|^2$. Then
$$ E\|g^k / n\|^2 \le A + B\, \|\nabla f(x^k)\|^2, \quad
   A = \frac{(\omega_M + 1)((\omega_W + 1)\sigma^2 + \omega_W \zeta^2)}{n}, \quad
   B = (\omega_M + 1)\Bigl(1 + \frac{\omega_W}{n}\Bigr) . $$
The paper calls these $\alpha$ and $\beta$; here they are `noise_floor` and `noise_slope`, because
$\alpha$ is the constant of contractive operators everywhere else.

Source: Horváth, Ho, Horváth, Sahu, Canini, Richtárik, *Natural Compression for Distributed Deep
Learning* (2022), Lemma 13, Theorem 9 and appendix D.6.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from fewbits.errors import SpecError

# 2 sqrt(2) / (2 - sqrt(2)), the constant that the paper hides in an O.
HORIZON_CONSTANT = 2 + 2 * math.sqrt(2)


@dataclass(frozen=True, slots=True)
class Problem:
    r"""The constants of the theorem: $L$, $f(x^0) - f^*$, $n$, $\sigma^2$ and $\zeta^2$.

    A batch of $b$ samples on each worker divides `variance` by $b$.
    """

    smoothness: float
    gap: float
    workers: int = 1
    variance: float = 0.0
    dissimilarity: float = 0.0

    def __post_init__(self) -> None:
        check_positive("smoothness", self.smoothness)
        check_workers(self.workers)
        for name in ("gap", "variance", "dissimilarity"):
            check_not_negative(name, getattr(self, name))


class Pair(NamedTuple):
    r"""$\omega_W$ of the workers' operator and $\omega_M$ of the master's. 0 is exact."""

    uplink: float = 0.0
    downlink: float = 0.0


EXACT_PAIR = Pair()


def noise_floor(problem: Problem, pair: Pair) -> float:
    r"""$A$: the second moment of the direction at a point where the gradient vanishes."""
    _check_pair(pair)
    drawn = (pair.uplink + 1) * problem.variance + pair.uplink * problem.dissimilarity
    return (pair.downlink + 1) * drawn / problem.workers


def noise_slope(workers: int, pair: Pair) -> float:
    r"""$B$: by how much the second moment grows with $\|\nabla f\|^2$; 1 without compression."""
    check_workers(workers)
    _check_pair(pair)
    return (pair.downlink + 1) * (1 + pair.uplink / workers)


def largest_step(problem: Problem, pair: Pair) -> float:
    r"""$2 / (B L)$: the bound says nothing about steps of this length or longer."""
    return 2 / (noise_slope(problem.workers, pair) * problem.smoothness)


def gradient_bound(problem: Problem, pair: Pair, step: float, iterations: int) -> float:
    r"""A bound on $E\|\nabla f\|^2$ at one of the first $T$ points, picked at random.

    $$ \frac{2 (f(x^0) - f^*)}{\eta (2 - B L \eta) T} + \frac{A L \eta}{2 - B L \eta} $$
    """
    if not 0 < step < largest_step(problem, pair):
        raise SpecError(
            f"the step must lie between 0 and {largest_step(problem, pair):g}, got {step:g}"
        )
    if iterations < 1:
        raise SpecError(f"there must be at least 1 iteration, got {iterations}")
    room = 2 - noise_slope(problem.workers, pair) * problem.smoothness * step
    floor = noise_floor(problem, pair) * problem.smoothness * step / room
    return 2 * problem.gap / (step * room * iterations) + floor


def step_size(problem: Problem, pair: Pair, target: float) -> float:
    r"""$\eta = \varepsilon / (L (A + \varepsilon B))$, the step for a target $\varepsilon$."""
    return target / (problem.smoothness * _moment(problem, pair, target))


def iterations(problem: Problem, pair: Pair, target: float) -> int:
    r"""$T = 2 L (f(x^0) - f^*) (A + \varepsilon B) / \varepsilon^2$, rounded up.

    With `step_size` the bound then equals $\varepsilon$, up to the rounding of $T$.
    """
    exact = 2 * problem.smoothness * problem.gap * _moment(problem, pair, target) / target**2
    return max(1, math.ceil(exact))


def slowdown(pair: Pair, workers: int, noise: float = math.inf) -> float:
    r"""How many times more iterations than without compression, for $\zeta = 0$.

    `noise` is $\rho = \sigma^2 / (n \varepsilon)$, the mean gradient's variance over the target:
    $$ (\omega_M + 1) \frac{(\omega_W + 1) \rho + 1 + \omega_W / n}{\rho + 1} . $$
    It lies between $(\omega_M + 1)(1 + \omega_W / n)$, without noise, and
    $(\omega_M + 1)(\omega_W + 1)$, which is the worst case and the default.
    """
    check_workers(workers)
    _check_pair(pair)
    check_not_negative("noise", noise, infinite=True)
    share = 1.0 if noise == math.inf else noise / (noise + 1)
    worker = share * (pair.uplink + 1) + (1 - share) * (1 + pair.uplink / workers)
    return (pair.downlink + 1) * worker


def biased_slowdown(alpha_worker: float, alpha_master: float) -> float | None:
    r"""The same for contractive operators, where workers' gradients agree and are exact.

    Gradient descent with step $1 / L$ and $\|C(g) - g\|^2 \le \alpha \|g\|^2$ loses a factor
    $1 - \alpha$ in the descent lemma, so it takes $1 / (1 - \alpha)$ times the iterations. One
    operator after another has $\sqrt\alpha \le (1 + \sqrt{\alpha_W})(1 + \sqrt{\alpha_M}) - 1$, by
    the triangle inequality. The result is None if that is 1 or more: then theory guarantees
    nothing. Workers with different gradients need error feedback.
    """
    for name, value in (("alpha_worker", alpha_worker), ("alpha_master", alpha_master)):
        check_not_negative(name, value)
    root = (1 + math.sqrt(alpha_worker)) * (1 + math.sqrt(alpha_master)) - 1
    return 1 / (1 - root**2) if root < 1 else None


class Horizon(NamedTuple):
    """A step for a given number of iterations, its bound, and the least number it is for."""

    step: float
    bound: float
    least_iterations: int


def fixed_horizon(problem: Problem, pair: Pair, iterations: int) -> Horizon:
    r"""The step $\eta = \sqrt{2 (f(x^0) - f^*) / (L T A)}$ for a $T$ that is given.

    From $T \ge L B^2 (f(x^0) - f^*) / A$ on, $B L \eta \le \sqrt2$ and
    $E\|\nabla f\|^2 \le (2 + 2\sqrt2) \sqrt{L A (f(x^0) - f^*) / T}$. The paper has the order; the
    constant is ours.
    """
    floor, slope = noise_floor(problem, pair), noise_slope(problem.workers, pair)
    check_positive("the noise floor", floor)
    check_positive("the gap", problem.gap)
    cost = problem.smoothness * problem.gap
    least = max(1, math.ceil(cost * slope**2 / floor))
    if iterations < least:
        raise SpecError(f"the rule needs at least {least} iterations, got {iterations}")
    step = math.sqrt(2 * problem.gap / (problem.smoothness * iterations * floor))
    bound = HORIZON_CONSTANT * math.sqrt(cost * floor / iterations)
    return Horizon(step, bound, least)


def _moment(problem: Problem, pair: Pair, target: float) -> float:
    check_positive("the target", target)
    return noise_floor(problem, pair) + target * noise_slope(problem.workers, pair)


def _check_pair(pair: Pair) -> None:
    check_not_negative("omega of the workers", pair.uplink)
    check_not_negative("omega of the master", pair.downlink)


def check_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise SpecError(f"{name} must be positive, got {value:g}")


def check_not_negative(name: str, value: float, *, infinite: bool = False) -> None:
    if not (value >= 0 and (infinite or value < math.inf)):
        raise SpecError(f"{name} must be a number from 0 on, got {value:g}")


def check_workers(workers: int) -> None:
    if workers < 1:
        raise SpecError(f"there must be at least 1 worker, got {workers}")
