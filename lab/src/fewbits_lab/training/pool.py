"""Many runs, in processes of their own, each kept when it is done."""

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from fewbits_lab.experiment import Tick
from fewbits_lab.parts import FinishedParts
from fewbits_lab.training import loop
from fewbits_lab.training.loop import CurvePoint
from fewbits_lab.training.plan import TrainingRun

_MOST = 4  # processes: each holds the data


def points(
    jobs: Sequence[TrainingRun], parts: FinishedParts, tick: Tick, processes: int | None = None
) -> list[list[CurvePoint]]:
    """Every job's points, those that were kept among them; the order is that of the jobs."""
    missing = [job for job in jobs if parts.find(job.key) is None]
    done = len(jobs) - len(missing)
    for key, found in _computed(missing, processes or min(_MOST, os.cpu_count() or 1)):
        parts.add(key, [asdict(point) for point in found])
        done += 1
        tick(done / len(jobs))
    return [[CurvePoint(**own) for own in parts.find(job.key) or ()] for job in jobs]


def _computed(
    jobs: Sequence[TrainingRun], processes: int
) -> Iterator[tuple[str, list[CurvePoint]]]:
    if processes == 1 or len(jobs) < 2:
        yield from map(_run, jobs)
        return
    # Spawned, not forked: torch's threads do not survive a fork.
    with multiprocessing.get_context("spawn").Pool(min(processes, len(jobs))) as pool:
        yield from pool.imap_unordered(_run, jobs)


def _run(job: TrainingRun) -> tuple[str, list[CurvePoint]]:
    return job.key, loop.run(job)
