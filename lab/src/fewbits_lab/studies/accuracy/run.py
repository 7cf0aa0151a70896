"""Does compressed training reach the accuracy of plain DDP? Paired runs over several seeds.

`python -m fewbits_lab.studies.accuracy.run --data digits --data DIR` trains the same model from the
same start with the same settings, plain and with `natural` both ways (`--collective switch`: on
aggregators that can only add integers; `--more` adds seeds to those that are there), and writes
`result.json`: the accuracies, the mean of the paired differences and its
standard error. Settings are fixed here, beforehand. `--sizes` adds how many times fewer bytes a
rank sends in a step, from one epoch: messages of `natural` have the same length in every step.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("result.json")
EPOCHS = {"digits": 12}
OTHER_EPOCHS = 1
_WORKERS = 4


def main() -> None:
    """Run every seed on every data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", action="append", default=None, help="digits or a folder")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--operator", default="natural")
    parser.add_argument("--collective", default="sharded")
    parser.add_argument("--more", action="store_true")
    parser.add_argument("--sizes", action="store_true", help="bytes only, of runs that are there")
    arguments = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for data in arguments.data or ["digits"]:
        name = Path(data).name
        place = name if arguments.collective == "sharded" else f"{name}, {arguments.collective}"
        if arguments.sizes:
            _, compressed = trained(
                data, arguments.operator, arguments.collective, seed=0, epochs=1
            )
            results[place]["times_fewer_bytes"] = compressed["ratio"]
            RESULTS.write_text(json.dumps(results, indent=2) + "\n")
            continue
        known = results.get(place, {}) if arguments.more else {}
        pairs = list(zip(known.get("plain", ()), known.get("compressed", ()), strict=True))
        for seed in range(len(pairs), len(pairs) + arguments.seeds):
            pairs.append(one_seed(data, arguments.operator, arguments.collective, seed))
            print(
                f"{name} seed {seed}: plain {pairs[-1][0]:.4f}, compressed {pairs[-1][1]:.4f}",
                flush=True,
            )
        results[place] = summary(pairs, arguments.operator, EPOCHS.get(name, OTHER_EPOCHS))
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
        print(json.dumps(results[place], indent=2), flush=True)


def one_seed(data: str, operator: str, collective: str, seed: int) -> tuple[float, float]:
    """Test accuracy of plain and of compressed training, from the same start."""
    epochs = EPOCHS.get(Path(data).name, OTHER_EPOCHS)
    plain, compressed = trained(data, operator, collective, seed=seed, epochs=epochs)
    return plain["accuracy"], compressed["accuracy"]


def trained(
    data: str, operator: str, collective: str, *, seed: int, epochs: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The results of `fewbits train`, plain and compressed."""
    command = [
        sys.executable, "-m", "fewbits.train", "--workers", str(_WORKERS), "--data", data,
        "--epochs", str(epochs), "--seed", str(seed), "--json", "--operator", "none",
        "--operator", operator, "--collective", collective,
    ]  # fmt: skip
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    plain, compressed = json.loads(done.stdout)["runs"]
    return plain, compressed


def summary(pairs: list[tuple[float, float]], operator: str, epochs: int) -> dict[str, object]:
    """Mean paired difference in points, and its standard error."""
    differences = [100 * (compressed - plain) for plain, compressed in pairs]
    return {
        "operator": operator,
        "workers": _WORKERS,
        "epochs": epochs,
        "plain": [plain for plain, _ in pairs],
        "compressed": [compressed for _, compressed in pairs],
        "mean_difference_points": statistics.mean(differences),
        "standard_error_points": (
            statistics.stdev(differences) / len(differences) ** 0.5 if len(pairs) > 1 else None
        ),
    }


if __name__ == "__main__":
    main()
