"""Accuracy of compressed training beside plain training: DDP, LocalSGD and DiLoCo, FSDP."""

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from fewbits.lab import figures
from fewbits.lab.experiment import Claim
from fewbits.lab.recorded.record import Document, Headline, Recorded, standard_error, with_error
from fewbits.lab.tables import Table
from fewbits.lab.training import paired
from fewbits.lab.training.paired import Difference
from fewbits.lab.training.rows import RAN, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLAIN, WITH = "identity", " with "  # of LocalSGD's runs
NONE = "none"  # of FSDP's runs
Run = dict[str, Any]


def accuracies(document: Document) -> Table:
    """Paired differences, in points."""
    rows, lost = [], set()
    for number, (data, own) in enumerate(document.items()):
        mean, error = own["mean_difference_points"], own["standard_error_points"]
        rows.append([
            data, str(own["epochs"]), str(len(own["plain"])), f"{100 * fmean(own['plain']):.2f} %",
            f"{100 * fmean(own['compressed']):.2f} %", f"{mean:+.2f} ± {error:.2f}",
        ])  # fmt: skip
        if mean < -2 * error:
            lost.add(number)
    titles = ["data", "epochs", "seeds", "plain DDP", "`natural` both ways", "difference, points"]
    return Table(titles, rows, lost=frozenset(lost), note="± is one standard error of the mean.")


def draw_accuracies(document: Document) -> "Figure":
    """Differences of single seeds, their mean and two standard errors."""
    drawn, (plot,) = figures.panels(
        "Accuracy with natural both ways, less that of plain DDP", width=8, height=3.1
    )
    for at, own in enumerate(document.values()):
        pairs = zip(own["plain"], own["compressed"], strict=True)
        gaps = [100 * (compressed - plain) for plain, compressed in pairs]
        mean, error = own["mean_difference_points"], own["standard_error_points"]
        plot.plot(gaps, [at] * len(gaps), "o", color=figures.GREY, ms=5, mfc="none")
        plot.errorbar(mean, at, xerr=2 * error, fmt="s", color=figures.BLUE, capsize=4, ms=7)
    plot.axvline(0, color="black", lw=1)
    plot.set_xlabel("points; square and bar: mean and two standard errors, rings: single seeds")
    figures.names(plot, list(document))
    return drawn


def paired_points(compressed: Sequence[float], plain: Sequence[float]) -> Difference:
    """Compressed less plain, in points of accuracy, from the runs of each seed."""
    both = {"compressed": compressed, "plain": plain}
    rows = [
        Row("", "", name, RAN, seed=seed, accuracy=accuracy)
        for name, values in both.items()
        for seed, accuracy in enumerate(values)
    ]
    found = paired.points(rows, *both)
    if found is None or len(compressed) != len(plain):
        raise ValueError(f"{len(compressed)} and {len(plain)} runs give no interval")
    return found


def accuracy_claims(document: Document) -> list[Claim]:
    """No loss of accuracy."""
    own = document["mnist"]
    found = paired_points(own["compressed"], own["plain"])
    agrees = paired.same(found)
    margin = f"a loss of more than {paired.MARGIN:g} point"
    reasons = {
        True: "", False: "the interval is below 0", None: f"the seeds do not exclude {margin}",
    }  # fmt: skip
    excluded = f"; {margin} is excluded" if agrees else ""
    return [
        Claim(
            "natural", "Section 6, abstract", "natural compression costs no accuracy",
            "same accuracy (CIFAR-10, ImageNet, MNIST)",
            f"{found.text('points')}, 95 %, on MNIST, both ways{excluded}", agrees, reasons[agrees],
        )
    ]  # fmt: skip


def accuracy_headline(document: Document) -> Headline:
    """Bytes and the difference on MNIST."""
    own = document["mnist"]
    found = paired_points(own["compressed"], own["plain"])
    return Headline(
        f"{own['times_fewer_bytes']:.1f}×",
        "fewer bytes in training on MNIST with `natural` both ways; accuracy against plain DDP "
        f"{found.text('points')}, 95 %",
    )


def predicted_ratio(run: Run) -> float:
    """By the operator's own frames, with what goes exact, and without headers between ranks."""
    exact, all_of_them = run["exact_elements"], run["elements"]
    return float(32 * all_of_them / (32 * exact + run["bits_of_frames"] * (all_of_them - exact)))


def local_summary(runs: list[Run], of: Run) -> Run:
    """Paired by seed against the same method without compression."""

    def chosen(operator: str) -> list[Run]:
        return [r for r in runs if (r["data"], r["method"], r["operator"])
                == (of["data"], of["method"], operator)]  # fmt: skip

    own, plain = chosen(of["operator"]), chosen(PLAIN)
    gaps = [a["test_loss"] - b["test_loss"] for a, b in zip(own, plain, strict=True)]
    error = standard_error(gaps)
    return {
        "loss": fmean(r["test_loss"] for r in own),
        "accuracy": fmean(r["accuracy"] for r in own),
        "difference": fmean(gaps),
        "error": error,
        "within": abs(fmean(gaps)) <= 2 * error,
        "ratio": fmean(r["plain"] / r["sent"] for r in own),
        "predicted": fmean(map(predicted_ratio, own)),
        "equal": all(r["equal"] for r in own),
    }


def _label(operator: str) -> str:
    spec, with_, feedback = operator.partition(WITH)
    return "none" if operator == PLAIN else f"`{spec}`" + (f"{with_}`{feedback}`" if with_ else "")


def _order(group: tuple[str, str, str]) -> tuple[str, int, bool, int]:
    """LocalSGD before DiLoCo, uncompressed first."""
    name, method, operator = group
    return name, -len(method), operator != PLAIN, len(operator)


def local(runs: list[Run]) -> Table:
    """Losses and bytes of LocalSGD and DiLoCo."""
    rows, lost = [], set()
    groups = dict.fromkeys((r["data"], r["method"], r["operator"]) for r in runs)
    names = {"mnist": "MNIST, MLP", "tinyshakespeare": "tiny-shakespeare, GPT"}
    for number, (name, method, operator) in enumerate(sorted(groups, key=_order)):
        found = local_summary(runs, {"data": name, "method": method, "operator": operator})
        difference = f"{found['difference']:+.4f} ± {found['error']:.4f}"
        # With a memory, messages are not the changes that frames were made of.
        own = "" if WITH in operator else f"{found['predicted']:.2f} ×"
        rows.append([
            names[name], method, _label(operator), f"{found['loss']:.4f}",
            "" if operator == PLAIN else difference, f"{found['ratio']:.2f} ×", own,
        ])  # fmt: skip
        if found["difference"] > 2 * found["error"]:
            lost.add(number)
    titles = ["data", "method", "operator", "test loss", "difference", "fewer bytes",
              "by its frames"]  # fmt: skip
    return Table(titles, rows, lost=frozenset(lost))


def draw_local(document: Document) -> "Figure":
    """Losses of seeds against bytes, a panel for each data set."""
    data = list(document["tasks"])
    drawn, plots = figures.panels(
        "Test loss against bytes of a rank: LocalSGD and DiLoCo", len(data), width=10.5, height=4.2
    )
    operators = list(dict.fromkeys(run["operator"] for run in document["runs"]))
    for plot, name in zip(plots, data, strict=True):
        for colour, operator in zip(figures.COLOURS, operators, strict=False):
            for marker, method in zip(figures.MARKERS, document["methods"], strict=False):
                own = [run for run in document["runs"] if (run["data"], run["operator"],
                       run["method"]) == (name, operator, method)]  # fmt: skip
                plot.plot([run["sent"] / 1e6 for run in own], [run["test_loss"] for run in own],
                          marker, color=colour, ms=6, mfc="none", mew=1.5)  # fmt: skip
        figures.log_x(plot)
        plot.set(title=name, xlabel="MB sent by a rank in all", ylabel="test loss")
    for colour, operator in zip(figures.COLOURS, operators, strict=False):
        plots[0].plot([], [], "s", color=colour, label="none" if operator == PLAIN else operator)
    for marker, method in zip(figures.MARKERS, document["methods"], strict=False):
        plots[0].plot([], [], marker, color="black", mfc="none", label=method)
    drawn.legend(*plots[0].get_legend_handles_labels(), loc="outside lower left", ncols=3,
                 fontsize=9)  # fmt: skip
    return drawn


def sharded(runs: list[Run]) -> Table:
    """Losses beside plain training's with the same seed, bytes, and whether repeats are equal."""
    rows: list[list[str]] = []
    lost = set()
    for name in dict.fromkeys(run["data"] for run in runs):
        of = [run for run in runs if run["data"] == name]
        plain = {run["seed"]: run["loss"] for run in of if run["worker"] == NONE}
        for worker in dict.fromkeys(run["worker"] for run in of if not run["repeat"]):
            cells, worse = _sharded_row([run for run in of if run["worker"] == worker], plain)
            if worse:
                lost.add(len(rows))
            rows.append([name, worker, *cells])
    titles = ["data", "operator", "seeds", "loss", "difference ± standard error", "bytes",
              "repeated"]  # fmt: skip
    return Table(titles, rows, lost=frozenset(lost))


def _sharded_row(runs: list[Run], plain: dict[int, float]) -> tuple[list[str], bool]:
    first = {run["seed"]: run for run in runs if not run["repeat"]}
    gaps = [run["loss"] - plain[seed] for seed, run in first.items() if seed in plain]
    compared = runs[0]["worker"] != NONE and len(gaps) > 1
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


def draw_sharded(document: Document) -> "Figure":
    """Differences of losses by seed."""
    runs = [run for run in document["runs"] if not run["repeat"]]
    groups = [group for group in dict.fromkeys((run["data"], run["worker"]) for run in runs)
              if group[1] != NONE]  # fmt: skip
    drawn, (plot,) = figures.panels(
        "FSDP2: loss with compressed gradients, less that of plain training", width=8,
        height=1.6 + 0.4 * len(groups),
    )  # fmt: skip
    for at, (data, worker) in enumerate(groups):
        plain = {r["seed"]: r["loss"] for r in runs if (r["data"], r["worker"]) == (data, NONE)}
        own = [r for r in runs if (r["data"], r["worker"]) == (data, worker) and r["seed"] in plain]
        gaps = [run["loss"] - plain[run["seed"]] for run in own]
        plot.plot(gaps, [at] * len(gaps), "o", color=figures.BLUE, mfc="none")
        plot.plot(fmean(gaps), at, "s", color=figures.BLUE, ms=8)
    plot.axvline(0, color="black", lw=1)
    plot.set_xlabel("difference of the loss; square: mean, rings: single seeds")
    figures.names(plot, [f"{data}, {worker}" for data, worker in groups])
    return drawn


_SCRIPT = "python benchmarks/accuracy.py"
_BOTH = f"{_SCRIPT} --data digits --data MNIST-DIR"
ACCURACY = Recorded(
    name="accuracy",
    file="accuracy.json",
    title="Accuracy with natural compression both ways",
    about="The same model from the same start on four ranks, plain and compressed, paired by seed; "
    "settings were fixed beforehand. `switch`: aggregators that can only add integers.",
    command=f"{_BOTH} && {_BOTH} --sizes && {_SCRIPT} --data MNIST-DIR --scheme switch --seeds 3",
    tables=lambda document: [accuracies(document)],
    draw=draw_accuracies,
    claims=accuracy_claims,
    headline=accuracy_headline,
)
LOCAL_SGD = Recorded(
    name="local-sgd",
    file="local-sgd.json",
    title="LocalSGD and DiLoCo with compressed changes",
    about="Four ranks that train alone and exchange changes after some steps; bytes are counted, "
    "differences are paired by seed, ± is one standard error.",
    command="python benchmarks/local_sgd.py --data MNIST-DIR --data TEXT-DIR",
    tables=lambda document: [local(document["runs"])],
    draw=draw_local,
)
SHARDED = Recorded(
    name="sharded-training",
    file="sharded-training.json",
    title="FSDP2 with compressed gradients",
    about="Four ranks that keep shards of the model; some runs are repeated to compare all bits.",
    command="python benchmarks/sharded_training.py --data MNIST-DIR --data TEXT-DIR",
    tables=lambda document: [sharded(document["runs"])],
    draw=draw_sharded,
)
