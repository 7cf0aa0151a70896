"""docs/feedback.md, its last section: from the results of `bias.py`."""

from benchmarks.rendered.blocks import paragraph, results

from fewbits.lab.recorded import feedback
from fewbits.lab.tables import markdown


def draws_table() -> str:
    """What averaging leaves."""
    return markdown(feedback.draws(results("bias")))


def training() -> str:
    """What was trained, and where plain training ends."""
    found = results("bias")["training"]
    return paragraph(
        f"**In training.** Does it hurt? Digits, one hidden layer of {found['hidden']}, four ranks, everything",
        f"compressed in both directions as one vector, biases too, {found['steps']} steps; the mean training loss",
        f"of the last {found['tail']}, minus that of plain training from the same start with the same batches, over",
        f"{found['seeds']} seeds. Plain training ends at {found['plain_tail_loss']:.4f}. Nearest fp8 is E4M3, both with",
        "blocks of 256:",
    )  # fmt: skip


def tail_table() -> str:
    """What rounding does to the end of training."""
    return markdown(feedback.tail(results("bias")))


def tail_verdict() -> str:
    """Where a bias is seen, which is where the interval leaves out zero."""

    def name(row: dict[str, object]) -> str:
        return f"{row['rounding']} {'with' if row['feedback'] else 'without'} feedback"

    rows = results("bias")["training"]["rows"]
    seen = [row for row in rows if row["low"] > 0 or row["high"] < 0]
    said = "; ".join(f"{name(row)}, {row['percent']:+.2f} % of the loss" for row in seen)
    return paragraph(
        f"A bias is seen where the interval leaves out zero: {said or 'nowhere'}. With the others none is seen.",
        "`natural` keeps no bit of the mantissa, so it has more variance, hence the wider interval. In this small,",
        "short and well conditioned run bias hardly hurts, which does not show that it never does.",
    )


BLOCKS = {
    "draws": draws_table,
    "training": training,
    "tail": tail_table,
    "tail-verdict": tail_verdict,
}
