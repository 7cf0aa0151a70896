"""Shows `equal-bits`: tables, figures, findings and claims."""

from statistics import fmean
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.record import RecordDocument, Recorded
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def equal_bits(document: RecordDocument) -> ShownTable:
    """Errors by vector and bits, beside EDEN's; lost where EDEN's is smaller."""
    rows, lost = [], set()
    for number, row in enumerate(document["rows"]):
        eden, own = document["eden"][str(row["bits"])], row["relative_squared_error"]
        rows.append([
            row["vector"], str(row["bits"]), row["operator"], f"{own:.4g}", f"{eden:.4g}",
            f"{eden / own:.2f}", f"{row['squared_bias']:.1e}",
        ])  # fmt: skip
        if own > eden:
            lost.add(number)
    titles = ["vector", "bits", "rounding", "error", "EDEN's error", "times less",
              "squared bias"]  # fmt: skip
    return ShownTable(
        titles, rows, lost=frozenset(lost),
        note="Marked: EDEN has the smaller error. Its side information is not counted against it.",
    )  # fmt: skip


def findings(document: RecordDocument) -> list[str]:
    """The mean gain on gradients by rounding and bits."""
    said = []
    for operator in dict.fromkeys(row["operator"] for row in document["rows"]):
        own = [row for row in document["rows"]
               if row["operator"] == operator and "step" in row["vector"]]  # fmt: skip
        if not own:
            continue
        gains = [
            (bits, fmean(document["eden"][str(bits)] / row["relative_squared_error"]
                         for row in own if row["bits"] == bits))
            for bits in sorted({row["bits"] for row in own})
        ]  # fmt: skip
        text = ", ".join(f"{gain:.1f} at {bits}" for bits, gain in gains)
        said.append(f"{operator}: on recorded gradients the error is smaller than EDEN's by these "
                    f"factors, by bits a value: {text}.")  # fmt: skip
    return said


def draw(document: RecordDocument) -> "Figure":
    """EDEN's error over ours by vector, a panel for each number of bits."""
    bits = sorted({row["bits"] for row in document["rows"]})
    vectors = list(dict.fromkeys(row["vector"] for row in document["rows"]))
    drawn, plots = figures.panels(
        "Times less error than EDEN at equal bits a value", len(bits), width=3.0 * len(bits) + 1,
        height=4,
    )  # fmt: skip
    operators = list(dict.fromkeys(row["operator"] for row in document["rows"]))
    for plot, own in zip(plots, bits, strict=True):
        for name, colour, marker in zip(operators, figures.COLOURS, figures.MARKERS, strict=False):
            found = {row["vector"]: row["relative_squared_error"] for row in document["rows"]
                     if (row["bits"], row["operator"]) == (own, name)}  # fmt: skip
            gains = [document["eden"][str(own)] / found[vector] for vector in vectors]
            plot.plot(gains, range(len(vectors)), marker, color=colour, label=name)
        plot.axvline(1, color="black", lw=1)
        plot.set_title(f"{own} bit{'s' if own > 1 else ''}")
        figures.log_x(plot)
        figures.names(plot, vectors if own == bits[0] else [""] * len(vectors))
    drawn.legend(*plots[0].get_legend_handles_labels(), loc="outside lower left", ncols=4)
    return drawn


EQUAL_BITS = Recorded(
    name="equal-bits",
    result="equal-bits",
    title="Unbiased operators at EDEN's bits",
    about="For each number of bits the smallest error whose whole frame is not longer. EDEN's "
    "error is the formula's for a Gaussian, which its rotation makes of every input. Subtractive "
    "dither is compared in `trellis-bits`.",
    command="python -m fewbits_lab.studies.equal_bits.run GRADIENTS-DIR",
    tables=lambda document: [equal_bits(document)],
    draw=draw,
    findings=findings,
)
