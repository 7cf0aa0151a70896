"""Makes the text of README and docs about `oc-regressions`."""

from fewbits_lab.prose import paragraph, span
from fewbits_lab.results import results
from fewbits_lab.studies.oc_regressions import show
from fewbits_lab.tables import markdown

_BIASED, _UNBIASED, SPHERICAL = "biased sparse dithering", "unbiased sparse dithering", "spherical"


def regressions_table() -> str:
    """The kind of regression, the data, and how many times fewer bits."""
    return markdown(show.by_regression(results("oc-regressions")))


def less(kind: str, data: str, operator: str, what: str) -> float:
    """How many times fewer bits."""
    (row,) = [
        row
        for row in results("oc-regressions")["rows"]
        if (row["kind"], row["data"], row["operator"]) == (kind, data, operator)
    ]
    return float(row[f"times_less_{what}"])


def pair(kind: str, data: str, what: str) -> str:
    """The two ratios of sparse dithering, nearest and stochastic."""
    return " and ".join(f"{less(kind, data, own, what):.1f}" for own in (_BIASED, _UNBIASED))


def regressions_verdict() -> str:
    """Sparse dithering in sections and in frames."""
    ridge = [
        less("ridge", data, own, "sections")
        for data in ("diabetes", "breast cancer")
        for own in (_BIASED, _UNBIASED)
    ]
    large = [
        row for row in results("oc-regressions")["rows"]
        if row["d"] > 100 and row["operator"] in (_BIASED, _UNBIASED)
    ]  # fmt: skip
    return paragraph(
        "At these sizes a frame's header is longer than its sections, so sections and frames are shown apart.",
        f"Sparse dithering saves {span(ridge, 1)} times in sections on ridge regression with 20 and 30 values and",
        f"{pair('logistic', 'breast cancer', 'sections')} times (nearest and stochastic) on logistic regression with 30.",
        "With ten values the 32 bits of the scale weigh more:",
        f"{pair('logistic', 'breast cancer, means', 'sections')} times. In whole frames it saves",
        f"{span((row['times_less_frames'] for row in large), 1)} times from {min(row['d'] for row in large)} values on;",
        f"on w8a, with 300, it is {pair('logistic', 'w8a', 'frames')} times, and spherical compression saves",
        f"{less('logistic', 'w8a', SPHERICAL, 'frames'):.1f} times there.",
    )  # fmt: skip
