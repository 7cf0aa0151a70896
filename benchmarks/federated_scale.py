"""FedAvg with 10 to 10,000 simulated clients: the rows of `fewbits lab run federated-scale`.

    python benchmarks/federated_scale.py [--seconds 400]

adds each run to `benchmarks/results/federated-scale.json`; what is there is not run again.
"""

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

from fewbits.lab.experiments import federated_scale as scale

RESULTS = Path(__file__).parent / "results" / "federated-scale.json"
SEED = 7


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args()
    head = {"seed": SEED, "d": scale.D, "target": scale.TARGET, "most_rounds": scale._MOST}
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {**head, "rows": []}
    done = {(row["clients"], row["operator"]): row for row in found["rows"]}
    began = time.monotonic()
    for clients, present in scale.SCALES.items():
        crowd, plain = scale.Crowd(clients, SEED), None
        for contender in scale.CONTENDERS:
            known = done.get((clients, contender.label))
            if known is None and time.monotonic() - began <= options.seconds:
                row = scale.course(crowd, contender, present, plain)
                found["rows"].append(asdict(row))
                RESULTS.write_text(json.dumps(found, indent=1) + "\n")
                print(row, flush=True)
            else:
                row = scale.Row(**known) if known else None
            plain = plain or row


if __name__ == "__main__":
    main()
