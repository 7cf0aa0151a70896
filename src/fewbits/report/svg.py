"""Figures as inline SVG: lines, bars and spans, coloured by the page's style sheet."""

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from fewbits.report.style import PICTURE_CSS

_WIDTH, _HEIGHT = 380, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 10, 40
_ROW, _BAR = 34, 18  # of the bars: distance and height
_NAMES = 112  # room for the operators' names
_LABELS = 112  # room for the spans' names
_LETTER = 13  # height of a line of text
_SPAN_COLOURS = 7
_COLUMNS = 2  # of a picture
_TITLE = 22  # height of a panel's title

Point = tuple[float, float]


class Series(NamedTuple):
    """One line of a figure; `colour` is its number in the style sheet."""

    name: str
    colour: int
    points: Sequence[Point]


class Bar(NamedTuple):
    """One bar: its name and (style, label, length) for each of its parts."""

    name: str
    parts: Sequence[tuple[str, str, float]]


class Span(NamedTuple):
    """Two values of one thing at the same height, such as speeds there and back."""

    name: str
    colour: int
    x: tuple[float, float]
    y: float


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
        _text(middle, _HEIGHT - 6, x_label, "middle"),
        f'<g transform="rotate(-90)">{_text(-_HEIGHT / 2 + 15, 12, y_label, "middle")}</g>',
    ]
    return _svg(_HEIGHT, f"{y_label} against {x_label}", [*horizontal, *vertical, *paths, *labels])


def bars(rows: Sequence[Bar], unit: str) -> str:
    """Stacked bars, one below the other, each with its sum."""
    ticks = _ticks(max((sum(part[2] for part in row.parts) for row in rows), default=1.0) * 1.12)
    scale = (_WIDTH - _NAMES - _RIGHT) / ticks[-1]
    height = _TOP + _ROW * len(rows) + _BOTTOM
    drawn: list[str] = []
    for tick in ticks:
        x = _NAMES + scale * tick
        drawn.append(_grid(x, _TOP, x, height - _BOTTOM))
        drawn.append(_text(x, height - _BOTTOM + 14, f"{tick:g}", "middle"))
    for index, row in enumerate(rows):
        drawn += _bar(row, _TOP + index * _ROW + (_ROW - _BAR) / 2, scale, unit)
    drawn.append(_text((_NAMES + _WIDTH) / 2, height - 6, unit, "middle"))
    return _svg(height, f"{unit}, by part", drawn)


def spans(rows: Sequence[Span], x_label: str, y_label: str) -> str:
    """Each first value as a ring joined to its second, a dot; x logarithmic, y from 0."""
    if not rows:
        return _svg(_TOP + _BOTTOM, "nothing was measured", [])
    values = [x for row in rows for x in row.x]
    low = math.floor(math.log10(min(values)))
    high = max(low + 1, math.ceil(math.log10(max(values))))
    y_ticks = _ticks(max(row.y for row in rows))
    right, bottom = _WIDTH - _LABELS, _HEIGHT - _BOTTOM

    def place(x: float, y: float) -> Point:
        share = (math.log10(x) - low) / (high - low)
        return _LEFT + (right - _LEFT) * share, bottom - (bottom - _TOP) * y / y_ticks[-1]

    content = [_x_tick(10.0**power, place(10.0**power, 0)) for power in range(low, high + 1)]
    for tick in y_ticks:
        y = place(1, tick)[1]
        content += [_grid(_LEFT, y, right, y), _text(_LEFT - 5, y + 4, f"{tick:g}", "end")]
    ends = [(row, place(row.x[0], row.y), place(row.x[1], row.y)) for row in rows]
    heights = _apart([first[1] for _, first, _ in ends])
    for (row, first, second), height in zip(ends, heights, strict=True):
        content.append(_span(row, first, second, (right + 8, height)))
    content.append(_text((_LEFT + right) / 2, _HEIGHT - 6, x_label, "middle"))
    content.append(
        f'<g transform="rotate(-90)">{_text(-_HEIGHT / 2 + 15, 12, y_label, "middle")}</g>'
    )
    return _svg(_HEIGHT, f"{y_label} against {x_label}", content)


def picture(panels: Sequence[tuple[str, str]]) -> str:
    """Figures with titles as one file that stands alone, style included."""
    rows = -(-len(panels) // _COLUMNS)
    width, height = min(len(panels), _COLUMNS) * _WIDTH, rows * (_HEIGHT + _TITLE)
    content = []
    for index, (title, figure) in enumerate(panels):
        x, y = index % _COLUMNS * _WIDTH, index // _COLUMNS * (_HEIGHT + _TITLE)
        content.append(_text(x + _LEFT, y + _TITLE - 6, title, "start"))
        size = f'x="{x}" y="{y + _TITLE}" width="{_WIDTH}" height="{_HEIGHT}"'
        content.append(figure.replace("<svg ", f"<svg {size} ", 1))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        f'<style>{PICTURE_CSS}</style><rect class="back" width="100%" height="100%"/>'
        f"{''.join(content)}</svg>\n"
    )


def _span(row: Span, first: Point, second: Point, label: Point) -> str:
    style = f"c{row.colour % _SPAN_COLOURS}"
    end = max(first, second)
    leader = f"{end[0]:.1f},{end[1]:.1f} {label[0] - 3:.1f},{label[1]:.1f}"
    title = f"{escape(row.name)}: {row.y:.3f}, {row.x[0]:.3g} and {row.x[1]:.3g}"
    return (
        f"<g><title>{title}</title>"
        f'<polyline class="grid leader" points="{leader}"/>'
        f'<polyline class="span {style}" points="{first[0]:.1f},{first[1]:.1f} '
        f'{second[0]:.1f},{second[1]:.1f}"/>'
        f'<circle class="ring {style}" cx="{first[0]:.1f}" cy="{first[1]:.1f}" r="3.5"/>'
        f'<circle class="dot {style}" cx="{second[0]:.1f}" cy="{second[1]:.1f}" r="3.5"/>'
        f"{_text(label[0], label[1] + 4, _short(row.name, 19), 'start')}</g>"
    )


def _apart(heights: Sequence[float]) -> list[float]:
    """Heights moved so that lines of text do not touch, in the same order, within the figure."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    moved = list(heights)
    ceiling = float(_HEIGHT - _BOTTOM)
    for index in reversed(order):  # upwards from the bottom
        moved[index] = min(moved[index], ceiling)
        ceiling = moved[index] - _LETTER
    floor = float(_TOP)
    for index in order:
        moved[index] = max(moved[index], floor)
        floor = moved[index] + _LETTER
    return moved


def _bar(row: Bar, y: float, scale: float, unit: str) -> list[str]:
    baseline = y + _BAR / 2 + 4
    drawn = [_text(_NAMES - 6, baseline, _short(row.name), "end")]
    x = float(_NAMES)
    for style, label, length in row.parts:
        title = f"<title>{escape(row.name)}: {label} {length:.1f} {unit}</title>"
        size = f'width="{max(0.0, scale * length):.2f}" height="{_BAR}"'
        drawn.append(f'<rect class="{style}" x="{x:.2f}" y="{y:.1f}" {size}>{title}</rect>')
        x += scale * length
    total = sum(part[2] for part in row.parts)
    return [*drawn, _text(x + 5, baseline, f"{total:.1f}", "start")]


def _line(series: Series, places: Sequence[Point]) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    title = f"<title>{escape(series.name)}</title>"
    return f'<polyline class="line c{series.colour}" points="{path}">{title}</polyline>'


def _x_tick(value: float, place: Point) -> str:
    x, bottom = place
    return _grid(x, _TOP, x, bottom) + _text(x, bottom + 14, f"{value:g}", "middle")


def _y_tick(power: int, y: float) -> str:
    return _grid(_LEFT, y, _WIDTH - _RIGHT, y) + _text(_LEFT - 5, y + 4, f"{10.0**power:g}", "end")


def _grid(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="grid" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(height: float, title: str, content: Sequence[str]) -> str:
    box = f"0 0 {_WIDTH} {height:g}"
    return f'<svg viewBox="{box}" role="img" aria-label="{escape(title)}">{"".join(content)}</svg>'


def _ticks(largest: float) -> list[float]:
    """0 and up to five round numbers, the last at least `largest`."""
    rough = max(largest, 1e-9) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= rough * 0.999)
    return [step * count for count in range(max(1, math.ceil(largest / step - 1e-9)) + 1)]


def _short(name: str, most: int = 17) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
