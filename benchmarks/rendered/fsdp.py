"""docs/fsdp.md, from `sharded_training.py`."""

from typing import Any

from benchmarks.rendered.blocks import paragraph, results

from fewbits.lab.recorded import training
from fewbits.lab.tables import markdown

PLAIN = "none"
Run = dict[str, Any]


def runs_table() -> str:
    """Losses beside plain training's with the same seed, bytes, and whether repeats are equal."""
    return markdown(training.sharded(results("sharded-training")["runs"]))


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
