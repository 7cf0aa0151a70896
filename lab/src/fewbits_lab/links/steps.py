"""The figure of `fewbits-lab link`: how long a step takes, a panel for each link."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

_PANEL, _NAMES, _RIGHT = 430, 128, 118  # widths: of a panel, of its names, of its figures
_TOP, _TITLE, _ROW, _BAR, _GAP = 74, 26, 20, 12, 22  # heights
_COLUMNS = 2
_CAPTION = (
    "seconds a step, shorter is better: median, line from quartile to quartile; "
    "× how many times as fast as plain DDP"
)
_CSS = """
svg{--back:#fff;--text:#1c2024;--soft:#60676f;--rule:#d9dde2;--plain:#5b6570;--torch:#d55e00;
--fewbits:#0072b2;--silent:#b9c1c9}
@media (prefers-color-scheme:dark){svg{--back:#14171a;--text:#e6e9ec;--soft:#9aa3ac;--rule:#333a41;
--plain:#aeb8c2;--torch:#f0874a;--fewbits:#56b4e9;--silent:#59626b}}
text{fill:var(--text);font:11px system-ui,sans-serif}.back{fill:var(--back)}.soft{fill:var(--soft)}
.head{font-size:15px;font-weight:600}.title{font-size:12px;font-weight:600}
.axis{stroke:var(--rule)}.spread{stroke:var(--text);stroke-width:1.4}
.plain{fill:var(--plain)}.torch{fill:var(--torch)}.fewbits{fill:var(--fewbits)}
.silent{fill:var(--silent)}
"""
KEY = {
    "plain": "plain DDP",
    "torch": "torch's hooks",
    "fewbits": "fewbits",
    "silent": "no communication",
}


class StepBar(NamedTuple):
    """A contender: its style in `KEY`, median and quartiles in seconds, times as fast as plain.

    Without seconds, `note` says why.
    """

    name: str
    style: str
    seconds: tuple[float, float, float] | None
    times_plain: float | None = None
    note: str = ""


class StepPanel(NamedTuple):
    """A link and who was measured on it."""

    title: str
    bars: Sequence[StepBar]


def figure(head: str, panels: Sequence[StepPanel]) -> str:
    """An SVG file that stands alone."""
    columns = min(_COLUMNS, max(1, len(panels)))
    parts = [
        f'<text class="head" x="16" y="26">{escape(head)}</text>',
        f'<text class="soft" x="16" y="44">{_CAPTION}</text>',
        *_key(),
    ]
    y = _TOP
    for first in range(0, len(panels), columns):
        row = panels[first : first + columns]
        for column, panel in enumerate(row):
            parts.append(_panel(panel, column * _PANEL, y))
        y += _TITLE + _ROW * max(len(panel.bars) for panel in row) + _GAP
    width = max(2, columns) * _PANEL
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" '
        f'height="{y}" role="img" aria-label="{escape(head)}"><style>{_CSS}</style>'
        f'<rect class="back" width="100%" height="100%"/>{"".join(parts)}</svg>\n'
    )


def _key() -> list[str]:
    return [
        f'<rect class="{style}" x="{16 + 130 * place}" y="53" width="10" height="10"/>'
        f'<text x="{31 + 130 * place}" y="62">{escape(text)}</text>'
        for place, (style, text) in enumerate(KEY.items())
    ]


def _panel(panel: StepPanel, x: float, y: float) -> str:
    longest = max((bar.seconds[2] for bar in panel.bars if bar.seconds), default=1.0)
    scale = (_PANEL - _NAMES - _RIGHT) / max(longest, 1e-9)
    start, top = x + _NAMES, y + _TITLE
    floor = top + _ROW * len(panel.bars)
    drawn = [
        f'<text class="title" x="{x + 16:g}" y="{y + 16:g}">{escape(panel.title)}</text>',
        f'<line class="axis" x1="{start:g}" y1="{top:g}" x2="{start:g}" y2="{floor:g}"/>',
    ]
    for place, bar in enumerate(panel.bars):
        drawn.append(_bar(bar, start, top + place * _ROW, scale))
    return "".join(drawn)


def _bar(bar: StepBar, x: float, y: float, scale: float) -> str:
    middle = y + _ROW / 2
    name = f'<text x="{x - 6:g}" y="{middle + 4:g}" text-anchor="end">{escape(_short(bar.name))}'
    if bar.seconds is None:
        note = f'<text class="soft" x="{x + 6:g}" y="{middle + 4:g}">{escape(_short(bar.note, 48))}'
        return f"<g>{name}</text>{note}<title>{escape(bar.note)}</title></text></g>"
    median, low, high = (scale * value for value in bar.seconds)
    times = "" if bar.times_plain is None else f", {bar.times_plain:.2f}×"
    said = f"{bar.seconds[0]:.3g} s{times}"
    return (
        f"<g><title>{escape(bar.name)}: {said}</title>{name}</text>"
        f'<rect class="{bar.style}" x="{x:.1f}" y="{middle - _BAR / 2:.1f}" '
        f'width="{max(median, 0.5):.1f}" height="{_BAR}"/>'
        f'<line class="spread" x1="{x + low:.1f}" y1="{middle:.1f}" '
        f'x2="{x + high:.1f}" y2="{middle:.1f}"/>'
        f'<text x="{x + max(median, high) + 5:.1f}" y="{middle + 4:.1f}">{said}</text></g>'
    )


def _short(text: str, most: int = 19) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
