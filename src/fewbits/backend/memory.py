"""Memory by its address, through ctypes."""

import ctypes
from ctypes import c_uint8

import numpy as np

from fewbits.backend.library import Bytes, advise_huge


def array_at(start: int, size: int) -> Bytes:
    """The memory from an address on, which someone else keeps alive."""
    if not size:
        return np.empty(0, np.uint8)
    return np.frombuffer(memoryview((c_uint8 * size).from_address(start)), np.uint8)


def new_bytes(size: int) -> tuple[bytes, int]:
    """A new `bytes` object and its address, for filling before anyone else sees it.

    This is how C extensions make `bytes` without a second copy; a copy of fresh memory would cost
    more than the compression.
    """
    result: bytes = _make_bytes(None, size)
    start = bytes_address(result)
    if size >= _HUGE:
        advise_huge(array_at(start, size))
    return result, start


def bytes_address(data: bytes) -> int:
    """Where the content of a `bytes` object is."""
    return int(_address(data))


_make_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize
_make_bytes.restype, _make_bytes.argtypes = ctypes.py_object, [ctypes.c_char_p, ctypes.c_ssize_t]
_address = ctypes.pythonapi.PyBytes_AsString
_address.restype, _address.argtypes = ctypes.c_size_t, [ctypes.py_object]
_HUGE = 1 << 21  # bytes from which huge pages pay
