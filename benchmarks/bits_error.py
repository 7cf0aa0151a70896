"""Bits per coordinate against error, measured on frames, and the figure that README shows.

    python benchmarks/bits_error.py

writes `benchmarks/results/bits-error.json` and `docs/_static/bits-error.svg`. A size is the length
of a frame, an error is `|C(x) - x|^2 / |x|^2` of the decoded vector. No value is computed from a
formula, except the lower bound: `b` bits per coordinate cannot give a relative error below `4^-b`
(Albasyoni et al., 2020).
"""

import json
from collections.abc import Iterable
from pathlib import Path

import matplotlib as mpl
import numpy as np

import fewbits

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "bits-error.json"
FIGURE = ROOT / "docs" / "_static" / "bits-error.svg"
DIMENSION = 1_000_000
SIZE, ERROR = "bits_per_coordinate", "relative_squared_error"
Rows = list[dict[str, object]]
SEED = 7
SPECS = (
    "identity",
    "float16",
    "bfloat16",
    "natural",
    "natural:rounding=nearest",
    "natural:coder=rans",
    "natural-dithering",
    "standard-dithering",
    "standard-dithering:p=2,levels=1000,coder=rans",
    "sparse-dithering",
    "sparse-dithering:rounding=stochastic",
    "sparse-dithering:rounding=subtractive",
    "sparse-dithering:nu=1,scale=least-squares",
    "hadamard:signs=private|sparse-dithering:nu=1.5,scale=matched",
    "spherical",
    "spherical:scale=unbiased",
    "sign",
    "top-k:fraction=0.01|natural",
    "rand-k:fraction=0.01|natural",
    "hadamard|natural",
)
CURVES = {
    "least squares": "sparse-dithering:nu={},scale=least-squares",
    "subtractive": "sparse-dithering:nu={},rounding=subtractive",
    "stochastic": "sparse-dithering:nu={},rounding=stochastic",
}
NUS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.5, 1, 2, 4)
UNBIASED, BIASED, BOUND = "#1f5fa8", "#b4531f", "#444444"
# What the figure shows of the points, and where a label goes: offset in points, and alignment.
LABELS = {
    "natural": ((0, 9), "center", "bottom"),
    "natural:rounding=nearest": ((0, -9), "center", "top"),
    "natural:coder=rans": ((-6, 8), "center", "bottom"),
    "natural-dithering": ((8, -3), "left", "top"),
    "spherical": ((44, 12), "left", "bottom"),
    "sign": ((-7, -26), "center", "top"),
}


def measure(specs: Iterable[str]) -> list[dict[str, object]]:
    """One row for each operator."""
    x = np.random.default_rng(SEED).standard_normal(DIMENSION, dtype=np.float32)
    exact = x.astype(np.float64)
    rows: list[dict[str, object]] = []
    for spec in specs:
        frame = fewbits.compress(x, spec, seed=SEED)
        error = fewbits.decompress(frame).astype(np.float64) - exact
        rows.append(
            {
                "operator": spec,
                "unbiased": fewbits.operator(spec).guarantee(DIMENSION).unbiased,
                "frame_bytes": len(frame),
                "bits_per_coordinate": 8 * len(frame) / DIMENSION,
                "relative_squared_error": float(error @ error / (exact @ exact)),
            }
        )
    return rows


def draw(points: Rows, curves: dict[str, Rows]) -> None:
    """The figure: log error over bits, the bound as a line, sparse dithering as curves."""
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "fewbits"  # the same figure gives the same file
    from matplotlib import pyplot

    floor = 1e-5
    figure, axes = pyplot.subplots(figsize=(7.6, 4.4), layout="constrained")
    bits = np.linspace(0, 10, 100)
    axes.plot(bits, 4.0**-bits, color=BOUND, linewidth=1.5)
    axes.fill_between(bits, 4.0**-bits, floor, color=BOUND, alpha=0.08, linewidth=0)
    axes.text(0.25, 4e-5, "lower bound $4^{-b}$:\nno operator can be\nbelow this line", color=BOUND)
    for (name, rows), style in zip(curves.items(), ("-", "--", ":"), strict=True):
        x, y = ([float(str(row[key])) for row in rows] for key in (SIZE, ERROR))
        color = UNBIASED if rows[0]["unbiased"] else BIASED
        axes.plot(x, y, style, color=color, label=f"sparse-dithering, {name}")
    for row in points:
        spec, x, error = str(row["operator"]), float(str(row[SIZE])), float(str(row[ERROR]))
        if spec not in LABELS:
            continue
        color = UNBIASED if row["unbiased"] else BIASED
        offset, horizontal, vertical = LABELS[spec]
        axes.plot(x, error, marker="o", color=color)
        axes.annotate(
            f"{spec}\n{x:.2f} bits, error {error:.2g}", (x, error), xytext=offset,
            textcoords="offset points", ha=horizontal, va=vertical, color=color, fontsize=8,
        )  # fmt: skip
    axes.set(yscale="log", ylim=(floor, 2), xlim=(0, 10.5))
    axes.set_xlabel("bits per coordinate, whole frame counted")
    axes.set_ylabel("relative squared error")
    axes.set_title(f"A Gaussian vector of {DIMENSION:,} float32 values", fontsize=11)
    axes.legend(
        loc="center right",
        bbox_to_anchor=(1, 0.42),
        frameon=False,
        fontsize=8,
        title="blue: unbiased, brown: biased",
    )
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, metadata={"Date": None, "Creator": None})
    # Matplotlib ends some lines with a space.
    lines = [line.rstrip() for line in FIGURE.read_text().splitlines()]
    FIGURE.write_text("\n".join(lines) + "\n")


def main() -> None:
    """Measure, write, draw, print."""
    rows = measure(SPECS)
    curves = {name: measure(own.format(nu) for nu in NUS) for name, own in CURVES.items()}
    result = {
        "vector": f"standard normal, {DIMENSION} float32 values, seed {SEED}",
        "fewbits": fewbits.__version__,
        "numpy": np.__version__,
        "lower_bound": "4^-b",
        "operators": rows,
        "curves": curves,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    draw(rows, curves)
    for row in rows:
        print(f"{row['operator']:<62}{row[SIZE]:>9.4f} bits{row[ERROR]:>12.3g}")


if __name__ == "__main__":
    main()
