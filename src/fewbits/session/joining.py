"""Small jobs that are exchanged together.

Every batch costs two exchanges, however small it is. So neighbours of a step are copied into one
vector while they fit into what ranks have agreed on. Means do not depend on it, because a unit's
bytes never depend on its batch.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits.backend import crc32c
from fewbits.core.vector import Vector
from fewbits.session.jobs import Job, JobValues

_Kind = tuple[int, str]  # how many values, and of which type


class Joiner:
    """Hands out the jobs of a step in their order, some of them as one.

    It waits for a job only if the last step had one in the same place, so the first job of a step
    need not wait for a second one that is too large to be joined.
    """

    def __init__(self) -> None:
        self._before: list[_Kind] = []  # the jobs of the last step
        self._now: list[_Kind] = []
        self._waiting: list[Job] = []
        self._room: dict[int, npt.NDArray[Any]] = {}

    @property
    def values(self) -> int:
        """How many values the step has had."""
        return sum(count for count, _ in self._now)

    def add(self, job: Job, most: int) -> list[Job]:
        """Take a job; returns what is exchanged now, of at most `most` values if joined."""
        kind = job.values.count, job.values.dtype
        self._now.append(kind)
        place = len(self._now)
        follows = self._before[place - 1 : place] == [kind] and self._before[place : place + 1]
        self._waiting.append(job)
        held = sum(each.values.count for each in self._waiting)
        if (
            follows
            and not job.is_last
            and follows[0][1] == kind[1]
            and held + follows[0][0] <= most
        ):
            return []
        return self.rest()

    def rest(self) -> list[Job]:
        """The jobs that wait: as one, unless this step is not like the last one."""
        waiting, self._waiting = self._waiting, []
        if len({job.values.dtype for job in waiting}) > 1 or len(waiting) < 2:
            return waiting
        return [_joined(waiting, self._room)]

    def end_step(self) -> None:
        self._before, self._now = self._now, []


class JoinedValues:
    """Values of several jobs one after the other, copied to memory that is kept in `room`."""

    def __init__(
        self, parts: Sequence[JobValues], room: dict[int, npt.NDArray[Any]], index: int
    ) -> None:
        self._parts, self._room, self._index = parts, room, index
        self._read: list[Vector] = []
        self._ends = np.cumsum([part.count for part in parts]).tolist()

    @property
    def count(self) -> int:
        return int(self._ends[-1])

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._parts)

    @property
    def dtype(self) -> str:
        return self._parts[0].dtype

    def read(self, *, wide: bool) -> Vector:
        self._read = [part.read(wide=wide) for part in self._parts]
        format, room = self._read[0].format, self._room.get(self._index)
        if room is None or room.dtype != format.bits or room.size != self.count:
            room = self._room[self._index] = np.empty(self.count, format.bits)
        np.concatenate([own.bits for own in self._read], out=room)
        return Vector(room, format)

    def write(self, part: slice, mean: npt.NDArray[Any]) -> None:
        """Write the mean to the parts' vectors where it fits, and let each take it from there."""
        for own, vector, end in zip(self._parts, self._read, self._ends, strict=True):
            first = end - own.count
            start, stop = max(part.start, first), min(part.stop, end)
            if start < stop:
                there, piece = slice(start - first, stop - first), mean[start - part.start :]
                piece = piece[: stop - start]
                if vector.format.name == piece.dtype.name:
                    vector.bits[there] = piece.view(vector.bits.dtype)
                own.write(there, piece)

    def write_back(self) -> None:
        for part in self._parts:
            part.write_back()

    def is_finite(self) -> bool:
        return all(part.is_finite() for part in self._parts)

    def clear(self) -> None:
        for part in self._parts:
            part.clear()

    def multiply(self, factor: float) -> None:
        for part in self._parts:
            part.multiply(factor)

    def sample(self, count: int, start: int = 0) -> npt.NDArray[np.float32]:
        return self._parts[0].sample(count, start)


def _joined(jobs: Sequence[Job], room: dict[int, npt.NDArray[Any]]) -> Job:
    first = jobs[0]
    return Job(
        first.index,
        JoinedValues([job.values for job in jobs], room, first.index),
        [parameter for job in jobs for parameter in job.parameters],
        is_last=jobs[-1].is_last,
        without_inputs=all(job.without_inputs for job in jobs),
        unused={name for job in jobs for name in job.unused},
        digest=lambda: digest_of([job.digest() for job in jobs]),
        since=jobs[-1].since,
    )


def digest_of(digests: Sequence[int]) -> int:
    """One of all digests; 0, which claims nothing, if one of them does not."""
    return (crc32c(np.array(digests, "<u8").view(np.uint8)) or 1) if all(digests) else 0
