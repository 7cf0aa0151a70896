"""The entropy coders that are compared: ours, and what packages from PyPI offer.

Each gets the symbols in the type that it takes, ready before the clock starts, works in one thread
and returns a message from which the symbols can be had when their number is known. What a coder
needs besides, such as a table of frequencies, is part of the message and of the time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits.backend import library as _native
from fewbits.bench.workload import FrameBytes
from fewbits.reference.formats import FLOAT32

_OURS = "fewbits rans"
CODER_BOUND = FLOAT32.top_code + 1  # of the symbols

Symbols = npt.NDArray[Any]
CodedMessage = Any  # whatever has a buffer: bytes, an array


@dataclass(frozen=True, slots=True)
class CoderJob:
    """A coder and the symbols of one input."""

    encode: Callable[[], CodedMessage]
    decode: Callable[[CodedMessage], Symbols]


@dataclass(frozen=True, slots=True)
class Coder:
    """A coder by name: `load` finds what it needs or gives None, `start` takes that and symbols."""

    name: str
    package: str
    load: Callable[[], Any]
    start: Callable[[Any, FrameBytes], CoderJob]


def message_size(message: CodedMessage) -> int:
    """Bytes of a message."""
    return memoryview(message).nbytes


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except (ImportError, OSError):
        return None


# ---- ours ----


def _ours(core: Any, symbols: FrameBytes) -> CoderJob:
    """The native functions, which write to warm memory."""
    codes = symbols.astype(np.uint16)
    out = np.zeros_like(codes)
    room = np.zeros(core.coded_size(codes.size, CODER_BOUND, False), np.uint8)

    def encode() -> CodedMessage:
        return room[: core.coded_encode(codes, None, CODER_BOUND, room)]

    def decode(message: CodedMessage) -> Symbols:
        core.coded_decode(message, CODER_BOUND, out, None)
        return out

    return CoderJob(encode, decode)


# ---- from PyPI ----


def _zstd(level: int, zstandard: Any, symbols: FrameBytes) -> CoderJob:
    compressor, decompressor = zstandard.ZstdCompressor(level=level), zstandard.ZstdDecompressor()

    def decode(message: CodedMessage) -> Symbols:
        return np.frombuffer(decompressor.decompress(message), np.uint8)

    return CoderJob(lambda: compressor.compress(symbols), decode)


def _lz4(block: Any, symbols: FrameBytes) -> CoderJob:
    def decode(message: CodedMessage) -> Symbols:
        return np.frombuffer(block.decompress(message, uncompressed_size=symbols.size), np.uint8)

    return CoderJob(lambda: block.compress(symbols, store_size=False), decode)


def _blosc(
    codec: str,
    level: int,
    blosc2: Any,
    symbols: FrameBytes,
    *,
    filter: str = "BITSHUFFLE",
    size: int = 1,
) -> CoderJob:
    out = np.zeros_like(symbols)
    options = {
        "codec": blosc2.Codec[codec],
        "clevel": level,
        "typesize": size,
        "filters": [blosc2.Filter[filter]],
        "nthreads": 1,
    }

    def decode(message: CodedMessage) -> Symbols:
        blosc2.decompress2(message, dst=out, nthreads=1)
        return out

    return CoderJob(lambda: blosc2.compress2(symbols, **options), decode)


def _constriction(constriction: Any, symbols: FrameBytes) -> CoderJob:
    """One static model: lowest symbol, number of frequencies, the frequencies, then words."""
    stream = constriction.stream
    low = int(symbols.min())
    shifted = symbols.astype(np.int32) - np.int32(low)

    def model(counts: npt.NDArray[Any]) -> Any:
        return stream.model.Categorical((counts / counts.sum()).astype(np.float32), perfect=False)

    def encode() -> CodedMessage:
        counts = np.bincount(symbols, minlength=low + 2)[low:]  # a model has two symbols at least
        coder = stream.stack.AnsCoder()
        coder.encode_reverse(shifted, model(counts))
        head = np.array([low, counts.size, *counts], np.uint32)
        return np.concatenate([head, coder.get_compressed()])

    def decode(message: CodedMessage) -> Symbols:
        kinds = int(message[1])
        coder = stream.stack.AnsCoder(message[2 + kinds :])
        decoded: Symbols = coder.decode(model(message[2 : 2 + kinds]), symbols.size)
        decoded += np.int32(message[0])
        return decoded

    return CoderJob(encode, decode)


CODERS: Sequence[Coder] = (
    Coder(_OURS, "fewbits", lambda: _native, _ours),
    Coder("zstd 1", "zstandard", partial(_module, "zstandard"), partial(_zstd, 1)),
    Coder("zstd 3", "zstandard", partial(_module, "zstandard"), partial(_zstd, 3)),
    Coder("lz4", "lz4", partial(_module, "lz4.block"), _lz4),
    Coder("bitshuffle + lz4 5", "blosc2", partial(_module, "blosc2"), partial(_blosc, "LZ4", 5)),
    Coder("bitshuffle + zstd 1", "blosc2", partial(_module, "blosc2"), partial(_blosc, "ZSTD", 1)),
    Coder("constriction", "constriction", partial(_module, "constriction"), _constriction),
)

# The same packages on the bytes of a float32 vector as it is, without any operator.
_shuffled = partial(_blosc, filter="SHUFFLE", size=4)
LOSSLESS: Sequence[Coder] = (
    *(coder for coder in CODERS if coder.name.startswith("zstd")),
    Coder(
        "blosc2 shuffle + lz4 5", "blosc2", partial(_module, "blosc2"), partial(_shuffled, "LZ4", 5)
    ),
    Coder(
        "blosc2 shuffle + zstd 1",
        "blosc2",
        partial(_module, "blosc2"),
        partial(_shuffled, "ZSTD", 1),
    ),
)
