"""Speeds of this machine on every dtype, recorded.

    python -m fewbits_lab.studies.bench_dtypes.run

writes `result.json`.
"""

import subprocess
import sys
from pathlib import Path

DTYPES_COMMAND = "fewbits bench --all-dtypes --repeats 7 --json"


def main() -> None:
    """Run the command into the file."""
    words = [sys.executable, "-m", "fewbits.cli", *DTYPES_COMMAND.split()[1:]]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    Path(__file__).with_name("result.json").write_bytes(done.stdout)


if __name__ == "__main__":
    main()
