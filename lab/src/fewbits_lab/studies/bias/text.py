"""Makes the text of README and docs about `bias`."""

from fewbits_lab.prose import paragraph
from fewbits_lab.results import results
from fewbits_lab.studies.bias import show
from fewbits_lab.tables import markdown


def draws_table() -> str:
    """The table of errors that averaging leaves."""
    return markdown(show.draws(results("bias")))


def training() -> str:
    """The setting of the runs, and the loss of plain training."""
    found = results("bias")["training"]
    return paragraph(
        f"**In training.** Four ranks train a network with one hidden layer of {found['hidden']} on digits for {found['steps']} steps.",
        "All parameters, biases too, are compressed in both directions as one vector. The table has the mean training loss",
        f"of the last {found['tail']} steps minus that of plain training from the same start with the same batches, over",
        f"{found['seeds']} seeds. Plain training ends at {found['plain_tail_loss']:.4f}. Nearest fp8 is E4M3; it and int8 have",
        "blocks of 256:",
    )  # fmt: skip


def tail_table() -> str:
    """The table of rounding's effect on the end of training."""
    return markdown(show.tail(results("bias")))


def tail_verdict() -> str:
    """The verdict on bias, which is seen if the interval leaves out zero."""

    def name(row: dict[str, object]) -> str:
        return f"{row['rounding']} {'with' if row['feedback'] else 'without'} feedback"

    rows = results("bias")["training"]["rows"]
    seen = [row for row in rows if row["low"] > 0 or row["high"] < 0]
    said = "; ".join(f"{name(row)}, {row['percent']:+.2f} % of the loss" for row in seen)
    return paragraph(
        f"A bias is seen if the interval leaves out zero: {said or 'nowhere'}. With the others none is seen.",
        "`natural` keeps no bit of the mantissa, so it has more variance and a wider interval. In this small,",
        "short and well conditioned run bias hardly hurts, which does not show that it never does.",
    )
