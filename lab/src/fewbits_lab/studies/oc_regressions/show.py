"""Shows `oc-regressions`: figure, findings and claims."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.experiment import Experiment
from fewbits_lab.record import RecordDocument
from fewbits_lab.studies.oc_regressions.run import OcRegressionsRow, rows
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def by_regression(document: RecordDocument) -> ShownTable:
    """How many times fewer bits, by regression and operator; lost where it stalls."""
    rows, lost = [], set()
    for number, row in enumerate(document["rows"]):
        steps = "stalls" if row["steps"] is None else f"{row['steps']:,}"
        values = [row[f"times_less_{name}"] for name in ("sections", "without_key", "frames")]
        cells = ["" if value is None else f"{value:.1f}" for value in values]
        regression = f"{row['kind']}, {row['data']}"
        rows.append([regression, str(row["d"]), f"`{row['spec']}`", steps, *cells])
        if row["steps"] is None or values[2] < 1:
            lost.add(number)
    titles = ["regression", "d", "operator", "steps", "sections", "without key", "frames"]
    note = "Marked: it stalls, or whole frames send more than no compression."
    return ShownTable(titles, rows, lost=frozenset(lost), note=note)


def findings(table: Sequence[OcRegressionsRow]) -> list[str]:
    """How many times fewer bits, by problem."""
    found = []
    for kind, data in dict.fromkeys((row.kind, row.data) for row in table):
        own = [row for row in table if (row.kind, row.data) == (kind, data)]
        parts = [
            f"{row.operator} {row.times_less_sections:.1f} times fewer in sections "
            f"({row.times_less_without_key:.1f} without the key), {row.times_less_frames:.1f} in "
            "frames"
            for row in own[1:]
            if row.steps
        ]
        found.append(f"{kind} regression on {data}, d = {own[0].d}: {'; '.join(parts)}.")
    return found


def draw(table: Sequence[OcRegressionsRow]) -> "Figure":
    """Bars of how many times fewer bits, sections and frames."""
    problems = list(dict.fromkeys((row.kind, row.data, row.d) for row in table))
    drawn, (plot,) = figures.panels(
        "Bits of one worker until the squared error is 10⁻⁴ of the first, real frames",
        width=9, height=1.2 + 0.8 * len(problems),
    )  # fmt: skip
    names = list(dict.fromkeys(row.operator for row in table))[1:]
    for at, name in enumerate(names):
        own = [row for row in table if row.operator == name]
        places = [place + 0.2 * at - 0.3 for place in range(len(own))]
        frames = [row.times_less_frames or 0 for row in own]
        sections = [row.times_less_without_key or 0 for row in own]
        colour = figures.COLOURS[at]
        plot.barh(places, sections, 0.18, color=colour, alpha=0.3)
        plot.barh(places, frames, 0.18, color=colour, label=name)
        for place, row, end in zip(places, own, sections, strict=True):
            text = (
                "stalls" if row.steps is None else f"{end:.1f}, frames {row.times_less_frames:.1f}"
            )
            plot.annotate(text, (end, place), (4, 0), textcoords="offset points", va="center",
                          fontsize=7.5)  # fmt: skip
    figures.names(plot, [f"{kind}, {data}\n(d = {d})" for kind, data, d in problems])
    plot.axvline(1, color="black", lw=1)
    plot.set_xlim(0, 1.25 * max(row.times_less_without_key or 0 for row in table))
    plot.set_xlabel("times fewer bits than 32 a value: whole frames (dark), sections without keys")
    drawn.legend(*plot.get_legend_handles_labels(), loc="outside lower left", ncols=4, fontsize=9)
    return drawn


OC_REGRESSIONS = Experiment(
    name="oc-regressions",
    title="Optimal compression, regressions with real frames",
    about="Gradient descent with one worker until the squared distance from the solution is 10⁻⁴ "
    "of the first, condition 101. Ridge regression on scikit-learn's diabetes data (10 features "
    "and their squares) and on its breast cancer data, logistic regression on the latter, and with "
    "--data on LIBSVM files. The paper's own sets, Body-Fat and the older Breast-Cancer, are not "
    "among them: see oc-convergence. Compressed gradients are frames: sections are what a "
    "compressor has to say, frames have a header and a checksum besides, and spherical "
    "compression a key of 128 bits among its sections.",
    row=OcRegressionsRow,
    compute=rows,
    draw=draw,
    findings=findings,
)
