"""Makes the text of README and docs about `equal-bits`."""

import re

from fewbits_lab.prose import paragraph, table
from fewbits_lab.record import Item
from fewbits_lab.results import results

_VECTORS = {"gaussian": "Gaussian", "resnet": "ResNet", "gpt": "GPT"}
FORMS = ("matched", "subtractive")


def equal(form: str, count: int, vector: str) -> list[Item]:
    """The rows at equal bits, of all steps of a recording."""
    return [
        row
        for row in results("equal-bits")["rows"]
        if (row["operator"], row["bits"]) == (form, count) and row["vector"].startswith(vector)
    ]


def nu(count: int) -> str:
    """The `nu` of subtractive dithering at this many bits on a Gaussian vector."""
    (row,) = equal("subtractive", count, "gaussian")
    found = re.search(r"nu=([\d.]+)", row["spec"])
    assert found is not None
    return f"nu={float(found[1]):.2g}"


def equal_table() -> str:
    """Errors at equal bits; of a recording the largest."""
    rows = []
    for count, eden in results("equal-bits")["eden"].items():
        errors = [
            max(row["relative_squared_error"] for row in equal(form, int(count), vector))
            for vector in _VECTORS
            for form in FORMS
        ]
        rows.append([count, f"{eden:.4f}", *(f"{one:.4f}" for one in errors)])
    titles = [f"{name}, {form}" for name in _VECTORS.values() for form in FORMS]
    return table("|".join(["bits", "EDEN", *titles]), rows)


def bias_verdict() -> str:
    """How unbiased the two forms are."""

    def most(counts: tuple[int, ...], *vectors: str) -> float:
        rows = [
            row for count in counts for vector in vectors for row in equal("matched", count, vector)
        ]
        return max(float(row["squared_bias"]) for row in rows)

    alone = max(row["relative_squared_error"] for row in equal("subtractive", 1, "gaussian"))
    seeds = results("equal-bits")["seeds_for_the_bias"]
    return paragraph(
        "*matched* is `hadamard:signs=private|sparse-dithering:scale=matched`, *subtractive* is",
        "`sparse-dithering:rounding=subtractive`, each with the `nu` that gives these bits. Subtractive dithering is",
        f"unbiased. It loses where bits are fewest: at one bit its noise is {alone:.1f} times the Gaussian signal. Matched is",
        "nearly unbiased: over random rotations, the squared length of its mean error is",
        f"{most((1,), 'gaussian'):.0e} of the vector's on the Gaussian at one bit. On gradients whose blocks differ much in",
        f"size it is up to {most((1,), 'resnet', 'gpt'):.3f}, where small blocks become all zeros; from two bits on it is at",
        f"most {most((2, 3, 4), *_VECTORS):.0e}. (Of the first 65,536 values, with {seeds} seeds.)",
    )  # fmt: skip
