"""Many vectors at once, a frame for each: for models of many small tensors."""

import os
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any, Literal, Self

from fewbits import codec, registry
from fewbits.backend import parallel
from fewbits.backend.frames import Messages
from fewbits.backend.kernel import NO_KEY
from fewbits.backend.library import address
from fewbits.backend.memory import new_bytes
from fewbits.codec import MAX_ELEMENTS, OpenedFrame
from fewbits.core import arguments, quick, vector
from fewbits.core.operator import Operator
from fewbits.core.plan import FramePlan, plan_of
from fewbits.core.quick import KnownFrame
from fewbits.core.vector import Lent
from fewbits.errors import (
    DecodeError,
    EncodeError,
    LimitError,
    SaturationWarning,
    SpecError,
)
from fewbits.reference.formats import Format
from fewbits.reference.tally import Tally
from fewbits.rng import KEY_BYTES, Rng, token

_Target = Literal["numpy", "torch"]


def compress_many(
    arrays: Iterable[object],
    operator: str | Operator,
    *,
    seed: int | Rng | None = None,
    out: Any = None,
    nonfinite: Literal["raise", "carry"] = "raise",
    threads: int | None = None,
) -> list[bytes | memoryview]:
    """Compress arrays or CPU tensors, each to a frame of its own.

    Item `i` draws from stream `i` below the seed's: its frame is that of `compress(arrays[i],
    operator, seed=Rng.from_seed(seed).fork(i))`, and with an `Rng` as seed, of `seed.fork(i)`. With
    `out`, a writable buffer of at least as many bytes as all `largest_frame` have together, the
    frames are written there and returned as `memoryview`s of their parts. All else is as in
    `compress`; an error says which item is bad, and `threads` share the items.

    >>> import numpy as np, fewbits
    >>> layers = [np.float32([1.0, -2.0]), np.float32([[4.0], [0.5], [0.0]])]
    >>> messages = fewbits.compress_many(layers, "natural", seed=7)
    >>> [y.shape for y in fewbits.decompress_many(messages)]
    [(2,), (3, 1)]
    """
    arguments.check_nonfinite(nonfinite)
    chosen, workers = registry.operator(operator), arguments.thread_count(threads)
    items = _listed(arrays, "arrays", "compress")
    work = _Writing(items, chosen, _keys(seed, len(items)), out)
    work.run(workers)
    with _Items() as at:
        for at.number, tally in enumerate(work.tallies):
            if tally.nonfinite:
                codec.judge(work.plans[at.number], tally._replace(saturated=0), nonfinite)
    met = [number for number, tally in enumerate(work.tallies) if tally.saturated]
    if met:
        warnings.warn(
            f"{sum(tally.saturated for tally in work.tallies)} values of {len(met)} items, the "
            f"first of which is item {met[0]}, exceed the range of {chosen} and were replaced by "
            "its largest value",
            SaturationWarning,
            stacklevel=2,
        )
    return work.frames


def decompress_many(
    messages: Iterable[Any],
    *,
    max_elements: int = MAX_ELEMENTS,
    out: Sequence[Any] | None = None,
    to: _Target = "numpy",
    threads: int | None = None,
) -> list[Any]:
    """The vectors in frames, each as `decompress` gives it.

    The frames may hold `max_elements` values together; all headers are judged before anything is
    allocated. `out` has an array or a tensor for each frame. An error says which item is bad, and
    the contents of `out` are then undefined. `threads` share the items.
    """
    arguments.check_target(to)
    items, workers = _listed(messages, "frames", "decompress"), arguments.thread_count(threads)
    targets = [None] * len(items) if out is None else list(out)
    if len(targets) != len(items):
        raise SpecError(f"out has {len(targets)} arrays for {len(items)} frames")
    work = _Reading(items, arguments.element_limit(max_elements), targets, to)
    work.run(workers)
    return work.results


def _listed(given: Any, what: str, single: str) -> list[Any]:
    """The items; one array or one frame would be taken apart."""
    if hasattr(given, "shape") or isinstance(given, bytes | bytearray | memoryview | str):
        raise SpecError(
            f"{single}_many takes a list of {what}, got one {type(given).__name__}: "
            f"pass [x], or use {single}"
        )
    return list(given)


class _Items:
    """Lets an error say which item it is about."""

    number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, SpecError | EncodeError | DecodeError):
            error.args = (f"item {self.number}: {error}",)


class _Writing:
    """Vectors and their frames, which go to a part of `out` each or are `bytes`."""

    def __init__(self, items: list[Any], chosen: Operator, keys: list[bytes], out: Any) -> None:
        self._items, self._keys, self._chosen = items, keys, chosen
        self._lent: list[Lent | None] = []
        self.plans: list[FramePlan] = []
        with _Items() as at:
            for at.number, x in enumerate(items):
                lent = vector.lent(x)
                kind = _kind(x) if lent is None else (lent.format, lent.shape)
                self._lent.append(lent)
                self.plans.append(plan_of(chosen, *kind))
        self.frames: list[bytes | memoryview] = [b""] * len(items)
        self.tallies = [Tally(0, 0)] * len(items)
        self._out = self._parts(out) if out is not None and items else None

    def _parts(self, out: Any) -> list[tuple[memoryview, int]]:
        """For each frame a part of `out`, and its address."""
        starts = list(accumulate((plan.room for plan in self.plans), initial=0))
        memory, array = arguments.frame_output(out, starts[-1], self._chosen)
        base = address(array)
        with _Items() as at:
            for at.number, lent in enumerate(self._lent):
                if lent is not None and lent.overlaps(base, array.nbytes):
                    raise SpecError("out overlaps the input: pass memory of its own")
        return [(memory[start:stop], base + start) for start, stop in pairwise(starts)]

    def run(self, workers: int) -> None:
        messages, numbers = Messages(len(self._items)), []
        for number, (plan, lent) in enumerate(zip(self.plans, self._lent, strict=True)):
            if lent is None or plan.recipe is None or not quick.is_alone(plan.elements, workers):
                self._general(number, workers)
                continue
            self.frames[number], at = self._out[number] if self._out else new_bytes(plan.room)
            key = plan.key(self._keys[number])
            messages.add(plan.recipe, lent.address, key, at, plan.room)
            numbers.append(number)
        failed = _in_shares(messages.write, [self.plans[n].elements for n in numbers], workers)
        for own, number in enumerate(numbers):
            if own in failed:
                self._general(number, workers)
                continue
            size, *met = messages.results(own)
            self.tallies[number] = Tally(*met)
            if size != self.plans[number].room:
                self.frames[number] = self.frames[number][:size]

    def _general(self, number: int, workers: int) -> None:
        part = self._out[number][0] if self._out else None
        with _Items() as at:
            at.number = number
            done = codec.general_frame(
                self._items[number], self._chosen, Rng(self._keys[number]), part, workers
            )
        self.frames[number], self.tallies[number] = done.frame, done.tally


class _Reading:
    """Frames and their vectors."""

    def __init__(self, items: list[Any], limit: int, out: list[Any], to: _Target) -> None:
        self._items, self._out, self._to, self._limit = items, out, to, limit
        self._known: list[KnownFrame | None] = []
        self._opened: dict[int, OpenedFrame] = {}
        self.results: list[Any] = [None] * len(items)
        total = 0
        with _Items() as at:
            for at.number, frame in enumerate(items):
                total += self._claimed(at.number, frame)
                if total > limit:
                    raise LimitError(
                        f"the frames up to this one claim {total} elements together, the limit is "
                        f"{limit}: pass max_elements= if you trust the sender"
                    )

    def _claimed(self, number: int, frame: Any) -> int:
        """Judge a frame's header; how many values it claims."""
        known = quick.known(frame)
        self._known.append(known)
        if known is not None:
            return known.plan.elements
        opened = self._opened[number] = codec.open_frame(frame, max_elements=self._limit)
        opened.remember()  # the next ones may be like this one
        return opened.header.elements

    def run(self, workers: int) -> None:
        messages, numbers, weights = Messages(len(self._items)), [], []
        pins = []
        for number, known in enumerate(self._known):
            place = None
            if known is not None and quick.is_alone(known.plan.elements, workers):
                place = quick.place_for(known, self._out[number], self._to)
            if known is None or place is None or known.plan.recipe is None:
                self._general(number, workers)
                continue
            self.results[number], lent = place
            pins.append(lent)
            messages.add(known.plan.recipe, lent.address, NO_KEY, known.address, known.size)
            numbers.append(number)
            weights.append(known.plan.elements)
        for own in _in_shares(messages.read, weights, workers):
            self._general(numbers[own], workers)

    def _general(self, number: int, workers: int) -> None:
        out = self._out[number]
        with _Items() as at:
            at.number = number
            opened = self._opened.get(number) or codec.open_frame(
                self._items[number], max_elements=self._limit, threads=workers
            )
            if out is None:
                self.results[number] = opened.new(to=self._to, threads=workers)
            else:
                opened.into(out, threads=workers)
                self.results[number] = out


def _kind(x: object) -> tuple[Format, tuple[int, ...]]:
    values, shape = codec.taken(x)
    return values.format, shape


def _keys(seed: int | Rng | None, count: int) -> list[bytes]:
    """The key of every item's stream."""
    if seed is None:
        random = os.urandom(KEY_BYTES * count)
        return [random[at : at + KEY_BYTES] for at in range(0, len(random), KEY_BYTES)]
    root = seed if isinstance(seed, Rng) else Rng.from_seed(seed)
    return [root.child_key(token(number)) for number in range(count)]


def _in_shares(work: Callable[[int, int], int], weights: Sequence[int], workers: int) -> list[int]:
    """Let threads run messages, each about as many values; the numbers of those that failed."""
    ends = list(accumulate(weights))
    if not ends:
        return []
    parts = min(parallel.shares(ends[-1], workers), len(ends))
    cuts = [bisect_left(ends, ends[-1] * part / parts) for part in range(parts)]

    def run(part: int) -> list[int]:
        at, stop, failed = cuts[part], [*cuts, len(ends)][part + 1], []
        while at < stop:
            at = work(at, stop)
            if at < stop:
                failed.append(at)
                at += 1
        return failed

    return [number for failed in parallel.each(run, parts) for number in failed]
