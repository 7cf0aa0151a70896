r"""What the study of scale is made of: bytes measured between threads, and the model of a step.

**Measured**, over `LocalComm` with the real collective and a few ranks: payload and header bytes of
every rank, from which come the bits of a value, and the model's formula for the busiest rank is
checked. **Modelled**: everything at more ranks, and all seconds.
"""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from fewbits import registry
from fewbits.collectives import header
from fewbits.collectives.comm import LocalComm
from fewbits.collectives.owned import Sharded
from fewbits.collectives.payload import UNIT, Payload, unit_for, units_of
from fewbits.collectives.progress import RankProgress
from fewbits.collectives.reduction import ReductionTask, commit
from fewbits.collectives.units import Batch
from fewbits.reference.formats import FLOAT32
from fewbits.rng import Rng
from fewbits.session.routing import VALUES_OF_A_RANK, cut
from fewbits.theory import cost
from fewbits.theory.cost import PIECE, Codec, Link, LinkTraffic, StepTime, TrainingJob
from fewbits_lab import vectors

SCALE_PLAIN = "none"
_MEMCPY = 2.4e9  # values a second, one thread of an AMD EPYC; `fewbits bench` measures yours
SPEEDS = {  # encoding and decoding, in multiples of memcpy, by `fewbits bench` on the same machine
    "bfloat16": (1.4, 1.4),
    "natural": (1.3, 1.5),
    "natural:coder=rans": (0.33, 0.46),
}
FLOPS = 4e14  # of a worker, that is about 40 % of what a large accelerator of 2023 promises
TOKENS = 8192  # of a worker in a step; a parameter takes 6 operations for each
LATENCY = 20e-6  # seconds, one way


class SentBytes(NamedTuple):
    """Bytes that ranks sent in one step: of the busiest one, and how many of them were headers."""

    busiest: int
    headers: int


def measured(spec: str, values: int, ranks: int, seed: int) -> SentBytes:
    """One reduction of Gaussian vectors between threads, by the collective that training uses."""
    operator = registry.operator(spec)
    unit = unit_for(values, ranks)
    shards = [number % ranks for number in range(-(-values // unit))]
    units = units_of("parameter", 0, values, operator, operator, shards, size=unit)

    def rank(comm: LocalComm) -> SentBytes:
        progress, own = RankProgress(), vectors.gaussian(values, seed + comm.rank)
        for part, mine in cut(units, ranks, unit):
            reduction = Sharded(ReductionTask(mine, FLOAT32, comm))
            reduction.run(own.view(np.uint32)[part], Rng.from_seed(seed), progress)
        commit(comm, progress)
        spent = progress.spent
        return SentBytes(spent.payload_bytes + spent.header_bytes, spent.header_bytes)

    with ThreadPoolExecutor(ranks) as threads:
        return max(threads.map(rank, LocalComm.group(ranks)))


def bits_per_value(spec: str, seed: int) -> float:
    """Of two ranks, where each sends every chunk once, half of them on either way."""
    values = 4 * UNIT
    sent = measured(spec, values, 2, seed)
    return 8 * (sent.busiest - sent.headers) / values


def coded_more(spec: str, unit: int, seed: int) -> float:
    """How many times the bits of a value grow in units of this size, over those of 65,536."""
    values, operator = vectors.gaussian(4 * UNIT, seed), registry.operator(spec)

    def size(unit: int) -> int:
        units = units_of("parameter", 0, values.size, operator, operator, size=unit)
        payload = Payload(units, "uplink", FLOAT32)
        Batch([payload], FLOAT32).encode(values.view(np.uint32), Rng.from_seed(seed))
        return payload.length

    return size(unit) / size(UNIT)


def owned(values: int, workers: int) -> int:
    """Values of which the busiest rank makes the mean: whole units."""
    unit = unit_for(values, workers)
    share = math.ceil(math.ceil(values / unit) / workers)
    return min(share * unit, values)


def sharded(values: int, workers: int) -> LinkTraffic:
    """As in `theory.cost`, but of the busiest rank: a unit has one owner, however many ranks.

    An owner's link carries its units for all, so units are smaller where many ranks share few.
    """
    if workers == 1:
        return LinkTraffic(0, 0, 0, 0)
    own = owned(values, workers)
    moved = (values - own) + own * (workers - 1)
    return LinkTraffic(values + own, own * workers + values, moved, 2)


def plain(values: int, workers: int) -> LinkTraffic:
    """An all-reduce by halving and doubling: a ring's bytes, but few hops on many ranks."""
    return cost.plain(values, workers)._replace(hops=2 * math.ceil(math.log2(workers)))


def header_bytes(values: int, workers: int) -> int:
    """What a rank sends each other rank beside payloads: two headers a piece, one at the end.

    A piece has at least as many units as there are ranks, and so many values for each of them.
    """
    pieces = math.ceil(
        values / max(PIECE, workers * unit_for(values, workers), workers * VALUES_OF_A_RANK)
    )
    return header.SIZE * (workers - 1) * (2 * pieces + 1)


def codec(spec: str, bits: float) -> Codec:
    """Measured bits and recorded speeds."""
    encoding, decoding = SPEEDS[spec]
    return Codec(bits, encoding * _MEMCPY, decoding * _MEMCPY)


def compute_seconds(values: int) -> float:
    """A step without messages."""
    return 6 * values * TOKENS / FLOPS


class ExchangeCost(NamedTuple):
    """One exchange and the steps that it serves."""

    bytes: float  # of the busiest rank, in an exchange
    step: StepTime

    def seconds(self, local_steps: int) -> float:
        """A step, on average, if that many share an exchange."""
        exchange = self.step.total_seconds - self.step.compute_seconds
        return self.step.compute_seconds + exchange / local_steps


def exchange(values: int, workers: int, bandwidth: float, own: Codec | None) -> ExchangeCost:
    """The model of one exchange; without a codec plain all-reduce of float32."""
    job, link = TrainingJob(values, workers, compute_seconds(values)), Link(bandwidth, LATENCY)
    if own is None:
        traffic = plain(values, workers)
        return ExchangeCost(4 * traffic.sent, cost.step_time(job, link, collective=plain))
    heads = header_bytes(values, workers)
    step = cost.step_time(job, link, own, sharded)
    step = step._replace(wire_seconds=step.wire_seconds + 8 * heads / bandwidth)
    return ExchangeCost(sharded(values, workers).sent * own.bits_per_value / 8 + heads, step)


def pays_below(values: int, workers: int, own: Codec) -> float:
    """The bandwidth below which an exchange gains; latency, which is about the same, left out."""
    traffic = sharded(values, workers)
    saved = 32 * plain(values, workers).sent - 8 * header_bytes(values, workers)
    saved -= traffic.sent * own.bits_per_value
    coding = traffic.encoded / own.encode_values_per_second
    coding += traffic.decoded / own.decode_values_per_second
    return max(saved, 0.0) / coding


def verdict(found: Sequence[tuple[str, float]]) -> str:
    """The fastest of (name, seconds), where plain is among them."""
    best, _ = min(found, key=lambda each: each[1])
    return "do not compress" if best == SCALE_PLAIN else best
