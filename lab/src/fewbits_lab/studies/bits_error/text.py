"""Makes the text of README and docs about `bits-error`."""

import math

from fewbits_lab import figures
from fewbits_lab.prose import code, one, table
from fewbits_lab.record import Item
from fewbits_lab.results import results
from fewbits_lab.studies.bits_error.run import OPERATOR, BitsErrorRow
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
