"""Chooses an operator for a link, or none, by modelled step time and bounds on iterations."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from fewbits.core.guarantee import Guarantee
from fewbits.theory import bounds, cost
from fewbits.theory.bounds import Pair
from fewbits.theory.clusters import ALL_RANKS, Cluster
from fewbits.theory.cost import Codec, CollectiveTraffic, Link, StepTime, TrainingJob

WORTH = 1.05  # a smaller gain is below what the model can tell


@dataclass(frozen=True, slots=True)
class Setting:
    """The job, link and collective to plan for; `noise` as in `bounds.slowdown`.

    With a `cluster` the link is a node's to others, and the planner chooses the axis.
    """

    job: TrainingJob
    link: Link
    collective: CollectiveTraffic = cost.sharded
    noise: float = math.inf
    cluster: Cluster | None = None

    @property
    def plain(self) -> StepTime:
        return cost.step_time(self.job, self.link)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An operator: its spec, its guarantee for one unit, and its cost."""

    spec: str
    guarantee: Guarantee
    codec: Codec


@dataclass(frozen=True, slots=True)
class Prediction:
    """The forecast for a candidate that is used in both directions.

    `slowdown` is None if theory guarantees nothing. `seconds_per_progress` is the time for the
    progress of one step without compression. `gain` is how many times sooner the same accuracy is
    reached; below 1 it is later. At `break_even_bits_per_second` it is 1, and at
    `pays_below_bits_per_second` it is `WORTH`, with the job and the link else as they are.
    """

    spec: str
    unbiased: bool
    bits_per_value: float
    step: StepTime
    slowdown: float | None
    seconds_per_progress: float | None
    gain: float | None
    break_even_bits_per_second: float | None
    pays_below_bits_per_second: float | None
    axis: str = ALL_RANKS


def predict(candidate: Candidate, setting: Setting) -> Prediction:
    """The step's time, its slowdown by Theorem 9 (or that of biased operators), and the product.

    In a cluster it is the forecast of the axis with which the same accuracy comes soonest.
    """
    if setting.cluster is None:
        return _predicted(candidate, setting, setting.collective, ALL_RANKS, setting.job.workers)
    cluster = setting.cluster
    return ranked_rows(
        _predicted(candidate, setting, traffic, axis, cluster.senders(axis))
        for axis, traffic in cluster.axes().items()
    )[0]


def _predicted(
    candidate: Candidate, setting: Setting, collective: CollectiveTraffic, axis: str, senders: int
) -> Prediction:
    """The forecast along one axis, on which so many senders' noise is evened out."""
    job, promise = setting.job, candidate.guarantee
    step = cost.step_time(job, setting.link, candidate.codec, collective)
    slowdown: float | None
    if senders == 1:
        slowdown = 1.0  # nothing is sent, so nothing is lost
    elif promise.omega is not None:
        master = 0.0 if setting.collective is cost.gather else promise.omega
        slowdown = bounds.slowdown(Pair(promise.omega, master), senders, setting.noise)
    else:
        master = 0.0 if setting.collective is cost.gather else promise.error
        slowdown = bounds.biased_slowdown(promise.error, master)
    total = gain = even = below = None
    if slowdown is not None:
        total = slowdown * step.total_seconds
        gain = setting.plain.total_seconds / total if total > 0 else 1.0
        even, below = (
            cost.break_even_bits_per_second(
                job, setting.link, candidate.codec, collective, slowdown=worth * slowdown
            )
            for worth in (1.0, WORTH)
        )
    return Prediction(
        candidate.spec, promise.unbiased, candidate.codec.bits_per_value, step, slowdown, total,
        gain, even, below, axis,
    )  # fmt: skip


def ranked(candidates: Iterable[Candidate], setting: Setting) -> list[Prediction]:
    """Forecasts by time to the same accuracy; those without a guarantee last, by step time."""
    return ranked_rows(predict(candidate, setting) for candidate in candidates)


def ranked_rows(found: Iterable[Prediction]) -> list[Prediction]:
    """Forecasts in the order of `ranked`."""
    return sorted(
        found,
        key=lambda own: (
            own.seconds_per_progress is None,
            own.seconds_per_progress or 0.0,
            own.step.total_seconds,
        ),
    )


def best(predictions: list[Prediction]) -> Prediction | None:
    """The first forecast if it gains at least 5 %. None means: do not compress."""
    found = predictions[0] if predictions else None
    return found if found is not None and found.gain is not None and found.gain >= WORTH else None


def pays_below_bits_per_second(predictions: list[Prediction]) -> float:
    """The bandwidth below which some operator gains enough to be advised."""
    return max((own.pays_below_bits_per_second or 0.0 for own in predictions), default=0.0)
