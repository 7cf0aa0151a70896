"""Checks of the arguments that the façade takes; `SpecError` says what to pass."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits.backend.library import Bytes
from fewbits.backend.parallel import available_threads
from fewbits.core.operator import Operator
from fewbits.core.parameters import whole
from fewbits.errors import SpecError


def check_nonfinite(nonfinite: str) -> None:
    if nonfinite not in ("raise", "carry"):
        raise SpecError(f"nonfinite must be 'raise' or 'carry', got {nonfinite!r}")


def check_target(to: str) -> None:
    if to not in ("numpy", "torch"):
        raise SpecError(f"to must be 'numpy' or 'torch', got {to!r}")


def thread_count(threads: int | None) -> int:
    """How many threads a call may use."""
    if threads is None:
        return available_threads()
    return whole("threads", threads, 1, 2**16)


def element_limit(max_elements: int) -> int:
    """The limit in the native parser's 64 bits; a negative one would wrap to no limit."""
    return whole("max_elements", max_elements, 0, 2**64 - 1)


def refuse_overlap(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> None:
    """Refuse an output that overlaps the input."""
    if np.may_share_memory(one, other):
        raise SpecError("out overlaps the input: pass memory of its own")


def frame_bytes(frame: Any) -> Bytes:
    """Any bytes-like object as an array, without a copy if it is contiguous."""
    try:
        view = memoryview(frame)
    except (TypeError, ValueError, BufferError):
        raise SpecError(f"a frame is bytes or another buffer, got {type(frame).__name__}") from None
    if not view.c_contiguous:
        raise SpecError("the frame's buffer must be contiguous")
    return np.frombuffer(view.cast("B"), np.uint8) if view.nbytes else np.empty(0, np.uint8)


def frame_output(out: Any, size: int, chosen: Operator) -> tuple[memoryview, Bytes]:
    """The part of a caller's buffer that frames go to."""
    try:
        view = memoryview(out).cast("B")
    except (TypeError, ValueError, BufferError):
        raise SpecError(
            f"out must be a writable, contiguous buffer, got {type(out).__name__}"
        ) from None
    if view.readonly:
        raise SpecError("out must be writable")
    if view.nbytes < size:
        raise SpecError(f"out has {view.nbytes} bytes, {chosen} may need {size}: see largest_frame")
    filled = view[:size]
    return filled, np.frombuffer(filled, np.uint8)
