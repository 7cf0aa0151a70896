"""Shows `codec-speed`: figure, findings and claims."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.experiment import Experiment
from fewbits_lab.studies.codec_speed.run import (
    LOSSLESS_KIND,
    SPEED_DECODE,
    SPEED_ENCODE,
    SPEED_OPERATOR,
    YARDSTICK,
    CodecSpeedRow,
    rows,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def findings(table: Sequence[CodecSpeedRow]) -> list[str]:
    """The operators that are faster than zstd, and the slow ones."""
    speeds = {(row.codec, row.direction): row.memcpy_ratio for row in table}
    ours = [row for row in table if row.kind == SPEED_OPERATOR]
    packed, coded = (
        f"{spec} {speeds[spec, SPEED_ENCODE]:.2f} and {speeds[spec, SPEED_DECODE]:.2f}"
        for spec in ("natural", "natural:coder=rans")
    )
    found = [f"Times the speed of memcpy, encoding and decoding: {packed}; {coded}."]
    lossless = [row for row in table if row.kind == LOSSLESS_KIND]
    if lossless:
        best = max((row for row in lossless if row.direction == SPEED_ENCODE),
                   key=lambda row: row.memcpy_ratio)  # fmt: skip
        least = min(lossless, key=lambda row: row.bits_per_value)
        slower = [
            row.codec
            for row in ours
            if row.direction == SPEED_ENCODE and row.memcpy_ratio < best.memcpy_ratio
        ]
        found.append(
            f"Without loss nothing gets below {least.bits_per_value:.1f} of 32 bits ({least.codec})"
            f"; the fastest, {best.codec}, encodes at {best.memcpy_ratio:.2f} times memcpy. Slower "
            f"than that: {', '.join(slower) or 'none of ours'}."
        )
    slow = sorted((row for row in ours if row.memcpy_ratio < 0.1), key=lambda row: row.memcpy_ratio)
    names = ", ".join(f"{row.codec} ({row.direction}, {row.memcpy_ratio:.3g})" for row in slow)
    found.append(f"Below a tenth of memcpy: {names or 'none'}.")
    return found


def draw(table: Sequence[CodecSpeedRow]) -> "Figure":
    """Ratios as bars, encoding and decoding side by side."""
    order = list(dict.fromkeys(row.codec for row in table))
    drawn, plots = figures.panels(
        "Speed against memcpy of the same vector, one thread", 2, width=11.5, height=8
    )
    for plot, direction in zip(plots, (SPEED_ENCODE, SPEED_DECODE), strict=True):
        _bars(plot, [row for row in table if row.direction == direction], order)
        plot.set_title(f"{direction} (log scale)", fontsize=10)
    plots[1].set_yticklabels([])
    for kind, colour in _COLOURS.items():
        plots[0].plot([], [], "s", color=colour, label=_NAMES[kind])
    drawn.legend(*plots[0].get_legend_handles_labels(), loc="outside lower left", ncols=3)
    return drawn


_COLOURS = {YARDSTICK: figures.GREY, SPEED_OPERATOR: figures.BLUE, LOSSLESS_KIND: figures.ORANGE}
_NAMES = {
    YARDSTICK: "yardsticks",
    SPEED_OPERATOR: "whole compress and decompress calls",
    LOSSLESS_KIND: "lossless, on the bytes of the vector",
}


def _bars(plot: "Axes", own: Sequence[CodecSpeedRow], order: Sequence[str]) -> None:
    for row in own:
        at = order.index(row.codec)
        plot.barh(at, row.memcpy_ratio, color=_COLOURS[row.kind], height=0.65, alpha=0.8)
        plot.annotate(f"{row.memcpy_ratio:.2g}", (row.memcpy_ratio, at), (4, 0), va="center",
                      textcoords="offset points", fontsize=8, bbox=figures.PAPER)  # fmt: skip
    figures.names(plot, order)
    plot.axvline(1, color="black", lw=1)
    plot.set_xscale("log")
    plot.set_xlim(1e-4, 6)
    plot.set_xlabel("times the speed of memcpy")


CODEC_SPEED = Experiment(
    name="codec-speed",
    title="Speed of every codec against memcpy",
    about="A Gaussian float32 vector, one thread, warm memory; operators as whole calls to a given "
    "buffer, header and checksum included. All candidates run in turn, round after round, and "
    "ratios are taken within a round, of processor times, so that what else runs on the machine "
    "hardly matters. Seconds are of this machine. Results differ from run to run: this is the one "
    "experiment, with peers, that equal settings do not repeat.",
    row=CodecSpeedRow,
    compute=rows,
    draw=draw,
    findings=findings,
)
