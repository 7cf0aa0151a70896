"""The one way to kernels: rows of numbers and addresses in, bytes and tallies out.

A backend is chosen by where a `Buffer` lies. All give the same bits.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy.typing as npt

from fewbits.backend import cpu
from fewbits.backend.boxes import Boxes
from fewbits.backend.buffers import CPU, Buffer, devices
from fewbits.backend.kernel import Kernel, Row, RowDirection, Written
from fewbits.backend.table import Table
from fewbits.reference.formats import Format


class Backend(Protocol):
    """The interface of kernels to codec, collectives and session.

    Results may be pending on a stream: whoever calls `run` reads sizes and tallies from the table,
    and values not before it must.
    """

    def run(
        self,
        direction: RowDirection,
        table: Table,
        *,
        threads: int = 1,
        together: int = 1,
        counts: Buffer | None = None,
    ) -> None:
        """Run every row; `together` neighbouring rows go to one thread, in order.

        With `counts`, a line of `boxes.Count`, nothing is raised and nothing is read back.
        """

    def run_row(self, direction: RowDirection, row: Row) -> Written:
        """Run a table of one row."""

    def crc32c(self, buffer: Buffer, start: int = 0, *, threads: int = 1) -> int:
        """The checksum of a buffer."""

    def seal(self, message: Buffer, *, threads: int = 1) -> None:
        """Write the checksum of everything before it into a message's last four bytes."""

    def judge(self, message: Buffer, *, threads: int = 1) -> bool:
        """Whether a message's last four bytes are the checksum of those before them."""

    def put(self, buffer: Buffer, content: bytes) -> None:
        """Fill a buffer from the host."""

    # For exchanges at which the host does not look; `boxes` says what each of them does.

    def fill(self, boxes: Boxes, headers: Sequence[bytes]) -> None: ...

    def seal_boxes(self, boxes: Boxes, counts: Buffer, verdict: Buffer | None = None) -> None: ...

    def judge_boxes(
        self, boxes: Boxes, expected: Sequence[bytes], verdict: Buffer, met: Buffer
    ) -> None: ...

    def commit(self, now: Buffer, then: Buffer, verdict: Buffer, met: Buffer | None) -> None: ...

    def clear_if(self, values: Buffer, verdict: Buffer, met: Buffer | None) -> None: ...


def at(device: str) -> Backend:
    """The backend for memory of a device; `SpecError` if there is none."""
    if device == CPU:
        return cpu
    found: Backend = devices(device).at(device)
    return found


def of(buffer: Buffer) -> Backend:
    return at(buffer.device)


def refusal(device: str, kernel: Kernel, format: Format) -> str | None:
    """Why the backend of a device cannot run rows of a kernel, and what to use; None if it can."""
    if device == CPU:
        return None
    found: str | None = at(device).refusal(kernel, format)  # type: ignore[attr-defined]
    return found


def crc32c(array: npt.NDArray[Any], start: int = 0) -> int:
    """The checksum of an array of the host, continued from `start`."""
    data = Buffer.of(array)
    return of(data).crc32c(data, start)
