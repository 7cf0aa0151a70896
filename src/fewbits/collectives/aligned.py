"""Payloads of streams: every section has a fixed size and begins at a multiple of 16 bytes.

Wide loads and stores of a device need that. The bytes between sections are zeros.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from fewbits.backend.boxes import BOX_ALIGNMENT, Boxes
from fewbits.backend.buffers import Buffer
from fewbits.collectives.payload import Payload, Unit
from fewbits.errors import SpecError
from fewbits.reference.formats import Format

_SHIFT = np.uint64(BOX_ALIGNMENT - 1)
_UNBOUND = Buffer.zeros(0)


class AlignedPayload(Payload):
    """Slots of which no section varies; `lie_in` says where they lie."""

    def __init__(
        self, units: Sequence[Unit], side: Literal["uplink", "downlink"], format: Format
    ) -> None:
        self._take_slots(units, side, format)
        if not self.fixed:
            operator = next(slot.operator for slot in self.slots if any(slot.varies))
            raise SpecError(refused(str(operator)))
        sizes = (self._largest + _SHIFT) & ~_SHIFT
        ends = np.cumsum(sizes.reshape(-1), dtype=np.uint64).reshape(sizes.shape)
        self._roomy = ends - sizes
        self.capacity = self.length = int(sizes.sum())
        self.memory = _UNBOUND
        self.make_room()

    def lie_in(self, boxes: Boxes, number: int) -> None:
        """Take the payload of a box for its memory."""
        self.memory = boxes.payload(number)
        assert self.memory.size == self.length


def refused(operator: str) -> str:
    """Why an operator cannot go through a stream."""
    return (
        f"{operator} makes messages of varying length, which a stream on a device cannot carry: "
        "use its packed coder, or pass staged=True to go through the host"
    )
