"""Makes the text of README and docs about `sharded-training`."""

from fewbits_lab.prose import paragraph
from fewbits_lab.results import results
from fewbits_lab.studies.sharded_training import show
from fewbits_lab.tables import markdown

_PLAIN = "none"


def runs_table() -> str:
    """Losses beside plain training's with the same seed, bytes, and whether repeats are equal."""
    return markdown(show.sharded(results("sharded-training")["runs"]))


def replicas_table() -> str:
    """The same of two replicas of two shards: bytes are those that replicas exchange."""
    return markdown(show.sharded(results("sharded-training")["runs"], 2))


def verdict() -> str:
    """The meaning of the columns, and the share of the small model that goes exact."""
    shares = {
        1 - run["compressed_share"]
        for run in results("sharded-training")["runs"]
        if (run["data"], run["replicas"]) == ("text", 1) and "compressed_share" in run
    }
    return paragraph(
        "`fewbits_lab.studies.sharded_training.run` makes them. \"Same bits\" says that the same run again ended with the same",
        "shards on all ranks. The entropy coder loses nothing, so its run ends with the shards of `natural`; it was",
        f"run with one seed for its bytes. In the GPT's small model {100 * max(shares):.0f} % of the elements are in",
        "small tensors and go exact.",
    )  # fmt: skip
