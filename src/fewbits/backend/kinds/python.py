"""Rows of operators and stages that bring their own code and have no kind yet.

A row holds the number under which its owner is known in this process, no code. Whoever wants such
an operator on a device must make it a kind.
"""

import threading
from typing import Any, Protocol

from fewbits.backend.kernel import Kernel, Kind, Row, Written
from fewbits.reference.tally import Tally


class OwnCode(Protocol):
    """An operator that encodes and decodes rows."""

    def encode_row(self, row: Row) -> Written:
        """Write every section."""

    def decode_row(self, row: Row) -> Tally:
        """Read the sections into the values."""


_lock = threading.Lock()
_numbers: dict[Any, int] = {}
_owners: list[Any] = []


def kernel_of(owner: Any, sections: int = 0) -> Kernel:
    """The kernel of an operator or a stage; equal ones share it. A stage has side sections."""
    with _lock:
        number = _numbers.get(owner)
        if number is None:
            number = _numbers[owner] = len(_owners)
            _owners.append(owner)
    return Kernel(Kind.PYTHON, sections, (number,))


def owner_of(kernel: Kernel) -> Any:
    return _owners[int(kernel.numbers[0])]


def encode(row: Row) -> Written:
    owner: OwnCode = owner_of(row.kernel)
    return owner.encode_row(row)


def decode(row: Row) -> Tally:
    owner: OwnCode = owner_of(row.kernel)
    return owner.decode_row(row)
