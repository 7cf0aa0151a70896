"""docs/choosing.md, from `bits_error.py`, `equal_bits.py` and others."""

import math
import re
from typing import Any

from benchmarks.rendered import feedback, speeds
from benchmarks.rendered.blocks import code, one, paragraph, results, span, table

PROMISES = {
    "bfloat16": "α = 2⁻¹⁶",
    "natural": "ω = 1/8",
    "natural:coder=rans": "ω = 1/8",
    "natural-dithering": "ω grows with √d, see its page",
    "standard-dithering": "ω grows with √d, see its page",
    "sparse-dithering:rounding=stochastic": "ω = ν",
    "sparse-dithering:rounding=subtractive": "ω = ν/3",
    "sparse-dithering": "α = ν",
    "sparse-dithering:nu=1,scale=least-squares": "α = 1 − 3/(4d)",
    "hadamard:signs=private|sparse-dithering:nu=1.5,scale=matched": "none that is useful",
    "spherical": "α = 1/2",
    "spherical:scale=unbiased": "ω = 0.81",
    "sign": "α = 1 − 1/d",
    "top-k:fraction=0.01|natural": "α = 1 − (k/d)(1 − ω)",
    "rand-k:fraction=0.01|natural": "ω = (d/k)(1 + 1/8) − 1",
}
VECTORS = {"gaussian": "Gaussian", "resnet": "ResNet", "gpt": "GPT"}
FORMS = ("matched", "subtractive")
Row = dict[str, Any]


def measured(spec: str) -> Row:
    """The bits and the error of an operator on a Gaussian vector."""
    return one(results("bits-error")["operators"], operator=spec)


def bits(spec: str) -> float:
    """A value."""
    return float(measured(spec)["bits_per_coordinate"])


def error(spec: str) -> float:
    """Relative, squared."""
    return float(measured(spec)["relative_squared_error"])


def equal(form: str, count: int, vector: str) -> list[Row]:
    """The rows at equal bits, of all steps of a recording."""
    return [
        row
        for row in results("equal-bits")["rows"]
        if (row["operator"], row["bits"]) == (form, count) and row["vector"].startswith(vector)
    ]


def nu(count: int) -> str:
    """Of subtractive dithering at so many bits on a Gaussian vector."""
    (row,) = equal("subtractive", count, "gaussian")
    found = re.search(r"nu=([\d.]+)", row["spec"])
    assert found is not None
    return f"nu={float(found[1]):.2g}"


def gap_to_bound() -> float:
    """The most bits of sparse dithering with least squares above ½ log₂(1/error)."""
    rows = [
        *results("bits-error")["curves"].get("least squares", []),
        measured("sparse-dithering:nu=1,scale=least-squares"),
    ]
    return max(
        row["bits_per_coordinate"] - math.log2(1 / row["relative_squared_error"]) / 2
        for row in rows
    )


def short_answer() -> str:
    """What to take for what."""
    coded, subtractive = speeds.CODED, "sparse-dithering:rounding=subtractive"
    pace = span(map(speeds.times_memcpy, speeds.calls(coded)), 2)
    tiny = [
        feedback.summaries(results("feedback"), data)["top-k"].bits or 0.0
        for data in ("digits", "mnist")
    ]
    excess = max(row["excess"] for row in results("spherical")["rows"])
    rows = [
        ["to switch it on and not think", f"`{coded}`: unbiased with ω = 1/8 for every vector, {bits(coded):.1f} bits a Gaussian value, {pace} times the speed of memcpy"],
        ["fewer bits, several workers averaged", f"`{subtractive}`: unbiased, error ν/3 whatever the vector, {bits(subtractive):.1f} bits at ν = 0.1; `{nu(2)}` for 2 bits, `{nu(4)}` for 4"],
        ["the same for vectors that are mostly zeros", "`sparse-dithering:rounding=stochastic`: zeros stay zeros and cost next to nothing"],
        ["about one bit, several workers averaged", "`hadamard:signs=private\\|sparse-dithering:nu=1.5,scale=matched`: nearly unbiased, the bias is below"],
        ["the least error for the bits, with error feedback or one sender", f"`sparse-dithering:scale=least-squares`: within {gap_to_bound():.2f} bit of ½ log₂(1/error) on a Gaussian vector"],
        [f"{span(tiny, 2)} bits, with error feedback", "`tiny`, a preset of `fewbits.ddp`: [its evidence](feedback.md#which-operator-and-feedback-the-evidence)"],
        ["a sum that a device can add up in integers", "`natural`: signed powers of two"],
        ["the yardstick of the theory", f"`spherical`: within {excess:.2f} bits a block of what is possible, at the price of a search"],
        ["to be sure that nothing is lost", "`identity`, or do not compress: if your link moves 2 bytes a value in less time than a backward pass takes, `bfloat16` is enough"],
    ]  # fmt: skip
    return table("you want|take", rows)


def costs_table() -> str:
    """Bits and errors."""
    rows = [
        [code(spec), promise, f"{bits(spec):.2f}", f"{error(spec):.2g}"]
        for spec, promise in PROMISES.items()
    ]
    return table("spec|promise|bits a value|error", rows)


def equal_table() -> str:
    """Errors at equal bits; of a recording the largest."""
    rows = []
    for count, eden in results("equal-bits")["eden"].items():
        errors = [
            max(row["relative_squared_error"] for row in equal(form, int(count), vector))
            for vector in VECTORS
            for form in FORMS
        ]
        rows.append([count, f"{eden:.4f}", *(f"{one:.4f}" for one in errors)])
    titles = [f"{name}, {form}" for name in VECTORS.values() for form in FORMS]
    return table("|".join(["bits", "EDEN", *titles]), rows)


def bias_verdict() -> str:
    """How unbiased the two forms are."""

    def most(counts: tuple[int, ...], *vectors: str) -> float:
        rows = [
            row for count in counts for vector in vectors for row in equal("matched", count, vector)
        ]
        return max(row["squared_bias"] for row in rows)

    alone = max(row["relative_squared_error"] for row in equal("subtractive", 1, "gaussian"))
    seeds = results("equal-bits")["seeds_for_the_bias"]
    return paragraph(
        "*matched* is `hadamard:signs=private|sparse-dithering:scale=matched`, *subtractive* is",
        "`sparse-dithering:rounding=subtractive`, each with the `nu` that gives these bits. Subtractive dithering is",
        f"unbiased. It loses where bits are fewest: at one bit its noise is {alone:.1f} times the Gaussian signal. Matched is",
        "nearly unbiased: over random rotations, the squared length of its mean error is",
        f"{most((1,), 'gaussian'):.0e} of the vector's on the Gaussian at one bit. On gradients whose blocks differ much in",
        f"size it is up to {most((1,), 'resnet', 'gpt'):.3f}, where small blocks become all zeros; from two bits on it is at",
        f"most {most((2, 3, 4), *VECTORS):.0e}. (Of the first 65,536 values, with {seeds} seeds.)",
    )  # fmt: skip


BLOCKS = {
    "short-answer": short_answer,
    "costs": costs_table,
    "equal-bits": equal_table,
    "bias": bias_verdict,
}
