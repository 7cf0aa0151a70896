"""Runs what `make demo` runs and keeps its figures: `python -m fewbits_lab.studies.demo.run`."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from fewbits.bench.machine import this_machine

_RESULTS = Path(__file__).with_name("result.json")
DEMO = ("--link", "100Mbit", "--model", "mlp")
DEMO_COMMAND = f"fewbits train {' '.join(DEMO)}"


def main() -> None:
    """Train, and write `result.json` without the curves."""
    words = [sys.executable, "-m", "fewbits.train", *DEMO, "--json"]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    document = json.loads(done.stdout)
    document["machine"] = asdict(this_machine())
    for run in (*document["runs"], *document["loopback"]):
        del run["curve"], run["epochs"]
    _RESULTS.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
