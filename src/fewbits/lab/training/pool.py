"""Many runs, in processes of their own, each kept when it is done."""

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from fewbits.lab.experiment import Tick
from fewbits.lab.parts import Parts
from fewbits.lab.training import loop
from fewbits.lab.training.loop import Point
from fewbits.lab.training.plan import Job

_MOST = 4  # processes: each holds the data


def points(
    jobs: Sequence[Job], parts: Parts, tick: Tick, processes: int | None = None
) -> list[list[Point]]:
    """Every job's points, those that were kept among them; the order is that of the jobs."""
    missing = [job for job in jobs if parts.find(job.key) is None]
    done = len(jobs) - len(missing)
    for key, found in _computed(missing, processes or min(_MOST, os.cpu_count() or 1)):
        parts.add(key, [asdict(point) for point in found])
        done += 1
        tick(done / len(jobs))
    return [[Point(**own) for own in parts.find(job.key) or ()] for job in jobs]


def _computed(jobs: Sequence[Job], processes: int) -> Iterator[tuple[str, list[Point]]]:
    if processes == 1 or len(jobs) < 2:
        yield from map(_run, jobs)
        return
    # Spawned, not forked: torch's threads do not survive a fork.
    with multiprocessing.get_context("spawn").Pool(min(processes, len(jobs))) as pool:
        yield from pool.imap_unordered(_run, jobs)


def _run(job: Job) -> tuple[str, list[Point]]:
    return job.key, loop.run(job)
