"""What every reduction over ranks shares: hops that fail on all ranks together or on none.

A hop is local work, a header to and from every rank, then the payloads. Whatever goes wrong in the
local work, or with bytes that another rank sent, is told in the next header, so all ranks raise in
the same exchange and none waits for one that has gone.
"""

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from fewbits.errors import DecodeError, DisagreementError, FewbitsError
from fewbits.kernels import native
from fewbits.kernels.formats import Format
from fewbits.kernels.units import Tally
from fewbits.rng import Rng
from fewbits.schemes import header
from fewbits.schemes.comm import Buffer, Comm
from fewbits.schemes.correction import Correction, Loop
from fewbits.schemes.header import Header, Phase, Status
from fewbits.schemes.payload import Payload, Unit, extent
from fewbits.schemes.promises import Early, Payloads, Promises
from fewbits.schemes.units import Batch, float_dtype, total_format

NonFinite = Literal["propagate", "skip", "raise"]
Hops = Generator[None, None, npt.NDArray[Any]]
_REST = 1  # the lane of what follows headers: it need not wait for the headers of other batches
_NO_BATCH = -1


@dataclass(slots=True)
class Spent:
    """What reductions cost this rank, added up over all steps."""

    payload_bytes: int = 0
    header_bytes: int = 0
    codec_seconds: float = 0.0
    codec_cpu_seconds: float = 0.0  # of the calling thread: not stretched by a busy machine
    wire_seconds: float = 0.0
    saturated: int = 0
    nonfinite: int = 0
    below_span: int = 0  # values other than 0 that are smaller than what a switch can add
    resent: int = 0  # packets to aggregators

    @contextmanager
    def codec(self) -> Iterator[None]:
        """Time what is encoded, decoded, summed or checked inside."""
        began, cpu = time.perf_counter(), time.thread_time()
        try:
            yield
        finally:
            self.codec_seconds += time.perf_counter() - began
            self.codec_cpu_seconds += time.thread_time() - cpu

    @contextmanager
    def wire(self) -> Iterator[None]:
        """Time what is waited for inside."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.wire_seconds += time.perf_counter() - began


@dataclass(slots=True)
class Progress:
    """Where this rank is and what it must tell the others; one for each group of ranks."""

    nonfinite: NonFinite = "propagate"
    step: int = 0
    sequence: int = 0  # batches begun in this step
    fault: Exception | None = None  # to be told in the next header
    saw_nonfinite: bool = False  # on any rank, in this step
    replica: int = 0  # a digest of parameters that should be the same on all ranks
    idle: bool = False  # this rank has no gradient and only accompanies the others
    unused: frozenset[str] = frozenset()  # parameters that have none on this rank
    spent: Spent = field(default_factory=Spent)
    promises: Promises = field(default_factory=Promises)

    def next_batch(self) -> int:
        """The number of the batch that begins now."""
        self.sequence += 1
        return self.sequence - 1


class Reduction(ABC):
    """One batch of units with its buffers and tables, kept from step to step.

    With feedback, a `loop`, values must have the format of their totals.
    """

    def __init__(
        self,
        units: Sequence[Unit],
        format: Format,
        comm: Comm,
        threads: int = 1,
        loop: Loop | None = None,
    ) -> None:
        assert loop is None or format == total_format(format)
        self.comm, self.format, self.totals_format = comm, format, total_format(format)
        self.threads = threads
        self.signature = _digest(units, format, type(self).__name__)
        self.label = _label(units, format)
        in_place = format == self.totals_format
        wide = float_dtype(self.totals_format)
        self._scratch = None if in_place else np.zeros(extent(units), wide)

    @abstractmethod
    def hops(self, values: npt.NDArray[Any], rng: Rng, progress: Progress) -> Hops:
        """The mean over all ranks of `values` (bits), as floats of the totals' format.

        Written over `values` where they have that format; otherwise into an array that is valid
        until the next run. Pauses where something is on its way to the other ranks.
        """

    def run(self, values: npt.NDArray[Any], rng: Rng, progress: Progress) -> npt.NDArray[Any]:
        """All hops without a pause."""
        hops = self.hops(values, rng, progress)
        while True:
            try:
                next(hops)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]

    def result(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The array that receives the mean."""
        return values.view(float_dtype(self.format)) if self._scratch is None else self._scratch

    def send(
        self,
        batch: Batch,
        correction: Correction | None,
        values: npt.NDArray[Any],
        rng: Rng,
        progress: Progress,
    ) -> Tally:
        """Encode this rank's values, corrected by its memory if there is one."""
        if correction is None:
            return batch.encode(values, rng)
        floats, idle, unused = self.result(values), progress.idle, progress.unused
        return correction.send_worker(batch, floats, rng, idle=idle, unused=unused)

    def hop(
        self,
        batch: int,
        phase: Phase,
        work: Callable[[], Tally],
        payloads: Payloads,
        following: Callable[[], Sequence[int]],
        progress: Progress,
    ) -> Iterator[None]:
        """Do `work`, agree with all ranks and exchange the payloads (outgoing, incoming).

        After the work `following()[r]` bytes are promised to rank r with the batch's next header.
        Pauses once, when the headers and what was promised with them are on their way.
        """
        outgoing, incoming = payloads
        tally = guarded(work, progress)
        own = self._header(batch, phase, tally, progress)
        peers = [rank for rank in range(self.comm.size) if rank != self.comm.rank]
        with progress.spent.codec():
            distinct = {id(outgoing[rank]): outgoing[rank] for rank in peers}  # one may go to all
            crcs = {key: native.crc32c(payload.data) for key, payload in distinct.items()}
        headers = [
            replace(own, length=payload.length, crc=crcs.get(id(payload), 0), promise=promise)
            for payload, promise in zip(outgoing, following(), strict=True)
        ]
        question = ask(self.comm, batch, headers, progress, payloads)
        yield
        with progress.spent.wire():
            answers, early = question()
            for rank in peers:
                _expect(incoming[rank], answers[rank].length, rank)
            rest = early.rest(payloads)
            if any(way[rank] is not None for way in rest for rank in peers):
                self.comm.start(rest, lane=_REST).wait()
        progress.spent.payload_bytes += sum(_size(rest[0][rank]) for rank in peers)
        guarded(lambda: _verified(answers, incoming, peers), progress)

    def _header(self, batch: int, phase: Phase, tally: Tally, progress: Progress) -> Header:
        progress.spent.saturated += tally.saturated
        progress.spent.nonfinite += tally.nonfinite
        own = Header(
            phase, progress.step, batch, self.signature,
            nonfinite=tally.nonfinite, saturated=tally.saturated,
            replica=progress.replica, text=self.label,
        )  # fmt: skip
        if tally.nonfinite and progress.nonfinite == "raise":
            text = f"{tally.nonfinite} gradient values are NaN or infinite"
            return replace(own, status=Status.NOT_FINITE, text=text)
        return own


def ask(
    comm: Comm,
    batch: int,
    headers: Sequence[Header],
    progress: Progress,
    payloads: Payloads | None = None,
) -> Callable[[], tuple[list[Header], Early]]:
    """Send headers, and with them what was promised for this batch.

    What is returned waits for the answers. It raises on every rank if any has a fault, here our own
    with its type.
    """
    early = progress.promises.kept(batch, payloads, comm.size)
    fault = progress.fault
    if fault is not None:
        known = isinstance(fault, DisagreementError)
        text = str(fault) if known else f"{type(fault).__name__}: {fault}"
        status = Status.DISAGREES if known else Status.FAILED
        headers = [replace(own, status=status, text=text) for own in headers]
    wait = header.start(comm, headers, *early.mail())

    def answer() -> tuple[list[Header], Early]:
        try:
            answers = wait()
        except FewbitsError as error:
            if fault is not None:
                raise fault from error
            raise
        progress.promises.made(batch, headers, answers, comm.rank)
        progress.spent.payload_bytes += sum(early.sent)
        progress.spent.header_bytes += header.SIZE * (comm.size - 1)
        progress.saw_nonfinite |= any(answer.nonfinite for answer in answers)
        return answers, early

    return answer


def agree(comm: Comm, own: Header, progress: Progress) -> None:
    """Send one header to all ranks and wait for theirs; no batch's promises are touched."""
    ask(comm, _NO_BATCH, [own] * comm.size, progress)()


def give_up(comm: Comm, progress: Progress, fault: Exception) -> NoReturn:
    """Tell `fault` to the ranks, which are about to begin a reduction, and raise it."""
    progress.fault = fault
    batch = progress.next_batch()
    own = Header(Phase.FIRST_HOP, progress.step, batch, 0)
    ask(comm, batch, [own] * comm.size, progress)()
    raise fault


def commit(
    comm: Comm,
    progress: Progress,
    nonfinite: int = 0,
    rest: Callable[[], None] | None = None,
) -> None:
    """End a step: all ranks learn whether all of them got this far, then go on to the next one.

    `nonfinite` says of how many results only this rank knows that they are NaN or infinite. `rest`
    waits for what is under way already and cannot fail but with the link.
    """
    own = Header(
        Phase.COMMIT, progress.step, progress.sequence, 0,
        nonfinite=nonfinite, replica=progress.replica, text="the end of the step",
    )  # fmt: skip
    if nonfinite and progress.nonfinite == "raise":
        text = f"{nonfinite} of its mean gradients are NaN or infinite"
        own = replace(own, status=Status.NOT_FINITE, text=text)
    with progress.spent.wire():
        agree(comm, own, progress)
    if rest is not None:
        rest()
    progress.step += 1
    progress.sequence = 0


def guarded(work: Callable[[], Tally], progress: Progress) -> Tally:
    """Codec work, timed; what it raises is kept for the next header. Nothing runs after a fault."""
    if progress.fault is not None:
        return Tally()
    try:
        with progress.spent.codec():
            return work()
    except Exception as error:  # told to all ranks and raised there
        progress.fault = error
        return Tally()


def _size(buffer: Buffer | None) -> int:
    return 0 if buffer is None else buffer.size


def naming(work: Callable[[], Tally]) -> Tally:
    """Do `work` on payloads, one of each rank; a `DecodeError` names the rank."""
    try:
        return work()
    except DecodeError as error:
        raise DecodeError(f"bytes from rank {error.unit}: {error}") from error


def divide(values: npt.NDArray[Any], by: int) -> None:
    """Divide in place, in the values' own precision."""
    with np.errstate(all="ignore"):  # NaN and infinity are the caller's to judge
        np.divide(values, values.dtype.type(by), out=values)


def _expect(payload: Payload, length: int, rank: int) -> None:
    """Refuse a length that the payload cannot have."""
    if length > payload.capacity or (payload.fixed and length != payload.capacity):
        raise DisagreementError(
            f"rank {rank} announces {length} bytes, this rank expects "
            f"{'' if payload.fixed else 'at most '}{payload.capacity}"
        )
    payload.length = length


def _verified(
    answers: Sequence[Header], incoming: Sequence[Payload], peers: Sequence[int]
) -> Tally:
    for rank in peers:
        if native.crc32c(incoming[rank].data) != answers[rank].crc:
            raise DecodeError(f"the bytes from rank {rank} were damaged: checksums differ")
    return Tally()


def _label(units: Sequence[Unit], format: Format) -> str:
    """What a person needs to see why two batches differ."""
    operators = Counter(f"{unit.worker}/{unit.master}" for unit in units)
    counts = ", ".join(f"{count} {pair}" for pair, count in operators.items())
    names = f" from {units[0].name} to {units[-1].name}" if units else ""
    size = sum(sum(_sizes(unit, format)) for unit in units)
    return f"{format.name} units, {size} bytes both ways: {counts or 'none'}{names}"


def _digest(units: Sequence[Unit], format: Format, scheme: str) -> int:
    """64 bits that differ if two ranks' batches do, or the lengths of what they will send."""
    hasher = blake2b(f"{scheme} {format.name}".encode(), digest_size=8)
    for unit in units:
        place = f"{unit.name} {unit.start} {unit.count}"
        hasher.update(f"\n{place} {unit.worker} {unit.master} {_sizes(unit, format)}".encode())
    return int.from_bytes(hasher.digest(), "little")


def _sizes(unit: Unit, format: Format) -> list[int]:
    """The sizes of the unit's sections, the worker's and then the master's."""
    there = unit.worker.layout(unit.count, format)
    back = unit.master.layout(unit.count, total_format(format))
    return [section.size for section in (*there, *back)]
