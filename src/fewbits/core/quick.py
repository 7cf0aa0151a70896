"""Whole frames in one native call, for operators that are one native row.

These functions know only the common case. For anything else, and whatever is wrong, they return
None: the façade then goes the general way, and says what there is to say.
"""

from typing import Any, Literal, NamedTuple

import numpy as np

from fewbits.backend import frames, parallel
from fewbits.backend.memory import bytes_address, new_bytes
from fewbits.core import vector
from fewbits.core.operator import Operator
from fewbits.core.plan import FramePlan, plan_of
from fewbits.core.vector import Lent
from fewbits.reference.tally import Tally
from fewbits.rng import Rng

_KEPT = 1024  # kinds of frames that are known
_HEAD = 1024  # bytes in which every header ends
_FIXED, _FLAGS, _DIMENSIONS, _STAGES = 10, 5, 7, 8  # where counts stand in a header
_PARAMETER_SIZES = {1: 1, 2: 8, 3: 8, 4: 16}
_known: dict[bytes, FramePlan] = {}  # by the header's bytes before the lengths


class NewFrame(NamedTuple):
    """A frame, and what was met on the way."""

    frame: bytes | memoryview
    plan: FramePlan
    tally: Tally


class KnownFrame(NamedTuple):
    """A frame of a known kind; `pin` keeps it where it is."""

    plan: FramePlan
    address: int
    size: int
    pin: object


def stream_key(seed: int | Rng | None) -> bytes:
    """The key of the stream that `compress` draws from."""
    if seed is None:
        return Rng.fresh().key
    return seed.key if isinstance(seed, Rng) else Rng.from_seed(seed).fork(0).key


def is_alone(count: int, threads: int | None) -> bool:
    """Whether one thread is enough for so many values; None stands for all that there are."""
    if count < 2 * parallel.WORTHWHILE:
        return True
    return parallel.shares(count, threads or parallel.available_threads()) == 1


def compressed(
    x: object, operator: Operator, seed: int | Rng | None, out: Any, threads: int | None
) -> NewFrame | None:
    """A frame of `x`, new or in `out`."""
    lent = vector.lent(x)
    if lent is None:
        return None
    plan = plan_of(operator, lent.format, lent.shape)
    if plan.recipe is None or not is_alone(plan.elements, threads):
        return None
    frame: bytes | memoryview
    if out is None:
        frame, at = new_bytes(plan.room)
    else:
        place = _place(out, lent, plan.room)
        if place is None:
            return None
        frame, at, _pin = place
    found = frames.write(plan.recipe, lent.address, plan.key(stream_key(seed)), at, plan.room)
    if found is None:
        return None
    size, saturated, nonfinite = found
    return NewFrame(frame if size == plan.room else frame[:size], plan, Tally(saturated, nonfinite))


def _place(out: Any, x: Lent, room: int) -> tuple[memoryview, int, object] | None:
    try:
        frame = memoryview(out).cast("B")[:room]
    except (TypeError, ValueError, BufferError):
        return None
    found = frames.pinned_output(frame)
    if found is None or frame.nbytes < room:
        return None
    pin, at = found
    return None if x.overlaps(at, room) else (frame, at, pin)


def decompressed(
    frame: Any, limit: int, out: Any, to: Literal["numpy", "torch"], threads: int | None
) -> Any:
    """The vector in a frame of a known kind, new or in `out`."""
    source = known(frame)
    if (
        source is None
        or source.plan.elements > limit
        or not is_alone(source.plan.elements, threads)
    ):
        return None
    target = place_for(source, out, to)
    if target is None:
        return None
    result, place = target
    recipe = source.plan.recipe
    assert recipe is not None
    return result if frames.read(recipe, place.address, source.address, source.size) else None


def known(frame: Any) -> KnownFrame | None:
    """A frame whose kind was read before; its sections, lengths and checksum are not judged."""
    if type(frame) is bytes:
        plan = _known.get(_kind(frame))
        return None if plan is None else KnownFrame(plan, bytes_address(frame), len(frame), frame)
    try:
        view = memoryview(frame).cast("B")
        plan = _known.get(_kind(bytes(view[:_HEAD])))
        if plan is None:
            return None
        pin, at = frames.pinned(np.frombuffer(view, np.uint8))
    except (TypeError, ValueError, BufferError):
        return None
    return KnownFrame(plan, at, view.nbytes, pin)


def remember(frame: Any, plan: FramePlan) -> None:
    """From now on know the kind of this frame, which was read and is finite."""
    if not plan.reads:
        return
    if len(_known) >= _KEPT:
        _known.clear()
    _known[_kind(bytes(memoryview(frame).cast("B")[:_HEAD]))] = plan


def _kind(head: bytes) -> bytes:
    """The header's bytes before the lengths of sections; empty if they are not all there."""
    try:
        at = _FIXED + (head[_DIMENSIONS] << (head[_FLAGS] & 3))
        for _ in range(head[_STAGES]):
            parameters = head[at + 2]
            at += 3
            for _ in range(parameters):
                at += 2 + _PARAMETER_SIZES[head[at + 1]]
    except (IndexError, KeyError):
        return b""
    return head[:at]


def place_for(
    source: KnownFrame, out: Any, to: Literal["numpy", "torch"]
) -> tuple[Any, Lent] | None:
    """A new array or tensor for a frame's values, or `out`, and its memory."""
    format, shape = source.plan.header.format, source.plan.header.shape
    if out is None:
        make = vector.empty_tensor if to == "torch" else vector.empty_array
        try:
            out = make(format, shape)
        except MemoryError:
            return None
        lent = vector.lent(out)
        return None if lent is None else (out, lent)
    lent = vector.lent(out, writable=True)
    if lent is None or lent.format is not format or lent.shape != shape:
        return None
    return None if lent.overlaps(source.address, source.size) else (out, lent)
