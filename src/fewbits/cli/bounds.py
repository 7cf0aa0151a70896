"""`fewbits bounds`: measured frames of every operator against the lower bound on bits.

Classes are those of Albasyoni et al. (2020): U(ω) unbiased, B(α) contractive in expectation, C(α)
contractive surely. An operator of U(ω) divided by 1 + ω is in B(ω/(1 + ω)): the stage `scale`.
"""

import argparse
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

import fewbits
from fewbits import registry
from fewbits.cli import theorem9
from fewbits.cli.console import Parser, ProgressBar, about, count, print_json, table
from fewbits.errors import SpecError
from fewbits.report import scatter
from fewbits.theory import uncertainty

_VALUES, _SEED = 2**16, 7
_MOST = 2**24  # values: beyond, a frame says nothing new


@dataclass(frozen=True, slots=True)
class _Row:
    """One operator: its guarantee, the bits and the error of its frame, and the lower bound."""

    spec: str
    omega: float | None
    alpha: float | None
    sure: bool
    scaled_alpha: float | None
    bits_per_value: float
    error: float
    least_bits_per_value: float | None
    product: float | None


def add_options(parser: Parser) -> None:
    parser.add_example("fewbits bounds natural spherical --plot bounds.svg")
    parser.add_example("fewbits bounds --theorem 9 --uplink natural --workers 8 --target 0.01")
    parser.add_argument("specs", nargs="*", metavar="SPEC", help="operators (default: all)")
    parser.add_argument(
        "--values", type=count, default=_VALUES, help=f"length of the vector (default {_VALUES:,})"
    )
    parser.add_argument("--plot", metavar="OUT.svg", help="also draw bits against error")
    parser.add_argument(
        "--theorem", type=int, choices=(9,), metavar="9",
        help="steps and step size of Algorithm 1 (the collective star) by Theorem 9 instead",
    )  # fmt: skip
    theorem9.add_options(parser)


def run(options: argparse.Namespace) -> None:
    if options.values > _MOST:
        raise SpecError(f"--values must be at most {_MOST:,}, got {options.values:,}")
    if options.theorem is not None:
        _refuse(options.specs or options.plot, "specs and --plot do not go with --theorem 9")
        theorem9.run(options)
        return
    alone = theorem9.given(options)
    _refuse(alone, f"--{alone[0] if alone else ''} goes with --theorem 9 only")
    if options.plot is not None and not options.plot.endswith(".svg"):
        raise SpecError(f"--plot writes SVG: expected a name that ends in .svg, got {options.plot}")
    x = np.random.default_rng(_SEED).standard_normal(options.values, np.float32)
    specs = options.specs or registry.all_example_specs(options.values)
    rows = []
    with ProgressBar("measuring", len(specs)) as progress:
        for spec in specs:
            with about(spec):
                rows.append(measured(spec, x))
            progress.advance(1)
    if options.plot is not None:
        Path(options.plot).write_text(_picture(rows), encoding="utf-8")
    if options.json:
        print_json(
            {
                "vector": f"standard normal, {options.values} float32 values, seed {_SEED}",
                "operators": [asdict(row) for row in rows],
            }
        )
        return
    print(_table(rows))
    print("class:    U(ω) unbiased, E|C(x)-x|² ≤ ω|x|²; B(α) contractive, E|C(x)-x|² ≤ α|x|²; C(α)")
    print(
        "          the same without E; scaled: C/(1+ω), the spec scale:omega=ω|SPEC, in B(ω/(1+ω))"
    )
    print(
        f"measured: bits (whole frame) and error |C(x)-x|²/|x|², {options.values:,} Gaussian values"
    )
    print("computed: least bits, ½ log₂ 1/α, with α = error, or error/(1+error) where unbiased:")
    print("          none has fewer in its worst case, nor on average over Gaussian vectors")


def _refuse(wrong: object, message: str) -> None:
    if wrong:
        raise SpecError(message)


def measured(spec: str, x: npt.NDArray[np.float32]) -> _Row:
    operator = fewbits.operator(spec)
    guarantee = operator.guarantee(x.size)
    frame = fewbits.compress(x, operator, seed=_SEED)
    wide = x.astype(np.float64)
    error = float(np.sum((fewbits.decompress(frame) - wide) ** 2) / np.sum(wide**2))
    bits = 8 * len(frame) / x.size
    least, product = limit(error, bits, unbiased=guarantee.unbiased)
    omega = guarantee.omega
    return _Row(
        spec=operator.spec,
        omega=omega,
        alpha=guarantee.alpha,
        sure=guarantee.sure,
        scaled_alpha=None if omega is None else omega / (1 + omega),
        bits_per_value=bits,
        error=error,
        least_bits_per_value=least,
        product=product,
    )


def limit(error: float, bits: float, *, unbiased: bool) -> tuple[float | None, float | None]:
    r"""The least bits for this error and $\alpha\, 4^b$; None if the error is 0, or 1 and more.

    An unbiased operator divided by $1 + \omega$ is contractive with $\omega / (1 + \omega)$.
    """
    alpha = error / (1 + error) if unbiased else error
    if not 0 < alpha < 1:
        return None, None
    product = uncertainty.uncertainty_product(alpha, bits, 1)
    return uncertainty.uncertainty_bits(alpha, 1), product if product < math.inf else None


def _table(rows: list[_Row]) -> str:
    titles = ("spec", "class", "scaled", "bits/value", "error", "least bits", "above")
    cells = [
        (
            row.spec,
            _class(row),
            "-" if row.scaled_alpha is None else f"B({row.scaled_alpha:.4g})",
            f"{row.bits_per_value:.3f}",
            f"{row.error:.3g}",
            _text(row.least_bits_per_value),
            _text(_above(row)),
        )
        for row in sorted(rows, key=lambda row: row.bits_per_value)
    ]
    return table(titles, cells, right="bits/value,error,least bits,above")


def _class(row: _Row) -> str:
    """U(ω), C(α) if the bound holds surely, else B(α)."""
    if row.omega is not None:
        return f"U({row.omega:.4g})"
    return f"{'C' if row.sure else 'B'}({row.alpha:.4g})"


def _above(row: _Row) -> float | None:
    least = row.least_bits_per_value
    return None if least is None else row.bits_per_value - least


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _picture(rows: list[_Row]) -> str:
    points = [
        scatter.Mark(row.spec, row.bits_per_value, alpha, row.omega is not None)
        for row in rows
        if (alpha := row.error / (1 + row.error) if row.omega is not None else row.error) > 0
    ]
    return scatter.bits_against_error(points)
