"""Fixed-width packing: least significant bit first, zero bits up to the last byte's end."""

import numpy as np
import numpy.typing as npt

from fewbits.errors import DecodeError

_Codes = npt.NDArray[np.uint16]
_Bytes = npt.NDArray[np.uint8]
MAX_WIDTH = 16


def packed_size(count: int, width: int) -> int:
    return (count * width + 7) // 8


def pack(codes: _Codes, width: int) -> _Bytes:
    bits = (codes[:, None] >> np.arange(width, dtype=np.uint16)) & np.uint16(1)
    return np.packbits(bits.astype(np.uint8).ravel(), bitorder="little")


def unpack(packed: _Bytes, width: int, bound: int, count: int) -> _Codes:
    """The `count` codes that `pack` wrote; refuses any other bytes."""
    bits = np.unpackbits(packed, bitorder="little")
    if bits[count * width :].any():
        raise DecodeError("unused bits at the end of a section are not zero")
    fields = bits[: count * width].reshape(count, width).astype(np.uint32)
    codes: _Codes = (fields << np.arange(width, dtype=np.uint32)).sum(axis=1).astype(np.uint16)
    if (codes >= bound).any():
        raise DecodeError("a code is not below its bound")
    return codes
