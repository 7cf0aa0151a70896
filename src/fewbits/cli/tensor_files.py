"""Files in the safetensors format: a length, a JSON header, the tensors' bytes.

The reader must expect any bytes. It accepts exactly those files in which every byte after the
header belongs to one tensor, and raises `DecodeError` for all others. Tensors are views, never
copies, and their dtype stays text, which the caller interprets.
"""

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fewbits.errors import DecodeError

MAX_HEADER = 100_000_000
MAX_BYTES = 2**63
METADATA = "__metadata__"
_LENGTH = struct.Struct("<Q")

# Bits an element takes. Files are written in the reverse order, widest first.
DTYPE_BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8,
    "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip
_ALIGNMENT = {name: place for place, name in enumerate(DTYPE_BITS)}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor: the name of its dtype, its shape and its bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: memoryview


@dataclass(frozen=True, slots=True)
class TensorFile:
    """The content of a safetensors file: tensors by name, and metadata by name."""

    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str] = field(default_factory=dict)


def looks_like(data: memoryview) -> bool:
    return len(data) >= 9 and _LENGTH.unpack_from(data)[0] <= MAX_HEADER and data[8] == ord("{")


def read(data: memoryview) -> TensorFile:
    """The tensors of a whole file; `DecodeError` if the bytes are not one."""
    if len(data) < _LENGTH.size:
        raise DecodeError(f"not a safetensors file: {len(data)} bytes")
    (length,) = _LENGTH.unpack_from(data)
    if length > MAX_HEADER:
        raise DecodeError(f"not a safetensors file: a header of {length} bytes is too long")
    body = _LENGTH.size + length
    if body > len(data):
        raise DecodeError(f"the safetensors file is cut: {body} bytes needed, {len(data)} given")
    header = _parsed_header(bytes(data[_LENGTH.size : body]))
    metadata = _checked_metadata(header.pop(METADATA, {}))
    tensors, at = {}, 0
    for start, stop, name, dtype, shape in sorted(
        (_entry(name, info) for name, info in header.items()), key=lambda entry: entry[:2]
    ):
        if start != at:
            raise DecodeError(f"tensor {name!r} starts at byte {start}, expected {at}")
        if stop > len(data) - body:
            held = len(data) - body
            raise DecodeError(f"the file is cut: tensor {name!r} ends at byte {stop} of {held}")
        tensors[name] = Tensor(dtype, shape, data[body + start : body + stop])
        at = stop
    if at != len(data) - body:
        raise DecodeError(f"{len(data) - body - at} bytes at the end belong to no tensor")
    return TensorFile(tensors, metadata)


def write(file: TensorFile) -> list[bytes | memoryview]:
    """The file in pieces, to be written one after the other: header, then each tensor's bytes."""
    header: dict[str, Any] = {METADATA: dict(file.metadata)} if file.metadata else {}
    # Widest first, so that every tensor stays aligned in the file whatever lengths the others have.
    ordered = sorted(file.tensors.items(), key=lambda item: (-_ALIGNMENT[item[1].dtype], item[0]))
    at = 0
    for name, tensor in ordered:
        stop = at + len(tensor.data)
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": (at, stop)}
        at = stop
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return [_LENGTH.pack(len(text)) + text, *(tensor.data for _, tensor in ordered)]


def _parsed_header(text: bytes) -> dict[str, Any]:
    """The header's JSON object, with no key given twice at any depth."""
    if not text.startswith(b"{"):
        raise DecodeError("the safetensors header is not a JSON object")
    try:
        header: dict[str, Any] = json.loads(text.decode(), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        if isinstance(error, DecodeError):
            raise
        raise DecodeError(f"the safetensors header is not JSON: {error}") from error
    return header


def _without_duplicates(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise DecodeError(f"the safetensors header has the key {key!r} twice")
        result[key] = value
    return result


def _checked_metadata(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(_is_text(text) for text in value.values()):
        raise DecodeError("the safetensors metadata is not a table of texts")
    if not all(_is_text(key) for key in value):
        raise DecodeError("a key of the safetensors metadata is not Unicode text")
    return value


def _entry(name: str, info: object) -> tuple[int, int, str, str, tuple[int, ...]]:
    """Start, stop, name, dtype and shape of one tensor, consistent with each other."""
    if not isinstance(info, dict) or set(info) != {"dtype", "shape", "data_offsets"}:
        raise DecodeError(f"tensor {name!r} needs dtype, shape and data_offsets, and no more")
    dtype, shape, offsets = info["dtype"], info["shape"], info["data_offsets"]
    if not _is_text(name):
        raise DecodeError(f"the tensor name {name!r} is not Unicode text")
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        raise DecodeError(f"tensor {name!r} has the unknown dtype {str(dtype)[:40]!r}")
    if not _are_sizes(shape):
        raise DecodeError(f"tensor {name!r} has a shape that is not a list of whole numbers")
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise DecodeError(f"tensor {name!r} has data_offsets that are not two whole numbers")
    bits = DTYPE_BITS[dtype]
    for extent in shape:
        bits *= extent
        if bits >= 8 * MAX_BYTES:
            raise DecodeError(f"tensor {name!r} has a shape larger than any memory")
    start, stop = offsets
    if bits != 8 * (stop - start):
        raise DecodeError(
            f"tensor {name!r} needs {bits / 8:g} bytes, its offsets span {stop - start}"
        )
    return start, stop, name, dtype, tuple(shape)


def _is_text(value: object) -> bool:
    """Whether UTF-8 can hold `value`: JSON's escapes can also spell half a surrogate pair."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _are_sizes(value: object) -> bool:
    return isinstance(value, list) and all(
        type(size) is int and 0 <= size < MAX_BYTES for size in value
    )
