r"""The cost of a step: in bits, by the four models of the paper, and in seconds.

**Bits.** The paper on natural compression compares operators by total communication: iterations
times bits. With $1 + \omega$ for the slowdown and $\theta$ between 0 (many workers) and 1 (one
worker, or a strict target), `Model.speedup` is how many times fewer bits are sent than by the
baseline. It covers the paper's Table 1 (Model 2) and Tables 5, 7 and 8 (Models 1, 3 and 4).

**Seconds.** `step_time` adds up computing, coding, sending and waiting for one step of one rank.
The model assumes no contention, no lost packets, buffers that are ready, and links that are as fast
as stated in both directions at once. Messages may travel during the share `overlap` of computing.
Coding is never hidden, because it needs the processor. A rank does its own work for messages while
they travel and the processor is idle. That work counts only if it takes longer, on fast links.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from fewbits.errors import SpecError
from fewbits.theory.bounds import check_not_negative, check_positive, check_workers

FLOAT_BITS = 32.0
FEW_RANKS = 2
"""So many ranks send factors of matrices to each other in one hop: with more of them every rank
averages a share, which is fewer bytes."""
PIECE = 16 * 65_536  # values that are exchanged together, while others are coded
NATURAL_BITS, NATURAL_OMEGA = 9.0, 1 / 8
_EXPONENTS = (-40.0, 80.0)  # of two: links slower and faster than any
_CLOSE = 1e-12


@dataclass(frozen=True, slots=True)
class Model:
    """A way to count communication.

    `integer_master`: the master adds integers only, so everybody sends powers of two and the
    baseline is natural compression. `both_ways`: the master's messages cost as much as the
    workers' and have the same operator; otherwise they are free.
    """

    number: int
    integer_master: bool
    both_ways: bool

    @property
    def baseline_bits_per_value(self) -> float:
        return NATURAL_BITS if self.integer_master else FLOAT_BITS

    @property
    def baseline_omega(self) -> float:
        return NATURAL_OMEGA if self.integer_master else 0.0

    def slowdown(self, omega: float, theta: float) -> float:
        r"""Iterations over the baseline's: $((1 + \omega) / (1 + \omega_0))^\theta$.

        $1 + \theta$ takes the place of $\theta$ if the master compresses as well.
        """
        check_not_negative("omega", omega)
        if not 0 <= theta <= 1:
            raise SpecError(f"theta must lie between 0 and 1, got {theta:g}")
        power = theta + 1 if self.both_ways else theta
        return math.pow((1 + omega) / (1 + self.baseline_omega), power)

    def speedup(self, omega: float, bits_per_value: float, theta: float) -> float:
        """How many times fewer bits are sent until the same accuracy; below 1 they are more."""
        check_positive("bits_per_value", bits_per_value)
        saved = self.baseline_bits_per_value / bits_per_value
        return saved / self.slowdown(omega, theta)


MODELS = {
    1: Model(1, integer_master=False, both_ways=True),
    2: Model(2, integer_master=False, both_ways=False),
    3: Model(3, integer_master=True, both_ways=True),
    4: Model(4, integer_master=True, both_ways=False),
}


@dataclass(frozen=True, slots=True)
class Link:
    """The link between workers; each may send and receive at the full rate at once.

    `exchange_seconds` is a rank's own work for one exchange of messages, whatever their size.
    `busy` is the share of the time on the wire in which the processor works for the transfer: 0 on
    a slow link, 1 if the transfer takes the processor all the time.
    """

    bandwidth_bits_per_second: float
    latency_seconds: float = 0.0
    exchange_seconds: float = 0.0
    busy: float = 0.0

    def __post_init__(self) -> None:
        check_positive("bandwidth_bits_per_second", self.bandwidth_bits_per_second)
        check_not_negative("latency_seconds", self.latency_seconds)
        check_not_negative("exchange_seconds", self.exchange_seconds)
        if not 0 <= self.busy <= 1:
            raise SpecError(f"busy must lie between 0 and 1, got {self.busy:g}")


@dataclass(frozen=True, slots=True)
class Codec:
    """An operator's cost of a value: bits on the wire, time on the processor."""

    bits_per_value: float
    encode_values_per_second: float = math.inf
    decode_values_per_second: float = math.inf

    def __post_init__(self) -> None:
        check_not_negative("bits_per_value", self.bits_per_value)
        for name in ("encode_values_per_second", "decode_values_per_second"):
            if not getattr(self, name) > 0:
                raise SpecError(f"{name} must be positive, got {getattr(self, name):g}")


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """One step of training: its gradient, its workers, and its time without any messages."""

    values: int
    workers: int
    compute_seconds: float
    overlap: float = 0.0

    def __post_init__(self) -> None:
        check_workers(self.workers)
        if self.values < 1:
            raise SpecError(f"there must be at least 1 parameter, got {self.values}")
        check_not_negative("compute_seconds", self.compute_seconds)
        if not 0 <= self.overlap <= 1:
            raise SpecError(f"overlap must lie between 0 and 1, got {self.overlap:g}")


def piece_values(values: int, coding: float, wire: float, exchange: float) -> float:
    r"""How many of `values` to send together, if all take so many seconds to code and to send.

    With $p$ pieces the shorter of both, $s$, is hidden behind the longer but for one piece, and
    two hops of each take two exchanges: $s / p + 2 p e$ is least for $p = \sqrt{s / 2e}$.
    """
    pieces = math.sqrt(max(min(coding, wire), 0.0) / (2 * exchange)) if exchange > 0 else 1.0
    return values / max(pieces, 1.0)


def joined_values(values: int, wire: float, exchange: float) -> float:
    """How many values to wait for before they are sent, if all take `wire` seconds.

    What waits cannot travel during the backward pass. It shall lose no more time by that than the
    two exchanges that are saved.
    """
    return 2 * exchange * values / wire if wire > 0 else float(values)


class LinkTraffic(NamedTuple):
    """The work of one rank in one step: values coded, values on its link one way, waits for a peer.

    For a star these are the values on the longest path: the master's link and both ends' coding.
    `inside_seconds` go on faster links inside a node, before and after.
    """

    encoded: float
    decoded: float
    sent: float
    hops: int
    inside_seconds: float = 0.0

    def exchanges(self, values: int) -> int:
        """How often ranks exchange messages: each hop of each piece, and the end of the step."""
        coded = self.encoded > 0
        return self.hops * -(-values // PIECE) + 1 if coded else 0


def plain(values: int, workers: int) -> LinkTraffic:
    """A ring all-reduce without coding."""
    return LinkTraffic(0, 0, 2 * values * (workers - 1) / workers, 2 * (workers - 1))


def sharded(values: int, workers: int) -> LinkTraffic:
    """Every rank is the master of a part: parts go to their masters, and their means to all."""
    if workers == 1:
        return LinkTraffic(0, 0, 0, 0)
    moved = 2 * values * (workers - 1) / workers
    return LinkTraffic(values * (1 + 1 / workers), 2 * values, moved, 2)


def star(values: int, workers: int) -> LinkTraffic:
    """One rank is the master of everything; its link carries all messages."""
    if workers == 1:
        return LinkTraffic(0, 0, 0, 0)
    return LinkTraffic(2 * values, (workers + 1) * values, 2 * values * (workers - 1), 2)


def gather(values: int, workers: int) -> LinkTraffic:
    """Everybody sends to everybody, in one hop."""
    if workers == 1:
        return LinkTraffic(0, 0, 0, 0)
    return LinkTraffic(values, workers * values, values * (workers - 1), 1)


def factored(values: int, workers: int) -> LinkTraffic:
    """Factors of matrices, for a codec whose bits are those of factors, a value of the matrix.

    Two exchanges follow each other, each of one hop among few ranks, and of two beyond.
    """
    if workers == 1:
        return LinkTraffic(0, 0, 0, 0)
    others = workers - 1
    if workers <= FEW_RANKS:
        return LinkTraffic(values, values, values * others, 2)
    return LinkTraffic(values, values, 2 * values * others / workers, 4)


CollectiveTraffic = Callable[[int, int], LinkTraffic]
COLLECTIVE_TRAFFIC: dict[str, CollectiveTraffic] = {
    "sharded": sharded,
    "star": star,
    "gather": gather,
}
PLAIN = Codec(FLOAT_BITS)


class StepTime(NamedTuple):
    """The parts of a step's time; `hidden` seconds overlap with computing.

    `exchange_seconds` is the work for messages that does not fit into idle time on the wire.
    """

    compute_seconds: float
    codec_seconds: float
    wire_seconds: float
    latency_seconds: float
    hidden_seconds: float
    exchange_seconds: float = 0.0

    @property
    def total_seconds(self) -> float:
        return (
            self.compute_seconds
            + self.codec_seconds
            + self.wire_seconds
            + self.latency_seconds
            + self.exchange_seconds
            - self.hidden_seconds
        )


def step_time(
    job: TrainingJob, link: Link, codec: Codec = PLAIN, collective: CollectiveTraffic = plain
) -> StepTime:
    """The model's seconds for one step, or for plain all-reduce if there is no codec."""
    traffic = collective(job.values, job.workers)
    wire = traffic.sent * codec.bits_per_value / link.bandwidth_bits_per_second
    wire += traffic.inside_seconds
    latency = traffic.hops * link.latency_seconds
    hidden = min(wire + latency, job.overlap * job.compute_seconds)
    work = traffic.exchanges(job.values) * link.exchange_seconds
    beyond = max(0.0, work - (1 - link.busy) * (wire + latency))
    coding = _codec_seconds(traffic, codec)
    return StepTime(job.compute_seconds, coding, wire, latency, hidden, beyond)


def break_even_bits_per_second(
    job: TrainingJob,
    link: Link,
    codec: Codec,
    collective: CollectiveTraffic = sharded,
    *,
    slowdown: float = 1.0,
) -> float:
    r"""The bandwidth below which the codec gains, on a link that is else like this one.

    With `slowdown` $s$, iterations over those of plain training, $T(\beta) > s\, T'(\beta)$ must
    hold for the step times of both. The slower the link, the more the saved bytes count: one
    bandwidth is the limit. It is 0 if the bytes of $s$ steps are no fewer, and infinity if the
    codec gains on the fastest link too.
    """
    check_positive("slowdown", slowdown)
    sent = collective(job.values, job.workers).sent * codec.bits_per_value
    if plain(job.values, job.workers).sent * FLOAT_BITS <= slowdown * sent:
        return 0.0

    def gains(exponent: float) -> bool:
        there = replace(link, bandwidth_bits_per_second=math.exp2(exponent))
        coded = step_time(job, there, codec, collective).total_seconds
        return step_time(job, there).total_seconds > slowdown * coded

    low, high = _EXPONENTS
    if gains(high):
        return math.inf
    while high - low > _CLOSE:
        middle = (low + high) / 2
        low, high = (middle, high) if gains(middle) else (low, middle)
    return math.exp2(low)


def _codec_seconds(traffic: LinkTraffic, codec: Codec) -> float:
    encoding = traffic.encoded / codec.encode_values_per_second
    return encoding + traffic.decoded / codec.decode_values_per_second
