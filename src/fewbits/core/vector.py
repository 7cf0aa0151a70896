"""A flat vector as bit patterns, and conversions from and to users' arrays.

Operators see bits only, so bfloat16 needs no package and no value passes through another format
unseen. torch is never imported here: a tensor can only come from a program that already has.
"""

import math
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.backend import frames
from fewbits.errors import DecodeError, EncodeError, LimitError, MissingExtraError, SpecError
from fewbits.reference.formats import BFLOAT16, BY_NAME, Bits, Format


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """Contiguous values of one format, as unsigned integers of the same size."""

    bits: Bits
    format: Format

    @property
    def count(self) -> int:
        return self.bits.size


def torch_module() -> Any:
    """The torch module if the program has imported it, else None."""
    return sys.modules.get("torch")


def is_tensor(x: object) -> bool:
    torch = torch_module()
    return torch is not None and isinstance(x, torch.Tensor)


def from_array(x: object) -> tuple[Vector, tuple[int, ...]]:
    """The values of an array or CPU tensor in C order, uncopied if contiguous, and its shape."""
    array, name = _tensor_bits(x) if is_tensor(x) else _array_bits(x)
    format = BY_NAME.get(name)
    if format is None:
        known = ", ".join(BY_NAME)
        raise EncodeError(f"cannot compress dtype {name}: convert to one of {known} first")
    flat = np.ascontiguousarray(array).reshape(-1)
    return Vector(flat.view(format.bits), format), tuple(array.shape)


_TENSORS = {("torch", "Tensor"), ("torch.nn.parameter", "Parameter")}  # not what derives from them


class Lent(NamedTuple):
    """The memory of an array or tensor, without a view of it; `pin` keeps it there."""

    address: int
    format: Format
    shape: tuple[int, ...]
    pin: object

    def overlaps(self, address: int, size: int) -> bool:
        """Whether some of these bytes are among its own."""
        end = self.address + math.prod(self.shape) * self.format.itemsize
        return self.address < address + size and address < end


def lent(x: Any, *, writable: bool = False) -> Lent | None:
    """The memory of a contiguous array or CPU tensor; None for whatever needs a closer look."""
    if type(x) is np.ndarray:
        format, flags = _format_of(x.dtype), x.flags
        if format is None or not flags.c_contiguous or (writable and not flags.writeable):
            return None
        pin, address = frames.pinned(x)
        return Lent(address, format, x.shape, pin)
    kind = type(x)
    if (kind.__module__, kind.__name__) not in _TENSORS:
        return None
    format = _tensor_format(x.dtype)
    if format is None or x.layout != torch_module().strided or x.device.type != "cpu":
        return None
    if x.is_neg() or not x.is_contiguous():
        return None
    try:
        return Lent(x.data_ptr(), format, tuple(x.shape), x)
    except RuntimeError:  # a tensor that only stands for another one
        return None


@lru_cache(64)
def _format_of(dtype: np.dtype[Any]) -> Format | None:
    """The format of a dtype in the machine's byte order."""
    return BY_NAME.get(dtype.name) if dtype.isnative else None


@lru_cache(64)
def _tensor_format(dtype: Any) -> Format | None:
    return BY_NAME.get(str(dtype).removeprefix("torch."))


def empty_array(format: Format, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """A fresh NumPy array; bfloat16 needs the ml_dtypes package."""
    dtype = _numpy_dtype(format)
    try:
        return np.empty(shape, dtype)
    except ValueError as error:  # an empty vector whose other extents are absurd
        raise LimitError(f"NumPy cannot make the shape {shape}: {error}") from None


def empty_tensor(format: Format, shape: tuple[int, ...]) -> Any:
    torch = torch_module()
    if torch is None:
        raise MissingExtraError.of("to='torch' needs torch, `import torch` first", "torch")
    try:
        return torch.empty(shape, dtype=getattr(torch, format.name))
    except RuntimeError as error:  # that is how torch says that memory is missing
        raise MemoryError(str(error)) from error


def new_array(format: Format, shape: tuple[int, ...]) -> tuple[npt.NDArray[Any], Vector]:
    """A fresh array and the vector of its bits."""
    array = empty_array(format, shape)
    return array, Vector(array.reshape(-1).view(format.bits), format)


def new_tensor(format: Format, shape: tuple[int, ...]) -> tuple[Any, Vector]:
    """A fresh tensor and the vector of its bits."""
    tensor = empty_tensor(format, shape)
    array, _ = _tensor_bits(tensor)
    return tensor, Vector(array.reshape(-1).view(format.bits), format)


def existing(out: object) -> tuple[Vector, tuple[int, ...]]:
    """The vector and the shape of an array or tensor, which must be contiguous and writable."""
    try:
        array, name = _tensor_bits(out) if is_tensor(out) else _array_bits(out, role="out")
    except EncodeError as error:
        raise SpecError(f"out does not fit: {error}") from error
    if _is_converted(out):
        raise SpecError("out must be plain memory in the machine's byte order, not a lazy view")
    format = BY_NAME.get(name)
    if format is None:
        raise SpecError(f"out has dtype {name}, no frame holds that: use {', '.join(BY_NAME)}")
    if not (array.flags.c_contiguous and array.flags.writeable):
        raise SpecError("out must be contiguous and writable")
    return Vector(array.reshape(-1).view(format.bits), format), tuple(array.shape)


def _is_converted(out: Any) -> bool:
    """Whether `_tensor_bits` or `_array_bits` had to look at a copy, into which nothing must go."""
    return out.is_neg() or out.is_conj() if is_tensor(out) else not out.dtype.isnative


def _array_bits(x: object, role: str = "x") -> tuple[npt.NDArray[Any], str]:
    allowed = np.ndarray | np.floating if role == "x" else np.ndarray
    if not isinstance(x, allowed) or isinstance(x, np.ma.MaskedArray):
        kind = type(x).__name__
        hint = (
            "fill the mask first"
            if "Masked" in kind
            else "wrap numbers in numpy.asarray(..., 'float32')"
        )
        error = EncodeError if role == "x" else SpecError
        raise error(f"{role} must be a NumPy array or a torch tensor, got {kind}: {hint}")
    array = np.asarray(x)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array, array.dtype.name


def _tensor_bits(x: Any) -> tuple[npt.NDArray[Any], str]:
    name = str(x.dtype).removeprefix("torch.")
    if x.device.type != "cpu":
        raise EncodeError(f"the tensor is on {x.device}: call .cpu() first")
    if x.layout != torch_module().strided:
        raise EncodeError(f"the tensor's layout is {x.layout}: call .to_dense() first")
    tensor = x.detach().resolve_neg().resolve_conj()
    if name == BFLOAT16.name:  # NumPy has no bfloat16: look at the bits
        return tensor.view(torch_module().int16).numpy().view(np.uint16), name
    if name not in BY_NAME:
        raise EncodeError(
            f"cannot compress dtype {name}: convert to one of {', '.join(BY_NAME)} first"
        )
    return tensor.numpy(), name


@lru_cache(len(BY_NAME))
def _numpy_dtype(format: Format) -> np.dtype[Any]:
    if format != BFLOAT16:
        return np.dtype(format.name)
    try:
        import ml_dtypes
    except ImportError as error:
        raise DecodeError(
            "the frame holds bfloat16: that needs ml_dtypes (pip install ml_dtypes), "
            "or to='torch' with torch imported"
        ) from error
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype
