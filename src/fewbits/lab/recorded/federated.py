"""Federated learning: MNIST over unlike clients, many clients, methods, Flower's bytes."""

from statistics import fmean
from typing import TYPE_CHECKING, Any

from fewbits.lab import figures
from fewbits.lab.experiments import federated_scale, flower, methods
from fewbits.lab.recorded.record import Document, Recorded, standard_error
from fewbits.lab.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Run = dict[str, Any]


def mnist_summaries(document: Document) -> list[Run]:
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


def mnist(document: Document) -> Table:
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
    return Table(titles, rows, lost=frozenset(lost))


def draw_mnist(document: Document) -> "Figure":
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


def scale(document: Document) -> Table:
    """Rounds, bytes and seconds by the number of clients."""
    rows, lost = [], set()
    for number, row in enumerate(document["rows"]):
        reached = row["rounds"] is not None
        rounds = f"{row['rounds']:,}" if reached else f"> {document['most_rounds']:,}"
        less = f"{row['times_less_up']:.1f}" if row["times_less_up"] else "1" if reached else ""
        rows.append([
            f"{row['clients']:,}", str(row["present"]), row["operator"], rounds,
            f"{row['bytes_a_message'] / 1000:.2f}", less,
            f"{row['seconds']:,.0f}" if reached else "",
        ])  # fmt: skip
        if not reached:
            lost.add(number)
    titles = ["clients", "a round", "updates", "rounds", "kB up a message", "fewer bytes up",
              "seconds"]  # fmt: skip
    return Table(titles, rows, lost=frozenset(lost), note="Marked: did not get there.")


def by_method(document: Document) -> Table:
    """Bytes to 1e-4, and how far each run gets."""
    workers, rows, lost = document["workers"], [], set()
    for number, run in enumerate(document["runs"]):
        cells = ["never", "", "", ""]
        if hit := run["reached"]:
            sizes = (hit[key] / workers / 1000 for key in ("up_bytes", "up_sections", "down_bytes"))
            cells = [f"{hit['round']:,}", *(f"{size:.1f}" for size in sizes)]
        else:
            lost.add(number)
        stalls = run["end"] > methods.END and run["rounds"] >= document["most_rounds"]
        end = f"{run['end']:.1e}" + (f" after {run['rounds']:,} rounds" if stalls else "")
        rows.append([run["method"], f"`{run['operator']}`", *cells, end])
    titles = ["method", "operator", "rounds to 10⁻⁴", "kB up a worker", "in sections", "kB down",
              "gets to"]  # fmt: skip
    return Table(titles, rows, lost=frozenset(lost), note="Marked: never gets to 10⁻⁴.")


def draw_by_method(document: Document) -> "Figure":
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


def flower_rows(document: Document) -> list[flower.Row]:
    """The experiment's rows."""
    return [flower.Row(**row) for row in document["rows"]]


def flower_bytes(document: Document) -> Table:
    """Bytes of a node by round, up and down."""
    found = flower_rows(document)
    turns = sorted({row.round for row in found})
    rows = [
        [
            f"`{operator}`",
            way,
            *(f"{flower.mean(found, operator, way, turn):,.0f}" for turn in turns),
        ]
        for operator in flower.OPERATORS
        for way in ("up", "down")
    ]
    return Table(["operator", "way", *(f"round {turn}" for turn in turns)], rows,
                 title="TCP bytes of a node")  # fmt: skip


MNIST = Recorded(
    name="federated-mnist",
    file="federated-mnist.json",
    title="FedAvg on MNIST, ten clients that have little in common",
    about="Training images split by a Dirichlet law with parameter 0.3; the same start, three "
    "seeds, updates are real frames and their bytes are counted. Equal: within half a point and "
    "two standard errors of uncompressed updates.",
    command="python benchmarks/federated_mnist.py --data MNIST-DIR",
    tables=lambda document: [mnist(document)],
    draw=draw_mnist,
)
SCALE = Recorded(
    name="federated-scale-full",
    file="federated-scale.json",
    title="FedAvg with 10 to 10,000 clients, the long run",
    about="Clients are simulated, their messages are real frames, seconds are modelled.",
    command="python benchmarks/federated_scale.py",
    tables=lambda document: [scale(document)],
    draw=lambda document: federated_scale.draw(
        [federated_scale.Row(**row) for row in document["rows"]]
    ),
)
METHODS = Recorded(
    name="methods-mushrooms",
    file="methods.json",
    title="Every method with every operator, on mushrooms",
    about="Logistic regression, 20 workers whose samples are sorted by label, theory's step sizes; "
    "bytes of frames, until the excess is 10⁻⁴ of that at the start.",
    command="python benchmarks/methods.py --data LIBSVM-DIR",
    tables=lambda document: [by_method(document)],
    draw=draw_by_method,
)
FLOWER = Recorded(
    name="flower-full",
    file="flower.json",
    title="A Flower federation on the wire, a million weights",
    about="A SuperLink and two SuperNodes on one machine; bytes are counted by a TCP proxy before "
    "each node, protocol and polling included. The first broadcast is exact.",
    command="fewbits lab run flower --out DIR",
    tables=lambda document: [flower_bytes(document)],
    draw=lambda document: flower.draw(flower_rows(document)),
    findings=lambda document: flower.findings(flower_rows(document)),
)
