"""Makes the text of README and docs about `two-bit-training`."""

from fewbits_lab.prose import paragraph
from fewbits_lab.results import results
from fewbits_lab.studies.two_bit_training import show
from fewbits_lab.tables import markdown


def losses_table() -> str:
    """Losses seed by seed."""
    return markdown(show.losses(results("two-bit-training")))


def losses_verdict() -> str:
    """The size of the model, its training, and the outcome."""
    found = results("two-bit-training")
    task = found["task"]
    lengths = " or ".join(str(steps) for steps in show.outcomes(found["runs"]))
    elements = next(run["elements"] for run in found["runs"] if "elements" in run)
    return paragraph(
        f"`fewbits_lab.studies.two_bit_training.run` trains a character-level GPT of {elements / 1e6:.2f} million",
        f"parameters ({task['layers']} layers, width {task['width']}) on tiny-shakespeare: {task['ranks']} ranks,",
        f"{lengths} steps of {task['batch_size']} blocks, AdamW, `{found['spec']}` in both directions, the",
        "default policy.",
        *show.findings(found),
        "The model is small and its training short: compare on your own before a long run.",
    )  # fmt: skip
