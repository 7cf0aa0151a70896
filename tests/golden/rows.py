"""The native rows of all golden frames, with the memory before and after each call.

`tests/native/replay.cpp` reads them and makes the calls again, on a processor that may be another.
"""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

import fewbits
from fewbits.backend import native_rows
from fewbits.reference.formats import FORMATS
from golden.regenerate import GOOD

DIRECTIONS = ("encode", "decode")
ITEMS = {format.code: format.bits.itemsize for format in FORMATS}


def memory(address: int, size: int) -> bytes:
    return ctypes.string_at(int(address), int(size)) if size else b""


def parts(row: Any) -> list[bytes]:
    """What a row points to: values, then sections."""
    places = [(row["values"], row["count"] * ITEMS[row["dtype"]])]
    places += zip(row["sections"], row["sizes"], strict=True)
    return [memory(address, size) for address, size in places]


def recorded(direction: str, call: Callable[..., int], out: BinaryIO) -> Callable[..., int]:
    def record(table: Any, count: int, failed: Any) -> int:
        at = table if isinstance(table, int) else ctypes.addressof(table)
        size = count * native_rows.NATIVE_ROW.itemsize
        before = np.frombuffer(memory(at, size), native_rows.NATIVE_ROW)
        given = [parts(row) for row in before]
        status = call(table, count, failed)
        after = np.frombuffer(memory(at, size), native_rows.NATIVE_ROW)
        # A row may say that it has written less than there is room for: all of it is kept.
        made = [parts(row) for row in before]
        for i in range(count):
            head = (DIRECTIONS.index(direction), status, before[i].nbytes)
            out.write(np.array(head, "<u8").tobytes() + before[i].tobytes() + after[i].tobytes())
            pairs = zip(given[i], made[i], strict=True)
            out.writelines(np.array(len(a), "<u8").tobytes() + a + b for a, b in pairs)
        return status

    return record


def record(path: Path) -> int:
    """Encode and decode all golden frames with their rows noted; how many frames had a row."""
    functions, count = dict(native_rows._FUNCTIONS), 0
    with path.open("wb") as out:
        try:
            for name in DIRECTIONS:
                native_rows._FUNCTIONS[name] = recorded(name, functions[name], out)
            for case in GOOD:
                start = out.tell()
                fewbits.decompress(case.frame(), threads=1)
                count += out.tell() > start
        finally:
            native_rows._FUNCTIONS.update(functions)
    return count
