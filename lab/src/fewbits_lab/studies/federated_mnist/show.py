"""Shows `federated-mnist`: tables, figures, findings and claims."""

from statistics import fmean
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.record import Item, RecordDocument, Recorded, standard_error
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def mnist_summaries(document: RecordDocument) -> list[Item]:
    """Accuracy, its paired difference from `none`, and how many times fewer bytes went up."""
    runs = {(own["name"], own["seed"]): own for own in document["runs"]}
    seeds = document["settings"]["seeds"]
    plain = [runs["none", seed] for seed in seeds]
    made = []
    for name in dict.fromkeys(own["name"] for own in document["runs"]):
        own = [runs[name, seed] for seed in seeds]
        differences = [
            100 * (a["accuracy"] - b["accuracy"]) for a, b in zip(own, plain, strict=True)
        ]
        error, mean = standard_error(differences), fmean(differences)
        made.append({
            "name": name, "operator": own[0]["operator"], "feedback": own[0]["feedback"],
            "accuracy": 100 * fmean(one["accuracy"] for one in own), "difference": mean,
            "standard_error": error, "equal": abs(mean) <= 2 * error and abs(mean) <= 0.5,
            "up_bytes": fmean(one["up_bytes"] / one["messages"] for one in own),
            "smaller": fmean(one["up_bytes"] for one in plain) / fmean(o["up_bytes"] for o in own),
        })  # fmt: skip
    return made


def mnist(document: RecordDocument) -> ShownTable:
    """Accuracies and bytes."""
    rows, lost = [], set()
    for number, own in enumerate(mnist_summaries(document)):
        plain = own["name"] == "none"
        label = "none" if plain else f"`{own['operator']}`"
        label += f" with `{own['feedback']}`" if own["feedback"] else ""
        difference = "" if plain else f"{own['difference']:+.2f} ± {own['standard_error']:.2f}"
        rows.append([
            label, f"{own['accuracy']:.2f} %", difference,
            "" if plain else "yes" if own["equal"] else "**no**", f"{own['up_bytes']:,.0f}",
            f"{own['smaller']:.1f}",
        ])  # fmt: skip
        if not plain and not own["equal"]:
            lost.add(number)
    titles = ["updates", "accuracy", "difference", "equal", "bytes a message", "fewer bytes up"]
    return ShownTable(titles, rows, lost=frozenset(lost))


def draw_mnist(document: RecordDocument) -> "Figure":
    """Accuracy against bytes up, a line for each configuration."""
    drawn, (plot,) = figures.panels(
        "FedAvg on MNIST, ten unlike clients: accuracy against bytes up", width=8.5
    )
    seeds = document["settings"]["seeds"]
    for (name, colour), marker in zip(
        zip(dict.fromkeys(run["name"] for run in document["runs"]), figures.COLOURS, strict=False),
        figures.MARKERS, strict=False,
    ):  # fmt: skip
        own = [run for run in document["runs"] if run["name"] == name]
        rounds = [number for number, _ in own[0]["curve"]]
        each = fmean(run["up_bytes"] for run in own) / document["settings"]["rounds"] / 1e6
        means = [fmean(100 * run["curve"][at][1] for run in own) for at in range(len(rounds))]
        plot.plot([each * number for number in rounds], means, marker=marker, ms=4, color=colour,
                  label=name)  # fmt: skip
    figures.log_x(plot)
    plot.set(xlabel="MB up, all clients",
             ylabel=f"test accuracy, %, mean of {len(seeds)} seeds")  # fmt: skip
    plot.legend()
    return drawn


FEDERATED_MNIST = Recorded(
    name="federated-mnist",
    result="federated-mnist",
    title="FedAvg on MNIST, ten clients that have little in common",
    about="Training images split by a Dirichlet law with parameter 0.3; the same start, three "
    "seeds, updates are real frames and their bytes are counted. Equal: within half a point and "
    "two standard errors of uncompressed updates.",
    command="python -m fewbits_lab.studies.federated_mnist.run --data MNIST-DIR",
    tables=lambda document: [mnist(document)],
    draw=draw_mnist,
)
