"""docs/methods.md, from `methods.py`, `regressions.py`, `federated_mnist.py`, `federated_scale.py`."""

from typing import Any

from benchmarks.rendered.blocks import paragraph, results, span

from fewbits.lab.recorded import federated, papers
from fewbits.lab.tables import markdown

END = 1e-10  # of a run: the goal of `fewbits lab run methods`
BIASED, UNBIASED, SPHERICAL = "biased sparse dithering", "unbiased sparse dithering", "spherical"
Row = dict[str, Any]


def methods_table() -> str:
    """Bytes to 1e-4, and how far each run gets."""
    return markdown(federated.by_method(results("methods")))


def regressions_table() -> str:
    """The kind of regression, the data, and how many times fewer bits."""
    return markdown(papers.regressions(results("regressions")))


def less(kind: str, data: str, operator: str, what: str) -> float:
    """How many times fewer bits."""
    (row,) = [
        row
        for row in results("regressions")["rows"]
        if (row["kind"], row["data"], row["operator"]) == (kind, data, operator)
    ]
    return float(row[f"times_less_{what}"])


def pair(kind: str, data: str, what: str) -> str:
    """Of sparse dithering, nearest and stochastic."""
    return " and ".join(f"{less(kind, data, own, what):.1f}" for own in (BIASED, UNBIASED))


def regressions_verdict() -> str:
    """Sparse dithering in sections and in frames."""
    ridge = [
        less("ridge", data, own, "sections")
        for data in ("diabetes", "breast cancer")
        for own in (BIASED, UNBIASED)
    ]
    large = [
        row for row in results("regressions")["rows"]
        if row["d"] > 100 and row["operator"] in (BIASED, UNBIASED)
    ]  # fmt: skip
    return paragraph(
        "At these sizes a frame's header is longer than what it carries, so sections and frames are shown apart.",
        f"Sparse dithering saves {span(ridge, 1)} times in sections on ridge regression with 20 and 30 values and",
        f"{pair('logistic', 'breast cancer', 'sections')} times (nearest and stochastic) on logistic regression with 30.",
        "With ten values the 32 bits of the scale weigh more:",
        f"{pair('logistic', 'breast cancer, means', 'sections')} times. In whole frames it saves",
        f"{span((row['times_less_frames'] for row in large), 1)} times from {min(row['d'] for row in large)} values on;",
        f"on w8a, with 300, it is {pair('logistic', 'w8a', 'frames')} times, and spherical compression saves",
        f"{less('logistic', 'w8a', SPHERICAL, 'frames'):.1f} times there.",
    )  # fmt: skip


def spherical_verdict() -> str:
    """Spherical compression of small vectors, ours and as the paper counts it."""

    def both(what: str) -> list[str]:
        return [f"{less(k, 'breast cancer', SPHERICAL, what):.1f}" for k in ("ridge", "logistic")]

    whole, without = both("sections"), both("without_key")
    sizes = {
        (row["problem"], row["operator"]): row["ours"] for row in results("oc-convergence")["rows"]
    }
    paper = [sizes[k, "basic"] / sizes[k, SPHERICAL] for k in ("ridge", "logistic")]
    return paragraph(
        "**In small vectors spherical compression saves far less in our frames than in the paper**:",
        f"{whole[0]} times on ridge and {whole[1]} times on logistic regression with 30 values,",
        f"{without[0]} and {without[1]} times without the key. Besides the key they carry a table for the radii of one",
        "or two blocks and an empty section for searches that end early, 6 bytes each. Counted as the paper does, a",
        f"31-bit norm and a Rice code, it saves {paper[0]:.1f} times on the quadratic and {paper[1]:.1f} times on the",
        "logistic regression of `oc-convergence`.",
    )  # fmt: skip


def summaries() -> list[Row]:
    """Of FedAvg: accuracy, its paired difference from `none`, how many times fewer bytes went up."""
    return federated.mnist_summaries(results("federated-mnist"))


def federated_table() -> str:
    """FedAvg on MNIST."""
    return markdown(federated.mnist(results("federated-mnist")))


def scale_table() -> str:
    """FedAvg from 10 to 10,000 clients."""
    return markdown(federated.scale(results("federated-scale")))


def scale_verdict() -> str:
    """Rounds of operators without memory, of top-k with one, and seconds."""
    rows = results("federated-scale")["rows"]
    plain = {row["clients"]: row for row in rows if row["operator"] == "none"}
    memory = "top-k + ef21"
    own = [row for row in rows if row["operator"] not in ("none", memory)]
    more = max(row["rounds"] - plain[row["clients"]]["rounds"] for row in own)
    fewer = max(1 - row["seconds"] / plain[row["clients"]]["seconds"] for row in own)
    return paragraph(
        f"Rounds of operators without memory exceed those of no compression by at most {more} at every scale, so bytes",
        "fall by what a frame is shorter. Top-k with EF21 is the cheapest where everybody takes part in every round. With",
        "a few clients in a round it is not: the server moves by what absent clients said long ago, so its step must",
        "be short (here it is the share of clients that take part), and rounds grow faster than messages shrink.",
        f"Modelled seconds fall by {100 * fewer:.0f} % at most, because the model goes down uncompressed.",
    )  # fmt: skip


BLOCKS = {
    "methods": methods_table,
    "regressions": regressions_table,
    "regressions-verdict": regressions_verdict,
    "spherical-verdict": spherical_verdict,
    "federated": federated_table,
    "scale": scale_table,
    "scale-verdict": scale_verdict,
}
