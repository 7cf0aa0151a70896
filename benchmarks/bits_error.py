"""Bits per coordinate against error, measured on frames, and the figure that README shows.

    python benchmarks/bits_error.py

writes `benchmarks/results/bits-error.json` and `docs/_static/bits-error.svg`. Rows and figure are
those of `fewbits lab run bits-error`.
"""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

import fewbits
from fewbits.lab import Settings, figures
from fewbits.lab.experiment import silent
from fewbits.lab.experiments import bits_error
from fewbits.lab.experiments.bits_error import BASELINE, CURVES, DIMENSION, OPERATOR

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "bits-error.json"
FIGURE = ROOT / "docs" / "_static" / "bits-error.svg"


def main() -> None:
    """Measure, write, draw, print."""
    settings = Settings()
    rows = bits_error.rows(settings, silent)
    by_kind = {
        kind: [asdict(row) for row in rows if row.kind == kind]
        for kind in (OPERATOR, BASELINE, *CURVES)
    }
    result = {
        "vector": f"standard normal, {DIMENSION} float32 values, seed {settings.seed}",
        "fewbits": fewbits.__version__,
        "numpy": np.__version__,
        "lower_bound": "4^-b",
        "operators": by_kind[OPERATOR],
        "baselines": by_kind[BASELINE],
        "curves": {name: by_kind[name] for name in CURVES},
    }
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    FIGURE.write_text(figures.svg(lambda: bits_error.draw(rows)))
    for row in rows:
        print(
            f"{row.operator:<62}{row.bits_per_coordinate:>9.4f} bits"
            f"{row.relative_squared_error:>12.3g}"
        )


if __name__ == "__main__":
    main()
