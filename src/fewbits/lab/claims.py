"""The papers' headline claims beside what came out here, in one table."""

from collections.abc import Sequence

from fewbits.lab.exhibits import Exhibit
from fewbits.lab.experiment import Claim
from fewbits.lab.tables import Table

PAPERS = {"natural": "Natural compression", "optimal": "Optimal compression"}
NOT_RUN = "not run"


def table(shown: Sequence[Exhibit]) -> Table:
    """A row for each claim, paper by paper; marked are those that do not hold here."""
    found = [(claim, own.name) for own in shown for claim in own.claims]
    found.sort(key=lambda each: each[0].paper)
    lost = frozenset(number for number, (claim, _) in enumerate(found) if claim.agrees is False)
    rows = [
        [
            f"{PAPERS.get(claim.paper, claim.paper)}, {claim.where}", claim.claim, claim.claimed,
            "—" if claim.ours == NOT_RUN else claim.ours, verdict(claim), f"[{name}](#{name})",
        ]
        for claim, name in found
    ]  # fmt: skip
    titles = ("paper", "claim", "claimed", "ours", "verdict", "from")
    return Table(titles, rows, lost=lost, wordy=True)


def tried(shown: Sequence[Exhibit]) -> list[bool]:
    """Of each claim that something here could have refuted, whether it holds."""
    return [
        claim.agrees
        for own in shown
        for claim in own.claims
        if claim.agrees is not None and not claim.by_formula
    ]


def verdict(claim: Claim) -> str:
    """Whether it holds, and why not."""
    if claim.agrees is None:
        said = NOT_RUN if NOT_RUN in (claim.ours[:7], claim.why[:7]) else "not decided"
        word = f"**{said}**"
    else:
        word = "agrees" if claim.agrees else "**does not agree**"
        word += ", by formula" if claim.by_formula else ""
    why = claim.why.removeprefix(NOT_RUN).removeprefix(": ")
    return f"{word}: {why}" if why else word
