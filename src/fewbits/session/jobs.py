"""Jobs: batches of a model's values that become means."""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fewbits import backend
from fewbits.backend.boxes import Count
from fewbits.backend.buffers import Buffer
from fewbits.collectives.payload import Unit
from fewbits.core import vector
from fewbits.core.vector import Vector
from fewbits.reference.formats import Format
from fewbits.session.routing import ModelParameter, Routing

_Array = npt.NDArray[Any]


class Outcome(Protocol):
    """The result of a batch, which is checked when the step ends."""

    def is_finite(self) -> bool:
        """Whether all values are finite; the same answer on all ranks."""

    def clear(self) -> None:
        """Replace all values by zero, because the step is skipped."""


class JobValues(Outcome, Protocol):
    """A flat vector of some framework; the session's thread calls its methods."""

    @property
    def count(self) -> int:
        """How many values there are."""

    @property
    def nbytes(self) -> int:
        """How many bytes they take."""

    @property
    def dtype(self) -> str:
        """The name of their type."""

    def read(self, *, wide: bool) -> Vector:
        """The values; `wide` with 32 bits or more. Means are written over them where they fit."""

    def write(self, part: slice, mean: _Array) -> None:
        """Write the mean of some values; in 16 bits an overflow becomes infinite.

        There is nothing to do if `read` returned the vector's own memory, which holds the mean.
        """

    def write_back(self) -> None:
        """Copy back the vector that `read` returned, which had the values' own format."""

    def multiply(self, factor: float) -> None:
        """Multiply all values."""

    def sample(self, count: int, start: int = 0) -> npt.NDArray[np.float32]:
        """A copy of the values from `start` on, at most `count`."""


class StreamOutcome(Protocol):
    """The result of a batch of a stream, at which the host does not look."""

    def note_nonfinite(self, counts: Buffer) -> None:
        """Add the number of values that are not finite to a line of `boxes.Count`."""

    def clear_if(self, device: str, verdict: Buffer, met: Buffer | None) -> None:
        """Replace all values by zero unless the step has ended well."""


class StreamValues(JobValues, StreamOutcome, Protocol):
    """A flat vector that can be worked on where it lies."""

    @property
    def ready(self) -> object:
        """The event after which a device has the values, if they need one."""

    def lend(self, device: str, *, wide: bool) -> tuple[Buffer, Format]:
        """The values where they lie, for a stream; `wide` with 32 bits or more."""

    def lend_columns(
        self, device: str, columns: slice, rows: int, *, wide: bool
    ) -> tuple[Buffer, Format]:
        """The same of some columns of a vector that has so many rows."""

    def take(self, part: slice, mean: Buffer, format: Format) -> None:
        """Write the mean of some values, unless it lies there already."""


@dataclass(slots=True)
class Job:
    """Values of some parameters, one after the other, that become the mean over all ranks.

    `digest` is called once: a checksum of parameters that should be equal on all ranks, or 0 to
    claim nothing. `ended` is called with None or with an error.
    """

    index: int
    values: JobValues
    parameters: Sequence[ModelParameter]
    is_last: bool = False
    without_inputs: bool = False  # no gradient: this rank only accompanies the others
    unused: Collection[str] = ()  # names of parameters that the backward pass did not reach
    digest: Callable[[], int] = lambda: 0
    witness: Callable[[Buffer], None] = lambda _: None  # the same for streams; see `StepRecord`
    ended: Callable[[Exception | None], None] = lambda _: None
    outcome: Outcome | None = None  # by default the values
    since: float = field(default_factory=time.perf_counter)
    done: threading.Event = field(default_factory=threading.Event)


class Layout(Protocol):
    """The places of parameters in a vector that has a row for each rank."""

    def pieces(self, routing: Routing, rows: int = 0) -> list[tuple[slice, list[Unit]]]:
        """Columns that are reduced together, and their units.

        With `rows` a piece has as many values as if there were so many rows.
        """


@dataclass(slots=True)
class ScatterJob(Job):
    """A vector with a row for each rank: this rank's row of the mean, or sum, goes to `result`.

    `peers` are the ranks that keep a shard each, by default all, and `stream` names their random
    stream. A result that `goes_on` is averaged over replicas by a job of its own.
    """

    result: JobValues = field(kw_only=True)
    layout: Callable[[int, int], Layout] = field(kw_only=True)  # of so many values on so many ranks
    sums: bool = False
    factor: float = 1.0  # of the result
    peers: Sequence[int] = ()
    stream: tuple[int | str, ...] = ()
    goes_on: bool = False


@dataclass(slots=True)
class ReplicaJob(Job):
    """A rank's shard, which becomes the mean, or sum, over the `peers` that keep the same one.

    `layout` is that of the vector with a row for each shard, and this one has a `place` in it.
    `owner` says which of the peers, by its number, averages a unit.
    """

    layout: Layout = field(kw_only=True)
    place: int = field(kw_only=True)
    peers: Sequence[int] = field(kw_only=True)
    owner: Callable[[Unit], int] = field(kw_only=True)
    sums: bool = False


class ArrayValues:
    """Values of a flat, contiguous NumPy array."""

    def __init__(self, array: _Array) -> None:
        self._array, self._is_shared = array, False

    @property
    def count(self) -> int:
        return self._array.size

    @property
    def nbytes(self) -> int:
        return self._array.nbytes

    @property
    def dtype(self) -> str:
        return self._array.dtype.name

    def read(self, *, wide: bool) -> Vector:
        """The array itself, or a float32 copy of 16-bit values."""
        narrow = self._array.itemsize < 4
        self._is_shared = not narrow
        array = self._array.astype(np.float32) if narrow and wide else self._array
        return vector.from_array(array)[0]

    def write(self, part: slice, mean: _Array) -> None:
        if not self._is_shared:
            with np.errstate(all="ignore"):  # an overflow becomes infinite
                self._array[part] = mean

    def write_back(self) -> None:
        """Do nothing, because `read` returns the array itself."""

    @property
    def ready(self) -> None:
        """Nothing to wait for."""

    def lend(self, device: str, *, wide: bool) -> tuple[Buffer, Format]:
        """The array itself, or a float32 copy of 16-bit values."""
        lent = self.read(wide=wide)
        return Buffer.of(lent.bits), lent.format

    def lend_columns(
        self, device: str, columns: slice, rows: int, *, wide: bool
    ) -> tuple[Buffer, Format]:
        part = np.ascontiguousarray(self._array.reshape(rows, -1)[:, columns]).reshape(-1)
        return ArrayValues(part).lend(device, wide=wide)

    def take(self, part: slice, mean: Buffer, format: Format) -> None:
        with np.errstate(all="ignore"):  # an overflow becomes infinite
            self._array[part] = mean.array(format.name)[: self._array[part].size]

    def note_nonfinite(self, counts: Buffer) -> None:
        counts.array(np.int64)[Count.NONFINITE] += np.count_nonzero(~np.isfinite(self._array))

    def clear_if(self, device: str, verdict: Buffer, met: Buffer | None) -> None:
        backend.at(device).clear_if(Buffer.of(self._array), verdict, met)

    def is_finite(self) -> bool:
        return bool(np.isfinite(self._array).all())

    def clear(self) -> None:
        self._array.fill(0)

    def multiply(self, factor: float) -> None:
        self._array *= self._array.dtype.type(factor)

    def sample(self, count: int, start: int = 0) -> npt.NDArray[np.float32]:
        return self._array[start : start + count].astype(np.float32)
