"""Training steps on shaped links: `fewbits-lab link`, once for each group of rates.

    sudo python -m fewbits_lab.studies.links.run

measures what the folder `links` does not have yet, and writes `result.json`.
"""

import shutil
import subprocess
import sys
from pathlib import Path

_LINK = "sudo fewbits-lab link --ranks 2 4 --out links"
LINK_COMMANDS = (f"{_LINK} --rate 100Mbit", f"{_LINK} --rate 1Gbit 10Gbit none --repeats 11")


def main() -> None:
    """Run the commands, and keep what they have measured."""
    for command in LINK_COMMANDS:
        words = [sys.executable, "-m", "fewbits_lab.cli", *command.split()[2:]]
        subprocess.run(words, check=True)
    shutil.copyfile("links/results.json", Path(__file__).with_name("result.json"))


if __name__ == "__main__":
    main()
