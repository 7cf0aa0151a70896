"""Bytes of a real Flower federation, counted by proxies between SuperLink and SuperNodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from fewbits.bench.flower.measure import Measured, measure
from fewbits.lab import figures
from fewbits.lab.experiment import Experiment, Settings, Tick
from fewbits.train.extras import check_installed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OPERATORS = ("none", "natural", "natural:coder=rans")
SIDE, ROUNDS = 1000, 4
QUICK_SIDE, QUICK_ROUNDS = 500, 2


@dataclass(frozen=True, slots=True)
class Row:
    """TCP bytes of one node in one round; `in_step`: it received what the server thinks."""

    operator: str
    values: int
    round: int
    node: int
    up: int
    down: int
    in_step: bool


def rows(settings: Settings, tick: Tick) -> list[Row]:
    """A run for each operator."""
    check_installed("flwr", "flower")
    side = QUICK_SIDE if settings.quick else SIDE
    rounds = QUICK_ROUNDS if settings.quick else ROUNDS
    found: list[Row] = []
    for part, operator in enumerate(OPERATORS, 1):
        (run,) = measure([operator], rounds=rounds, side=side)
        found += _rows(run, side * side)
        tick(part / len(OPERATORS))
    return found


def _rows(run: Measured, values: int) -> list[Row]:
    return [
        Row(one.operator, values, one.round, one.node, one.up, one.down, run.in_step)
        for one in run.rounds
    ]


def mean(table: Sequence[Row], operator: str, way: str, turn: int) -> float:
    """Bytes of a node in a round, the mean of the nodes."""
    return fmean(
        getattr(row, way) for row in table if (row.operator, row.round) == (operator, turn)
    )


def findings(table: Sequence[Row]) -> list[str]:
    """How many times fewer bytes from round 2 on."""
    last = max(row.round for row in table)
    said = []
    for operator in OPERATORS[1:]:
        times = {
            way: min(
                mean(table, OPERATORS[0], way, turn) / mean(table, operator, way, turn)
                for turn in range(2, last + 1)
            )
            for way in ("up", "down")
        }
        said.append(
            f"{operator}: from round 2 on at least {times['up']:.2f} times fewer bytes up and "
            f"{times['down']:.2f} times fewer down, protocol and polling included."
        )
    agree = all(row.in_step for row in table)
    said.append(
        "Every client received, bit for bit, the model that the server has on record."
        if agree
        else "Some client received another model than the server has on record."
    )
    return said


def draw(table: Sequence[Row]) -> "Figure":
    """Bytes by round, up and down."""
    drawn, plots = figures.panels(
        f"TCP bytes of a node and round, {table[0].values:,} float32 weights", 2, width=11, height=4
    )
    turns = sorted({row.round for row in table})
    width = 0.8 / len(OPERATORS)
    colours = (figures.GREY, figures.BLUE, figures.ORANGE)
    for plot, way in zip(plots, ("up", "down"), strict=True):
        for place, (operator, colour) in enumerate(zip(OPERATORS, colours, strict=True)):
            heights = [mean(table, operator, way, turn) / 1e6 for turn in turns]
            at = [turn + (place - 1) * width for turn in turns]
            plot.bar(at, heights, width=0.9 * width, color=colour, label=operator)
        plot.set_title("to the server" if way == "up" else "to the client")
        plot.set_xlabel("round")
        plot.set_xticks(turns)
        plot.set_ylabel("MB")
    drawn.legend(*plots[1].get_legend_handles_labels(), loc="outside lower left", ncols=3)
    return drawn


EXPERIMENT = Experiment(
    name="flower",
    title="A Flower federation on the wire",
    about="A SuperLink and two SuperNodes on this machine, FedAvg, clients that change every "
    "weight at random. Bytes are counted by a TCP proxy before each SuperNode, between the "
    "beginnings of rounds: protocol, polling and all. The first broadcast is exact. Polling makes "
    "runs differ by some kilobytes.",
    row=Row,
    compute=rows,
    draw=draw,
    findings=findings,
)
