"""Shows `trellis-bits`: tables, figures and findings."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.prose import span
from fewbits_lab.record import Item, RecordDocument, Recorded
from fewbits_lab.results import results
from fewbits_lab.studies.trellis_bits.run import (
    EDEN,
    EQUAL_RATES,
    FP8,
    NEAREST_TRELLIS,
    SCALAR,
    STATE_FORMS,
    STATE_RATES,
    TRELLIS,
)
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GAUSSIAN = "gaussian"
GOALS = {1.0: 0.75, 2.0: 0.75, 3.0: 0.85, 4.0: 0.85}  # of the errors before phase tables
_SHOWN = ("gaussian", "resnet-step0040", "alexnet-step0040", "gpt-step0040")
_STYLES = {
    EDEN: ("D", figures.PINK, "EDEN"),
    FP8: ("v", figures.GREEN, "fp8 (E4M3 in blocks)"),
    SCALAR: ("s", figures.ORANGE, "scalar: sparse-dithering, subtractive"),
    TRELLIS: ("o", figures.BLUE, "trellis, subtractive"),
    NEAREST_TRELLIS: ("^", figures.BROWN, "trellis, nearest (biased)"),
}


def errors(rows: Sequence[Item]) -> dict[tuple[str, str, float], float]:
    """Relative squared errors by vector, operator and bits."""
    return {
        (row["vector"], row["operator"], row["bits"]): row["relative_squared_error"] for row in rows
    }


def least(bits: float) -> float:
    """The least error of an unbiased operator on Gaussian vectors."""
    return float(1 / (4**bits - 1))


def equal_table(rows: Sequence[Item]) -> ShownTable:
    """Errors by vector and bits; lost where EDEN's is smaller than that of the unbiased trellis."""
    found = errors(rows)
    lost: set[int] = set()
    cells: list[list[str]] = []
    for vector in dict.fromkeys(row["vector"] for row in rows):
        for bits in EQUAL_RATES:
            own = [
                found.get((vector, name, bits)) for name in (EDEN, SCALAR, TRELLIS, NEAREST_TRELLIS)
            ]
            eden, _, trellis, _ = own
            if eden is None or trellis is None:
                continue
            if trellis >= eden:
                lost.add(len(cells))
            bound = f"{least(bits):.3g}" if vector == GAUSSIAN else ""
            texts = ["" if one is None else f"{one:.3g}" for one in own]
            cells.append([vector, f"{bits:g}", bound, *texts, f"{eden / trellis:.2f}"])
    titles = ["vector", "bits", "bound, unbiased", "EDEN", "scalar", "trellis", "trellis, nearest",
              "times less than EDEN"]  # fmt: skip
    return ShownTable(
        titles, cells, lost=frozenset(lost),
        note="Marked: EDEN has a smaller error than the trellis without bias. The nearest trellis "
        "is biased; it was measured with nu below 1 only, so at few bits its cell is empty.",
    )  # fmt: skip


def before_table(rows: Sequence[Item]) -> ShownTable:
    """Errors beside those of the scalar quantiser before it had phase tables."""
    found = errors(rows)
    lost: set[int] = set()
    cells: list[list[str]] = []
    for row in results("trellis-bits-before")["runs"]:
        own = found.get((row["vector"], TRELLIS, row["bits"]))
        if own is None or row["vector"] == GAUSSIAN:
            continue
        before, goal = row["relative_squared_error"], GOALS[row["bits"]]
        if own > goal * before:
            lost.add(len(cells))
        cells.append([row["vector"], f"{row['bits']:g}", f"{before:.3g}", f"{own:.3g}",
                      f"{own / before:.2f}", f"{goal}"])  # fmt: skip
    titles = ["vector", "bits", "before phase tables", "trellis", "ratio", "goal"]
    return ShownTable(
        titles, cells, lost=frozenset(lost),
        note="Before: codes of sparse-dithering:rounding=subtractive with one table a block. "
        "Marked: above the goal.",
    )  # fmt: skip


def above_bound(row: Item) -> float:
    """Bits of a biased operator beyond those that its error needs on Gaussian values."""
    return float(row["bits_per_value"] + math.log2(row["relative_squared_error"]) / 2)


def states_table(rows: Sequence[Item]) -> ShownTable:
    """Bits above the bound by states; lost where above the goal."""
    cells: list[list[str]] = []
    lost: set[int] = set()
    for bits in STATE_RATES:
        own = {row["operator"]: above_bound(row) for row in rows
               if row["bits"] == bits and row["operator"] in STATE_FORMS}  # fmt: skip
        if own:
            if any(own[name] > most for name, most in most_above(bits).items()):
                lost.add(len(cells))
            cells.append([f"{bits:g}", *(f"{own[name]:.3f}" for name in STATE_FORMS)])
    return ShownTable(
        ["bits", *STATE_FORMS], cells, lost=frozenset(lost),
        note="Bits of whole frames above ½ log₂(1/error): a million Gaussian values, nearest, "
        "scale=least-squares. Marked: more than 0.10 with 8 states (0.115 at half a bit and at "
        "six), or more than 0.09 with 16 at one to four bits.",
    )  # fmt: skip


_SPEED_GOALS = {"encode": 0.18, "decode": 0.27}  # times memcpy


def speed_table() -> ShownTable:
    """Speeds; lost where the trellis is slower than its goal."""
    found = results("trellis-bits-speed")
    cells: list[list[str]] = []
    lost: set[int] = set()
    for row in found["runs"]:
        slow = any(row[way] < goal for way, goal in _SPEED_GOALS.items())
        if slow and row["operator"].startswith("trellis"):
            lost.add(len(cells))
        cells.append([row["operator"], *(f"{row[way]:.3f} ({row[f'{way}_gigabytes']:.1f} GB/s)"
                                         for way in _SPEED_GOALS)])  # fmt: skip
    return ShownTable(
        ["operator", "encode, × memcpy", "decode, × memcpy"], cells, lost=frozenset(lost),
        note=f"Processor time of whole calls on {found['d']:,} Gaussian values, one thread, "
        f"{found['simd']}, {found['rounds']} rounds, {found['cpu']}; memcpy ran at "
        f"{found['memcpy_gigabytes']:.1f} GB/s. {found['load']:.0f} other processes wanted its "
        "cores meanwhile. Marked: a trellis below 0.18 or 0.27.",
    )  # fmt: skip


def most_above(bits: float) -> dict[str, float]:
    """The goals of so many bits."""
    if bits in (0.5, 6.0):
        return {"8 states": 0.115}
    return {"8 states": 0.10, "16 states": 0.09} if bits <= 4 else {}


def findings(document: RecordDocument) -> list[str]:
    """How far ahead of EDEN, and where not."""
    found = errors(document["runs"])
    gains = {
        (vector, bits): eden / found[vector, TRELLIS, bits]
        for (vector, name, bits), eden in found.items()
        if name == EDEN and (vector, TRELLIS, bits) in found
    }
    behind = [key for key, own in gains.items() if own <= 1]
    smallest = min(own for own in gains.values() if own > 1)
    said = [(f"Without bias, the trellis has less error than EDEN in {len(gains) - len(behind)} of "
            f"{len(gains)} cases, by factors from {smallest:.2f} to "
            f"{max(gains.values()):.1f}.")]  # fmt: skip
    if behind:
        scalar = [
            found[vector, EDEN, bits] / found[vector, SCALAR, bits] for vector, bits in behind
        ]
        cases = ", ".join(f"{vector} at {bits:g} bits" for vector, bits in behind)
        said.append(
            f"EDEN is ahead on {cases}. The scalar quantiser has {span(scalar, 2)} times less "
            "error than EDEN there."
        )
    wide = [key for key in gains if found[key[0], SCALAR, key[1]] < found[key[0], TRELLIS, key[1]]]
    if wide:
        fewest = min(bits for _, bits in wide)
        said.append(
            f"The scalar quantiser has less error than the trellis in {len(wide)} cases, all from "
            f"{fewest:g} bits on and on long gradients, whose levels on a trellis would need more "
            "than 16 bits: take blocks of them."
        )
    before = before_table(document["runs"])
    met = len(before.rows) - len(before.lost)
    said.append(
        f"In {met} of {len(before.rows)} cases on recorded gradients the error is at most 0.75 "
        "times that of the scalar quantiser before it had phase tables, 0.85 times at 3 and 4 bits."
    )
    return said


def draw(document: RecordDocument) -> "Figure":
    """The error over the bound of Gaussian vectors: that vector and the last step of each model.

    Errors span five decades, in which a factor of two is not seen.
    """
    rows = document["runs"]
    known = [name for name in _SHOWN if any(row["vector"] == name for row in rows)]
    drawn, plots = figures.panels(
        "Error at equal bits, as a multiple of the least that is possible for Gaussian values",
        len(known),
        width=3.2 * len(known) + 1,
        height=4.4,
    )
    for plot, name in zip(plots, known, strict=True):
        _panel(plot, [row for row in rows if row["vector"] == name])
        plot.set_title(name, fontsize=10)
        plot.set_xlabel("bits a value, whole frames")
    plots[0].set_ylabel("relative squared error × $(4^b - 1)$")
    drawn.legend(*plots[0].get_legend_handles_labels(), loc="outside lower left", ncols=3)
    return drawn


def _panel(plot: "Axes", rows: Sequence[Item]) -> None:
    label = "bound of unbiased operators on Gaussian vectors"
    plot.axhline(1, color=figures.GREY, lw=1.5, label=label)
    for operator, (marker, colour, name) in _STYLES.items():
        own = [row for row in rows if row["operator"] == operator]
        plot.plot([row["bits_per_value"] for row in own],
                  [row["relative_squared_error"] / least(row["bits_per_value"]) for row in own],
                  marker=marker, ms=4, lw=1.2, color=colour, label=name)  # fmt: skip
    plot.set(yscale="log", ylim=(0.1, 200), xlim=(0, 8.4))


TRELLIS_BITS = Recorded(
    name="trellis-bits",
    result="trellis-bits",
    title="The trellis, the scalar quantiser, EDEN and fp8 at equal bits",
    about="For each number of bits the smallest error whose whole frames are not longer, on a "
    "million Gaussian values and on recorded gradients. EDEN and fp8 are built here from their "
    "published formulas and measured on whole messages.",
    command="python -m fewbits_lab.studies.trellis_bits.run GRADIENTS-DIR",
    tables=lambda document: [
        equal_table(document["runs"]),
        before_table(document["runs"]),
        states_table(document["runs"]),
        speed_table(),
    ],
    draw=draw,
    findings=findings,
)
