"""Fixed-width packing: least significant bit first, zero bits up to the last byte's end."""

import numpy as np
import numpy.typing as npt

from fewbits import _native
from fewbits.kernels.native import packed_size

Codes = npt.NDArray[np.uint16]
MAX_WIDTH = 16

__all__ = ["MAX_WIDTH", "pack", "packed_size", "unpack"]


def pack(codes: Codes, width: int, into: _native.Bytes) -> None:
    """Write `codes` to `into`, which must have exactly the packed size."""
    _native.pack(codes, width, into)


def unpack(packed: _native.Bytes, width: int, bound: int, count: int) -> Codes:
    """The codes in `packed`; `DecodeError` if `pack` cannot have made it below `bound`."""
    codes = np.empty(count, np.uint16)
    _native.unpack(packed, width, bound, codes)
    return codes
