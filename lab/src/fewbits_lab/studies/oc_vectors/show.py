"""Shows `oc-vectors`: figure, findings and claims."""

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.experiment import Claim, Experiment
from fewbits_lab.studies.oc_vectors.run import OF_DESCENT, OF_SIZES, OcVectorsRow, rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FIGURE = {10: 13.43 / 2.41}  # the paper's kB of plain descent over those of spherical, by d
_WITHIN = 0.9  # of the claimed saving


def groups(
    table: Sequence[OcVectorsRow], what: str
) -> dict[tuple[str, int, int], list[OcVectorsRow]]:
    """The rows of all seeds, by data, d and the number of vectors in a frame."""
    found: dict[tuple[str, int, int], list[OcVectorsRow]] = {}
    for row in table:
        if row.what == what:
            found.setdefault((row.data, row.d, row.vectors), []).append(row)
    return found


def less(own: Sequence[OcVectorsRow]) -> str:
    """How many times fewer bits in whole frames, with the range over seeds."""
    values = [row.times_less for row in own]
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    span = "" if low == high else f" ({low} to {high})"
    return f"{fmean(values):.1f}{span}"


def findings(table: Sequence[OcVectorsRow]) -> list[str]:
    """What a vector costs alone and among others; what that makes of a descent."""
    found = []
    sizes = groups(table, OF_SIZES)
    for d in dict.fromkeys(d for _, d, _ in sizes):
        here = {count: rows for (_, at, count), rows in sizes.items() if at == d}
        each = [f"{fmean(row.bits for row in rows):.0f} with {n:,}" for n, rows in here.items()]
        first = here[1][0]
        found.append(
            f"d = {d}, `{first.spec}`: bits of a vector in whole frames, by the number of vectors "
            f"in a frame: {', '.join(each)}; as the paper counts {first.paper_bits:.0f}, float32 "
            f"{32 * d}."
        )
    descents = groups(table, OF_DESCENT)
    for data in dict.fromkeys(data for data, _, _ in descents):
        (many, alone) = [(key, own) for key, own in descents.items() if key[0] == data]
        (_, d, count), own = many
        found.append(
            f"Ridge regression of {count} targets on {data}, {len(own)} seeds: "
            f"{fmean(row.steps or 0 for row in own):.0f} steps for {own[0].plain_steps} of plain "
            f"descent, and {less(own)} times fewer bits in whole frames with the {count} vectors "
            f"of a step in one frame, {less(alone[1])} times with a frame for each; as the paper "
            f"counts {fmean(row.times_less_paper for row in own):.1f} times."
        )
    return found


def claims(table: Sequence[OcVectorsRow]) -> list[Claim]:
    """What the paper's figure saves at a small dimension, in whole frames."""
    found = []
    for (data, d, count), own in groups(table, OF_DESCENT).items():
        if count > 1 and d in _FIGURE:
            ours, claimed = fmean(row.times_less for row in own), _FIGURE[d]
            agrees = ours >= _WITHIN * claimed
            found.append(
                Claim(
                    "optimal", "figures, in whole frames", f"spherical: bytes to 10⁻⁴ at d = {d}",
                    f"{claimed:.1f} times fewer",
                    f"{less(own)} times fewer with {count} vectors in a frame, {data}, "
                    f"{len(own)} seeds", agrees, "" if agrees else "the header and the key weigh",
                )
            )  # fmt: skip
    return found


def draw(table: Sequence[OcVectorsRow]) -> "Figure":
    """Bits of a vector against the number of vectors in a frame."""
    drawn, (plot,) = figures.panels("Spherical compression: several small vectors in one frame",
                                    height=4.6)  # fmt: skip
    sizes = groups(table, OF_SIZES)
    for at, d in enumerate(dict.fromkeys(d for _, d, _ in sizes)):
        own = {count: rows for (_, one, count), rows in sizes.items() if one == d}
        bits = [fmean(row.bits for row in rows) for rows in own.values()]
        colour, (first, *_) = figures.COLOURS[at], own[1]
        plot.plot(list(own), bits, color=colour, marker=figures.MARKERS[at], ms=5,
                  label=f"d = {d}, {first.spec.partition(',')[0].partition(':')[2]}")  # fmt: skip
        plot.axhline(first.paper_bits, color=colour, ls=":", lw=1)
    plot.set_xscale("log", base=2)
    plot.set_yscale("log", base=2)
    plot.set_xlabel("vectors in a frame (log scale)")
    plot.set_ylabel("bits of a vector, whole frames (log scale)")
    plot.set_title("dotted: as the paper counts, a norm of 31 bits and a Rice code", fontsize=10)
    drawn.legend(*plot.get_legend_handles_labels(), loc="outside lower left", ncols=4, fontsize=9)
    return drawn


OC_VECTORS = Experiment(
    name="oc-vectors",
    title="Optimal compression, several small vectors in one spherical frame",
    about="A matrix of m rows compressed with `block=d` is m vectors of d values: each has its own "
    "radius and direction, and the header, the checksum and the key of 128 bits are paid once. "
    "First the bits of a vector for Gaussian ones, then gradient descent on ridge regressions with "
    "several targets, a vector of weights for each, until the squared distance from the solution "
    "is 10⁻⁴ of the first: scikit-learn's breast cancer data, where 10 means predict the 20 other "
    "features, and its digits, where the 30 pixels that vary most predict the class. λ makes plain "
    "descent take about 336 steps, as in the paper's figure for d = 10. Less is against float32 in "
    "frames of as many vectors.",
    row=OcVectorsRow,
    compute=rows,
    draw=draw,
    findings=findings,
    claims=claims,
)
