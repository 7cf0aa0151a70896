"""Bits until 1e-4 on ridge and logistic regressions, one worker, real frames.

    python benchmarks/regressions.py --data LIBSVM-DIR [--seconds 400]

runs the problems of `fewbits lab run oc-regressions` and adds each one's rows to
`benchmarks/results/regressions.json`; what is there is not run again.
"""

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

from fewbits.lab.experiments import oc_regressions as regressions

RESULTS = Path(__file__).parent / "results" / "regressions.json"
SEED = 7


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args()
    head = {"condition": regressions.CONDITION, "seed": SEED, "rows": []}
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else head
    done = {(row["kind"], row["data"]) for row in found["rows"]}
    began = time.monotonic()
    for task in regressions.tasks(options.data):
        if (task.kind, task.data) in done or time.monotonic() - began > options.seconds:
            continue
        found["rows"] += [asdict(row) for row in regressions.solved(task, SEED, quick=False)]
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        print(task.kind, task.data, flush=True)


if __name__ == "__main__":
    main()
