"""Shows `methods`: figure, findings and claims."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.experiment import Experiment
from fewbits_lab.record import RecordDocument, Recorded
from fewbits_lab.studies.methods.run import (
    BUNDLED_WORKERS,
    END,
    METHODS_WORKERS,
    OPERATORS,
    TARGET,
    MethodsRow,
    rows,
    summaries,
)
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def findings(table: Sequence[MethodsRow]) -> list[str]:
    """The level at which each run ended."""
    found = []
    for own in summaries(table):
        if own.reached is None:
            text = f"does not reach 10⁻⁴: {own.end:.1e} after {own.rounds:,} rounds"
        else:
            text = (
                f"10⁻⁴ after {own.reached.round:,} rounds and {own.reached.up_bytes:,} bytes up, "
                f"{own.end:.1e} after {own.rounds:,} rounds"
            )
        found.append(f"{own.method} with {own.operator}: {text}.")
    return found


def draw(table: Sequence[MethodsRow]) -> "Figure":
    """A panel for each operator, a line for each method, against bytes up."""
    operators = [spec for spec in OPERATORS if any(row.operator == spec for row in table)]
    workers = METHODS_WORKERS if table[0].problem == "mushrooms" else BUNDLED_WORKERS
    drawn, plots = figures.panels(
        f"Logistic regression on {table[0].problem}, {workers} workers sorted by label: "
        "theory's step sizes",
        len(operators), width=3.6 * len(operators), height=5.2,
    )  # fmt: skip
    names = list(dict.fromkeys(row.method for row in table))
    colours = dict(zip(names, ("black", *figures.COLOURS, figures.SKY, figures.GOLD), strict=False))
    for plot, operator in zip(plots, operators, strict=True):
        _panel(plot, table, operator, colours)
    plots[0].set_ylabel("(f − f*) / (f₀ − f*)")
    for plot in plots[1:]:
        plot.set_yticklabels([])
    for name, colour in colours.items():
        plots[0].plot([], [], color=colour, label=name)
    drawn.legend(*plots[0].get_legend_handles_labels(), loc="outside lower left", ncols=9)
    return drawn


def _panel(
    plot: "Axes", table: Sequence[MethodsRow], operator: str, colours: dict[str, str]
) -> None:
    for name, colour in colours.items():
        own = [r for r in table if r.method == name and r.operator in (operator, "identity")]
        if not own or (name != "none" and own[0].operator != operator):
            continue
        style = "--" if name == "none" else "-"
        plot.plot([row.up_bytes / 1e6 for row in own], [row.excess for row in own], style,
                  color=colour, lw=1.5)  # fmt: skip
    plot.axhline(TARGET, color=figures.GREY, lw=0.8, ls=":")
    plot.set_yscale("log")
    plot.set_ylim(max(END, min(row.excess for row in table)) / 2, 2)
    mine = [row.up_bytes / 1e6 for row in table if row.operator in (operator, "identity")]
    plot.set_xlim(0, min(max(mine), 6 * max(r.up_bytes / 1e6 for r in table if r.method == "none")))
    plot.set_title(operator.replace(",", ",\n"), fontsize=9)
    plot.set_xlabel("MB up, all workers")


def by_method(document: RecordDocument) -> ShownTable:
    """Bytes to 1e-4, and how far each run gets."""
    workers, rows, lost = document["workers"], [], set()
    for number, run in enumerate(document["runs"]):
        cells = ["never", "", "", ""]
        if hit := run["reached"]:
            sizes = (hit[key] / workers / 1000 for key in ("up_bytes", "up_sections", "down_bytes"))
            cells = [f"{hit['round']:,}", *(f"{size:.1f}" for size in sizes)]
        else:
            lost.add(number)
        stalls = run["end"] > END and run["rounds"] >= document["most_rounds"]
        end = f"{run['end']:.1e}" + (f" after {run['rounds']:,} rounds" if stalls else "")
        rows.append([run["method"], f"`{run['operator']}`", *cells, end])
    titles = ["method", "operator", "rounds to 10⁻⁴", "kB up a worker", "in sections", "kB down",
              "gets to"]  # fmt: skip
    return ShownTable(titles, rows, lost=frozenset(lost), note="Marked: never gets to 10⁻⁴.")


def draw_by_method(document: RecordDocument) -> "Figure":
    """Bytes up to 1e-4 of the runs that get there."""
    runs = [run for run in document["runs"] if run["reached"]]
    drawn, (plot,) = figures.panels(
        "kB up a worker until 10⁻⁴, logistic regression on mushrooms", width=9,
        height=1.5 + 0.3 * len(runs),
    )  # fmt: skip
    for at, run in enumerate(runs):
        size = run["reached"]["up_bytes"] / document["workers"] / 1000
        colour = figures.GREY if run["method"] == "none" else figures.BLUE
        plot.barh(at, size, 0.65, color=colour, alpha=0.8)
        plot.annotate(f"{size:.1f}", (size, at), (4, 0), textcoords="offset points", va="center",
                      fontsize=8)  # fmt: skip
    plot.margins(x=0.1)
    plot.set_xlabel("kB up, of one worker")
    figures.names(plot, [f"{run['method']}, {run['operator']}" for run in runs])
    return drawn


_METHODS = Experiment(
    name="methods",
    title="Methods by operator on workers that have little in common",
    about="Logistic regression with condition 101, samples sorted by label and cut into equal "
    "parts, one a worker: breast cancer data of scikit-learn on 10 workers, or mushrooms on 20 "
    "with --data. Step sizes are theory's. Messages are frames of float32, bytes are measured; "
    "points and memories are float64. DCGD stalls where gradients of single workers do not vanish; "
    "methods with shifts or differences do not.",
    row=MethodsRow,
    compute=rows,
    draw=draw,
    findings=findings,
)
METHODS_MUSHROOMS = Recorded(
    name="methods-mushrooms",
    result="methods-mushrooms",
    title="Every method with every operator, on mushrooms",
    about="Logistic regression, 20 workers whose samples are sorted by label, theory's step sizes; "
    "bytes of frames, until the excess is 10⁻⁴ of that at the start.",
    command="python -m fewbits_lab.studies.methods.run --data LIBSVM-DIR",
    tables=lambda document: [by_method(document)],
    draw=draw_by_method,
)
