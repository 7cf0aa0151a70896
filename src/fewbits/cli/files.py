"""Reads and writes files, pipes and `.npy` arrays for the commands, whole or not at all."""

import errno
import io
import math
import os
import stat
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from fewbits.cli.console import Parser, ProgressBar
from fewbits.errors import EncodeError, SpecError
from fewbits.exits import ended_by_sigterm

STANDARD = "-"
SUFFIX = ".fewbits"
NPY_MAGIC = b"\x93NUMPY"
_CHUNK = 1 << 24
_LONGEST_NPY_HEADER = 1 << 16  # NumPy itself evaluates no more than 10,000 bytes

Pieces = Sequence[bytes | memoryview]


@dataclass(frozen=True, slots=True)
class Output:
    """The target of a result: the name that was given and its path, or None for stdout."""

    name: str
    path: Path | None

    @classmethod
    def chosen(cls, text: str, *, force: bool) -> "Output":
        """The target that OUT names; refuses a terminal and, without `force`, an existing file."""
        if text == STANDARD:
            if sys.stdout is not None and sys.stdout.isatty():
                raise SpecError(
                    "the result is binary and stdout is a terminal: name OUT or redirect"
                )
            return cls(text, None)
        path = Path(os.path.realpath(text))  # a link stays, what it points to is replaced
        if path.is_symlink():  # that is left where links lead to each other
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), text)
        if path.is_dir() or text.endswith(os.sep):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), text)
        if path.is_file() and not force:
            raise SpecError(f"{text} exists: name another file, or pass --force to replace it")
        if not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))
        return cls(text, path)

    def write(self, pieces: Pieces) -> int:
        """Write all pieces; a file appears under its name only when it is complete."""
        total = sum(map(len, pieces))
        with ProgressBar("writing", total) as progress:
            if self.path is None:
                _copy(pieces, _standard(sys.stdout), progress)
            elif self.path.exists() and not self.path.is_file():  # a device or a named pipe
                with self.path.open("wb") as file:
                    _copy(pieces, file, progress)
            else:
                with ended_by_sigterm():
                    _replace(self.path, pieces, progress)
        return total


def add_paths(parser: Parser, what: str, default: str) -> None:
    """The paths IN and OUT of a command that turns one file into another, and `--force`."""
    add = parser.add_argument
    add("input", metavar="IN", help=f"{what}, - for stdin")
    add("output", metavar="OUT", nargs="?", help=f"default: {default}, stdout for -")
    add("--force", action="store_true", help="replace OUT if it exists")


def read(text: str) -> memoryview:
    """All bytes of a file, or of stdin for `-`."""
    buffer = bytearray()
    if text == STANDARD:
        source, size = _standard(sys.stdin), 0
    else:
        source = Path(text).open("rb")  # noqa: SIM115 (closed below, stdin must stay open)
        size = os.fstat(source.fileno()).st_size
    try:
        with ProgressBar("reading", size) as progress:
            while chunk := source.read(_CHUNK):
                buffer += chunk
                progress.advance(len(chunk))
    finally:
        if text != STANDARD:
            source.close()
    return memoryview(buffer).toreadonly()


def parse_npy(data: memoryview) -> npt.NDArray[Any]:
    """The array in the bytes of a `.npy` file, as a view; never a pickle."""
    try:
        shape, fortran, dtype, start = _npy_header(data)
    except Exception as error:  # NumPy evaluates the header as Python: any error may come out
        why = str(error)[:200]
        how = "the .npy file is cut" if why.startswith("EOF") else "the .npy header is broken"
        raise EncodeError(f"{how}: {why}") from error
    if dtype.hasobject:
        raise EncodeError("the .npy file holds Python objects, a pickle, which is never read")
    body = data[start:]
    needed = dtype.itemsize * math.prod(shape)
    if needed != len(body):
        how = "is cut" if needed > len(body) else "is too long"
        raise EncodeError(f"the .npy file {how}: {needed} bytes needed, {len(body)} given")
    flat: npt.NDArray[Any] = np.frombuffer(body, dtype) if needed else np.empty(0, dtype)
    try:
        return flat.reshape(shape, order="F" if fortran else "C")
    except ValueError as error:  # too many dimensions, or a huge one beside a 0
        raise EncodeError(f"the .npy header is broken: {error}") from error


def npy_pieces(array: npt.NDArray[Any]) -> Pieces:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(array))
    return [head.getvalue(), array.reshape(-1).view(np.uint8).data]


def _npy_header(data: memoryview) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order, dtype and where the values start. Version 3 is for named fields only."""
    head = io.BytesIO(data[:_LONGEST_NPY_HEADER])
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    shape, fortran, dtype = readers[np.lib.format.read_magic(head)](head)
    if not all(type(extent) is int and extent >= 0 for extent in shape):
        raise ValueError(f"the shape {shape} is not made of whole numbers")
    return shape, fortran, dtype, head.tell()


def _standard(stream: Any) -> IO[bytes]:
    """The byte stream of stdin or stdout, either of which a shell may have closed."""
    if stream is None:
        raise OSError(errno.EBADF, "standard input or output is closed")
    binary: IO[bytes] = stream.buffer
    return binary


def _copy(pieces: Pieces, file: IO[bytes], progress: ProgressBar) -> None:
    for piece in pieces:
        view = memoryview(piece)
        for at in range(0, len(view), _CHUNK):
            progress.advance(file.write(view[at : at + _CHUNK]))
    file.flush()


def _replace(path: Path, pieces: Pieces, progress: ProgressBar) -> None:
    """Write beside `path` and rename: readers see the old file or the new one, never a part."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".fewbits-")
    except OSError as error:  # a message about a name that nobody chose would not help
        raise OSError(error.errno, error.strerror, str(path)) from error
    try:
        with os.fdopen(handle, "wb") as file:
            _copy(pieces, file, progress)
        Path(temporary).chmod(_mode(path))
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _mode(path: Path) -> int:
    """The permissions of the file that is replaced, or those that a new file gets."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
