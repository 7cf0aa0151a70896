"""Figures as inline SVG: lines and bars, coloured by the page's style sheet."""

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

_WIDTH, _HEIGHT = 380, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 10, 40
_ROW, _BAR = 34, 18  # of the bars: distance and height
_NAMES = 120  # room for the operators' names

Point = tuple[float, float]


class Series(NamedTuple):
    """One line of a figure; `colour` is its number in the style sheet."""

    name: str
    colour: int
    points: Sequence[Point]


class StackedBar(NamedTuple):
    """One bar: its name and (style, label, length) for each of its parts."""

    name: str
    parts: Sequence[tuple[str, str, float]]


def lines(series: Sequence[Series], x_label: str, y_label: str) -> str:
    """A figure of lines: x from 0, y on a logarithmic scale."""
    drawn = [s._replace(points=[p for p in s.points if p[1] > 0]) for s in series]
    points = [point for s in drawn for point in s.points]
    if not points:
        return "<p>Nothing to draw: no loss is finite.</p>"
    x_ticks = _ticks(max(x for x, _ in points))
    low = math.floor(math.log10(min(y for _, y in points)))
    high = max(low + 1, math.ceil(math.log10(max(y for _, y in points))))

    def place(point: Point) -> Point:
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * point[0] / x_ticks[-1]
        share = (math.log10(point[1]) - low) / (high - low)
        return x, _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * share

    paths = [_line(s, [place(point) for point in s.points]) for s in drawn]
    vertical = [_x_tick(tick, place((tick, 10.0**low))) for tick in x_ticks]
    horizontal = [_y_tick(power, place((0.0, 10.0**power))[1]) for power in range(low, high + 1)]
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    labels = [
        text(middle, _HEIGHT - 6, x_label, "middle"),
        f'<g transform="rotate(-90)">{text(-_HEIGHT / 2 + 15, 12, y_label, "middle")}</g>',
    ]
    return _svg(_HEIGHT, f"{y_label} against {x_label}", [*horizontal, *vertical, *paths, *labels])


def bars(rows: Sequence[StackedBar], unit: str) -> str:
    """Stacked bars, one below the other, each with its sum."""
    ticks = _ticks(max((sum(part[2] for part in row.parts) for row in rows), default=1.0) * 1.12)
    scale = (_WIDTH - _NAMES - _RIGHT) / ticks[-1]
    height = _TOP + _ROW * len(rows) + _BOTTOM
    drawn: list[str] = []
    for tick in ticks:
        x = _NAMES + scale * tick
        drawn.append(grid(x, _TOP, x, height - _BOTTOM))
        drawn.append(text(x, height - _BOTTOM + 14, f"{tick:g}", "middle"))
    for index, row in enumerate(rows):
        drawn += _bar(row, _TOP + index * _ROW + (_ROW - _BAR) / 2, scale, unit)
    drawn.append(text((_NAMES + _WIDTH) / 2, height - 6, unit, "middle"))
    return _svg(height, f"{unit}, by part", drawn)


def _bar(row: StackedBar, y: float, scale: float, unit: str) -> list[str]:
    baseline = y + _BAR / 2 + 4
    drawn = [text(_NAMES - 6, baseline, _short(row.name), "end")]
    x = float(_NAMES)
    for style, label, length in row.parts:
        title = f"<title>{escape(row.name)}: {label} {length:.1f} {unit}</title>"
        size = f'width="{max(0.0, scale * length):.2f}" height="{_BAR}"'
        drawn.append(f'<rect class="{style}" x="{x:.2f}" y="{y:.1f}" {size}>{title}</rect>')
        x += scale * length
    total = sum(part[2] for part in row.parts)
    return [*drawn, text(x + 5, baseline, f"{total:.1f}", "start")]


def _line(series: Series, places: Sequence[Point]) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    title = f"<title>{escape(series.name)}</title>"
    return f'<polyline class="line c{series.colour}" points="{path}">{title}</polyline>'


def _x_tick(value: float, place: Point) -> str:
    x, bottom = place
    return grid(x, _TOP, x, bottom) + text(x, bottom + 14, f"{value:g}", "middle")


def _y_tick(power: int, y: float) -> str:
    return grid(_LEFT, y, _WIDTH - _RIGHT, y) + text(_LEFT - 5, y + 4, f"{10.0**power:g}", "end")


def grid(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="grid" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def text(x: float, y: float, content: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'


def _svg(height: float, title: str, content: Sequence[str]) -> str:
    box = f"0 0 {_WIDTH} {height:g}"
    return f'<svg viewBox="{box}" role="img" aria-label="{escape(title)}">{"".join(content)}</svg>'


def _ticks(largest: float) -> list[float]:
    """0 and up to five round numbers, the last at least `largest`."""
    rough = max(largest, 1e-9) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= rough * 0.999)
    return [step * count for count in range(max(1, math.ceil(largest / step - 1e-9)) + 1)]


def _short(name: str, most: int = 18) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
