"""Every claim of both papers has a verdict, and one that is open says what would close it."""

import re
from functools import cache

import pytest

from fewbits_lab import record, store
from fewbits_lab.experiment import Claim
from fewbits_lab.index import EXPERIMENTS, RECORDED
from fewbits_lab.page.claims import verdict
from fewbits_lab.results import paths

# What the papers claim, by where they do: theorems, tables, figures and experiments.
CLAIMED = {
    "natural": (
        "Theorem 3", "Theorem 4", "Theorem 5", "Theorem 7", "Theorem 8", "Theorem 9", "Theorem 15",
        "Lemma 13", "Table 1", "Table 5", "Table 7", "Table 8", "Figures 16 to 18", "Figure 8",
        "Figure 9", "Figure 21", "Section 1", "in-network aggregation", "experiments, ResNet-110",
        "experiments, AlexNet", "experiments, ResNet-20, 44, 56", "experiments, DenseNet40",
        "experiments, VGG11, CIFAR-10", "experiments, ResNet18, CIFAR-10",
        "experiments, ResNet-50, ImageNet", "experiments, nine ImageNet models",
        "experiments, NCF, MovieLens-20M", "experiments, OmniReduce", "ours: CNN, MNIST",
        "ours: ResNet-20, CIFAR-10", "ours: AlexNet-like, CIFAR-10",
    ),
    "optimal": (
        "uncertainty principle", "Section 3, bits of SD", "Section 3, mean bits of SD",
        "Section 3, C(ν), surely", "Section 3, U(ω)", "Section 3, poster", "Section 4, SC",
        "Section 4, C(α)", "Section 4, norm", "Section 4, poster", "U(ω) to B(α)",
        "9.9 times less", "figures, ridge regression", "figures, logistic regression",
        "figures, in whole frames",
    ),
}  # fmt: skip
SEEDS = re.compile(r"some [\d,]+ seeds would decide it")


@cache
def decided() -> tuple[tuple[str, Claim], ...]:
    """The claims that the recorded results decide, and whose they are."""
    found = []
    for own in EXPERIMENTS:
        if own.name in paths() and (result := store.read(own, paths()[own.name])):
            found += [(own.name, claim) for claim in own.claims(result.rows)]
    for view in RECORDED:
        if view.result in paths():
            document = record.read(paths()[view.result])
            found += [(view.name, claim) for claim in view.claims(document)]
    return tuple(found)


@pytest.mark.parametrize(
    ("paper", "where"), [(paper, where) for paper, own in CLAIMED.items() for where in own]
)
def test_every_claim_of_the_papers_is_among_the_results(paper: str, where: str) -> None:
    assert [claim for _, claim in decided() if claim.paper == paper and where in claim.where]


def test_each_has_a_verdict_or_says_what_is_missing() -> None:
    assert len(decided()) > 60
    for name, claim in decided():
        said = verdict(claim)
        if claim.agrees is None and "not run" in said:
            assert len(claim.why.removeprefix("not run: ")) > 15, f"{name}: {claim}: no reason"
        elif claim.agrees is None:
            assert SEEDS.search(said), f"{name}: {claim}: how many seeds?"
        elif not claim.agrees:
            assert claim.why in said
            assert len(claim.why) > 15, f"{name}: {claim}: no reason"
        else:
            assert said.startswith("agrees")


def test_what_is_measured_says_a_number_and_what_is_not_says_formula() -> None:
    for name, claim in decided():
        if claim.agrees is not None:
            assert re.search(r"\d", claim.ours), f"{name}: {claim}: no number"
            assert claim.by_formula == ("formula" in verdict(claim).partition(":")[0]), name


def test_no_claim_is_decided_by_a_formula_alone_where_bytes_can_tell() -> None:
    """Table 1 and the bounds also hold on frames; tables 5, 7 and 8 are arithmetic only."""
    measured = {claim.where for _, claim in decided() if not claim.by_formula}
    for where in ("Table 1", "Section 3, bits of SD", "9.9 times less", "Theorem 9", "Lemma 13"):
        assert where in measured
