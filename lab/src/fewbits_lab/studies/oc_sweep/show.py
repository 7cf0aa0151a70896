"""Shows `oc-sweep`: figure, findings and claims."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.experiment import Experiment
from fewbits_lab.studies.oc_sweep.run import NUS, ROUNDINGS, OcSweepRow, rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def findings(table: Sequence[OcSweepRow]) -> list[str]:
    """The cost of ν and ω in iterations, the savings in bytes, and whether bias pays."""
    plain = table[0].steps or 0.0
    found = []
    for rounding, kind in ROUNDINGS.items():
        mine = [row for row in table if row.rounding == rounding and row.times_less_rans]
        best = max(mine, key=lambda row: row.times_less_rans or 0.0)
        first, last = mine[0], mine[-1]
        found.append(
            f"Iterations and bytes (research question 3), {rounding} rounding ({kind}): from "
            f"ν = {first.nu:g} to {last.nu:g} steps go from {_ratio(first.steps, plain)} to "
            f"{_ratio(last.steps, plain)} times those without compression. Bytes in all are fewest "
            f"at ν = {best.nu:g}, {best.times_less_rans:.1f} times fewer than without."
        )
    pairs = _pairs(table)
    more = [(one.bytes_rans or 0.0) / (other.bytes_rans or 1.0) for one, other in pairs]
    slower = sum((one.steps or 0.0) > (other.steps or 0.0) for one, other in pairs)
    found.append(
        "Biased or unbiased (research question 5): with one worker and exact gradients unbiased "
        f"(stochastic) rounding sends {min(more):.2f} to {max(more):.2f} times what nearest "
        f"rounding sends, for ν up to {pairs[-1][0].nu:g}, and takes more steps at {slower} of "
        f"{len(pairs)} values of ν. Noise of several workers averages out and bias does not, so "
        "this says nothing about many."
    )
    return found


def _pairs(table: Sequence[OcSweepRow]) -> list[tuple[OcSweepRow, OcSweepRow]]:
    """Stochastic and nearest rounding with equal ν, where both reach the target."""
    nearest = {row.nu: row for row in table if row.rounding == "nearest" and row.steps}
    own = [row for row in table if row.rounding == "stochastic" and row.steps]
    return [(row, nearest[row.nu]) for row in own if row.nu in nearest]


def _ratio(steps: float | None, plain: float) -> str:
    return f"{(steps or 0.0) / plain:.2f}"


def draw(table: Sequence[OcSweepRow]) -> "Figure":
    """Steps on the left, bytes on the right, against ν."""
    drawn, (left, right) = figures.panels(
        "Sparse dithering on a quadratic: biased against unbiased rounding",
        2,
        width=11.5,
        height=5,
    )
    plain = table[0]
    for colour, marker, (rounding, kind) in zip(
        figures.COLOURS, figures.MARKERS, ROUNDINGS.items(), strict=False
    ):
        mine = [row for row in table if row.rounding == rounding and row.steps]
        name = f"{rounding} ({kind})"
        nus = [row.nu for row in mine]
        left.plot(nus, [row.steps or 0 for row in mine], color=colour, marker=marker, label=name)
        kept = [row for row in mine if row.predicted]
        left.plot([row.nu for row in kept], [row.predicted or 0 for row in kept], ":", color=colour)
        _bytes(right, mine, colour, marker, name)
    left.axhline(plain.steps or 0, color="black", lw=1)
    left.annotate("no compression", (NUS[-1], plain.steps or 0), (0, 4), ha="right",
                  textcoords="offset points", fontsize=9)  # fmt: skip
    left.set_title("iterations (log scale; dotted: predicted by 1/(1 − ν) or 1 + ω)", fontsize=10)
    left.set_ylabel("steps to 10⁻⁴ of the first error")
    left.set_yscale("log")
    steps = [row.steps for row in table if row.steps]
    left.set_ylim(min(steps) / 1.4, 1.3 * max(steps))
    figures.plain_ticks(left.yaxis, [t for t in (100, 150, 200, 300, 500, 700, 1000, 2000, 3000)
                                     if min(steps) / 1.4 <= t <= 1.3 * max(steps)])  # fmt: skip
    stalled = [row.nu for row in table if row.lost]
    if stalled:
        left.annotate(f"nearest, ν ≥ {min(stalled):g}:\nstalls", (min(stalled), 0.8 * min(steps)),
                      color=figures.BLUE, ha="center", va="center", fontsize=9)  # fmt: skip
    right.set_title("total bytes, as a saving: higher is better", fontsize=10)
    right.set_ylabel("times fewer bytes in all than 32 bits a value")
    right.set_ylim(0)
    for plot in (left, right):
        plot.set_xscale("log")
        figures.plain_ticks(plot.xaxis, (0.01, 0.1, 1, 10))
        plot.set_xlim(NUS[0] / 1.3, NUS[-1] * 1.3)
        plot.set_xlabel("ν, which sets the grid (log scale)")
    right.plot([], [], "--", color="black", lw=1, label="dashed: the paper's coder")
    drawn.legend(*right.get_legend_handles_labels(), loc="outside lower left", ncols=4, fontsize=9)
    return drawn


def _bytes(plot: "Axes", mine: Sequence[OcSweepRow], colour: str, marker: str, name: str) -> None:
    nus = [row.nu for row in mine]
    rans = [row.times_less_rans or 0 for row in mine]
    plot.plot(nus, rans, color=colour, marker=marker, label=name)
    paper = [row for row in mine if row.times_less_paper]
    plot.plot([row.nu for row in paper], [row.times_less_paper or 0 for row in paper],
              "--", color=colour, lw=1.2)  # fmt: skip


OC_SWEEP = Experiment(
    name="oc-sweep",
    title="Optimal compression, sweeps of ν and ω",
    about="Gradient descent with one worker on quadratics of 512 values and condition 50, real "
    "frames, until the squared error is 10⁻⁴ of the first. Nearest rounding steps by 1/L, unbiased "
    "rounding by 1/((1 + ω)L). Bytes are whole frames, with the entropy coder and with the "
    "paper's. Above ν = 1 nearest rounding promises no contraction, and stalls: it lowers large "
    "values first, so gradients become flat, and of a flat vector it keeps next to nothing.",
    row=OcSweepRow,
    compute=rows,
    draw=draw,
    findings=findings,
    version=2,
)
