"""docs/reproduce.md: a command for each table and figure of both papers, and what to expect."""

from typing import Any, NamedTuple

from fewbits_lab import record, store
from fewbits_lab.experiment import Claim
from fewbits_lab.index import EXPERIMENTS, RECORDED
from fewbits_lab.printed import Comparison, departures
from fewbits_lab.prose import table
from fewbits_lab.results import paths, results
from fewbits_lab.training import plan

_BRIEF = 6  # seconds: a tenth of a minute


class _Item(NamedTuple):
    """Tables or figures of a paper, the study that makes them, and what the command needs."""

    where: str
    study: str | None
    needs: str = ""


_NATURAL = (
    _Item("Theorems 3, 5, 7, 8, 9, 15, Lemma 13, Table 1, on bytes", "theorems"),
    _Item("Table 1", "nc-table1"),
    _Item("Table 5", "nc-table5"),
    _Item("Table 7", "nc-table7"),
    _Item("Table 8", "nc-table8"),
    _Item("Figure 3", "nc-figure3"),
    _Item("Figures 16 to 18", "nc-figures16-18"),
    _Item("Theorem 8, with entropy coding", "dithering-bits"),
    _Item("Figure 21", "nc-figure21"),
    _Item("MNIST, all of it, 2 epochs", "nc-long-mnist", "`mnist`"),
    _Item("MNIST, short, more operators", "nc-training-mnist", "`mnist`"),
    _Item("ResNet on CIFAR-10, 2,000 steps", "nc-long-resnet20", "`cifar10`"),
    _Item("ResNet on CIFAR-10, short", "nc-training-resnet20", "`cifar10`"),
    _Item("AlexNet on CIFAR-10, 2,000 steps", "nc-long-alexnet", "`cifar10`"),
    _Item("AlexNet on CIFAR-10, short", "nc-training-alexnet", "`cifar10`"),
    _Item("a language model, not in the paper, 1,900 steps", "nc-long-gpt", "`tinyshakespeare`"),
    _Item("a language model, not in the paper, short", "nc-training-gpt", "`tinyshakespeare`"),
    _Item("time saved, 26 % and 66 %", "time-saved"),
    _Item("steps of ResNet-110 and AlexNet", "nc-step-time", "root for the measured rows"),
    _Item("Figure 8, an aggregator's speed", "switch-speed"),
    _Item("Figure 9, bytes of a worker", "switch-links", "root"),
    _Item("Figure 6, ImageNet; NCF on MovieLens; DenseNet; VGG-11; ResNet-18; OmniReduce", None),
)
_OPTIMAL = (
    _Item("bounds and 9.9 times less, on bytes", "theorems"),
    _Item("table of lower bounds", "oc-lower-bounds"),
    _Item("table of upper bounds", "oc-upper-bounds"),
    _Item("spherical compression", "oc-spherical"),
    _Item("spherical compression in blocks", "oc-blocks"),
    _Item("spherical compression, several vectors in a frame", "oc-vectors"),
    _Item("uncertainty principle, every operator", "uncertainty"),
    _Item("both figures, bits as the paper counts", "oc-convergence"),
    _Item("both figures, whole frames", "oc-regressions"),
    _Item("sweeps of ν and ω", "oc-sweep"),
    _Item("both figures on Body-Fat and the older Breast-Cancer", None),
)


def natural_table() -> str:
    """The paper on natural compression."""
    return _table(_NATURAL)


def optimal_table() -> str:
    """The paper on optimal compression."""
    return _table(_OPTIMAL)


def _table(items: tuple[_Item, ...]) -> str:
    cells = [[item.where, *_cells(item)] for item in items]
    return table("what|command|minutes|needs|expected", cells)


def _cells(item: _Item) -> list[str]:
    if item.study is None:
        return ["not run", "–", "other data or machines", "–"]
    if item.study not in paths():
        return [
            f"`fewbits-lab run {item.study} --out DIR`",
            "not run",
            item.needs,
            "hours of two cores",
        ]
    command, claims, compared = _study(item.study)
    document = results(item.study)
    said = [compared, _decided(claims)]
    return [
        f"`{command}`",
        _minutes(document),
        item.needs or "–",
        "; ".join(filter(None, said)) or "–",
    ]


def _minutes(document: Any) -> str:
    """Of the recorded run; of trainings that do not say how long they took, the processor's."""
    made = document.get("made", {}) if isinstance(document, dict) else {}
    if (seconds := made.get("seconds")) is not None:
        return f"{seconds / 60:.1f}" if seconds >= _BRIEF else "below 0.1"
    rows = document.get("rows", []) if isinstance(document, dict) else []
    trained = [row for row in rows if row.get("epoch") and row.get("codec_seconds") is not None]
    ends = {(row["operator"], row["seed"]): row for row in trained}
    spent = sum(row["compute_seconds"] + row["codec_seconds"] for row in ends.values())
    return f"{plan.RANKS * spent / 60:.0f} of one core" if spent else "not recorded"


def _study(name: str) -> tuple[str, list[Claim], str]:
    """The command, the claims that it decides, and how many printed values reproduce."""
    for own in EXPERIMENTS:
        if own.name == name:
            found = store.read(own, paths()[name])
            assert found is not None
            rows = [row for row in found.rows if isinstance(row, Comparison) and row.printed]
            agreed = len(rows) - len(departures(rows))
            said = f"{agreed} of {len(rows)} printed values" if rows else ""
            return f"fewbits-lab run {name} --out DIR", own.claims(found.rows), said
    (recorded,) = (own for own in RECORDED if own.name == name)
    document = record.read(paths()[name])
    assert document is not None
    return recorded.command, recorded.claims(document), ""


def _decided(claims: list[Claim]) -> str:
    """How many claims agree, and which do not."""
    if not claims:
        return ""
    tried = [claim for claim in claims if claim.agrees is not None]
    said = f"{sum(bool(claim.agrees) for claim in tried)} of {len(tried)} claims agree"
    open_ones = len(claims) - len(tried)
    return said + (f", {open_ones} not decided or not run" if open_ones else "")
