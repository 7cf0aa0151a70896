"""Shows `scale`: figure, findings and claims."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fewbits.collectives.payload import UNIT
from fewbits.theory import quantities
from fewbits_lab import figures
from fewbits_lab.experiment import Experiment
from fewbits_lab.studies.scale import model
from fewbits_lab.studies.scale.run import (
    LOCAL_STEPS,
    SCALE_LINKS,
    SCALE_MEASURED,
    SCALE_MODELLED,
    SCALE_WORKERS,
    SIZES,
    ScaleRow,
    rows,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_SHOWN, SHOWN_WORKERS = "1 B", 64
_STYLES = {
    model.SCALE_PLAIN: (figures.GREY, "float32"),
    "bfloat16": (figures.BROWN, "bfloat16"),
    "natural": (figures.BLUE, "natural"),
    "natural:coder=rans": (figures.ORANGE, "natural:coder=rans"),
}


def draw(table: Sequence[ScaleRow]) -> "Figure":
    """Bytes against workers, gain against the link, and where compression stops to pay."""
    drawn, (sent, gain, border) = figures.panels(
        "Points are measured, lines are modelled", 3, width=15, height=5
    )
    _draw_bytes(sent, table)
    _draw_gain(gain, table)
    _draw_border(border, table)
    return drawn


def _draw_bytes(plot: "Axes", table: Sequence[ScaleRow]) -> None:
    for spec, (colour, label) in _STYLES.items():
        for steps, dashes in ((1, "-"), (32, "--")):
            own = _lines(table, _SHOWN, spec, steps, SCALE_LINKS[0])
            if own and (steps == 1 or spec in (model.SCALE_PLAIN, "natural:coder=rans")):
                text = label if steps == 1 else f"{label}, 32 local steps"
                plot.plot([r.workers for r in own], [r.megabytes / 1e3 for r in own], dashes,
                          color=colour, label=text)  # fmt: skip
        points = [r for r in table if r.kind == SCALE_MEASURED and r.operator == spec]
        points = [r for r in points if r.parameters == f"{16 * UNIT:,}"]
        scale = SIZES[_SHOWN] / (16 * UNIT) / 1e3
        plot.plot([r.workers for r in points], [r.megabytes * scale for r in points], "o",
                  color=colour, ms=5)  # fmt: skip
    plot.set_title("What a rank of 1 B parameters sends in a step\n(measured with 1 M, times 954)")
    plot.set_ylabel("GB in a step, busiest rank (log scale)")
    plot.set_ylim(0.001, 40)
    _workers(plot)
    plot.set_yscale("log")
    figures.plain_ticks(plot.yaxis, (0.001, 0.01, 0.1, 1, 10))
    plot.legend(fontsize=8, loc="lower right")


def _draw_gain(plot: "Axes", table: Sequence[ScaleRow]) -> None:
    for spec, (colour, label) in _STYLES.items():
        for steps, dashes in ((1, "-"), (32, "--")):
            own = [
                r for r in table
                if (r.kind, r.parameters, r.workers, r.operator, r.local_steps)
                == (SCALE_MODELLED, _SHOWN, SHOWN_WORKERS, spec, steps)
            ]  # fmt: skip
            if spec != model.SCALE_PLAIN:
                plot.plot([r.gbit_per_second or 0 for r in own], [r.gain or 0 for r in own], dashes,
                          color=colour, label=label if steps == 1 else None)  # fmt: skip
    plot.plot([], [], "--", color="black", label="with 32 local steps")
    plot.axhline(1, color="black", lw=1)
    plot.annotate("below: a step is slower", (0.12, 0.93), va="top", fontsize=8)
    plot.set_title("How much faster a step is: 1 B parameters, 64 workers")
    plot.set_xscale("log")
    plot.set_yscale("log")
    figures.plain_ticks(plot.xaxis, (0.1, 1, 10, 100, 400))
    figures.plain_ticks(plot.yaxis, (0.1, 0.2, 0.5, 1, 2, 4, 8))
    plot.set_xlabel("a worker's link, Gbit/s (log scale)")
    plot.set_ylabel("seconds of plain all-reduce over ours (log scale)")
    plot.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0, 0.15))


def _draw_border(plot: "Axes", table: Sequence[ScaleRow]) -> None:
    dashes = dict(zip(("10 M", "100 M", "1 B"), (":", "--", "-"), strict=True))
    for spec in ("natural", "natural:coder=rans"):
        for size, dash in dashes.items():
            own = [r for r in _lines(table, size, spec, 1, SCALE_LINKS[0]) if r.pays_below_gbit]
            x, y = [r.workers for r in own], [r.pays_below_gbit or 0 for r in own]
            plot.plot(x, y, dash, color=_STYLES[spec][0])
            if x[-1] < SCALE_WORKERS[-1]:
                plot.plot(x[-1:], y[-1:], "x", color=_STYLES[spec][0], ms=9)
        plot.plot([], [], color=_STYLES[spec][0], label=spec)
    for size, dash in dashes.items():
        more = " and more" if size == "1 B" else ""
        plot.plot([], [], dash, color="black", label=f"{size} parameters{more}")
    plot.plot([], [], "x", color="black", ms=9, ls="none", label="with more workers nowhere")
    plot.set_title("Compression pays below this link speed")
    plot.set_ylabel("Gbit/s (log scale)")
    plot.set_yscale("log")
    _workers(plot)
    plot.set_ylim(0.3, 60)
    figures.plain_ticks(plot.yaxis, (0.3, 1, 3, 10, 30))
    plot.legend(fontsize=8, loc="lower left")


def _lines(
    table: Sequence[ScaleRow], size: str, spec: str, steps: int, link: float
) -> list[ScaleRow]:
    wanted = (SCALE_MODELLED, size, spec, steps, link / 1e9)
    return [
        row for row in table
        if (row.kind, row.parameters, row.operator, row.local_steps, row.gbit_per_second) == wanted
    ]  # fmt: skip


def _workers(plot: "Axes") -> None:
    plot.set_xscale("log")
    plot.set_xlabel("workers (log scale)")
    figures.plain_ticks(plot.xaxis, (2, 10, 100, 1000, 10_000))


def findings(table: Sequence[ScaleRow]) -> list[str]:
    """The findings of the rows."""
    tried = [r for r in table if r.kind == SCALE_MEASURED and r.formula]
    off = max(abs(r.megabytes / (r.formula or 1) - 1) for r in tried)
    first = (
        f"Measured: bytes of {min(r.workers for r in tried)} to {max(r.workers for r in tried)} "
        f"ranks; the formula for the busiest one is at most {100 * off:.1f} % off. Modelled: more "
        "ranks, and all seconds, with recorded codec speeds of one thread."
    )
    said = [first]
    for link in SCALE_LINKS:
        for steps in LOCAL_STEPS:
            cases = [
                r for r in table
                if (r.kind, r.gbit_per_second, r.local_steps, r.operator)
                == (SCALE_MODELLED, link / 1e9, steps, model.SCALE_PLAIN)
            ]  # fmt: skip
            names = sorted({r.best for r in cases})
            counts = ", ".join(f"{n}: {sum(r.best == n for r in cases)}" for n in names)
            every = "every step" if steps == 1 else f"every {steps} steps"
            said.append(
                f"{quantities.rate_text(link)}, exchange {every}: fastest of {len(cases)} cases: "
                f"{counts}."
            )
    few = [r for r in table if r.kind == SCALE_MODELLED and r.workers * UNIT > SIZES[r.parameters]]
    worst = max((r for r in few if r.operator == "natural" and r.local_steps == 1),
                key=lambda r: r.megabytes / SIZES[r.parameters])  # fmt: skip
    said.append(
        f"A unit has one owner, and {UNIT:,} values or fewer, so that each of 16 ranks or more has "
        f"four. Headers grow: with {worst.workers:,} workers and {worst.parameters} parameters the "
        f"busiest rank sends {worst.megabytes:,.0f} MB in a step."
    )
    return said


SCALE = Experiment(
    name="scale",
    title="Scale: bytes, seconds and where compression pays, from 2 to 10,000 workers",
    about="Measured: the bytes that 2 to 16 ranks send, as threads of one process with the real "
    "collective and Gaussian vectors. Modelled: all other bytes, by a formula that is compared "
    "with those; seconds, by theory.cost: computing 6 operations for each parameter and token, "
    "8192 tokens a worker, 400 TFLOP/s; links as fast as stated in both directions at once, 20 "
    "µs of latency, no contention, nothing hidden behind computing; codec speeds as recorded on "
    "one thread of one machine. Plain all-reduce sends float32 by halving and doubling. As many "
    "iterations are assumed with as without compression: fewbits plan has the worst case.",
    row=ScaleRow,
    compute=rows,
    draw=draw,
    findings=findings,
)
