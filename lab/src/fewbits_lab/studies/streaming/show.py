"""Shows `streaming`: table, figure and findings."""

from statistics import fmean
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.record import Item, RecordDocument, Recorded, standard_error
from fewbits_lab.studies.streaming.arrangements import WHOLE_ROUNDS
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMES = {"mnist": "MNIST, MLP", "tinyshakespeare": "tiny-shakespeare, GPT"}


def rows(document: RecordDocument) -> list[Item]:
    """One for each data set and arrangement; losses are paired by seed."""
    found = []
    for data in _NAMES:
        own = [run for run in document["runs"] if run["data"] == data]
        plain = {run["seed"]: run for run in own if run["arrangement"] == WHOLE_ROUNDS}
        for arrangement in document["arrangements"]:
            mine = [run for run in own if run["arrangement"] == arrangement]
            gaps = [run["test_loss"] - plain[run["seed"]]["test_loss"] for run in mine]
            if mine:
                found.append({
                    "data": data, "arrangement": arrangement, "seeds": len(mine),
                    "loss": fmean(run["test_loss"] for run in mine),
                    "difference": fmean(gaps), "error": standard_error(gaps),
                    "peak": fmean(run["peak"] for run in mine),
                    "share": fmean(run["peak"] / plain[run["seed"]]["peak"] for run in mine),
                    "busiest": fmean(
                        run["busiest_peak"] / plain[run["seed"]]["busiest_peak"] for run in mine
                    ),
                    "sent": fmean(run["sent"] / plain[run["seed"]]["sent"] for run in mine),
                    "equal": all(run["equal"] for run in mine),
                })  # fmt: skip
    return found


def table(document: RecordDocument) -> ShownTable:
    """Losses, and the bytes of the step that sends most."""
    shown = [
        [
            _NAMES[row["data"]],
            row["arrangement"],
            f"{row['loss']:.4f}",
            ""
            if row["arrangement"] == WHOLE_ROUNDS
            else f"{row['difference']:+.4f} ± {row['error']:.4f}",
            f"{row['peak'] / 1e3:,.1f}",
            f"{row['share']:.3f}",
            f"{row['busiest']:.3f}",
            f"{row['sent']:.3f}",
        ]
        for row in rows(document)
    ]
    titles = ["data", "exchange", "test loss", "difference", "kB of the largest step",
              "of a whole round's", "the busiest rank's", "bytes in all"]  # fmt: skip
    return ShownTable(titles, shown)


def draw(document: RecordDocument) -> "Figure":
    """Losses against the bytes of the largest step."""
    found = list(dict.fromkeys(run["data"] for run in document["runs"]))
    drawn, plots = figures.panels(
        "Test loss against bytes of the largest step", len(found), width=9, height=3.8
    )
    for plot, data in zip(plots, found, strict=True):
        for colour, name in zip(figures.COLOURS, document["arrangements"], strict=False):
            own = [run for run in document["runs"]
                   if (run["data"], run["arrangement"]) == (data, name)]  # fmt: skip
            plot.plot([run["peak"] / 1e3 for run in own], [run["test_loss"] for run in own],
                      "o", color=colour, ms=6, mfc="none", label=name)  # fmt: skip
        plot.set(title=_NAMES[data], xlabel="kB", ylabel="test loss")
    drawn.legend(*plots[0].get_legend_handles_labels(), loc="outside lower left", ncols=3)
    return drawn


def findings(document: RecordDocument) -> list[str]:
    """Peaks and losses in words."""
    late = [row for row in rows(document) if row["arrangement"] != WHOLE_ROUNDS]
    far = [row for row in late if row["difference"] > 2 * row["error"]]
    told = "; ".join(
        f"{_NAMES[row['data']]}, {row['arrangement']} ({row['difference']:+.4f})" for row in far
    )
    shares = [row["share"] for row in late]
    span = f"{min(shares):.3f} to {max(shares):.3f}"
    return [
        f"With 4 fragments the largest step has {span} of a whole round's bytes, with headers.",
        f"By two standard errors, losses are worse than at once for: {told or 'none'}.",
    ]


STREAMING = Recorded(
    name="streaming",
    result="streaming",
    title="Fragments of a model, exchanged one after the other",
    about="Four ranks with DiLoCo; bytes are counted in every step, differences are paired by "
    "seed, ± is one standard error.",
    command="python -m fewbits_lab.studies.streaming.run --data MNIST-DIR --data TEXT-DIR",
    tables=lambda document: [table(document)],
    draw=draw,
    findings=findings,
)
