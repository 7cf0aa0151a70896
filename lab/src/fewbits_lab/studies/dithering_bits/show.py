"""Shows `dithering-bits`: figure, findings and claims."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from fewbits_lab import figures
from fewbits_lab.experiment import Claim, Experiment
from fewbits_lab.studies.dithering_bits.run import DitheringBitsRow, rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SAME = 0.01  # a share: variances that differ less are called equal
_KINDS = (("natural-dithering", figures.BLUE, "o"), ("standard-dithering", figures.ORANGE, "s"))


class Parting(NamedTuple):
    """The two operators with the most levels whose variances are equal, with p = 2."""

    natural: DitheringBitsRow
    standard: DitheringBitsRow


def parting(table: Sequence[DitheringBitsRow]) -> Parting:
    """Natural dithering at its best against standard dithering of the same variance."""
    own = {(row.operator, row.s): row for row in table if row.p == "2"}
    pairs = [
        Parting(own["natural-dithering", s], own["standard-dithering", s])
        for s in sorted({s for _, s in own})
    ]
    equal = [pair for pair in pairs if pair.natural.error <= (1 + _SAME) * pair.standard.error]
    return equal[-1]


def draw(table: Sequence[DitheringBitsRow]) -> "Figure":
    """Bits against variance: a fixed width on the left, entropy coded on the right."""
    drawn, plots = figures.panels(
        "Dithering at p = 2: exponentially better in a fixed width, equal when entropy coded", 2,
        width=11, height=4.6,
    )  # fmt: skip
    mine = [row for row in table if row.p == "2"]
    for plot, coder in zip(plots, ("packed", "rans"), strict=True):
        for kind, colour, marker in _KINDS:
            own = [row for row in mine if row.operator == kind]
            natural = kind == "natural-dithering"
            plot.plot(
                [getattr(row, coder) for row in own], [row.error for row in own], color=colour,
                marker=marker, ms=8 if natural else 5, mfc="none" if natural else colour,
                label="natural, s levels" if natural else "standard, 2^(s−1) levels",
            )  # fmt: skip
        plot.set_yscale("log")
        plot.set_title("fixed width (packed)" if coder == "packed" else "entropy coded (rANS)")
        plot.set_xlabel("bits a value, whole frames")
        plot.set_xlim(0, 14.5)
    plots[0].set_ylabel("variance |C(x) − x|² / |x|² (log scale)")
    drawn.legend(*plots[0].get_legend_handles_labels(), loc="outside lower left", ncols=2)
    return drawn


def findings(table: Sequence[DitheringBitsRow]) -> list[str]:
    """What is exponential, and what is not."""
    natural, standard = parting(table)
    text = (
        f"At the same variance of {natural.error:.3g}, natural dithering has {natural.levels} "
        f"levels and standard dithering {standard.levels}. In a fixed width that is "
        f"{natural.packed:.0f} bits a value against {standard.packed:.0f}. Entropy coded it is "
        f"{natural.rans:.2f} against {standard.rans:.2f}: the levels that natural dithering leaves "
        "out are hardly used, and a coder does not pay for them."
    )
    return [text]


def claims(table: Sequence[DitheringBitsRow]) -> list[Claim]:
    """Exponentially better, with its caveat."""
    natural, standard = parting(table)
    agrees = natural.packed < standard.packed
    return [
        Claim(
            "natural", "Theorem 8", "natural dithering needs exponentially fewer levels than "
            "standard dithering", "s levels for 2^(s−1)",
            f"{natural.levels} for {standard.levels} at equal variance: {natural.packed:.1f} "
            f"against {standard.packed:.1f} bits a value packed, {natural.rans:.2f} against "
            f"{standard.rans:.2f} entropy coded", agrees,
            "in codes of a fixed width; entropy coded both cost the same",
        )
    ]  # fmt: skip


DITHERING_BITS = Experiment(
    name="dithering-bits",
    title="Natural against standard dithering: fixed width, and entropy coded",
    about="A Gaussian vector of 100,000 values. Natural dithering with s levels has the variance "
    "of standard dithering with 2^(s−1), until the floor of natural compression. Bits are those of "
    "whole frames: packed, every value has the same width; with rANS, each has the length that its "
    "frequency gives.",
    row=DitheringBitsRow,
    compute=rows,
    draw=draw,
    findings=findings,
    claims=claims,
)
