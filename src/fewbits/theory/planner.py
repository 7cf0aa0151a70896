"""Which operator, if any: step times by the clock's model, iterations by the bounds, ranked."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from fewbits.core.guarantee import Guarantee
from fewbits.theory import bounds, cost
from fewbits.theory.bounds import Pair
from fewbits.theory.cost import Codec, Job, Link, Scheme, StepTime

WORTH = 1.05  # a smaller gain is below what the model can tell


@dataclass(frozen=True, slots=True)
class Setting:
    """What is planned for; `noise` as in `bounds.slowdown`."""

    job: Job
    link: Link
    scheme: Scheme = cost.sharded
    noise: float = math.inf

    @property
    def plain(self) -> StepTime:
        """A step without compression."""
        return cost.step_time(self.job, self.link)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An operator: its name, its promise for one unit, and what it costs."""

    spec: str
    guarantee: Guarantee
    codec: Codec


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the models say about a candidate that is used in both directions.

    `slowdown` is None where theory promises nothing. `seconds_per_progress` is the time for what
    one step without compression achieves. `gain` is how many times sooner the same accuracy is
    reached; below 1 it is later.
    """

    spec: str
    unbiased: bool
    bits_per_value: float
    step: StepTime
    slowdown: float | None
    seconds_per_progress: float | None
    gain: float | None
    break_even_bits_per_second: float | None


def predict(candidate: Candidate, setting: Setting) -> Prediction:
    """The step's time, its slowdown by Theorem 9 (or that of biased operators), and the product."""
    job, promise = setting.job, candidate.guarantee
    step = cost.step_time(job, setting.link, candidate.codec, setting.scheme)
    slowdown: float | None
    if job.workers == 1:
        slowdown = 1.0  # nothing is sent, so nothing is lost
    elif promise.omega is not None:
        master = 0.0 if setting.scheme is cost.gather else promise.omega
        slowdown = bounds.slowdown(Pair(promise.omega, master), job.workers, setting.noise)
    else:
        master = 0.0 if setting.scheme is cost.gather else promise.error
        slowdown = bounds.biased_slowdown(promise.error, master)
    total = gain = even = None
    if slowdown is not None:
        total = slowdown * step.total_seconds
        gain = setting.plain.total_seconds / total if total > 0 else 1.0
        even = cost.break_even_bits_per_second(
            job, candidate.codec, setting.scheme, slowdown=slowdown
        )
    return Prediction(
        candidate.spec, promise.unbiased, candidate.codec.bits_per_value, step, slowdown, total,
        gain, even,
    )  # fmt: skip


def ranked(candidates: Iterable[Candidate], setting: Setting) -> list[Prediction]:
    """Soonest first; those without a promise last, by the time of a step."""
    found = [predict(candidate, setting) for candidate in candidates]
    return sorted(
        found,
        key=lambda own: (
            own.seconds_per_progress is None,
            own.seconds_per_progress or 0.0,
            own.step.total_seconds,
        ),
    )


def best(predictions: list[Prediction]) -> Prediction | None:
    """The first that is worth it: 5 % sooner or more. None: do not compress."""
    found = predictions[0] if predictions else None
    return found if found is not None and found.gain is not None and found.gain >= WORTH else None


def pays_below_bits_per_second(predictions: list[Prediction]) -> float:
    """The bandwidth below which some operator gains, latency and overlap left aside."""
    return max((own.break_even_bits_per_second or 0.0 for own in predictions), default=0.0)
