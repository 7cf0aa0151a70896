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
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import fewbits
from fewbits.methods import FedAvg, Fleet, State
from fewbits_lab.experiment import StudySettings, Tick

_Array = npt.NDArray[np.float64]
_D, _LOCAL_STEPS, _RATE = 2048, 5, 0.1
_TARGET = 1e-2
SCALES = {10: 10, 100: 10, 1000: 30, 10_000: 100}  # clients, and how many take part in a round
_QUICK = {10: 10, 100: 10}
FEDERATED_MOST = 1000  # rounds
_SPREAD = 0.3  # of the clients' solutions around the common one, which has norm 1 a value
_LATENCY, _COMPUTE = 0.05, 0.1  # seconds
MEDIAN_RATE, STRAGGLERS, SLOWER = 50_000.0, 0.1, 10.0  # bytes a second; a share; times


class FedAvgContender(NamedTuple):
    """An operator and its feedback."""

    operator: str
    feedback: str | None = None

    @property
    def label(self) -> str:
        """The label in the figure."""
        name = "none" if self.operator == "identity" else self.operator.partition(":")[0]
        return f"{name} + {self.feedback}" if self.feedback else name


CONTENDERS = (
    FedAvgContender("identity"),
    FedAvgContender("natural"),
    FedAvgContender("natural-dithering"),
    FedAvgContender("sparse-dithering:nu=0.25,rounding=stochastic"),
    FedAvgContender("top-k:fraction=0.1|natural", "ef21"),
)


@dataclass(frozen=True, slots=True)
class FederatedScaleRow:
    """A run until the target; fields are None if it was not reached. Seconds are modelled."""

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
        noise = rng.standard_normal((self.clients, _D), np.float32)
        noise *= np.float32(_SPREAD)
        noise += rng.standard_normal(_D, np.float32)
        return noise

    @cached_property
    def curvature(self) -> _Array:
        """The same for all clients, so that local steps have no bias of their own."""
        return np.geomspace(0.1, 1.0, _D)

    @cached_property
    def centre(self) -> _Array:
        """The solution of the mean."""
        return np.asarray(self.solutions.mean(axis=0, dtype=np.float64))

    @cached_property
    def rates(self) -> _Array:
        """Bytes a second of the clients' links."""
        rng = np.random.default_rng([self.seed, self.clients, 1])
        rates = MEDIAN_RATE * np.exp(0.5 * rng.standard_normal(self.clients))
        return np.where(rng.random(self.clients) < STRAGGLERS, rates / SLOWER, rates)

    def train(self, clients: Sequence[int], x: _Array, _: int) -> _Array:
        """Five steps of gradient descent, all at once."""
        own = self.solutions[list(clients)].astype(np.float64)
        left = (1 - _RATE * self.curvature) ** _LOCAL_STEPS
        return np.asarray(own + left * (x - own))

    def excess(self, x: _Array) -> float:
        """(f(x) - f*) / (f(0) - f*)."""
        own, first = x - self.centre, self.centre
        return float((self.curvature * own**2).sum() / (self.curvature * first**2).sum())


def rows(settings: StudySettings, tick: Tick) -> list[FederatedScaleRow]:
    """Every contender at every scale."""
    scales, found = (_QUICK if settings.quick else SCALES), list[FederatedScaleRow]()
    for part, (clients, present) in enumerate(scales.items()):
        crowd, plain = Crowd(clients, settings.seed), None
        for number, contender in enumerate(CONTENDERS, 1):
            row = course(crowd, contender, present, plain)
            plain = plain or row
            found.append(row)
            tick((part + number / len(CONTENDERS)) / len(scales))
    return found


def course(
    crowd: Crowd, contender: FedAvgContender, present: int, plain: FederatedScaleRow | None = None
) -> FederatedScaleRow:
    """One run; `plain` is that without compression.

    With shifts a round moves by what all clients last said, however long ago: the server's step is
    the share of clients that take part. Otherwise it is 1.
    """
    share = present / crowd.clients
    method = FedAvg.of(
        Fleet.alone(crowd.clients), crowd.train, contender.operator, _D,
        feedback=contender.feedback, server_step=share if contender.feedback == "ef21" else 1.0,
    )  # fmt: skip
    rng = fewbits.Rng.from_seed(crowd.seed)
    draw = np.random.default_rng([crowd.seed, crowd.clients, 2])  # the same for all contenders
    state, seconds = method.init(np.zeros(_D)), 0.0
    excess = crowd.excess(state.x)
    while excess > _TARGET and state.number < FEDERATED_MOST and excess < 1e6:
        chosen = np.sort(draw.choice(crowd.clients, present, replace=False))
        after = method.step(state, rng, chosen.tolist())
        seconds += _seconds(state, after, crowd.rates[chosen])
        state, excess = after, crowd.excess(after.x)
    sent, reached = state.traffic, excess <= _TARGET
    return FederatedScaleRow(
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


def _seconds(before: State, after: State, rates: _Array) -> float:
    """How long a round lasts: its clients' messages are about equally long."""
    moved = after.traffic.up + after.traffic.down - before.traffic.up - before.traffic.down
    return _COMPUTE + 2 * _LATENCY + moved / rates.size / float(rates.min())
