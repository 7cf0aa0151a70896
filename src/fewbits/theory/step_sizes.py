r"""How long the steps of each method may be.

$f = \frac1n \sum_i f_i$ is $L$-smooth, $f_i$ is $L_i$-smooth, $L_{\max}$ is the largest $L_i$ and
$\tilde L$ the root of their mean square. Operators are unbiased with $\omega$, or contractive with
$\alpha$ (the literature's $\delta$ is $1 - \alpha$), and workers draw independently. Every rule is
an upper bound: shorter steps are as safe. Without compression each becomes the rule of gradient
descent, $1 / L$, or $1 / \tilde L$ or $1 / L_{\max}$ if its proof uses only these.

If a rule says *derived*, `docs/theory.md` has the proof. All proofs there use the descent lemma
$$ f(x^+) \le f(x) - \frac\gamma2 \|\nabla f(x)\|^2 - \Bigl(\frac1{2\gamma} - \frac L2\Bigr)
   \|x^+ - x\|^2 + \frac\gamma2 \|G - \nabla f(x)\|^2 \quad\text{for } x^+ = x - \gamma G $$
and that $\gamma \le 1 / (b + \sqrt a)$ implies $a \gamma^2 + b \gamma \le 1$.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from fewbits.errors import SpecError
from fewbits.theory.bounds import check_not_negative, check_positive, check_workers

_SLACK = 1 + 1e-9  # for the rounding of computed constants


@dataclass(frozen=True, slots=True)
class Smoothness:
    r"""$L \le \tilde L \le L_{\max}$: of $f$, the root mean square of $L_i$, and the largest."""

    whole: float
    mean_square: float
    largest: float

    def __post_init__(self) -> None:
        check_positive("smoothness", self.whole)
        if not self.whole <= self.mean_square * _SLACK <= self.largest * _SLACK**2 < math.inf:
            raise SpecError(
                "constants of smoothness must not decrease from the whole to the mean square to "
                f"the largest, got {self.whole:g}, {self.mean_square:g}, {self.largest:g}"
            )

    @classmethod
    def equal(cls, smoothness: float) -> "Smoothness":
        """The same constant for the whole and for every worker."""
        return cls(smoothness, smoothness, smoothness)


def dcgd(smoothness: Smoothness, omega: float, workers: int, omega_downlink: float = 0.0) -> float:
    r"""Distributed compressed gradient descent, $x^+ = x - \gamma\, C_M(\frac1n \sum_i C_i(g_i))$.

    $\gamma \le 1 / (L + 2 (\omega_M + 1) \omega L_{\max} / n + L \omega_M)$ for convex $f_i$. It
    stops in a neighbourhood of the solution unless all $\nabla f_i$ vanish there. Source: Khirirat,
    Feyzmahdavian, Johansson (2018), in the form that FL_PyTorch uses; *derived* too. For functions
    that are not convex take `bounds.step_size`.
    """
    _check_unbiased(omega, workers)
    check_not_negative("omega_downlink", omega_downlink)
    noise = 2 * (omega_downlink + 1) * omega * smoothness.largest / workers
    return 1 / (smoothness.whole * (1 + omega_downlink) + noise)


def ef14(smoothness: Smoothness, alpha: float, growth: float = 1.0) -> float:
    r"""Error feedback, $v_i = e_i + \gamma g_i$, $e_i^+ = v_i - C(v_i)$.

    $\gamma < 1 / (L (1 + \sqrt{G}\, \frac{\sqrt\alpha}{1 - \sqrt\alpha}))$ where
    $\frac1n \sum_i \|\nabla f_i\|^2 \le G \|\nabla f\|^2$; `growth` is $G$, and 1 where all workers
    have the same data. *Derived.* At half that step the mean of $\|\nabla f\|^2$ over $T$ steps is
    at most $4 (f(x^0) - f^*) / (\gamma T)$. Beznosikov et al. (2020) are cited with
    $1 / (14 (2 / (1 - \alpha) + G) L)$, not checked at the source; for $G \le 49$ it is shorter.
    """
    root = _root(alpha)
    if not 1 <= growth < math.inf:
        raise SpecError(f"growth must be at least 1, got {growth:g}")
    return 1 / (smoothness.whole * (1 + math.sqrt(growth) * root / (1 - root)))


def ef21(smoothness: Smoothness, alpha: float, *, linear: bool = False) -> float:
    r"""EF21, $G_i \mathrel{+}= C(\nabla f_i(x^+) - G_i)$: `ef_bv` without variance.

    $\gamma \le 1 / (L + \tilde L \frac{\sqrt\alpha}{1 - \sqrt\alpha})$; with `linear` the rule for
    a linear rate under the Polyak-Łojasiewicz condition. Source: Richtárik, Sokolov, Fatkhullin
    (2021); the first form *derived* too.
    """
    return ef_bv(smoothness, _root(alpha), 0.0, 0.0, linear=linear).step


class Shifted(NamedTuple):
    """The constants of a method with shifts."""

    shift: float  # lambda
    scale: float  # nu
    step: float  # gamma


def ef_bv(
    smoothness: Smoothness,
    bias: float,
    omega: float,
    omega_mean: float,
    *,
    linear: bool = False,
    scale: float | None = None,
) -> Shifted:
    r"""EF-BV, $G = h + \nu \frac1n \sum_i d_i$, $h_i \mathrel{+}= \lambda d_i$.

    $d_i = C(\nabla f_i - h_i)$ where $\|E\,C(x) - x\| \le \eta \|x\|$ (`bias`), the variance is at
    most $\omega \|x\|^2$, and $\omega_{av}$ (`omega_mean`) is that of the mean, $\omega / n$ where
    workers draw independently. $\lambda = \min\{1, (1 - \eta) / ((1 - \eta)^2 + \omega)\}$, $\nu$
    likewise with $\omega_{av}$ unless `scale` gives it, $r = (1 - \lambda + \lambda\eta)^2 +
    \lambda^2 \omega$, $r_{av}$ likewise with $\nu$, and
    $\gamma \le 1 / (L + \tilde L \sqrt{r_{av}} / (1 - \sqrt r))$; with `linear`
    $\sqrt{(1 + r) / 2} - \sqrt r$ takes the place of $1 - \sqrt r$, for a linear rate under the
    Polyak-Łojasiewicz condition. Source: Condat, Yi, Richtárik (2022), Theorems 1 and 3; the first
    form *derived* too.
    """
    if not 0 <= bias < 1:
        raise SpecError(f"the bias must be at least 0 and below 1, got {bias:g}")
    check_not_negative("omega", omega)
    check_not_negative("omega_mean", omega_mean)
    shift = _best_factor(bias, omega)
    scale = _best_factor(bias, omega_mean) if scale is None else scale
    root, root_mean = _contraction(bias, omega, shift), _contraction(bias, omega_mean, scale)
    room = math.sqrt((1 + root**2) / 2) - root if linear else 1 - root
    step = 1 / (smoothness.whole + smoothness.mean_square * root_mean / room)
    return Shifted(shift, scale, step)


def diana(smoothness: Smoothness, omega: float, workers: int, *, convex: bool = True) -> Shifted:
    r"""DIANA, which is EF-BV with $\nu = 1$ and $\lambda = 1 / (1 + \omega)$.

    $\gamma \le 1 / (L_{\max} (1 + (1 + \sqrt2)^2 \omega / n))$ for convex functions; otherwise the
    rule of `ef_bv`. Source: Condat, Yi, Richtárik (2022), Proposition 3.
    """
    _check_unbiased(omega, workers)
    if not convex:
        return ef_bv(smoothness, 0.0, omega, omega / workers, scale=1.0)
    factor = 1 + (1 + math.sqrt(2)) ** 2 * omega / workers
    return Shifted(1 / (1 + omega), 1.0, 1 / (smoothness.largest * factor))


class MarinaConstants(NamedTuple):
    """The probability of sending a full gradient, and the step."""

    probability: float
    step: float


def marina(smoothness: Smoothness, omega: float, workers: int) -> MarinaConstants:
    r"""MARINA, $G \mathrel{+}= \frac1n \sum_i C_i(\nabla f_i(x^+) - \nabla f_i(x))$, or full.

    $p = 1 / (1 + \omega)$, $\gamma \le 1 / (\tilde L (1 + \sqrt{(1 - p) \omega / (p n)}))$, which
    is $1 / (\tilde L (1 + \omega / \sqrt n))$. Source: Gorbunov, Burlachenko, Li, Richtárik (2021).
    """
    _check_unbiased(omega, workers)
    probability = 1 / (1 + omega)
    return MarinaConstants(
        probability, 1 / (smoothness.mean_square * (1 + omega / math.sqrt(workers)))
    )


class DashaConstants(NamedTuple):
    """The weight of the memory's error and the step."""

    momentum: float
    step: float


def dasha(smoothness: Smoothness, omega: float, workers: int) -> DashaConstants:
    r"""DASHA, $G_i \mathrel{+}= C_i(\nabla f_i(x^+) - \nabla f_i(x) - a (G_i - \nabla f_i(x)))$.

    $a = 1 / (1 + 2\omega)$, $\gamma \le 1 / (L + \tilde L \sqrt{2 \omega (2 \omega + 1) / n})$.
    *Derived.* Tyurin and Richtárik (2022) are cited with 16 for the 2, not checked at the source. A
    public research code of the method has $\omega (4 \omega + 1)$, nearly the same as ours.
    """
    _check_unbiased(omega, workers)
    noise = math.sqrt(2 * omega * (2 * omega + 1) / workers)
    return DashaConstants(
        1 / (1 + 2 * omega), 1 / (smoothness.whole + smoothness.mean_square * noise)
    )


def fedcom(
    smoothness: Smoothness, omega: float, workers: int, local_steps: int, server_step: float = 1.0
) -> float:
    r"""FedAvg with compressed updates: the local rate $\eta$ of $\tau$ local steps.

    It is the largest $\eta$ with
    $\tau^2 L^2 \eta^2 + (1 + \omega / n)\, \gamma_s \tau L \eta \le 1$, where $L$ is the largest of
    the workers' constants and $\gamma_s$ the server's step. Haddadpour et al. (2021) are cited with
    this rule (FedCOM), not checked at the source. With $\tau = 1$ it is a little shorter than the
    step of gradient descent.
    """
    _check_unbiased(omega, workers)
    if local_steps < 1:
        raise SpecError(f"there must be at least 1 local step, got {local_steps}")
    check_positive("server_step", server_step)
    slope = (1 + omega / workers) * server_step
    return (math.hypot(slope / 2, 1) - slope / 2) / (local_steps * smoothness.largest)


def _best_factor(bias: float, omega: float) -> float:
    return min(1.0, (1 - bias) / ((1 - bias) ** 2 + omega))


def _contraction(bias: float, omega: float, factor: float) -> float:
    return math.hypot(1 - factor + factor * bias, factor * math.sqrt(omega))


def _root(alpha: float) -> float:
    if not 0 <= alpha < 1:
        raise SpecError(f"alpha must be at least 0 and below 1, got {alpha:g}")
    return math.sqrt(alpha)


def _check_unbiased(omega: float, workers: int) -> None:
    check_not_negative("omega", omega)
    check_workers(workers)
