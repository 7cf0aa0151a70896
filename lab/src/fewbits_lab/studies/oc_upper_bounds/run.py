r"""The upper bound on sparse dithering's bits, and figures of merit that follow.

Per value, $c(\nu)$ for nearest rounding and $\log_2 3 + 1 / (2\sqrt\omega)$ on average for unbiased
rounding; a message adds $30 + \log_2 d$ bits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fewbits.theory.uncertainty import uncertainty_bits, uncertainty_product
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.information import sparse_dithering_bits as nearest
from fewbits_lab.information import stochastic_dithering_bits as stochastic
from fewbits_lab.printed import Comparison, agrees


class KnownBits(NamedTuple):
    """A published number, or one of our notes on the paper: at which nu or omega, and its text."""

    quantity: str
    at: float
    text: str
    reason: str = ""


_MISPRINT = (
    "the poster's general form has √ν for 2√ν, which gives 4.82 and not the 3.35 that it "
    "states; 2√ν gives 3.349"
)
_PRINTED = (
    *(
        KnownBits("bits, nearest", nu, text, "2.39947, rounded twice" if nu == 0.9 else "")
        for nu, text in {
            0.01: "6.59", 0.05: "3.95", 0.1: "3.349", 0.15: "3.085", 0.2: "2.928", 0.25: "2.822",
            0.5: "2.560", 0.9: "2.400",
        }.items()
    ),
    KnownBits("bits, nearest, the poster's form", 0.1, "4.82", _MISPRINT),
    KnownBits("bits, nearest, published", 0.1, "3.35"),
    KnownBits("bits above the lower bound, published", 0.1, "1.69"),
    KnownBits("bits above the lower bound", 0.1, "1.6885"),
    KnownBits("lower bound", 0.1, "1.6610"),
    KnownBits("bits, stochastic", 0.1, "3.166"),
    KnownBits("bits, stochastic", 0.25, "2.585"),
    KnownBits("bits, stochastic", 1.0, "2.085"),
    KnownBits("times less in all, stochastic, published", 0.25, "9.9"),
    KnownBits("times less in all, stochastic", 0.25, "9.903"),
    KnownBits("most times less in all, stochastic", 0.2426, "9.904"),
    KnownBits("times less in all, nearest", 0.1, "8.60"),
    KnownBits("most times less in all, nearest", 0.157, "8.82"),
    KnownBits("least α·4^bits, nearest", 0.1006, "10.39"),
    KnownBits("least α·4^bits, stochastic", 0.162, "7.02"),
    KnownBits("α·4^bits, stochastic", 0.25, "7.2"),
)  # fmt: skip
_SWEEP = np.geomspace(0.01, 1, 101)


@dataclass(frozen=True, slots=True, kw_only=True)
class OcUpperBoundsRow(Comparison):
    """One number; `at` is ν or ω, where an optimum is concerned the printed place of it."""

    quantity: str
    at: float
    optimum_at: float | None


def rows(_: StudySettings, tick: Tick) -> list[OcUpperBoundsRow]:
    """The published numbers, then both curves; nothing in them is random."""
    found = []
    for known in _PRINTED:
        ours, place = _ours(known)
        found.append(
            OcUpperBoundsRow(
                quantity=known.quantity,
                at=known.at,
                optimum_at=place,
                printed=known.text,
                ours=ours,
                reproduces=known.reason != _MISPRINT and agrees(ours, known.text),
                reason=known.reason,
            )
        )
    for value in _SWEEP:
        for quantity, function in (("curve, nearest", gain_nearest), ("curve, stochastic", gain)):
            found.append(
                OcUpperBoundsRow(
                    quantity=quantity,
                    at=float(value),
                    optimum_at=None,
                    printed=None,
                    ours=function(float(value)),
                    reproduces=None,
                )
            )
    tick(1.0)
    return found


def gain_nearest(nu: float) -> float:
    """Times less in all than 32 bits a value, with 1/(1 - ν) times the iterations."""
    return 32 * (1 - nu) / nearest(nu)


def gain(omega: float) -> float:
    """The same with unbiased rounding, and 1 + ω times the iterations."""
    return 32 / ((1 + omega) * stochastic(omega))


def _product(omega: float) -> float:
    return uncertainty_product(omega / (1 + omega), stochastic(omega), 1)


_AT: dict[str, Callable[[float], float]] = {
    "bits, nearest": nearest,
    "bits, nearest, published": nearest,
    "bits, nearest, the poster's form": nearest,
    "bits above the lower bound": lambda nu: nearest(nu) - uncertainty_bits(nu, 1),
    "bits above the lower bound, published": lambda nu: nearest(nu) - uncertainty_bits(nu, 1),
    "lower bound": lambda nu: uncertainty_bits(nu, 1),
    "bits, stochastic": stochastic,
    "times less in all, stochastic": gain,
    "times less in all, stochastic, published": gain,
    "times less in all, nearest": gain_nearest,
    "α·4^bits, stochastic": _product,
}
_BEST: dict[str, Callable[[float], float]] = {
    "most times less in all, stochastic": gain,
    "most times less in all, nearest": gain_nearest,
    "least α·4^bits, nearest": lambda nu: -uncertainty_product(nu, nearest(nu), 1),
    "least α·4^bits, stochastic": lambda omega: -_product(omega),
}


def _ours(known: KnownBits) -> tuple[float, float | None]:
    if known.quantity in _AT:
        return _AT[known.quantity](known.at), None
    function = _BEST[known.quantity]
    places = np.geomspace(0.01, 0.99, 20_001)
    place = max(map(float, places), key=function)
    return abs(function(place)), place
