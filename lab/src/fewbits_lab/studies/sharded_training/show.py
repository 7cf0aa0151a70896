"""Shows `sharded-training`: tables, figures, findings and claims."""

from statistics import fmean
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.record import Item, RecordDocument, Recorded, standard_error, with_error
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_NONE = "none"  # of FSDP's runs


def sharded(every: list[Item], replicas: int = 1) -> ShownTable:
    """Losses beside plain training's with the same seed, bytes, and whether repeats are equal."""
    runs = [run for run in every if run["replicas"] == replicas]
    rows: list[list[str]] = []
    lost = set()
    for name in dict.fromkeys(run["data"] for run in runs):
        of = [run for run in runs if run["data"] == name]
        plain = {run["seed"]: run["loss"] for run in of if run["worker"] == _NONE}
        for worker in dict.fromkeys(run["worker"] for run in of if not run["repeat"]):
            cells, worse = _sharded_row([run for run in of if run["worker"] == worker], plain)
            if worse:
                lost.add(len(rows))
            rows.append([name, worker, *cells])
    titles = ["data", "operator", "seeds", "loss", "difference ± standard error", "bytes",
              "repeated"]  # fmt: skip
    return ShownTable(titles, rows, lost=frozenset(lost))


def _sharded_row(runs: list[Item], plain: dict[int, float]) -> tuple[list[str], bool]:
    first = {run["seed"]: run for run in runs if not run["repeat"]}
    gaps = [run["loss"] - plain[seed] for seed, run in first.items() if seed in plain]
    compared = runs[0]["worker"] != _NONE and len(gaps) > 1
    sent = ""
    if "sent_bytes" in runs[0]:
        sent = f"{fmean(run['plain_bytes'] / run['sent_bytes'] for run in runs):.2f}× less"
    again, repeated = [run for run in runs if run["repeat"]], ""
    if again:
        same = all(run["shards"] == first[run["seed"]]["shards"] for run in again)
        repeated = "same bits" if same else "other bits"
    loss = fmean(run["loss"] for run in first.values())
    difference = with_error(gaps, 4, "+") if compared else ""
    cells = [str(len(first)), f"{loss:.4f}", difference, sent, repeated]
    return cells, compared and fmean(gaps) > 2 * standard_error(gaps)


def draw_sharded(document: RecordDocument) -> "Figure":
    """Differences of losses by seed."""
    runs = [run for run in document["runs"] if not run["repeat"] and run["replicas"] == 1]
    groups = [group for group in dict.fromkeys((run["data"], run["worker"]) for run in runs)
              if group[1] != _NONE]  # fmt: skip
    drawn, (plot,) = figures.panels(
        "FSDP2: loss with compressed gradients, less that of plain training", width=8,
        height=1.6 + 0.4 * len(groups),
    )  # fmt: skip
    for at, (data, worker) in enumerate(groups):
        plain = {r["seed"]: r["loss"] for r in runs if (r["data"], r["worker"]) == (data, _NONE)}
        own = [r for r in runs if (r["data"], r["worker"]) == (data, worker) and r["seed"] in plain]
        gaps = [run["loss"] - plain[run["seed"]] for run in own]
        plot.plot(gaps, [at] * len(gaps), "o", color=figures.BLUE, mfc="none")
        plot.plot(fmean(gaps), at, "s", color=figures.BLUE, ms=8)
    plot.axvline(0, color="black", lw=1)
    plot.set_xlabel("difference of the loss; square: mean, rings: single seeds")
    figures.names(plot, [f"{data}, {worker}" for data, worker in groups])
    return drawn


SHARDED_TRAINING = Recorded(
    name="sharded-training",
    result="sharded-training",
    title="FSDP2 with compressed gradients",
    about="Four ranks that keep shards of the model; some runs are repeated to compare all bits.",
    command="python -m fewbits_lab.studies.sharded_training.run --data MNIST-DIR --data TEXT-DIR",
    tables=lambda document: [sharded(document["runs"]), sharded(document["runs"], 2)],
    draw=draw_sharded,
)
