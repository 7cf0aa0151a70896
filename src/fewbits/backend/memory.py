"""Memory by its address, through ctypes."""

import ctypes
from ctypes import c_uint8

import numpy as np

from fewbits.backend.library import Bytes, address, advise_huge


def array_at(start: int, size: int) -> Bytes:
    """The memory from an address on, which someone else keeps alive."""
    if not size:
        return np.empty(0, np.uint8)
    return np.frombuffer(memoryview((c_uint8 * size).from_address(start)), np.uint8)


def new_bytes(size: int) -> tuple[bytes, Bytes]:
    """A new `bytes` object and a writable view of it, for filling before anyone else sees it.

    This is how C extensions make `bytes` without a second copy; a copy of fresh memory would cost
    more than the compression.
    """
    result: bytes = _make_bytes(None, size)
    buffer = array_at(address(np.frombuffer(result, np.uint8)), size)
    if size >= _HUGE:
        advise_huge(buffer)
    return result, buffer


_make_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize
_make_bytes.restype, _make_bytes.argtypes = ctypes.py_object, [ctypes.c_char_p, ctypes.c_ssize_t]
_HUGE = 1 << 21  # bytes from which huge pages pay
