"""The papers' headline claims beside what came out here, in one table."""

from collections.abc import Sequence

from fewbits_lab.experiment import Claim
from fewbits_lab.page.exhibits import Exhibit
from fewbits_lab.tables import ShownTable

PAPERS = {"natural": "Natural compression", "optimal": "Optimal compression"}
_NOT_RUN, _NOT_DECIDED = "not run", "not decided"


def table(shown: Sequence[Exhibit]) -> ShownTable:
    """A row for each claim, paper by paper; marked are those that do not hold here."""
    found = [(claim, own.name) for own in shown for claim in own.claims]
    found.sort(key=lambda each: each[0].paper)
    lost = frozenset(number for number, (claim, _) in enumerate(found) if claim.agrees is False)
    rows = [
        [
            f"{PAPERS.get(claim.paper, claim.paper)}, {claim.where}", claim.claim, claim.claimed,
            "—" if claim.ours == _NOT_RUN else claim.ours, verdict(claim), f"[{name}](#{name})",
        ]
        for claim, name in found
    ]  # fmt: skip
    titles = ("paper", "claim", "claimed", "ours", "verdict", "from")
    return ShownTable(titles, rows, lost=lost, wordy=True)


def held(shown: Sequence[Exhibit]) -> list[tuple[str, int, int]]:
    """Of each paper how many claims hold, of how many that were tried."""
    found: dict[str, list[bool]] = {}
    for claim in (claim for own in shown for claim in own.claims):
        if claim.agrees is not None and not claim.by_formula:
            found.setdefault(PAPERS.get(claim.paper, claim.paper), []).append(claim.agrees)
    return [(paper, sum(own), len(own)) for paper, own in found.items()]


def left(shown: Sequence[Exhibit]) -> dict[str, int]:
    """How many claims have no answer, by what is missing."""
    found = [_open(claim) for own in shown for claim in own.claims if claim.agrees is None]
    return {
        "need more seeds": found.count(_NOT_DECIDED),
        "were not run": found.count(_NOT_RUN),
    }


def _open(claim: Claim) -> str:
    return _NOT_RUN if _NOT_RUN in (claim.ours[:7], claim.why[:7]) else _NOT_DECIDED


def verdict(claim: Claim) -> str:
    """Whether it holds, and why not."""
    if claim.agrees is None:
        word = f"**{_open(claim)}**"
    else:
        word = "agrees" if claim.agrees else "**does not agree**"
        word += ", by formula" if claim.by_formula else ""
    why = claim.why.removeprefix(_NOT_RUN).removeprefix(": ")
    return f"{word}: {why}" if why else word
