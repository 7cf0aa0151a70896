"""Entropy coders on recorded gradients: `fewbits-lab coders`.

    python -m fewbits_lab.studies.coding.run GRADIENTS-DIR

writes `result.json`; `python -m fewbits_lab.recordings` makes the folder of gradients.
"""

import subprocess
import sys
from pathlib import Path

CODING_COMMAND = "fewbits-lab coders --gradients GRADIENTS-DIR --json"


def main() -> None:
    """Run the command into the file."""
    (folder,) = sys.argv[1:]
    given = [folder if word == "GRADIENTS-DIR" else word for word in CODING_COMMAND.split()[1:]]
    with Path(__file__).with_name("result.json").open("wb") as out:
        words = [sys.executable, "-m", "fewbits_lab.cli", *given]
        subprocess.run(words, stdout=out, check=True)


if __name__ == "__main__":
    main()
