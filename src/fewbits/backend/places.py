"""The native core's functions for sets of places through ctypes."""

import ctypes
from ctypes import POINTER, byref, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.backend.library import _SIZED, Bytes, _checked, _core, address, alike, sized
from fewbits.reference.formats import Bits, Format

PlaceArray = npt.NDArray[np.uint32]
Band = tuple[int, int]
_ROOM = 1 << 19  # bytes of a list of keys, for each thread
_BINS = 1 << 12


class Chosen(ctypes.Structure):
    """Which values of a part are kept."""

    _fields_ = alike(c_uint64, "d", "k", "threshold", "ties", "first", "before")


class SpreadTask(ctypes.Structure):
    """Which places of a section are read, and what becomes of their values."""

    _fields_ = (*alike(c_uint64, "d", "k", "first", "last"), *alike(c_uint32, "item", "add"))


_VALUES = (c_void_p, c_int, c_size_t)
for _name, _arguments in {
    "guess_keys": (*_VALUES, c_size_t, c_uint64 * 2),
    "near_keys": (*_VALUES, c_uint64 * 2, *_SIZED, c_void_p, c_uint64 * 2),
    "keep": (*_VALUES, POINTER(Chosen), *_SIZED, *_SIZED, POINTER(c_uint64)),
    "spread": (POINTER(SpreadTask), *_SIZED, c_void_p, c_void_p),
    "places_encode": (*_SIZED, c_uint64, *_SIZED),
    "places_decode": (*_SIZED, c_uint64, *_SIZED),
    "ranged_decode": (*_SIZED, c_uint64, *_SIZED),
}.items():
    _function = getattr(_core, f"fewbits_{_name}")
    _function.restype, _function.argtypes = c_int, _arguments


class Near(NamedTuple):
    """How many keys of a part are above a band and in it; those, or their numbers in bins."""

    above: int
    inside: int
    keys: Bits
    bins: npt.NDArray[np.uint64]

    @property
    def is_listed(self) -> bool:
        return self.inside == self.keys.size


def guess_keys(bits: Bits, format: Format, k: int) -> Band:
    """Magnitudes between which the `k`-th largest is likely to lie, both included."""
    band = (c_uint64 * 2)()
    _checked(_core.fewbits_guess_keys(address(bits), format.code, bits.size, k, band))
    return band[0], band[1]


def near_keys(bits: Bits, format: Format, band: Band, room: int = _ROOM) -> Near:
    """The magnitudes of a part in a band, of which `room` bytes may be listed."""
    keys = np.empty(min(room // format.itemsize, bits.size), format.bits)
    bins = np.empty(_BINS, np.uint64)
    counts, own = (c_uint64 * 2)(), (c_uint64 * 2)(*band)
    values = address(bits), format.code, bits.size
    _checked(_core.fewbits_near_keys(*values, own, address(keys), keys.size, address(bins), counts))
    return Near(counts[0], counts[1], keys[: counts[1]], bins)


def keep(bits: Bits, format: Format, how: Chosen, section: Bytes, kept: Bits) -> int:
    """Write what is kept of a part, and its places; how many of it are not finite."""
    nonfinite = c_uint64()
    values, out = (address(bits), format.code, bits.size), (address(kept), kept.size)
    _checked(_core.fewbits_keep(*values, byref(how), *sized(section), *out, byref(nonfinite)))
    return nonfinite.value


def spread(task: SpreadTask, section: Bytes, kept: int, values: int) -> None:
    """Put kept values to their places, or add them there; both are addresses of whole vectors."""
    _checked(_core.fewbits_spread(byref(task), *sized(section), kept, values))


def encode(places: PlaceArray, d: int, out: Bytes) -> None:
    """Ascending places below `d` into exactly `out`."""
    _checked(_core.fewbits_places_encode(*sized(places, np.uint32), d, *sized(out)))


def decode(data: Bytes, d: int, places: PlaceArray) -> None:
    """The reverse; `DecodeError` for bytes that `encode` does not write."""
    _checked(_core.fewbits_places_decode(*sized(data), d, *sized(places, np.uint32)))


def decode_ranged(data: Bytes, d: int, places: PlaceArray) -> None:
    """The same of wire version 1."""
    _checked(_core.fewbits_ranged_decode(*sized(data), d, *sized(places, np.uint32)))
