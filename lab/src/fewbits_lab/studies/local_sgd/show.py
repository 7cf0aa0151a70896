"""Shows `local-sgd`: tables, figures, findings and claims."""

from statistics import fmean
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.record import Item, RecordDocument, Recorded, standard_error
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_PLAIN, _WITH = "identity", " with "  # of LocalSGD's runs


def predicted_ratio(run: Item) -> float:
    """The ratio by the operator's own frames and exact values, without headers between ranks."""
    exact, all_of_them = run["exact_elements"], run["elements"]
    return float(32 * all_of_them / (32 * exact + run["bits_of_frames"] * (all_of_them - exact)))


def local_summary(runs: list[Item], of: Item) -> Item:
    """Paired by seed against the same method without compression."""

    def chosen(operator: str) -> list[Item]:
        return [r for r in runs if (r["data"], r["method"], r["operator"])
                == (of["data"], of["method"], operator)]  # fmt: skip

    own, plain = chosen(of["operator"]), chosen(_PLAIN)
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
    spec, with_, feedback = operator.partition(_WITH)
    return "none" if operator == _PLAIN else f"`{spec}`" + (f"{with_}`{feedback}`" if with_ else "")


def _order(group: tuple[str, str, str]) -> tuple[str, int, bool, int]:
    """LocalSGD before DiLoCo, uncompressed first."""
    name, method, operator = group
    return name, -len(method), operator != _PLAIN, len(operator)


def local(runs: list[Item]) -> ShownTable:
    """Losses and bytes of LocalSGD and DiLoCo."""
    rows, lost = [], set()
    groups = dict.fromkeys((r["data"], r["method"], r["operator"]) for r in runs)
    names = {"mnist": "MNIST, MLP", "tinyshakespeare": "tiny-shakespeare, GPT"}
    for number, (name, method, operator) in enumerate(sorted(groups, key=_order)):
        found = local_summary(runs, {"data": name, "method": method, "operator": operator})
        difference = f"{found['difference']:+.4f} ± {found['error']:.4f}"
        # With a memory, messages are not the changes that frames were made of.
        own = "" if _WITH in operator else f"{found['predicted']:.2f} ×"
        rows.append([
            names[name], method, _label(operator), f"{found['loss']:.4f}",
            "" if operator == _PLAIN else difference, f"{found['ratio']:.2f} ×", own,
        ])  # fmt: skip
        if found["difference"] > 2 * found["error"]:
            lost.add(number)
    titles = ["data", "method", "operator", "test loss", "difference", "fewer bytes",
              "by its frames"]  # fmt: skip
    return ShownTable(titles, rows, lost=frozenset(lost))


def draw_local(document: RecordDocument) -> "Figure":
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
        plots[0].plot([], [], "s", color=colour, label="none" if operator == _PLAIN else operator)
    for marker, method in zip(figures.MARKERS, document["methods"], strict=False):
        plots[0].plot([], [], marker, color="black", mfc="none", label=method)
    drawn.legend(*plots[0].get_legend_handles_labels(), loc="outside lower left", ncols=3,
                 fontsize=9)  # fmt: skip
    return drawn


LOCAL_SGD = Recorded(
    name="local-sgd",
    result="local-sgd",
    title="LocalSGD and DiLoCo with compressed changes",
    about="Four ranks that train alone and exchange changes after some steps; bytes are counted, "
    "differences are paired by seed, ± is one standard error.",
    command="python -m fewbits_lab.studies.local_sgd.run --data MNIST-DIR --data TEXT-DIR",
    tables=lambda document: [local(document["runs"])],
    draw=draw_local,
)
