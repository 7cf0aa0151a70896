r"""FedAvg with 10 to 10,000 clients: rounds, bytes and modelled seconds until a target.

**Simulated**: clients, data and links, all in one process. Client $i$ has
$f_i(x) = \frac12 \sum_j a_j (x_j - b_{ij})^2$ with curvatures from 1/10 to 1, and makes five local
steps in each round that it takes part in. **Real**: every update is a frame, and bytes are those of
the frames. **Modelled**: seconds. A client's link has a rate drawn from a lognormal law, every
tenth one is ten times slower, and a round lasts as long as its slowest client.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

import fewbits
from fewbits.lab import figures
from fewbits.lab.experiment import Experiment, Settings, Tick
from fewbits.methods import FedAvg, Fleet, State

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]
D, LOCAL_STEPS, RATE = 2048, 5, 0.1
TARGET = 1e-2
SCALES = {10: 10, 100: 10, 1000: 30, 10_000: 100}  # clients, and how many take part in a round
_QUICK = {10: 10, 100: 10}
_MOST = 1000  # rounds
_SPREAD = 0.3  # of the clients' solutions around the common one, which has norm 1 a value
LATENCY, COMPUTE = 0.05, 0.1  # seconds
MEDIAN_RATE, STRAGGLERS, SLOWER = 50_000.0, 0.1, 10.0  # bytes a second; a share; times


class Contender(NamedTuple):
    """An operator and its feedback."""

    operator: str
    feedback: str | None = None

    @property
    def label(self) -> str:
        """As on the figure."""
        name = "none" if self.operator == "identity" else self.operator.partition(":")[0]
        return f"{name} + {self.feedback}" if self.feedback else name


CONTENDERS = (
    Contender("identity"),
    Contender("natural"),
    Contender("natural-dithering"),
    Contender("sparse-dithering:nu=0.25,rounding=stochastic"),
    Contender("top-k:fraction=0.1|natural", "ef21"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """Until the target; nothing where it was not reached. Seconds are modelled."""

    clients: int
    present: int
    operator: str
    rounds: int | None
    up_bytes: int | None
    down_bytes: int | None
    bytes_a_message: float
    times_less_up: float | None
    seconds: float | None
    end: float


@dataclass(frozen=True)
class Crowd:
    """Clients with solutions around a common one, and their links."""

    clients: int
    seed: int

    @cached_property
    def solutions(self) -> npt.NDArray[np.float32]:
        """One row a client."""
        rng = np.random.default_rng([self.seed, self.clients])
        noise = rng.standard_normal((self.clients, D), np.float32)
        noise *= np.float32(_SPREAD)
        noise += rng.standard_normal(D, np.float32)
        return noise

    @cached_property
    def curvature(self) -> Array:
        """The same for all clients, so that local steps have no bias of their own."""
        return np.geomspace(0.1, 1.0, D)

    @cached_property
    def centre(self) -> Array:
        """The solution of the mean."""
        return np.asarray(self.solutions.mean(axis=0, dtype=np.float64))

    @cached_property
    def rates(self) -> Array:
        """Bytes a second of the clients' links."""
        rng = np.random.default_rng([self.seed, self.clients, 1])
        rates = MEDIAN_RATE * np.exp(0.5 * rng.standard_normal(self.clients))
        return np.where(rng.random(self.clients) < STRAGGLERS, rates / SLOWER, rates)

    def train(self, clients: Sequence[int], x: Array, _: int) -> Array:
        """Five steps of gradient descent, all at once."""
        own = self.solutions[list(clients)].astype(np.float64)
        left = (1 - RATE * self.curvature) ** LOCAL_STEPS
        return np.asarray(own + left * (x - own))

    def excess(self, x: Array) -> float:
        """(f(x) - f*) / (f(0) - f*)."""
        own, first = x - self.centre, self.centre
        return float((self.curvature * own**2).sum() / (self.curvature * first**2).sum())


def rows(settings: Settings, tick: Tick) -> list[Row]:
    """Every contender at every scale."""
    scales, found = (_QUICK if settings.quick else SCALES), list[Row]()
    for part, (clients, present) in enumerate(scales.items()):
        crowd, plain = Crowd(clients, settings.seed), None
        for number, contender in enumerate(CONTENDERS, 1):
            row = course(crowd, contender, present, plain)
            plain = plain or row
            found.append(row)
            tick((part + number / len(CONTENDERS)) / len(scales))
    return found


def course(crowd: Crowd, contender: Contender, present: int, plain: Row | None = None) -> Row:
    """One run; `plain` is that without compression.

    With shifts a round moves by what all clients last said, however long ago: the server's step is
    the share of clients that take part. Otherwise it is 1.
    """
    share = present / crowd.clients
    method = FedAvg.of(
        Fleet.alone(crowd.clients), crowd.train, contender.operator, D,
        feedback=contender.feedback, server_step=share if contender.feedback == "ef21" else 1.0,
    )  # fmt: skip
    rng = fewbits.Rng.from_seed(crowd.seed)
    draw = np.random.default_rng([crowd.seed, crowd.clients, 2])  # the same for all contenders
    state, seconds = method.init(np.zeros(D)), 0.0
    excess = crowd.excess(state.x)
    while excess > TARGET and state.number < _MOST and excess < 1e6:
        chosen = np.sort(draw.choice(crowd.clients, present, replace=False))
        after = method.step(state, rng, chosen.tolist())
        seconds += _seconds(state, after, crowd.rates[chosen])
        state, excess = after, crowd.excess(after.x)
    sent, reached = state.traffic, excess <= TARGET
    return Row(
        clients=crowd.clients,
        present=present,
        operator=contender.label,
        rounds=state.number if reached else None,
        up_bytes=sent.up if reached else None,
        down_bytes=sent.down if reached else None,
        bytes_a_message=sent.up / sent.messages,
        times_less_up=(plain.up_bytes or 0) / sent.up if plain and reached else None,
        seconds=seconds if reached else None,
        end=excess,
    )


def _seconds(before: State, after: State, rates: Array) -> float:
    """How long a round lasts: its clients' messages are about equally long."""
    moved = after.traffic.up + after.traffic.down - before.traffic.up - before.traffic.down
    return COMPUTE + 2 * LATENCY + moved / rates.size / float(rates.min())


def findings(table: Sequence[Row]) -> list[str]:
    """The saving of each contender at each scale."""
    found = []
    for clients in dict.fromkeys(row.clients for row in table):
        own = [row for row in table if row.clients == clients]
        parts = [
            f"{row.operator} {row.times_less_up:.1f} times fewer bytes up in {row.rounds} rounds"
            if row.times_less_up
            else f"{row.operator} not within {_MOST:,} rounds"
            for row in own[1:]
        ]
        found.append(
            f"{clients:,} clients, {own[0].present} of them a round ({own[0].rounds} rounds "
            f"without compression): {'; '.join(parts)}."
        )
    return found


def draw(table: Sequence[Row]) -> "Figure":
    """Rounds, bytes and seconds against the number of clients."""
    drawn, plots = figures.panels(
        "FedAvg until the excess is 10⁻² of the first: simulated clients, real frames, modelled "
        "links",
        3, width=13, height=4.8,
    )  # fmt: skip
    rounds, sent, seconds = plots
    for number, contender in enumerate(CONTENDERS):
        own = [row for row in table if row.operator == contender.label and row.rounds]
        look: Any = {
            "color": ("black", *figures.COLOURS)[number], "label": contender.label,
            "marker": figures.MARKERS[number], "alpha": 0.85,
        }  # fmt: skip
        x = [row.clients for row in own]
        rounds.plot(x, [row.rounds or 0 for row in own], **look)
        sent.plot(x, [(row.up_bytes or 0) / row.present / 1000 for row in own], **look)
        seconds.plot(x, [row.seconds or 0 for row in own], **look)
    axes = {
        "rounds": (20, 50, 100, 200, 500, 1000),
        "kB up in all, for each place in a round": (10, 20, 50, 100, 200),
        "modelled seconds": (30, 100, 300, 1000, 3000),
    }
    for plot, (name, ticks) in zip(plots, axes.items(), strict=True):
        _axes(plot, table, name, ticks)
    lost = [f"{row.operator} with {row.clients:,}" for row in table if not row.rounds]
    if lost:
        rounds.annotate(f"not within {_MOST:,} rounds:\n{', '.join(lost)}", (0.98, 0.6), ha="right",
                        xycoords="axes fraction", fontsize=9, bbox=figures.PAPER)  # fmt: skip
    drawn.legend(*rounds.get_legend_handles_labels(), loc="outside lower left", ncols=6, fontsize=9)
    return drawn


def _axes(plot: "Axes", table: Sequence[Row], name: str, ticks: Sequence[float]) -> None:
    plot.set_xscale("log")
    plot.set_yscale("log")
    scales = list(dict.fromkeys((row.clients, row.present) for row in table))
    labels = [f"{clients:,}\n({present})" for clients, present in scales]
    plot.set_xticks([clients for clients, _ in scales], labels=labels)
    plot.minorticks_off()
    figures.plain_ticks(plot.yaxis, ticks)
    plot.set_title(name, fontsize=10)
    plot.set_xlabel("clients (of which take part in a round)")


EXPERIMENT = Experiment(
    name="federated-scale",
    title="FedAvg with 10 to 10,000 simulated clients",
    about="Simulated: clients, their quadratic functions of 2048 values, and who takes part. Real: "
    "every update is a frame, and bytes are those of the frames. Modelled: seconds, from links "
    "whose rates have a lognormal law around 50 kB/s, a tenth of them ten times slower, 50 ms of "
    "latency each way and 0.1 s of work; a round lasts as long as its slowest client. The model "
    "goes down without compression. Rounds end when (f − f*) / (f₀ − f*) is 10⁻². With EF21 the "
    "server's step is the share of clients that take part, because it moves by what absent clients "
    "said last.",
    row=Row,
    compute=rows,
    draw=draw,
    findings=findings,
)
