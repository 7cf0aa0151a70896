"""Many frames in one file: a safetensors file in which frames, as U8 tensors, replace floats.

Its metadata has `fewbits`, the version of this arrangement, and `fewbits.frames`, the names of the
tensors that are frames, as a JSON list. All other tensors and metadata are unchanged.
"""

import json
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fewbits.backend.library import MAX_DIMENSIONS
from fewbits.cli.console import about
from fewbits.cli.tensor_files import Tensor, TensorFile
from fewbits.codec import OpenedFrame, open_frame
from fewbits.errors import DecodeError, EncodeError, LimitError, MissingExtraError, VersionError

CONTAINER_VERSION_KEY, FRAMES_KEY = "fewbits", "fewbits.frames"
CONTAINER_VERSION = "1"
FLOATS = {"F32": "float32", "F64": "float64", "F16": "float16", "BF16": "bfloat16"}
_BY_FLOAT = {name: dtype for dtype, name in FLOATS.items()}


def is_container(file: TensorFile) -> bool:
    """Whether a safetensors file was written by `joined`."""
    return CONTAINER_VERSION_KEY in file.metadata


def joined(file: TensorFile, frames: Mapping[str, bytes | memoryview]) -> TensorFile:
    """`file` with the tensors in `frames` replaced by their frames."""
    if FRAMES_KEY in file.metadata:
        raise EncodeError(f"the metadata key {FRAMES_KEY!r} is taken")
    tensors = dict(file.tensors)
    for name, frame in frames.items():
        tensors[name] = Tensor("U8", (len(frame),), memoryview(frame))
    own = {CONTAINER_VERSION_KEY: CONTAINER_VERSION, FRAMES_KEY: json.dumps(list(frames))}
    return TensorFile(tensors, {**file.metadata, **own})


def separated(file: TensorFile) -> tuple[dict[str, memoryview], TensorFile]:
    """The frames of a container by name; and the other tensors, with the original metadata."""
    version = file.metadata[CONTAINER_VERSION_KEY]
    if version != CONTAINER_VERSION:
        raise VersionError(f"container version {version!r}, this fewbits reads 1: upgrade fewbits")
    frames = {}
    for name in _frame_names(file.metadata.get(FRAMES_KEY, "")):
        tensor = file.tensors.get(name)
        if tensor is None or tensor.dtype != "U8" or len(tensor.shape) != 1:
            raise DecodeError(f"tensor {name!r} should be a frame, but is not a list of bytes")
        frames[name] = tensor.data
    rest = {name: tensor for name, tensor in file.tensors.items() if name not in frames}
    own = (CONTAINER_VERSION_KEY, FRAMES_KEY)
    metadata = {key: text for key, text in file.metadata.items() if key not in own}
    return frames, TensorFile(rest, metadata)


def opened(frames: Mapping[str, memoryview], max_elements: int) -> dict[str, OpenedFrame]:
    """The frames, parsed and verified; together they may claim `max_elements` values."""
    result, total = {}, 0
    for name, frame in frames.items():
        with about(f"tensor {name!r}"):
            result[name] = open_frame(frame, max_elements=max_elements)
        total += result[name].header.elements
    if total > max_elements:
        raise LimitError(
            f"the frames claim {total} elements together, the limit is {max_elements}: "
            "pass max_elements= if you trust the sender"
        )
    return result


def to_array(tensor: Tensor) -> npt.NDArray[np.generic]:
    """A float tensor as an array, without a copy."""
    if len(tensor.shape) > MAX_DIMENSIONS:
        raise EncodeError(f"{len(tensor.shape)} dimensions, at most {MAX_DIMENSIONS} are supported")
    dtype = _numpy_dtype(FLOATS[tensor.dtype])
    flat = np.frombuffer(tensor.data, dtype) if tensor.data else np.empty(0, dtype)
    return flat.reshape(tensor.shape)


def from_array(array: npt.NDArray[np.generic]) -> Tensor:
    flat = array.reshape(-1).view(np.uint8)
    return Tensor(_BY_FLOAT[array.dtype.name], array.shape, flat.data)


def _frame_names(text: str) -> list[str]:
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DecodeError(f"the metadata key {FRAMES_KEY!r} is not a list of names")
    if len(set(names)) != len(names):
        raise DecodeError(f"the metadata key {FRAMES_KEY!r} names a tensor twice")
    return names


def _numpy_dtype(name: str) -> np.dtype[np.generic]:
    """The little-endian dtype of the file's bytes; NumPy alone has no bfloat16."""
    if name != "bfloat16":
        return np.dtype(name).newbyteorder("<")
    try:
        import ml_dtypes
    except ImportError as error:
        raise MissingExtraError("bfloat16 tensors need ml_dtypes: pip install ml_dtypes") from error
    dtype: np.dtype[np.generic] = np.dtype(ml_dtypes.bfloat16)
    return dtype
