"""Makes the text of README and docs about `trellis-bits`."""

import re

from fewbits_lab import figures
from fewbits_lab.prose import one, paragraph, table
from fewbits_lab.results import results
from fewbits_lab.studies.trellis_bits import show
from fewbits_lab.studies.trellis_bits.run import EDEN, EQUAL_RATES, SCALAR, TRELLIS
from fewbits_lab.studies.trellis_bits.show import GAUSSIAN, least
from fewbits_lab.tables import markdown

_VECTORS = {"gaussian": "Gaussian", "resnet": "ResNet", "alexnet": "AlexNet", "gpt": "GPT"}


def error(vector: str, operator: str, bits: float) -> float:
    """The error at so many bits; of a recording the largest of its steps."""
    found = show.errors(results("trellis-bits")["runs"])
    return max(
        own
        for (name, form, count), own in found.items()
        if name.startswith(vector) and (form, count) == (operator, bits)
    )


def nu(operator: str, bits: float) -> str:
    """The `nu` of an operator at this many bits on the Gaussian vector."""
    row = one(results("trellis-bits")["runs"], vector=GAUSSIAN, operator=operator, bits=bits)
    found = re.search(r"nu=([\d.e-]+)", row["spec"])
    assert found is not None
    return f"nu={float(found[1]):.2g}"


def equal_table() -> str:
    """Errors at equal bits; of a recording the largest. The smallest of a vector is stressed."""
    rows = []
    for bits in EQUAL_RATES:
        eden = error(GAUSSIAN, EDEN, bits)
        cells = []
        for vector in _VECTORS:
            own = [error(vector, form, bits) for form in (SCALAR, TRELLIS)]
            best = min([eden, *own])
            cells += [f"**{each:.3g}**" if each == best else f"{each:.3g}" for each in own]
        rows.append([f"{bits:g}", f"{least(bits):.3g}", f"{eden:.3g}", *cells])
    titles = [f"{name}, {form}" for name in _VECTORS.values() for form in (SCALAR, TRELLIS)]
    return table("|".join(["bits", "bound", "EDEN", *titles]), rows)


def equal_verdict() -> str:
    """What the columns are, and who is ahead."""
    return paragraph(
        "*Bound* is the least of any unbiased operator on Gaussian vectors, 1/(4ᵇ − 1). *Scalar* is",
        "`sparse-dithering:rounding=subtractive`, *trellis* is `trellis:rounding=subtractive`, each with the `nu` that",
        "gives these bits. Both are exactly unbiased.",
        *show.findings(results("trellis-bits")),
    )  # fmt: skip


def states_table() -> str:
    """Bits above the bound by states."""
    return markdown(show.states_table(results("trellis-bits")["runs"]))


def trellis_figure() -> str:
    """The picture of choosing.md."""
    return figures.svg(lambda: show.draw(results("trellis-bits")))
