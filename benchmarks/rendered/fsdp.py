"""docs/fsdp.md, from `sharded_training.py`."""

from statistics import fmean, stdev
from typing import Any

from benchmarks.rendered.blocks import paragraph, results, table

PLAIN = "none"
Run = dict[str, Any]


def runs_table() -> str:
    """Losses beside plain training's with the same seed, bytes, and whether repeats are equal."""
    found = results("sharded-training")
    rows = []
    for data in found["tasks"]:
        runs = [run for run in found["runs"] if run["data"] == data]
        plain = {r["seed"]: r["loss"] for r in runs if r["worker"] == PLAIN and not r["repeat"]}
        workers = dict.fromkeys(run["worker"] for run in runs)
        rows += [cells(data, [r for r in runs if r["worker"] == own], plain) for own in workers]
    titles = "data|operator|seeds|loss|difference ± standard error|bytes|repeated"
    return table(titles, rows)


def cells(data: str, runs: list[Run], plain: dict[int, float]) -> list[str]:
    """One row of the table."""
    worker = runs[0]["worker"]
    first = {run["seed"]: run for run in runs if not run["repeat"]}
    paired = [run["loss"] - plain[seed] for seed, run in first.items() if seed in plain]
    difference, sent, repeated = "", "", ""
    if worker != PLAIN and len(paired) > 1:
        error = stdev(paired) / len(paired) ** 0.5
        difference = f"{fmean(paired):+.4f} ± {error:.4f}"
    if "sent_bytes" in runs[0]:
        sent = f"{fmean(run['plain_bytes'] / run['sent_bytes'] for run in runs):.2f}× less"
    if again := [run for run in runs if run["repeat"]]:
        same = all(run["shards"] == first[run["seed"]]["shards"] for run in again)
        repeated = "same bits" if same else "other bits"
    loss = fmean(run["loss"] for run in first.values())
    return [data, worker, str(len(first)), f"{loss:.4f}", difference, sent, repeated]


def verdict() -> str:
    """What the columns mean, and how much of the small model goes exact."""
    shares = {
        1 - run["compressed_share"]
        for run in results("sharded-training")["runs"]
        if run["data"] == "text" and "compressed_share" in run
    }
    return paragraph(
        "`benchmarks/sharded_training.py` makes them. \"Same bits\" says that the same run again ended with the same",
        "shards on all ranks. The entropy coder loses nothing, so its run ends with the shards of `natural`; it was",
        f"run with one seed for its bytes. In the GPT's small model {100 * max(shares):.0f} % of the elements are in",
        "small tensors and go exact.",
    )  # fmt: skip


BLOCKS = {"runs": runs_table, "verdict": verdict}
