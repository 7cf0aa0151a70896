"""Shows `flower`: figure, findings and claims."""

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.experiment import Experiment
from fewbits_lab.studies.flower.run import FLOWER_OPERATORS, FlowerRow, rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def mean(table: Sequence[FlowerRow], operator: str, way: str, turn: int) -> float:
    """Bytes of a node in a round, the mean of the nodes."""
    return fmean(
        getattr(row, way) for row in table if (row.operator, row.round) == (operator, turn)
    )


def findings(table: Sequence[FlowerRow]) -> list[str]:
    """How many times fewer bytes from round 2 on."""
    last = max(row.round for row in table)
    said = []
    for operator in FLOWER_OPERATORS[1:]:
        times = {
            way: min(
                mean(table, FLOWER_OPERATORS[0], way, turn) / mean(table, operator, way, turn)
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


def draw(table: Sequence[FlowerRow]) -> "Figure":
    """Bytes by round, up and down."""
    drawn, plots = figures.panels(
        f"TCP bytes of a node and round, {table[0].values:,} float32 weights", 2, width=11, height=4
    )
    turns = sorted({row.round for row in table})
    width = 0.8 / len(FLOWER_OPERATORS)
    colours = (figures.GREY, figures.BLUE, figures.ORANGE)
    for plot, way in zip(plots, ("up", "down"), strict=True):
        for place, (operator, colour) in enumerate(zip(FLOWER_OPERATORS, colours, strict=True)):
            heights = [mean(table, operator, way, turn) / 1e6 for turn in turns]
            at = [turn + (place - 1) * width for turn in turns]
            plot.bar(at, heights, width=0.9 * width, color=colour, label=operator)
        plot.set_title("to the server" if way == "up" else "to the client")
        plot.set_xlabel("round")
        plot.set_xticks(turns)
        plot.set_ylabel("MB")
    drawn.legend(*plots[1].get_legend_handles_labels(), loc="outside lower left", ncols=3)
    return drawn


FLOWER = Experiment(
    name="flower",
    title="A Flower federation on the wire",
    about="A SuperLink and two SuperNodes on this machine, FedAvg, clients that change every "
    "weight at random. Bytes are counted by a TCP proxy before each SuperNode, between the "
    "beginnings of rounds: protocol, polling and all. The first broadcast is exact. Polling makes "
    "runs differ by some kilobytes.",
    row=FlowerRow,
    compute=rows,
    draw=draw,
    findings=findings,
)
