"""Speeds of this machine, recorded: `fewbits bench` with more repeats than its default.

    python -m fewbits_lab.studies.bench.run

writes `result.json`.
"""

import subprocess
import sys
from pathlib import Path

COMMAND = "fewbits bench --repeats 15 --json"


def main() -> None:
    """Run the command into the file."""
    words = [sys.executable, "-m", "fewbits.cli", *COMMAND.split()[1:]]
    with Path(__file__).with_name("result.json").open("wb") as out:
        subprocess.run(words, stdout=out, check=True)


if __name__ == "__main__":
    main()
