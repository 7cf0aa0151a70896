"""Bits per coordinate against error, measured on frames, and the figure that README shows.

    python benchmarks/bits_error.py

writes `benchmarks/results/bits-error.json` and `docs/_static/bits-error.svg`. A size is the length
of a frame, an error is `|C(x) - x|^2 / |x|^2` of the decoded vector. No value is computed from a
formula, except the lower bound: `b` bits per coordinate cannot give a relative error below `4^-b`
(Albasyoni et al., 2020).
"""

import json
from pathlib import Path

import matplotlib as mpl
import numpy as np

import fewbits

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "bits-error.json"
FIGURE = ROOT / "docs" / "_static" / "bits-error.svg"
DIMENSION = 1_000_000
SEED = 7
SPECS = ("identity", "float16", "bfloat16", "natural", "natural:rounding=nearest")
UNBIASED, BIASED, BOUND = "#1f5fa8", "#b4531f", "#444444"
# Where a label goes: offset in points from its marker, and the alignment there.
LABELS = {
    "identity": ((0, 14), "center", "bottom"),
    "float16": ((10, -2), "left", "center"),
    "bfloat16": ((10, 0), "left", "center"),
    "natural": ((10, 9), "left", "center"),
    "natural:rounding=nearest": ((10, -15), "left", "center"),
}


def measure() -> list[dict[str, object]]:
    """One row for each operator."""
    x = np.random.default_rng(SEED).standard_normal(DIMENSION, dtype=np.float32)
    exact = x.astype(np.float64)
    rows: list[dict[str, object]] = []
    for spec in SPECS:
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


def draw(rows: list[dict[str, object]]) -> None:
    """The figure: log error over bits, the bound as a line; an exact operator sits on the floor."""
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "fewbits"  # the same figure gives the same file
    from matplotlib import pyplot

    floor = 1e-11
    figure, axes = pyplot.subplots(figsize=(7.6, 4.4), layout="constrained")
    bits = np.linspace(0, 18, 100)
    axes.plot(bits, 4.0**-bits, color=BOUND, linewidth=1.5)
    axes.fill_between(bits, 4.0**-bits, floor, color=BOUND, alpha=0.08, linewidth=0)
    axes.text(1.2, 3e-9, "lower bound $4^{-b}$:\nno operator can be\nbelow this line", color=BOUND)
    for row in rows:
        spec, x = str(row["operator"]), float(str(row["bits_per_coordinate"]))
        error = float(str(row["relative_squared_error"]))
        color = UNBIASED if row["unbiased"] else BIASED
        text = f"{spec}\n{x:.2f} bits, " + (f"error {error:.2g}" if error else "no error")
        offset, horizontal, vertical = LABELS[spec]
        axes.plot(x, max(error, floor * 1.6), marker="o" if error else "v", color=color)
        axes.annotate(
            text, (x, max(error, floor * 1.6)), xytext=offset, textcoords="offset points",
            ha=horizontal, va=vertical, color=color, fontsize=9,
        )  # fmt: skip
    axes.set(yscale="log", ylim=(floor, 3), xlim=(0, 36))
    axes.set_xlabel("bits per coordinate, whole frame counted")
    axes.set_ylabel("relative squared error")
    axes.set_title(f"A Gaussian vector of {DIMENSION:,} float32 values", fontsize=11)
    axes.text(35.4, 0.9, "unbiased", color=UNBIASED, ha="right", va="center")
    axes.text(35.4, 0.12, "biased", color=BIASED, ha="right", va="center")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, metadata={"Date": None, "Creator": None})
    # Matplotlib ends some lines with a space.
    lines = [line.rstrip() for line in FIGURE.read_text().splitlines()]
    FIGURE.write_text("\n".join(lines) + "\n")


def main() -> None:
    """Measure, write, draw, print."""
    rows = measure()
    result = {
        "vector": f"standard normal, {DIMENSION} float32 values, seed {SEED}",
        "fewbits": fewbits.__version__,
        "numpy": np.__version__,
        "lower_bound": "4^-b",
        "operators": rows,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    draw(rows)
    for row in rows:
        print(
            f"{row['operator']:<26}{row['bits_per_coordinate']:>9.4f} bits"
            f"{row['relative_squared_error']:>12.3g}"
        )


if __name__ == "__main__":
    main()
