"""Makes the text of README and docs about `bits-error`."""

import math

from fewbits_lab import figures
from fewbits_lab.prose import code, one, paragraph, span, table
from fewbits_lab.record import Item
from fewbits_lab.results import results
from fewbits_lab.studies.bits_error.run import (
    CURVES,
    OPERATOR,
    TRELLIS_CURVE,
    TRELLIS_FIT_CURVE,
    BitsErrorRow,
)
from fewbits_lab.studies.bits_error.show import draw

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
    "trellis:nu=0.32,rounding=subtractive": "ω = ν/3",
    "trellis:scale=least-squares": "α = ν",
    "hadamard:signs=private|sparse-dithering:nu=1.5,scale=matched": "none that is useful",
    "spherical": "α = 1/2",
    "spherical:scale=unbiased": "ω = 0.81",
    "sign": "α = 1 − 1/d",
    "top-k:fraction=0.01|natural": "α = 1 − (k/d)(1 − ω)",
    "rand-k:fraction=0.01|natural": "ω = (d/k)(1 + 1/8) − 1",
}


def measured(spec: str) -> Item:
    """The bits and the error of an operator on a Gaussian vector."""
    return one(results("bits-error")["rows"], kind=OPERATOR, operator=spec)


def bits(spec: str) -> float:
    """A value."""
    return float(measured(spec)["bits_per_coordinate"])


def error(spec: str) -> float:
    """Relative, squared."""
    return float(measured(spec)["relative_squared_error"])


def gap_to_bound() -> float:
    """The most bits of sparse dithering with least squares above ½ log₂(1/error)."""
    rows = [
        *(row for row in results("bits-error")["rows"] if row["kind"] == "least squares"),
        measured("sparse-dithering:nu=1,scale=least-squares"),
    ]
    return max(
        float(row["bits_per_coordinate"] - math.log2(1 / row["relative_squared_error"]) / 2)
        for row in rows
    )


def granular() -> str:
    """The trellis's gain by its error in steps, and what that leaves to the bound."""
    nus = ("0.01", "0.03")
    step = (31 / 32) ** 2  # of what `nu` says, squared
    rows = results("bits-error")["rows"]
    own = [one(rows, kind=TRELLIS_CURVE, operator=CURVES[TRELLIS_CURVE].format(nu)) for nu in nus]
    square = float(own[0]["relative_squared_error"]) / float(nus[0]) / step
    gain = -10 * math.log10(3 * square)
    nearest = [
        one(rows, kind=TRELLIS_FIT_CURVE, operator=CURVES[TRELLIS_FIT_CURVE].format(nu))
        for nu in nus
    ]
    return paragraph(
        f"On a Gaussian vector of a million values the trellis of 8 states has *e* = {square:.4f}: a gain of {gain:.2f} dB of at most",
        f"{10 * math.log10(2 * math.pi * math.e / 12):.2f}. That leaves {math.log2(math.pi * math.e * square / 2) / 2:.3f} bits; whole frames, with their tables and the states of",
        f"32 lanes a block, are {span((row['above_bound'] for row in nearest), 3)} bits above the limit (`scale=least-squares`,",
        f"{span((row['bits_per_coordinate'] for row in nearest), 1)} bits).",
    )  # fmt: skip


def costs_table() -> str:
    """Bits and errors."""
    rows = [
        [code(spec), promise, f"{bits(spec):.2f}", f"{error(spec):.2g}"]
        for spec, promise in PROMISES.items()
    ]
    return table("spec|promise|bits a value|error", rows)


def figure() -> str:
    """README's picture."""
    rows = [BitsErrorRow(**row) for row in results("bits-error")["rows"]]
    return figures.svg(lambda: draw(rows))
