"""Every method with every operator that suits it, on workers that have little in common."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import fewbits
from fewbits import methods
from fewbits.errors import SpecError
from fewbits.lab import datasets, figures
from fewbits.lab.experiment import Experiment, Settings, Tick
from fewbits.lab.workers import Workers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TARGET, END = 1e-4, 1e-10
WORKERS, BUNDLED_WORKERS = 20, 10
_MOST, _QUICK = 2500, 400  # rounds
_EVERY = 20  # rounds between points of a curve
NATURAL, DITHERING = "natural", "natural-dithering"
SPARSE = "sparse-dithering:nu=0.25,rounding=stochastic"
TOP, RANDOM = "top-k:fraction=0.1|natural", "rand-k:fraction=0.25|natural"
OPERATORS = (NATURAL, DITHERING, SPARSE, RANDOM, TOP)


class Case(NamedTuple):
    """A method, an operator, and the operator of the way back."""

    method: str
    operator: str
    master: str = "identity"

    @property
    def label(self) -> str:
        """The method's name on figures and in tables."""
        if self.operator == "identity":
            return "none"
        return f"{self.method}, both ways" if self.master != "identity" else self.method


@dataclass(frozen=True, slots=True)
class Row:
    """A point of a run: bytes are those of all workers together, in whole frames.

    `up_sections` are the bytes without headers and checksums. `reached` marks the first round with
    an excess of 1e-4 of the start's; `last` the end of the run.
    """

    problem: str
    method: str
    operator: str
    round: int
    excess: float
    up_bytes: int
    up_sections: int
    down_bytes: int
    reached: bool = False
    last: bool = False


def cases() -> list[Case]:
    """What suits: unbiased operators for all but EF14 and EF21, which take every one."""
    found = [Case("dcgd", "identity"), Case("dcgd", NATURAL, NATURAL)]
    found += [Case(name, spec) for spec in OPERATORS for name in methods.METHODS]
    return [case for case in found if _suits(case)]


def _suits(case: Case) -> bool:
    fleet, even = methods.Fleet.alone(2), methods.Smoothness.equal(1.0)
    try:
        methods.build(case.method, methods.Clients(fleet, lambda _, x: x, even, 100), case.operator)
    except SpecError:
        return False
    # With one that is biased EF-BV is EF21.
    biased = fewbits.operator(case.operator).guarantee(100).omega is None
    return not (case.method == "ef-bv" and biased)


def rows(settings: Settings, tick: Tick) -> list[Row]:
    """All cases, on mushrooms where there is a folder that has it."""
    samples = datasets.libsvm(settings.data, "mushrooms") if settings.data else None
    number = WORKERS if samples else BUNDLED_WORKERS
    workers = Workers.sorted_by_label(samples or datasets.breast_cancer(), number)
    name = samples.name if samples else "breast cancer"
    most, own = _QUICK if settings.quick else _MOST, cases()
    found: list[Row] = []
    for part, case in enumerate(own, 1):
        found += course(case, workers, name, settings.seed, most)
        tick(part / len(own))
    return found


def course(case: Case, workers: Workers, problem: str, seed: int, most: int) -> Iterator[Row]:
    """The points of one run with theory's step size, until the excess is 1e-10 of the start's."""
    options = {"master": case.master} if case.master != "identity" else {}
    start = workers.whole.start
    fleet = methods.Fleet.alone(len(workers.parts))
    clients = methods.Clients(fleet, workers.gradient, workers.smoothness, start.size)
    method = methods.build(case.method, clients, case.operator, **options)
    state, rng, reached = method.init(start), fewbits.Rng.from_seed(seed), False
    while True:
        excess = workers.excess(state.x)
        first = excess <= TARGET and not reached
        reached = reached or first
        last = excess <= END or state.number == most
        if first or last or state.number % _EVERY == 0:
            sent = state.traffic
            yield Row(
                problem, case.label, case.operator, state.number, max(excess, 1e-17),
                sent.up, sent.up_sections, sent.down, first, last,
            )  # fmt: skip
        if last:
            return
        state = method.step(state, rng)


class Summary(NamedTuple):
    """Of one run: where 1e-4 was reached, and the level at the end."""

    method: str
    operator: str
    reached: Row | None
    rounds: int
    end: float


def summaries(table: Sequence[Row]) -> list[Summary]:
    """One for each run; the end is the median of the last ten points, where a run stalls."""
    found = []
    for method, operator in dict.fromkeys((row.method, row.operator) for row in table):
        own = [row for row in table if (row.method, row.operator) == (method, operator)]
        hit = next((row for row in own if row.reached), None)
        end = own[-1].excess
        if end > END:
            end = median(row.excess for row in own[-10:])
        found.append(Summary(method, operator, hit, own[-1].round, end))
    return found


def findings(table: Sequence[Row]) -> list[str]:
    """Where each run ended."""
    found = []
    for own in summaries(table):
        if own.reached is None:
            text = f"does not reach 10⁻⁴: {own.end:.1e} after {own.rounds:,} rounds"
        else:
            text = (
                f"10⁻⁴ after {own.reached.round:,} rounds and {own.reached.up_bytes:,} bytes up, "
                f"{own.end:.1e} after {own.rounds:,} rounds"
            )
        found.append(f"{own.method} with {own.operator}: {text}.")
    return found


def draw(table: Sequence[Row]) -> "Figure":
    """A panel for each operator, a line for each method, against bytes up."""
    operators = [spec for spec in OPERATORS if any(row.operator == spec for row in table)]
    workers = WORKERS if table[0].problem == "mushrooms" else BUNDLED_WORKERS
    drawn, plots = figures.panels(
        f"Logistic regression on {table[0].problem}, {workers} workers sorted by label: "
        "theory's step sizes",
        len(operators), width=3.6 * len(operators), height=5.2,
    )  # fmt: skip
    names = list(dict.fromkeys(row.method for row in table))
    colours = dict(zip(names, ("black", *figures.COLOURS, figures.SKY, figures.GOLD), strict=False))
    for plot, operator in zip(plots, operators, strict=True):
        _panel(plot, table, operator, colours)
    plots[0].set_ylabel("(f − f*) / (f₀ − f*)")
    for plot in plots[1:]:
        plot.set_yticklabels([])
    for name, colour in colours.items():
        plots[0].plot([], [], color=colour, label=name)
    drawn.legend(*plots[0].get_legend_handles_labels(), loc="outside lower left", ncols=9)
    return drawn


def _panel(plot: "Axes", table: Sequence[Row], operator: str, colours: dict[str, str]) -> None:
    for name, colour in colours.items():
        own = [r for r in table if r.method == name and r.operator in (operator, "identity")]
        if not own or (name != "none" and own[0].operator != operator):
            continue
        style = "--" if name == "none" else "-"
        plot.plot([row.up_bytes / 1e6 for row in own], [row.excess for row in own], style,
                  color=colour, lw=1.5)  # fmt: skip
    plot.axhline(TARGET, color=figures.GREY, lw=0.8, ls=":")
    plot.set_yscale("log")
    plot.set_ylim(max(END, min(row.excess for row in table)) / 2, 2)
    mine = [row.up_bytes / 1e6 for row in table if row.operator in (operator, "identity")]
    plot.set_xlim(0, min(max(mine), 6 * max(r.up_bytes / 1e6 for r in table if r.method == "none")))
    plot.set_title(operator.replace(",", ",\n"), fontsize=9)
    plot.set_xlabel("MB up, all workers")


EXPERIMENT = Experiment(
    name="methods",
    title="Methods by operator on workers that have little in common",
    about="Logistic regression with condition 101, samples sorted by label and cut into equal "
    "parts, one a worker: breast cancer data of scikit-learn on 10 workers, or mushrooms on 20 "
    "with --data. Step sizes are theory's. Messages are frames of float32, bytes are measured; "
    "points and memories are float64. DCGD stalls where gradients of single workers do not vanish; "
    "methods with shifts or differences do not.",
    row=Row,
    compute=rows,
    draw=draw,
    findings=findings,
)
