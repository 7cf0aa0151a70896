"""What the pages say of `fewbits lab run scale`, whose own rows are too many for a file here.

`python benchmarks/scale.py` computes the rows, some of them measured, most modelled, and writes
`benchmarks/results/scale.json`.
"""

import json
from collections import Counter
from pathlib import Path

from fewbits.lab.experiment import Settings, silent
from fewbits.lab.experiments import scale
from fewbits.schemes.payload import CHUNK

RESULTS = Path(__file__).parent / "results" / "scale.json"
OPERATORS = ("bfloat16", "natural", "natural:coder=rans")


def main() -> None:
    """Compute, sum up, write."""
    rows = scale.rows(Settings(), silent)
    tried = [row for row in rows if row.kind == scale.MEASURED and row.formula]
    cases = [row for row in rows if row.kind == scale.MODELLED]
    usual = [row for row in cases if row.workers * CHUNK <= scale.SIZES[row.parameters]]
    small, most = next(iter(scale.SIZES)), max(scale.WORKERS)
    crowd = [
        row
        for row in cases
        if (row.parameters, row.workers, row.local_steps) == (small, most, 1)
        and row.gbit_per_second == 1
    ]
    found = {
        "measured_ranks": sorted({row.workers for row in tried}),
        "formula_off": {
            name: max(abs(r.megabytes / r.formula - 1) for r in tried if r.operator == name)
            for name in OPERATORS
        },
        "fastest": [
            {"gbit_per_second": link / 1e9, "local_steps": steps, "cases": dict(counted)}
            for link in scale.LINKS
            for steps in scale.LOCAL_STEPS
            if (
                counted := Counter(
                    row.best
                    for row in cases
                    if (row.gbit_per_second, row.local_steps) == (link / 1e9, steps)
                    and row.operator == scale.model.PLAIN
                )
            )
        ],
        "pays_below_gbit": {
            name: {
                str(steps): [min(own), max(own)]
                for steps in scale.LOCAL_STEPS
                if (
                    own := [
                        row.pays_below_gbit
                        for row in usual
                        if (row.operator, row.local_steps) == (name, steps) and row.pays_below_gbit
                    ]
                )
            }
            for name in OPERATORS
        },
        "more_workers_than_chunks": {
            "parameters": small,
            "chunks": -(-scale.SIZES[small] // CHUNK),
            "workers": most,
            "megabytes": {row.operator: row.megabytes for row in crowd},
            "pays": any((row.pays_below_gbit or 0) > 0 for row in crowd),
        },
    }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
