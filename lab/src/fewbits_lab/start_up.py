"""CPU time until `fewbits` has answered, against that of importing NumPy.

    python -m fewbits_lab.start_up

Programs take turns and the best of many runs counts, so that whatever else the machine does hits
all of them alike. Modules are compiled, as they are where pip has installed them. `inspect` and
`--version` must stay within 2.2 times.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import fewbits

ROUNDS = 20
_MOST = 2.2  # times `import numpy`


def seconds(command: list[str], compiled: str) -> float:
    """User and system time of a process whose compiled modules lie in a folder."""
    environment = os.environ | {"PYTHONPYCACHEPREFIX": compiled}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def commands(frame: Path) -> dict[str, list[str]]:
    """The commands to time; the first is the yardstick."""
    command = [sys.executable, "-m", "fewbits.cli"]
    return {
        "import numpy": [sys.executable, "-c", "import numpy"],
        "import fewbits": [sys.executable, "-c", "import fewbits"],
        "fewbits --version": [*command, "--version"],
        "fewbits inspect": [*command, "inspect", str(frame)],
    }


def main() -> int:
    """Print a line for each program; 1 if one of them takes too long."""
    with tempfile.TemporaryDirectory() as folder:
        frame = Path(folder) / "frame.fb"
        frame.write_bytes(fewbits.compress(np.ones(1000, np.float32), "natural", seed=0))
        best = dict.fromkeys(commands(frame), float("inf"))
        for _ in range(ROUNDS):
            for name, command in commands(frame).items():
                best[name] = min(best[name], seconds(command, folder))
    times = {name: found / best["import numpy"] for name, found in best.items()}
    for name, found in best.items():
        print(f"{name:<18}{1e3 * found:8.1f} ms{times[name]:8.2f} ×")
    return int(max(times.values()) > _MOST)


if __name__ == "__main__":
    sys.exit(main())
