"""The one way to kernels: rows of numbers and addresses in, bytes and tallies out.

A backend is chosen by where a `Buffer` lies. All give the same bits.
"""

from typing import Any, Protocol

import numpy.typing as npt

from fewbits.backend import cpu
from fewbits.backend.buffers import CPU, Buffer, missing
from fewbits.backend.kernel import Row, RowDirection, Written
from fewbits.backend.table import Table


class Backend(Protocol):
    """The interface of kernels to codec, collectives and session.

    Results may be pending on a stream: whoever calls `run` reads sizes and tallies from the table,
    and values not before it must.
    """

    def run(
        self, direction: RowDirection, table: Table, *, threads: int = 1, together: int = 1
    ) -> None:
        """Run every row; `together` neighbouring rows go to one thread, in order."""

    def run_row(self, direction: RowDirection, row: Row) -> Written:
        """Run a table of one row."""

    def crc32c(self, buffer: Buffer, start: int = 0, *, threads: int = 1) -> int:
        """The checksum of a buffer."""

    def seal(self, message: Buffer, *, threads: int = 1) -> None:
        """Write the checksum of everything before it into a message's last four bytes."""

    def judge(self, message: Buffer, *, threads: int = 1) -> bool:
        """Whether a message's last four bytes are the checksum of those before them."""


_BACKENDS: dict[str, Backend] = {CPU: cpu}


def at(device: str) -> Backend:
    """The backend for memory of a device; `SpecError` if there is none."""
    backend = _BACKENDS.get(device)
    if backend is None:
        raise missing(device)
    return backend


def of(buffer: Buffer) -> Backend:
    return at(buffer.device)


def crc32c(array: npt.NDArray[Any], start: int = 0) -> int:
    """The checksum of an array of the host, continued from `start`."""
    data = Buffer.of(array)
    return of(data).crc32c(data, start)
