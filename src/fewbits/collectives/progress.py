"""A rank's progress: its step, what it must tell the others, and what it has spent."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Literal

from fewbits.collectives.promises import Promises

NonFinite = Literal["propagate", "skip", "raise"]
Ranges = Callable[[str], AbstractContextManager[object]]
"""What shows a profiler the part of a step that a name stands for."""


def _unseen(_: str) -> AbstractContextManager[object]:
    return nullcontext()


@dataclass(slots=True)
class Spending:
    """Seconds, bytes and counts of this rank's reductions over all steps.

    Payload and header bytes are those to other nodes if ranks are in nodes, else to other ranks.
    """

    payload_bytes: int = 0
    header_bytes: int = 0
    inside_bytes: int = 0  # payloads and headers to ranks of this rank's own node
    codec_seconds: float = 0.0
    codec_cpu_seconds: float = 0.0  # of the calling thread: not stretched by a busy machine
    wire_seconds: float = 0.0
    saturated: int = 0
    nonfinite: int = 0
    below_span: int = 0  # values other than 0 that are smaller than what a switch can add
    resent: int = 0  # packets to aggregators
    ranges: Ranges = _unseen

    @contextmanager
    def codec(self, what: str = "codec") -> Iterator[None]:
        began, cpu = time.perf_counter(), time.thread_time()
        try:
            with self.ranges(f"fewbits.{what}"):
                yield
        finally:
            self.codec_seconds += time.perf_counter() - began
            self.codec_cpu_seconds += time.thread_time() - cpu

    @contextmanager
    def wire(self) -> Iterator[None]:
        began = time.perf_counter()
        try:
            with self.ranges("fewbits.exchange"):
                yield
        finally:
            self.wire_seconds += time.perf_counter() - began


@dataclass(slots=True)
class MeasuredLink:
    """A payload that all ranks have waited for, with nothing else to do.

    Of the large ones the fastest, because another program may have disturbed the others; a small
    one may pass in a burst and says little.
    """

    bytes: int = 0
    seconds: float = 0.0

    def see(self, size: int, seconds: float) -> None:
        """Take a transfer into account."""
        faster = seconds * self.bytes < self.seconds * size
        if size > 2 * self.bytes or (2 * size >= self.bytes and faster):
            self.bytes, self.seconds = size, seconds

    def seconds_for(self, size: int, latency: float) -> float:
        """How long so many bytes take, without the latency."""
        return size * max(self.seconds - latency, 0.0) / max(self.bytes, 1)


@dataclass(slots=True)
class RankProgress:
    """The step of this rank and what it must tell the others; one for each group of ranks."""

    nonfinite: NonFinite = "propagate"
    step: int = 0
    sequence: int = 0  # batches begun in this step
    fault: Exception | None = None  # to be told in the next header
    saw_nonfinite: bool = False  # on any rank, in this step
    parameter_digest: int = 0  # of parameters that should be the same on all ranks
    without_inputs: bool = False  # this rank has no gradient and only accompanies the others
    unused: frozenset[str] = frozenset()  # parameters that have none on this rank
    near: frozenset[int] = frozenset()  # the other ranks of this rank's node, if there are nodes
    spent: Spending = field(default_factory=Spending)
    promises: Promises = field(default_factory=Promises)
    link: MeasuredLink = field(default_factory=MeasuredLink)

    def count(self, sent: Mapping[int, int]) -> int:
        """Count payload bytes to each rank; how many of them leave the node."""
        far = sum(size for rank, size in sent.items() if rank not in self.near)
        self.spent.payload_bytes += far
        self.spent.inside_bytes += sum(sent.values()) - far
        return far

    def count_headers(self, ranks: int, size: int) -> None:
        """Count headers of so many bytes to so many ranks."""
        self.spent.header_bytes += (ranks - len(self.near)) * size
        self.spent.inside_bytes += len(self.near) * size

    def next_batch(self) -> int:
        self.sequence += 1
        return self.sequence - 1
