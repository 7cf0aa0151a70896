"""Bytes of a real Flower federation, counted by proxies between SuperLink and SuperNodes."""

from dataclasses import dataclass

from fewbits.train.extras import check_installed
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.federation.measure import FederationRun, measure

FLOWER_OPERATORS = ("none", "natural", "natural:coder=rans")
_SIDE, _ROUNDS = 1000, 4
QUICK_SIDE, QUICK_ROUNDS = 500, 2


@dataclass(frozen=True, slots=True)
class FlowerRow:
    """TCP bytes of one node in one round; `in_step`: it received what the server thinks."""

    operator: str
    values: int
    round: int
    node: int
    up: int
    down: int
    in_step: bool


def rows(settings: StudySettings, tick: Tick) -> list[FlowerRow]:
    """A run for each operator."""
    check_installed("flwr", "flower")
    side = QUICK_SIDE if settings.quick else _SIDE
    rounds = QUICK_ROUNDS if settings.quick else _ROUNDS
    found: list[FlowerRow] = []
    for part, operator in enumerate(FLOWER_OPERATORS, 1):
        (run,) = measure([operator], rounds=rounds, side=side)
        found += _rows(run, side * side)
        tick(part / len(FLOWER_OPERATORS))
    return found


def _rows(run: FederationRun, values: int) -> list[FlowerRow]:
    return [
        FlowerRow(one.operator, values, one.round, one.node, one.up, one.down, run.in_step)
        for one in run.rounds
    ]
