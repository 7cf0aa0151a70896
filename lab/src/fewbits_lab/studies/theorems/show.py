"""Shows `theorems`: figure, findings and claims."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.experiment import Claim, Experiment
from fewbits_lab.studies.theorems.levels import EQUAL
from fewbits_lab.studies.theorems.rows import TheoremRow
from fewbits_lab.studies.theorems.run import rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FAILS = "does not hold"
_COLOURS = {"equals": figures.GREEN, "at most": figures.BLUE, "at least": figures.BROWN}

_WANTED = {"equals": "1", "at most": "at most 1", "at least": "at least 1"}
_CLAIMED = {
    "Theorem 3": ("natural compression is unbiased with variance 1/8", "ω = 1/8"),
    "Theorem 15": ("the variance of random sparsification", "ω = d/q − 1"),
    "Theorem 5": ("the variance of a composition", "(1 + ω₁)(1 + ω₂) − 1"),
    "Theorem 5, eq. 18": ("the same, a tenth of the values kept", "ω = 9d/8q − 1"),
    "Theorem 7": ("the variance of natural dithering", "ω ≤ 1/8 + z·min(1, z)"),
    "Theorem 8": ("natural levels against exponentially many standard ones", "9/8 of 1 + ω"),
    EQUAL: ("their variances, which part at the floor of C_nat", "about equal"),
    "Lemma 13": ("the second moment of the direction", "α + β |∇f|²"),
    "Theorem 9": ("steps of Algorithm 1, five pairs of operators", "2L(f(x⁰) − f*)(α + εβ)/ε²"),
    "Table 1": ("total communication with real bytes", "0.6 to 16.0 times less"),
    "uncertainty principle": ("no operator beats the lower bound", "α·4^(b/d) ≥ 1"),
    "Section 3, bits of SD": ("bits of sparse dithering at its worst", "30 + log d + 3.35 d"),
    "Section 3, C(ν), surely": ("the error of biased sparse dithering", "α = ν"),
    "Section 3, U(ω)": ("the variance of unbiased sparse dithering", "ω = ν"),
    "Section 3, mean bits of SD": ("its mean bits", "30 + log d + (log 3 + 1/(2√ω)) d"),
    "Section 4, SC": ("bits of spherical compression over the least", "less than 3"),
    "Section 4, C(α)": ("its error in every block", "α, surely"),
    "Section 4, norm": ("bits of a block's norm", "31"),
    "U(ω) to B(α)": ("an unbiased operator, scaled, is contractive", "α = ω/(1 + ω)"),
    "9.9 times less": ("total communication of unbiased sparse dithering", "9.9 times less"),
}


def groups(table: Sequence[TheoremRow]) -> dict[tuple[str, str], list[TheoremRow]]:
    """The rows of each theorem, by paper and place."""
    found: dict[tuple[str, str], list[TheoremRow]] = {}
    for row in table:
        found.setdefault((row.paper, row.where), []).append(row)
    return found


def ratio(row: TheoremRow) -> float:
    """What was measured as a share of what the formula gives; 1 where both are 0."""
    return row.measured / row.formula if row.formula else 1.0 + row.measured


def draw(table: Sequence[TheoremRow]) -> "Figure":
    """A line for each theorem: measured over formula, row by row."""
    own = groups(table)
    drawn, (plot,) = figures.panels(
        "The theorems on bytes: measured over formula, every row", width=9.5,
        height=1.8 + 0.36 * len(own),
    )  # fmt: skip
    for at, mine in enumerate(own.values()):
        for row in mine:
            lost = row.verdict == _FAILS
            plot.plot(ratio(row), at, "X" if lost else "o", ms=7, alpha=0.75,
                      color=figures.ORANGE if lost else _COLOURS[row.relation])  # fmt: skip
    plot.axvline(1, color="black", lw=1)
    figures.log_x(plot)
    figures.names(plot, [f"{where} ({paper})" for paper, where in own])
    plot.set_xlabel("measured / formula (log scale)")
    for relation, colour in _COLOURS.items():
        plot.plot([], [], "o", color=colour, label=f"must be {_WANTED[relation]}")
    plot.plot([], [], "X", color=figures.ORANGE, label=_FAILS)
    drawn.legend(*plot.get_legend_handles_labels(), loc="outside lower left", ncols=4, fontsize=9)
    return drawn


def findings(table: Sequence[TheoremRow]) -> list[str]:
    """How many hold, how many are tight, and where natural and standard levels part."""
    tight = [row for row in table if row.verdict == "holds, tight"]
    lost = [row for row in table if row.verdict == _FAILS]
    exact = [row for row in table if row.relation == "equals" and row not in lost]
    limits = [row for row in table if row.relation != "equals"]
    equal = [row for row in table if row.where == EQUAL]
    same = [row for row in equal if abs(row.measured - 1) < 0.01]
    hold = (
        f"{len(table) - len(lost)} of {len(table)} rows hold on measured frames. {len(exact)} of "
        f"them are equalities. Of {len(limits)} bounds {len(tight)} are reached within 3 %: they "
        "cannot be improved."
    )
    parting = (
        "Natural dithering with s levels has the variance of standard dithering with 2^(s−1), on a "
        f"Gaussian vector with p = 2, up to {len(same) + 1} levels. Above, the floor of natural "
        f"compression remains: {equal[-1].measured:.0f} times the variance at {len(equal) + 1} "
        "levels."
    )
    return [hold, parting]


def claims(table: Sequence[TheoremRow]) -> list[Claim]:
    """One for each theorem; Theorem 4 has no operator to measure."""
    found = [_claim(paper, where, mine) for (paper, where), mine in groups(table).items()]
    return [
        *found,
        Claim(
            "natural", "Theorem 4", "rounding to a neighbouring integer is in no B(ω)", "no ω",
            "1/x − 1 at x in (0, 1) has no bound; no operator of fewbits does this", True,
            by_formula=True,
        ),
    ]  # fmt: skip


def _claim(paper: str, where: str, mine: Sequence[TheoremRow]) -> Claim:
    ratios = sorted(map(ratio, mine))
    ends = dict.fromkeys(f"{each:.3g}" for each in (ratios[0], ratios[-1]))
    wanted = {_WANTED[row.relation] for row in mine}
    must = wanted.pop() if len(wanted) == 1 else "as each row says"
    rows = "1 row" if len(mine) == 1 else f"{len(mine)} rows"
    lost = [row for row in mine if row.verdict == _FAILS]
    text, claimed = _CLAIMED[where]
    return Claim(
        paper, where, f"{text}, on frames", claimed,
        f"{' to '.join(ends)} times the formula in {rows} (must: {must})", not lost,
        "; ".join(f"{row.operator}: {row.measured:.4g} against {row.formula:.4g}" for row in lost),
    )  # fmt: skip


THEOREMS = Experiment(
    name="theorems",
    title="The theorems of both papers, on bytes",
    about="Frames are made, decoded and counted, each theorem on the vector where it is tight. "
    "`formula` is what the theorem gives there (for Theorem 7 our sharper form), `measured` what "
    "frames gave, `deviation` its standard error. A row does not hold if it is on the wrong side "
    "by more than 4 standard errors. In Table 1 the formulas are the paper's and the bytes are "
    "ours: a key replaces the places of random values.",
    row=TheoremRow,
    compute=rows,
    draw=draw,
    findings=findings,
    claims=claims,
)
