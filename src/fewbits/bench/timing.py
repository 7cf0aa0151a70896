"""Times several candidates so that they can be compared even on a busy machine.

Candidates run in turn, round after round, forwards and backwards. So a slow second hits all of
them, and none always follows the same neighbour. Ratios are taken within a round, and their median
over the rounds is reported. With one thread they compare processor time, which does not count the
time of other programs; with more threads, wall time.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Seconds = npt.NDArray[np.float64]
LEAST_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class TimedJob:
    """A job to time: `run` does the work, `check` raises if the result is wrong."""

    name: str
    threads: int
    run: Callable[[], object]
    check: Callable[[], None]


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """The times of one candidate, a value for every round."""

    threads: int
    wall: Seconds
    cpu: Seconds

    @property
    def compared(self) -> Seconds:
        return self.cpu if self.threads == 1 else self.wall

    def speed_against(self, other: "Samples") -> Seconds:
        """How many times as fast as `other`, round by round."""
        return other.compared / self.compared


@dataclass(frozen=True, slots=True)
class Plan:
    """How long to measure: `rounds`, or fewer if `seconds` are over and there are a few."""

    rounds: int
    seconds: float = float("inf")


def part_of(progress: Callable[[float], None], number: int, steps: int) -> Callable[[float], None]:
    """The progress of one step of several."""
    return lambda part: progress((number + part) / steps)


def measured(
    candidates: Sequence[TimedJob], plan: Plan, progress: Callable[[float], None]
) -> list[Samples]:
    """Warm up, check, time in turns and check again; a wrong result raises."""
    for candidate in candidates:
        candidate.run()
        candidate.check()
    wall: list[list[float]] = [[] for _ in candidates]
    cpu: list[list[float]] = [[] for _ in candidates]
    start = time.monotonic()
    for done in range(plan.rounds):
        order = range(len(candidates))
        for place in reversed(order) if done % 2 else order:
            seconds, cpu_seconds = _timed(candidates[place])
            wall[place].append(seconds)
            cpu[place].append(cpu_seconds)
        elapsed = time.monotonic() - start
        if done + 1 >= LEAST_ROUNDS and elapsed >= plan.seconds:
            break
        progress(max((done + 1) / plan.rounds, elapsed / max(elapsed, plan.seconds)))
    for candidate in candidates:
        candidate.check()
    return [
        Samples(candidate.threads, np.array(own_wall), np.array(own_cpu))
        for candidate, own_wall, own_cpu in zip(candidates, wall, cpu, strict=True)
    ]


def _timed(candidate: TimedJob) -> tuple[float, float]:
    cpu_clock = time.thread_time if candidate.threads == 1 else time.process_time
    wall, cpu = time.perf_counter(), cpu_clock()
    candidate.run()
    cpu, wall = cpu_clock() - cpu, time.perf_counter() - wall
    least = 1e-9  # a clock may stand still during a tiny job, and a ratio needs a number
    return max(wall, least), max(cpu, least)
