"""Time saved against the share of communication: what was measured on links, and the formula.

If communication takes the share c of a plain step and compression leaves b / 32 of it, a step is
shorter by c (1 - b / 32), where coding costs nothing. The points are those of `links` and
`nc-step-time`: nothing is measured here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.results import results
from fewbits_lab.studies.links import show as links
from fewbits_lab.studies.nc_step_time.run import STEP_MEASURED, STEP_PLAIN

SAVED_PACKED, SAVED_CODED = "natural", "natural:coder=rans"
_OPERATORS = (SAVED_PACKED, SAVED_CODED)
_PACKED_BITS = 9.0
# By model: the paper's saving in per cent. A switch sends 8 bits where a ring of 8 workers sends
# 2 · 7/8 · 32 = 56.
HEADLINE_SAVINGS = {"ResNet-110": 26.0, "AlexNet": 66.0}
PACKED_LEAVES, SWITCH_LEAVES = _PACKED_BITS / 32, 8 / 56


@dataclass(frozen=True, slots=True)
class TimeSavedRow:
    """One operator on one link: shares of the plain step, in per cent, and what the formula has."""

    model: str
    link: str
    ranks: int
    operator: str
    communication: float
    saved: float
    formula: float


def rows(_: StudySettings, tick: Tick) -> list[TimeSavedRow]:
    """All recorded links, slowest first, then the two models of the paper."""
    found = [*_of_links(), *_of_models()]
    tick(1.0)
    return found


def _of_links() -> Iterator[TimeSavedRow]:
    for own in links.settings(results("links")):
        plain, compute = links.median(own, STEP_PLAIN), own["compute_seconds"]
        codecs = own["inputs"]["codecs"]
        for operator in _OPERATORS:
            step, bits = links.median(own, operator), codecs[operator]["bits_per_value"]
            yield _row("10 M parameters", links.link(own), own["ranks"], operator,
                       (plain, compute, step), bits)  # fmt: skip


def _of_models() -> Iterator[TimeSavedRow]:
    kept = [row for row in results("nc-step-time")["rows"] if row["kind"] == STEP_MEASURED]
    bits = {SAVED_PACKED: _PACKED_BITS, SAVED_CODED: None}
    for model in HEADLINE_SAVINGS:
        own: dict[str, Any] = {row["operator"]: row for row in kept if row["model"] == model}
        for operator in _OPERATORS:
            row = own[operator]
            times = own[STEP_PLAIN]["step_seconds"], row["compute_seconds"], row["step_seconds"]
            sent = bits[operator] or 32 * row["sent_bytes"] / own[STEP_PLAIN]["sent_bytes"]
            link = f"{row['gbit_per_second']:g} Gbit/s, {row['workers']} ranks"
            yield _row(model, link, row["workers"], operator, times, sent)


def _row(
    model: str, link: str, ranks: int, operator: str, times: tuple[float, float, float], bits: float
) -> TimeSavedRow:
    plain, compute, step = times
    share = 1 - compute / plain
    return TimeSavedRow(
        model=model,
        link=link,
        ranks=ranks,
        operator=operator,
        communication=round(100 * share, 2),
        saved=round(100 * (1 - step / plain), 2),
        formula=round(100 * share * (1 - bits / 32), 2),
    )
