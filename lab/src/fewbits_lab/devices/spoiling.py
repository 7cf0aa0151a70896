"""Payloads that no writer makes, wrong at one of a thread's values at a time, and such with NaN."""

from collections.abc import Iterator

import numpy as np

from fewbits.reference.formats import FLOAT32
from fewbits.verify.tables import VerifyRows, WrittenBytes

# Five levels have 12 codes of 4 bits, the last for NaN: four more mean nothing.
LEVELLED = "natural-dithering:levels=5,block=16"
_BLOCK, _MISSING, _INFINITY = 16, 11, 0x7F800000
# Levels of a scale of 0, of both signs; codes that mean nothing; NaN; an infinite scale.
_SPOILT = ((3, 0), (8, 0), (12, None), (15, None), (_MISSING, None), (0, _INFINITY))


def lonely_place(row: int) -> int:
    """Where a row's one unlike value is: 16 rows have it at each of a thread's values."""
    return row % 16 * 256 + 5 * row % 31 * 8 + row % 8


def powers(rows: VerifyRows, written: WrittenBytes) -> Iterator[WrittenBytes]:
    """Payloads of natural compression: zeros with a sign and signs behind the end; then NaN."""
    offsets, sizes = (own.astype(np.int64) for own in rows.sections(FLOAT32))
    signed, missing = written.copy(), written.copy()
    for row, count in enumerate(rows.counts):
        place = min(lonely_place(row), count - 1)
        if row % 2 and count % 8:
            signed[offsets[row, 1] + sizes[row, 1] - 1] |= 0x80
        else:
            signed[offsets[row, 0] + place] = 0
            signed[offsets[row, 1] + place // 8] |= 1 << place % 8
        missing[offsets[row, 0] + place] = 0xFF
    yield from (signed, missing)


def levelled(rows: VerifyRows, written: WrittenBytes) -> Iterator[WrittenBytes]:
    """Payloads of `LEVELLED`: what `_SPOILT` says, and bits behind the last code."""
    offsets, sizes = (own.astype(np.int64) for own in rows.sections(FLOAT32))
    for code, scale in _SPOILT:
        spoilt = written.copy()
        for row, count in enumerate(rows.counts):
            place = min(lonely_place(row), count - 1)
            section = spoilt[offsets[row, 1] : offsets[row, 1] + sizes[row, 1]]
            codes = np.stack((section & 15, section >> 4), axis=1).reshape(-1)
            codes[place] = code
            if scale is not None:
                first = place // _BLOCK * _BLOCK
                own = offsets[row, 0] + first // _BLOCK * 4
                spoilt[own : own + 4] = np.array([scale], np.uint32).view(np.uint8)
                # All values of the scale that are the same one of a thread's 8, or of its 4.
                every = (8, 4)[row // 16 % 2]
                block = codes[first : min(first + _BLOCK, count)]
                block[:] = 0
                block[place % every :: every] = code
            if code > _MISSING and count % 2:
                codes[count] = 1
            section[:] = codes[::2] | codes[1::2] << 4
        yield spoilt
