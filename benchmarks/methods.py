"""Rounds and bytes of every method and operator to 1e-4, and how far each gets.

    python benchmarks/methods.py --data LIBSVM-DIR [--seconds 400]

runs the cases of `fewbits lab run methods` on mushrooms, 20 workers sorted by label, and adds each
to `benchmarks/results/methods.json`; what is there is not run again. `--seconds` ends it after the
case during which that time is up, so that it can be run in parts.
"""

import argparse
import json
import time
from pathlib import Path

from fewbits.lab import datasets
from fewbits.lab.experiments import methods
from fewbits.lab.workers import CONDITION, Workers

RESULTS = Path(__file__).parent / "results" / "methods.json"
SEED = 7


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args()
    samples = datasets.libsvm(options.data, "mushrooms")
    assert samples is not None, "no mushrooms"
    workers = Workers.sorted_by_label(samples, methods.WORKERS)
    head = {
        "problem": "logistic regression on mushrooms, workers sorted by label",
        "workers": methods.WORKERS, "d": int(workers.whole.start.size), "condition": CONDITION,
        "seed": SEED, "most_rounds": methods._MOST, "runs": [],
    }  # fmt: skip
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else head
    done = {(run["method"], run["operator"]) for run in found["runs"]}
    began = time.monotonic()
    for case in methods.cases():
        if (case.label, case.operator) in done or time.monotonic() - began > options.seconds:
            continue
        table = list(methods.course(case, workers, "mushrooms", SEED, methods._MOST))
        (own,) = methods.summaries(table)
        hit = own.reached
        found["runs"].append({
            "method": case.label, "operator": case.operator, "rounds": own.rounds, "end": own.end,
            "reached": None if hit is None else {
                "round": hit.round, "up_bytes": hit.up_bytes, "up_sections": hit.up_sections,
                "down_bytes": hit.down_bytes,
            },
        })  # fmt: skip
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{case.label:16} {case.operator:45} {hit.round if hit else '-':>6} {own.end:.1e}")


if __name__ == "__main__":
    main()
