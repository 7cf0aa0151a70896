"""Makes the text of README and docs about `equal-bits`."""

from fewbits_lab.prose import paragraph
from fewbits_lab.record import Item
from fewbits_lab.results import results

_VECTORS = ("gaussian", "resnet", "gpt")


def equal(form: str, count: int, vector: str) -> list[Item]:
    """The rows at equal bits, of all steps of a recording."""
    return [
        row
        for row in results("equal-bits")["rows"]
        if (row["operator"], row["bits"]) == (form, count) and row["vector"].startswith(vector)
    ]


def bias_verdict() -> str:
    """How unbiased matched scaling is."""

    def most(counts: tuple[int, ...], *vectors: str) -> float:
        rows = [
            row for count in counts for vector in vectors for row in equal("matched", count, vector)
        ]
        return max(float(row["squared_bias"]) for row in rows)

    seeds = results("equal-bits")["seeds_for_the_bias"]
    one_bit = max(row["relative_squared_error"] for row in equal("matched", 1, "gaussian"))
    return paragraph(
        "A third form, *matched*, is `hadamard:signs=private|sparse-dithering:scale=matched`. It has the error",
        f"{one_bit:.2f} at one bit on the Gaussian vector and is nearly unbiased: over random rotations, the squared length of",
        f"its mean error is {most((1,), 'gaussian'):.0e} of the vector's there. On gradients whose blocks differ much in",
        f"size it is up to {most((1,), 'resnet', 'gpt'):.3f}, where small blocks become all zeros; from two bits on it is at",
        f"most {most((2, 3, 4), *_VECTORS):.0e}. (Of the first 65,536 values, with {seeds} seeds.)",
    )  # fmt: skip
