"""Chooses the operator, if any: tries candidates in the first steps and keeps the fastest.

Plain all-reduce comes first: it shows how long computing takes and how fast the link is. A
candidate that the model of `theory.cost` then rules out is not tried. For the others a few steps
are timed by the clock. Those near the best are timed a second time, because another program may
have disturbed one of them. All ranks decide from the same figures, the largest of all ranks, so all
decide the same.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fewbits.collectives.comm import Agree, ping
from fewbits.collectives.payload import UNIT
from fewbits.core.operator import Operator
from fewbits.core.vector import Vector
from fewbits.reference.formats import FLOAT32
from fewbits.rng import Rng
from fewbits.session import thin
from fewbits.session.reducer import Reducer
from fewbits.theory import cost
from fewbits.theory.clusters import Cluster
from fewbits.theory.cost import Codec, CollectiveTraffic, Link, TrainingJob

UNCOMPRESSED = "none"
SETTLE = 2  # steps before the first trial: DDP rebuilds its buckets
WARM = 4  # steps of a trial until sizes are agreed on and lengths are promised
TIMED_STEPS = 5
RECHECK = 5000  # steps
CLOSE = 1.5  # times the best: so much a busy machine may have added, so it is tried once more
HOPELESS = 1.3  # predicted to take so many times the best measured step: not tried
TIE = 1.04  # as fast as the best, as far as five steps can tell: of these what loses least


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one step: seconds since the end of the last one, their parts, and bytes sent."""

    step: float
    exposed: float  # from the end of the backward pass to the end of the exchange
    codec: float
    bytes: float


@dataclass(frozen=True, slots=True)
class TriedCandidate:
    """One candidate: measured, or predicted to be so slow that it was not tried."""

    name: str
    predicted: float | None
    measured: Figures | None


@dataclass(frozen=True, slots=True)
class Decision:
    """The choice, its step, and the candidates it was made from."""

    chosen: str
    step: int
    compute_seconds: float
    bandwidth_bits_per_second: float
    latency_seconds: float
    choices: tuple[TriedCandidate, ...]

    def __str__(self) -> str:
        link = f"{self.bandwidth_bits_per_second / 1e6:,.0f} Mbit/s"
        times = f"{1e3 * self.compute_seconds:.1f} ms, the link has {link}"
        latency = f"{1e3 * self.latency_seconds:.2f} ms of latency"
        chosen = f"{self.chosen} since step {self.step}"
        lines = [f"auto        {chosen}: computing takes {times} and {latency}"]
        for choice in self.choices:
            seconds = choice.measured.step if choice.measured else choice.predicted
            how = "measured" if choice.measured else "predicted, not tried"
            text = "not tried" if seconds is None else f"{1e3 * seconds:.1f} ms a step, {how}"
            lines.append(f"            {choice.name}: {text}")
        return "\n".join(lines)


class Auto:
    """Candidates by name, those that lose least first; `none` must be among them.

    `decision` is the last one, also while candidates are tried anew. `cluster` says where ranks
    are, if links differ; then some candidates go between nodes only.
    """

    def __init__(self, candidates: Mapping[str, Reducer], ranks: int = 1) -> None:
        self.candidates, self.ranks = candidates, ranks
        self.cluster: Cluster | None = None
        self.decision: Decision | None = None
        self._trial: list[Figures] = []
        self._begin(SETTLE + WARM)

    def _begin(self, wait: int) -> None:
        self._untried = [name for name in self.candidates if name != UNCOMPRESSED]  # once, or again
        self._figures: dict[str, Figures] = {}
        self._predicted: dict[str, float] = {}
        self._is_deciding = self._is_first_pass = True
        self.current, self._wait, self._latency = UNCOMPRESSED, wait, float("inf")

    @property
    def reducer(self) -> Reducer:
        """The reducer of the step that begins now."""
        return self.candidates[self.current]

    def end_step(
        self, step: int, figures: Figures, agree: Agree, sample: npt.NDArray[np.float32]
    ) -> None:
        """Take a step into account."""
        self._wait -= 1
        if self._wait >= 0:
            return
        if not self._is_deciding:  # decided, and it is time again
            self._begin(WARM)
            return
        self._trial.append(figures)
        if len(self._trial) < TIMED_STEPS:
            return
        found = _median(self._trial, agree)
        known = self._figures.get(self.current, found)
        self._figures[self.current] = min(found, known, key=lambda figures: figures.step)
        (self._latency,) = agree([min(self._latency, ping(agree))])
        self._trial, self._wait = [], WARM
        if not self._goes_on(agree, sample):
            self._decide(step)

    def _goes_on(self, agree: Agree, sample: npt.NDArray[np.float32]) -> bool:
        """Whether there is another trial; its candidate is then the current one."""
        while self._untried:
            self.current = self._untried.pop(0)
            if self.current in self._figures or self._is_worth_trying(agree, sample):
                return True
        if not self._is_first_pass:
            return False
        self._is_first_pass = False
        near = self._near(CLOSE)
        self._untried = near if len(near) > 1 else []
        return bool(self._untried) and self._goes_on(agree, sample)

    def _is_worth_trying(self, agree: Agree, sample: npt.NDArray[np.float32]) -> bool:
        """Whether the model leaves the current candidate a chance; remembers if not."""
        routing = self.reducer.routing
        low_rank, traffic = routing.low_rank, self._traffic()
        if low_rank is None:
            codec = measured(routing.uplink, sample)
        else:
            model, traffic = routing.model.trained(), cost.factored
            codec = thin.measured(
                low_rank, model, sample, lambda own: measured(own, sample).bits_per_value
            )
        speeds = [-codec.encode_values_per_second, -codec.decode_values_per_second]
        bits, *slowest = agree([codec.bits_per_value, *speeds])
        compute, link = self._link()
        elements = max(1, self.candidates[UNCOMPRESSED].routing.elements())
        job = TrainingJob(elements, self.ranks, compute)
        codec = Codec(bits, -slowest[0], -slowest[1])
        seconds = cost.step_time(job, link, codec, traffic).total_seconds
        best = min(figures.step for figures in self._figures.values())
        if seconds <= HOPELESS * best:
            return True
        self._predicted[self.current] = seconds
        return False

    def _traffic(self) -> CollectiveTraffic:
        """The traffic of the current candidate; with nodes, on the link of a node."""
        if self.cluster is None:
            return cost.sharded
        return self.cluster.flat if self.reducer.routing.nodes is None else self.cluster.between

    def _link(self) -> tuple[float, Link]:
        """Seconds of computing, and the link, as measured with plain all-reduce."""
        plain = self._figures[UNCOMPRESSED]
        bandwidth = 8 * plain.bytes / max(plain.exposed, 1e-9)
        return max(plain.step - plain.exposed, 0.0), Link(max(bandwidth, 1.0), self._latency)

    def _error(self, name: str) -> float:
        return self.candidates[name].routing.uplink.guarantee(UNIT).error

    def _near(self, times: float) -> list[str]:
        """The candidates that took at most `times` as long as the best."""
        best = min(figures.step for figures in self._figures.values())
        known = [name for name in self.candidates if name in self._figures]
        return [name for name in known if self._figures[name].step <= times * best]

    def _decide(self, step: int) -> None:
        self._is_deciding = False
        near = self._near(TIE)
        # Of those that lose as little as the first, which differ in their coding, the fastest.
        equal = [name for name in near if self._error(name) == self._error(near[0])]
        self.current = min(equal, key=lambda name: self._figures[name].step)
        compute, link = self._link()
        tried = tuple(
            TriedCandidate(name, self._predicted.get(name), self._figures.get(name))
            for name in self.candidates
        )
        measured = (compute, link.bandwidth_bits_per_second, link.latency_seconds)
        self.decision = Decision(self.current, step, *measured, tried)
        self._wait = RECHECK


def _median(trial: Sequence[Figures], agree: Agree) -> Figures:
    names = ("step", "exposed", "codec", "bytes")
    own = [statistics.median(getattr(figures, name) for figures in trial) for name in names]
    return Figures(*agree(own))


def measured(
    operator: Operator,
    sample: npt.NDArray[np.float32],
    rounds: int = 3,
    typical: Callable[[Sequence[float]], float] = min,
) -> Codec:
    """Bits and speeds on values of a gradient; by default the best of three."""
    vector = Vector(sample.view(np.uint32), FLOAT32)
    out = Vector(np.empty_like(vector.bits), FLOAT32)
    sections = operator.layout(vector.count, FLOAT32)
    into = tuple(np.empty(section.size, np.uint8) for section in sections)
    encoding, decoding, size = [], [], 0
    for number in range(rounds):
        began = time.perf_counter()
        written = operator.encode(vector, Rng.from_seed(number), into)
        encoding.append(time.perf_counter() - began)
        parts = tuple(part[:own] for part, own in zip(into, written.sizes, strict=True))
        began = time.perf_counter()
        operator.decode(parts, out)
        decoding.append(time.perf_counter() - began)
        size = sum(written.sizes)
    count = max(vector.count, 1)
    return Codec(8 * size / count, count / typical(encoding), count / typical(decoding))
