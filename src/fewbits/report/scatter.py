"""The figure of `fewbits bounds`: bits against error, and the curve of the lower bound."""

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from fewbits.report.svg import grid, text

_WIDTH, _LEAST_HEIGHT = 860, 420
_LEFT, _TOP, _BOTTOM = 72, 40, 50
_PLOT = 500  # where the plot ends and the names begin
_LINE = 17  # height of a name
_CSS = """
svg{--back:#fff;--text:#1c2024;--soft:#60676f;--rule:#d9dde2;--own:#0072b2;--biased:#d55e00}
@media (prefers-color-scheme:dark){svg{--back:#14171a;--text:#e6e9ec;--soft:#9aa3ac;--rule:#333a41;
--own:#56b4e9;--biased:#f0874a}}
text{fill:var(--text);font:12px system-ui,sans-serif}.back{fill:var(--back)}
.soft{fill:var(--soft)}.grid{stroke:var(--rule)}.bound{fill:none;stroke:var(--text);stroke-width:2}
.below{fill:var(--rule);opacity:.45}.lead{stroke:var(--soft);stroke-width:.7;opacity:.55;fill:none}
.unbiased{fill:var(--own)}.biased{fill:var(--biased)}
"""

Scale = Callable[[float], float]


class Mark(NamedTuple):
    """One operator: measured bits a value, the error in the bound, and its kind."""

    name: str
    bits: float
    error: float
    unbiased: bool


def bits_against_error(marks: Sequence[Mark]) -> str:
    """An SVG file: both axes logarithmic, one dot an operator, names at the right by height."""
    height = max(_LEAST_HEIGHT, _TOP + _BOTTOM + _LINE * len(marks))
    shown = [(max(mark.bits, 0.01), mark.error) for mark in marks] or [(1.0, 0.25)]
    powers = range(
        math.floor(math.log2(min(bits for bits, _ in shown))),
        max(1, math.ceil(math.log2(max(bits for bits, _ in shown)))) + 1,
    )
    decades = range(math.floor(math.log10(min(error for _, error in shown))), 1)
    if len(decades) < 2:
        decades = range(-2, 1)

    def x(bits: float) -> float:
        share = (math.log2(bits) - powers[0]) / (powers[-1] - powers[0])
        return _LEFT + (_PLOT - _LEFT) * share

    def y(error: float) -> float:
        share = (math.log10(error) - decades[0]) / (decades[-1] - decades[0])
        return height - _BOTTOM - (height - _TOP - _BOTTOM) * share

    parts = _axes([(x(2.0**p), f"{2**p}" if p >= 0 else f"1/{2**-p}") for p in powers], height)
    parts += [
        grid(_LEFT, y(10.0**p), _PLOT, y(10.0**p))
        + text(_LEFT - 7, y(10.0**p) + 4, f"{10.0**p:g}" if p > -3 else f"1e{p}", "end")
        for p in decades
    ]
    curve = _curve(x, y, (2.0 ** powers[0], 2.0 ** powers[-1]), 10.0 ** decades[0])
    floor, left = height - _BOTTOM, x(2.0 ** powers[0])
    parts.append(f'<polygon class="below" points="{left:.1f},{floor} {curve}"/>')
    parts.append(f'<polyline class="bound" points="{curve}"/>')
    parts.append(text(_LEFT + 12, floor - 14, "nothing can be here: error ≥ 4^-bits", "start"))
    order = sorted(marks, key=lambda mark: (-mark.error, mark.bits))
    start = _TOP + (height - _TOP - _BOTTOM - _LINE * len(order)) / 2
    for place, mark in enumerate(order):
        at = x(max(mark.bits, 0.01)), y(mark.error)
        parts.append(_mark(mark, at, start + _LINE * (place + 0.5)))
    return _file(parts, height)


def _mark(mark: Mark, at: tuple[float, float], level: float) -> str:
    kind = "unbiased" if mark.unbiased else "biased"
    name = mark.name if len(mark.name) <= 38 else mark.name[:37] + "…"
    lead = f"{at[0]:.1f},{at[1]:.1f} {_PLOT + 6},{level:.1f} {_PLOT + 14},{level:.1f}"
    return (
        f"<g><title>{escape(mark.name)}: {mark.bits:.3f} bits, {mark.error:.3g}</title>"
        f'<polyline class="lead" points="{lead}"/>'
        f'<circle class="{kind}" cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="4.5"/>'
        f'<circle class="{kind}" cx="{_PLOT + 20}" cy="{level:.1f}" r="3.5"/>'
        f"{text(_PLOT + 29, level + 4, f'{name}  {mark.bits:.2f}', 'start')}</g>"
    )


def _curve(x: Scale, y: Scale, ends: tuple[float, float], least: float) -> str:
    last = min(ends[1], math.log2(1 / least) / 2)
    steps = [ends[0] * (last / ends[0]) ** (i / 60) for i in range(61)]
    return " ".join(f"{x(bits):.1f},{y(4.0**-bits):.1f}" for bits in steps)


def _axes(ticks: Sequence[tuple[float, str]], height: float) -> list[str]:
    floor, middle = height - _BOTTOM, (_LEFT + _PLOT) / 2
    drawn = [grid(x, _TOP, x, floor) + text(x, floor + 17, label, "middle") for x, label in ticks]
    label = "squared error, relative (unbiased: error / (1 + error))"
    return [
        *drawn,
        text(middle, height - 12, "bits a value, whole frame, measured", "middle"),
        f'<g transform="rotate(-90)">{text(-(_TOP + floor) / 2, 15, label, "middle")}</g>',
        *_key(("unbiased", "biased")),
        text(_PLOT + 29, 24, "operator, bits a value", "start"),
    ]


def _key(kinds: Sequence[str]) -> list[str]:
    return [
        f'<circle class="{kind}" cx="{x}" cy="20" r="4.5"/>{text(x + 10, 24, kind, "start")}'
        for kind, x in zip(kinds, (_LEFT + 6, _LEFT + 96), strict=True)
    ]


def _file(parts: Sequence[str], height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:g}" '
        f'width="{_WIDTH}" height="{height:g}" role="img" '
        f'aria-label="bits a value against error, by operator"><style>{_CSS}</style>'
        f'<rect class="back" width="100%" height="100%"/>{"".join(parts)}</svg>\n'
    )
