"""Arrays of codes to and from sections, in native code: the bytes of `fewbits.coding`."""

import struct

import numpy as np
import numpy.typing as npt

from fewbits.backend import library
from fewbits.backend.library import Bytes
from fewbits.coding import enumerative, rans
from fewbits.coding.bitpack import packed_size
from fewbits.errors import DecodeError
from fewbits.reference.formats import Bits, Format
from fewbits.rng import Rng

PlainCodes = npt.NDArray[np.uint16]
Signed = npt.NDArray[np.int32]
_LENGTH = struct.Struct("<HB")  # of a coded block, 24 bits


def pack(codes: PlainCodes, width: int, into: Bytes) -> None:
    """Write `codes` to `into`, which must have exactly the packed size."""
    library.pack(codes, width, into)


def unpack(packed: Bytes, width: int, bound: int, count: int) -> PlainCodes:
    """The codes in `packed`; `DecodeError` if `pack` cannot have made it below `bound`."""
    codes = np.empty(count, np.uint16)
    library.unpack(packed, width, bound, codes)
    return codes


def write_floats(bits: Bits, into: Bytes) -> int:
    """Write numbers unchanged; returns the size."""
    into[:] = bits.view(np.uint8)
    return into.size


def read_floats(data: Bytes, format: Format) -> Bits:
    """The bits of numbers, wherever the section starts."""
    return np.frombuffer(data.tobytes(), format.bits)


def write_key(key: bytes, into: Bytes) -> int:
    """Send a stream itself: nothing that must stay private may be drawn from it."""
    into[:] = np.frombuffer(key, np.uint8)[: into.size]
    return into.size


def read_key(data: Bytes) -> Rng:
    """The stream that was sent; every key is one."""
    return Rng(data.tobytes())


def coded_encode(codes: PlainCodes, bound: int, signs: Bytes | None = None) -> bytes:
    """The section of codes below `bound`; `signs` holds a 0 or 1 for each, ignored on zeros."""
    rans.check_bound(bound)
    if codes.size and int(codes.max()) >= bound:
        raise ValueError(f"code {int(codes.max())} is not below {bound}")
    if signs is not None and signs.size != codes.size:
        raise ValueError(f"{codes.size} codes cannot have {signs.size} signs")
    out = np.empty(rans.largest_size(codes.size, bound, signs is not None), np.uint8)
    plane = None if signs is None else np.packbits(signs, bitorder="little")
    return out[: library.coded_encode(codes, plane, bound, out)].tobytes()


def coded_decode(
    data: bytes | Bytes, bound: int, count: int, signed: bool
) -> tuple[PlainCodes, Bytes | None]:
    """The codes and signs in a section; `DecodeError` for bytes that are none."""
    rans.check_bound(bound)
    codes = np.empty(count, np.uint16)
    plane = np.empty(packed_size(count, 1), np.uint8) if signed else None
    library.coded_decode(np.frombuffer(data, np.uint8), bound, codes, plane)
    if plane is None:
        return codes, None
    return codes, np.unpackbits(plane, count=count, bitorder="little")


def dithered_encode(
    codes: PlainCodes, bound: int, signs: Bytes, key: bytes, first: int = 0
) -> bytes:
    """The section of codes that were rounded with the dither of a stream, from word `first` on."""
    out = np.empty(rans.largest_size(codes.size, bound, True), np.uint8)
    plane = np.packbits(signs, bitorder="little")
    return out[: library.dithered_encode(codes, plane, bound, key, out, first)].tobytes()


def dithered_decode(
    data: bytes | Bytes, bound: int, count: int, key: bytes, first: int = 0
) -> tuple[PlainCodes, Bytes]:
    """The codes and signs in such a section; `DecodeError` for bytes that are none."""
    codes, plane = np.empty(count, np.uint16), np.empty(packed_size(count, 1), np.uint8)
    library.dithered_decode(np.frombuffer(data, np.uint8), bound, key, codes, plane, first)
    return codes, np.unpackbits(plane, count=count, bitorder="little")


def write_coded(values: Signed, bound: int, into: Bytes, *, signed: bool = True) -> int:
    """Entropy code integers, with signs if `signed`; returns the size."""
    plane = np.packbits(values < 0, bitorder="little") if signed else None
    return library.coded_encode(np.abs(values).astype(np.uint16), plane, bound, into)


def read_coded(data: Bytes, bound: int, count: int, *, signed: bool = True) -> Signed:
    """The reverse; `DecodeError` for bytes that `write_coded` does not write."""
    codes, signs = coded_decode(data, bound, count, signed)
    values = codes.astype(np.int32)
    if signs is not None:
        values *= np.int8(1) - 2 * signs.view(np.int8)
    return values


def block_starts(section: Bytes, blocks: int) -> list[int]:
    """Where each block of a coded section begins, and where the last one ends.

    Judged first and as a whole, so that an error does not depend on the number of threads.
    """
    starts, at = [0], 0
    try:
        for _ in range(blocks):
            low, high = _LENGTH.unpack_from(section.data, at)
            at += rans.LENGTH_SIZE + low + (high << 16)
            starts.append(at)
    except struct.error:  # there is no length so far behind
        raise DecodeError(rans.UNFILLED) from None
    if at != section.size:
        raise DecodeError(rans.UNFILLED)
    return starts


def write_enumerated(scales: Bits, codes: Signed, block: int, format: Format, into: Bytes) -> int:
    """Blocks of a scale and signed codes as one bit string; returns the size."""
    stream = enumerative.Stream(scales.astype(np.uint64), codes)
    data = np.packbits(enumerative.encode(stream, block, format), bitorder="little")
    into[: data.size] = data
    return data.size


def read_enumerated(
    data: Bytes, count: int, block: int, format: Format, bound: int
) -> tuple[Bits, Signed]:
    """The scales and the codes; `DecodeError` for bytes that encoding does not write."""
    found = enumerative.decode(data, count, block, format, bound)
    return found.scales.astype(format.bits), found.codes
