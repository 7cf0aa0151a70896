"""Readers of the usual data files: idx (MNIST), an npz of JPEG images (CIFAR-10), plain text."""

import gzip
import io
import math
import zipfile
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fewbits.errors import SpecError
from fewbits.train.extras import require

_Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_DIGITS = "digits"
_PIECE = 2**20  # bytes that are unpacked at once
_LARGEST = 2**32  # bytes of one file once unpacked: a limit against a damaged header


def kind_of(data: str) -> str:
    """The kind of data that `--data` names: `digits`, or by files `idx`, `npz` or `text`."""
    if data == _DIGITS:
        return _DIGITS
    folder = Path(data)
    if not folder.is_dir():
        raise SpecError(f"--data {data} is neither 'digits' nor a folder")
    found = {
        "idx": next(folder.glob("train-images?idx3-ubyte*"), None),
        "npz": next(folder.glob("*.npz"), None),
        "text": next(folder.glob("input.txt*"), None),
    }
    for kind, path in found.items():
        if path is not None:
            return kind
    raise SpecError(f"--data {data} holds no idx files, no .npz and no input.txt")


def read_bytes(path: Path) -> bytes:
    """The file's bytes, unpacked if its name ends in .gz."""
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        with gzip.open(path) as file:
            # In pieces: asking for the limit at once would set that much memory aside.
            return b"".join(islice(iter(lambda: file.read(_PIECE), b""), _LARGEST // _PIECE))
    except (OSError, EOFError) as error:
        raise SpecError(f"{path}: {error}") from error


def read_idx(folder: Path, part: str) -> _Bytes:
    """The one array of unsigned bytes in `part`, such as `train-images?idx3`."""
    path = next(iter(sorted(folder.glob(f"{part}-ubyte*"))), None)
    if path is None:
        raise SpecError(f"{folder} has no {part.replace('?', '-')}-ubyte or .gz of it")
    raw = read_bytes(path)
    # Two zeros, the type (8: unsigned byte), the number of dimensions, then each as big-endian.
    if len(raw) < 4 or raw[:3] != b"\0\0\x08" or len(raw) < 4 + 4 * raw[3]:
        raise SpecError(f"{path} is not an idx file of unsigned bytes")
    start = 4 + 4 * raw[3]
    shape = tuple(int(n) for n in np.frombuffer(raw, ">u4", raw[3], 4))
    if len(raw) - start != math.prod(shape):
        raise SpecError(f"{path} should hold {shape} bytes and holds {len(raw) - start}")
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


def read_jpeg_npz(folder: Path) -> tuple[_Bytes, _Bytes, Any]:
    """Images (n, 3, height, width), labels, and whether each belongs to the test set."""
    path = next(iter(sorted(folder.glob("*.npz"))))
    try:
        with np.load(path, allow_pickle=False) as file:
            keys = ("data", "offset", "label", "is_test")
            data, offset, label, is_test = (file[key] for key in keys)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise SpecError(f"{path}: {error}") from error
    if len(offset) != len(label) + 1 or len(is_test) != len(label):
        raise SpecError(f"{path}: offset, label and is_test do not fit together")
    images = [_decoded(data[a:b].tobytes(), path) for a, b in pairwise(offset)]
    try:
        stacked = np.stack(images)
    except ValueError as error:
        raise SpecError(f"{path}: images of different sizes") from error
    return np.ascontiguousarray(stacked.transpose(0, 3, 1, 2)), label, is_test.astype(bool)


def _decoded(jpeg: bytes, path: Path) -> _Bytes:
    image = require("PIL.Image", "demo", package="pillow")
    try:
        return np.asarray(image.open(io.BytesIO(jpeg)).convert("RGB"))
    except OSError as error:
        raise SpecError(f"{path}: {error}") from error


def read_text(folder: Path) -> str:
    path = next(iter(sorted(folder.glob("input.txt*"))))
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: {error}") from error
