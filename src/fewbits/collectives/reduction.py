"""The common part of all reductions over ranks: hops that fail on all ranks together or on none.

A hop is local work, a header to and from every rank, then the payloads. The next header reports
every fault in the local work, or in bytes that another rank sent. So all ranks raise in the same
exchange, and none waits for one that has gone.
"""

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from fewbits import backend
from fewbits.backend.buffers import Buffer
from fewbits.collectives import header
from fewbits.collectives.comm import Comm
from fewbits.collectives.correction import Correction, FeedbackState
from fewbits.collectives.header import Phase, RankHeader, Status
from fewbits.collectives.nodes import RankNodes
from fewbits.collectives.payload import Payload, Unit, extent
from fewbits.collectives.progress import RankProgress
from fewbits.collectives.promises import Early, Payloads
from fewbits.collectives.units import Batch, float_dtype, total_format
from fewbits.errors import DecodeError, DisagreementError, FewbitsError
from fewbits.reference.formats import Format
from fewbits.reference.tally import Tally
from fewbits.rng import Rng

Hops = Generator[None, None, npt.NDArray[Any]]
_REST = 1  # the lane of what follows headers: it need not wait for the headers of other batches
_NO_BATCH = -1


@dataclass(frozen=True, slots=True)
class ReductionTask:
    """The units of a batch, the format of their values, and the means to reduce them.

    With `feedback`, values must have the format of their totals. `peers` are the ranks that average
    together, by default all of them; `nodes` says where ranks are, if links differ.
    `told` is what other ranks read of so many values that are NaN or infinite.
    """

    units: Sequence[Unit]
    format: Format
    comm: Comm
    threads: int = 1
    feedback: FeedbackState | None = None
    peers: Sequence[int] | None = None
    nodes: RankNodes | None = None
    told: Callable[[int], str] = "{} gradient values are NaN or infinite".format


class Reduction(ABC):
    """One batch of units with its buffers and tables, kept from step to step.

    Subclasses define the first hop: `outgoing` and `incoming`, payloads to and from each rank,
    `sender`, which encodes this rank's values, and `correction`, if there is one.
    """

    name: ClassVar[str]  # on the wire: part of what ranks must agree on
    outgoing: Sequence[Payload]
    incoming: Sequence[Payload]
    sender: Batch
    correction: Correction | None = None

    def __init__(self, task: ReductionTask) -> None:
        units, format = task.units, task.format
        assert task.feedback is None or format == total_format(format)
        self.comm, self.format, self.totals_format = task.comm, format, total_format(format)
        self.peers = range(task.comm.size) if task.peers is None else task.peers
        self.signature = plan_digest(units, format, self.name)
        self.label = plan_label(units, format)
        self._told = task.told
        in_place = format == self.totals_format
        wide = float_dtype(self.totals_format)
        self._scratch = None if in_place else np.zeros(extent(units), wide)

    @abstractmethod
    def hops(self, values: npt.NDArray[Any], rng: Rng, progress: RankProgress) -> Hops:
        """The mean over all ranks of `values` (bits), as floats of the totals' format.

        It is written over `values` if they have that format, otherwise into an array that is valid
        until the next run. The generator pauses while messages travel.
        """

    def run(self, values: npt.NDArray[Any], rng: Rng, progress: RankProgress) -> npt.NDArray[Any]:
        hops = self.hops(values, rng, progress)
        while True:
            try:
                next(hops)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]

    def result(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values.view(float_dtype(self.format)) if self._scratch is None else self._scratch

    def encode(self, values: npt.NDArray[Any], rng: Rng, progress: RankProgress) -> Tally:
        """Encode this rank's values, corrected by its memory if there is one."""
        if self.correction is None:
            return self.sender.encode(values, rng)
        return self.correction.send_worker(
            self.sender,
            self.result(values),
            rng,
            without_inputs=progress.without_inputs,
            unused=progress.unused,
        )

    def first_hop(
        self,
        batch: int,
        values: npt.NDArray[Any],
        rng: Rng,
        progress: RankProgress,
        following: Callable[[], Sequence[int]],
        coming: Sequence[Payload],
    ) -> Iterator[None]:
        """The hop in which every rank sends its own values."""
        private = rng.fork("private", progress.step, self.peers.index(self.comm.rank))
        return self.hop(
            batch,
            Phase.FIRST_HOP,
            lambda: self.encode(values, private, progress),
            (self.outgoing, self.incoming),
            following,
            coming,
            progress,
        )

    def hop(
        self,
        batch: int,
        phase: Phase,
        work: Callable[[], Tally],
        payloads: Payloads,
        following: Callable[[], Sequence[int]],
        coming: Sequence[Payload],
        progress: RankProgress,
    ) -> Iterator[None]:
        """Do `work`, agree with all ranks and exchange the payloads (outgoing, incoming).

        After the work `following()[r]` bytes are promised to rank r with the batch's next header.
        Rank r may promise as many as `coming[r]` has room for, and none if there are no `coming`.
        It pauses once, while the headers and the promised bytes travel.
        """
        outgoing, incoming = payloads
        question = Question(self.comm, batch, progress, payloads)
        tally = guarded(work, progress, "encode" if phase is Phase.FIRST_HOP else "relay")
        peers = [rank for rank in range(self.comm.size) if rank != self.comm.rank]
        with progress.spent.codec("checksum"):
            distinct = {id(outgoing[rank]): outgoing[rank] for rank in peers}  # one may go to all
            crcs = {key: _crc32c(payload.data) for key, payload in distinct.items()}
        header = self._header(batch, phase, tally, progress)
        headers = [
            header(payload.length, crcs.get(id(payload), 0), promise)
            for payload, promise in zip(outgoing, following(), strict=True)
        ]
        limits = [payload.capacity for payload in coming]
        answer = question.ask(headers, limits)
        yield
        with progress.spent.wire():
            answers, early = answer()
            for rank in peers:
                _expect(incoming[rank], answers[rank].length, rank)
            rest = early.rest(payloads)
            if any(way[rank] is not None for way in rest for rank in peers):
                began = time.perf_counter()
                self.comm.start(rest, lane=_REST).wait()
                sent = progress.count({rank: _size(rest[0][rank]) for rank in peers})
                if sent or not progress.near:  # what stays in a node says nothing of the link
                    progress.link.see(sent, time.perf_counter() - began)
        guarded(lambda: _verified(answers, incoming, peers), progress, "checksum")

    def _header(
        self, batch: int, phase: Phase, tally: Tally, progress: RankProgress
    ) -> Callable[[int, int, int], RankHeader]:
        """The header of a payload with this length, checksum and promise."""
        saturated, nonfinite = tally.saturated, tally.nonfinite
        progress.spent.saturated += saturated
        progress.spent.nonfinite += nonfinite
        status, text = Status.FINE, self.label
        if nonfinite and progress.nonfinite == "raise":
            status = Status.NOT_FINITE
            text = self._told(nonfinite)
        return lambda length, crc, promise: RankHeader(
            phase, progress.step, batch, self.signature, status, length, crc,
            nonfinite, saturated, progress.parameter_digest, promise, text,
        )  # fmt: skip


class Question:
    """Headers to all ranks, and with them the bytes that were promised for this batch.

    Receives are posted at once, so that a rank that is ready before this one can send.
    """

    def __init__(
        self, comm: Comm, batch: int, progress: RankProgress, payloads: Payloads | None = None
    ) -> None:
        self._comm, self._batch, self._progress = comm, batch, progress
        self._early = progress.promises.kept(batch, payloads, comm.size)
        self._expected = header.ExpectedHeaders(comm, *self._early.incoming)

    def ask(
        self, headers: Sequence[RankHeader], limits: Sequence[int] = ()
    ) -> Callable[[], tuple[list[RankHeader], Early]]:
        """Send headers; the returned function waits for the answers.

        It raises on every rank if any has a fault; this rank's own fault keeps its type. Rank r may
        promise `limits[r]` bytes, without limits none.
        """
        comm, progress, early = self._comm, self._progress, self._early
        fault = progress.fault
        headers = [faulty(own, fault) for own in headers] if fault is not None else headers
        wait = self._expected.start(headers, *early.outgoing())

        def answer() -> tuple[list[RankHeader], Early]:
            try:
                answers = wait()
            except FewbitsError as error:
                if fault is not None:
                    raise fault from error
                raise
            _refuse_promises(answers, limits or [0] * comm.size, comm.rank)
            progress.promises.made(self._batch, headers, answers, comm.rank)
            progress.count(dict(enumerate(early.sent)))
            progress.count_headers(comm.size - 1, header.SIZE)
            progress.saw_nonfinite |= any(answer.nonfinite for answer in answers)
            return answers, early

        return answer


def faulty(own: RankHeader, fault: Exception) -> RankHeader:
    known = isinstance(fault, DisagreementError)
    text = str(fault) if known else f"{type(fault).__name__}: {fault}"
    return replace(own, status=Status.DISAGREES if known else Status.FAILED, text=text)


def agree(comm: Comm, own: RankHeader, progress: RankProgress) -> list[RankHeader]:
    """Send one header to all ranks and wait for theirs, without touching promises."""
    return Question(comm, _NO_BATCH, progress).ask([own] * comm.size)()[0]


def give_up(comm: Comm, progress: RankProgress, fault: Exception) -> NoReturn:
    """Tell `fault` to the ranks, which are about to begin a reduction, and raise it."""
    progress.fault = fault
    batch = progress.next_batch()
    own = RankHeader(Phase.FIRST_HOP, progress.step, batch, 0)
    Question(comm, batch, progress).ask([own] * comm.size)()
    raise fault


def commit(
    comm: Comm, progress: RankProgress, nonfinite: int = 0, rest: Callable[[], None] | None = None
) -> None:
    """End a step: all ranks learn whether all of them got this far, then the next step begins.

    `nonfinite` is the number of results of which only this rank knows that they are NaN or
    infinite. `rest` waits for messages under way and can only fail with the link.
    """
    own = RankHeader(
        Phase.COMMIT, progress.step, progress.sequence, 0,
        nonfinite=nonfinite, parameter_digest=progress.parameter_digest, text="the end of the step",
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


def guarded(work: Callable[[], Tally], progress: RankProgress, what: str = "codec") -> Tally:
    """Do codec work and time it; an error is kept for the next header, and then none is done."""
    if progress.fault is not None:
        return Tally()
    try:
        with progress.spent.codec(what):
            return work()
    except Exception as error:  # told to all ranks and raised there
        progress.fault = error
        return Tally()


def _crc32c(data: Buffer) -> int:
    return backend.of(data).crc32c(data)


def _size(buffer: Buffer | None) -> int:
    return 0 if buffer is None else buffer.size


def naming(work: Callable[[], Tally], ranks: Sequence[int] | None = None) -> Tally:
    """Do `work` on payloads, one of each rank of `ranks`; a `DecodeError` names the rank."""
    try:
        return work()
    except DecodeError as error:
        rank = error.row if ranks is None or error.row is None else ranks[error.row]
        raise DecodeError(f"bytes from rank {rank}: {error}") from error


def divide(values: npt.NDArray[Any], by: int) -> None:
    """Divide in place, in the values' own precision."""
    with np.errstate(all="ignore"):  # NaN and infinity are the caller's to judge
        np.divide(values, values.dtype.type(by), out=values)


def _refuse_promises(answers: Sequence[RankHeader], limits: Sequence[int], own: int) -> None:
    """Refuse promises for which no batch has a use, before room is made for them."""
    for rank, (answer, most) in enumerate(zip(answers, limits, strict=True)):
        if rank != own and answer.promise > most:
            raise DisagreementError(
                f"rank {rank} promises {answer.promise} bytes, this rank expects at most {most}"
            )


def _expect(payload: Payload, length: int, rank: int) -> None:
    if length > payload.capacity or (payload.fixed and length != payload.capacity):
        raise DisagreementError(
            f"rank {rank} announces {length} bytes, this rank expects "
            f"{'' if payload.fixed else 'at most '}{payload.capacity}"
        )
    payload.length = length


def _verified(
    answers: Sequence[RankHeader], incoming: Sequence[Payload], peers: Sequence[int]
) -> Tally:
    for rank in peers:
        if _crc32c(incoming[rank].data) != answers[rank].crc:
            raise DecodeError(f"the bytes from rank {rank} were damaged: checksums differ")
    return Tally()


def plan_label(units: Sequence[Unit], format: Format) -> str:
    """A description of a batch, for users who compare two that differ."""
    operators = Counter(f"{unit.uplink}/{unit.downlink}" for unit in units)
    counts = ", ".join(f"{count} {pair}" for pair, count in operators.items())
    names = f" from {units[0].name} to {units[-1].name}" if units else ""
    size = sum(sum(_sizes(unit, format)) for unit in units)
    return f"{format.name} units, {size} bytes both ways: {counts or 'none'}{names}"


def plan_digest(units: Sequence[Unit], format: Format, name: str) -> int:
    """64 bits that differ if two ranks' batches or the lengths of their messages differ."""
    hasher = blake2b(f"{name} {format.name}".encode(), digest_size=8)
    for unit in units:
        place = f"{unit.name} {unit.start} {unit.count}"
        hasher.update(f"\n{place} {unit.uplink} {unit.downlink} {_sizes(unit, format)}".encode())
    return int.from_bytes(hasher.digest(), "little")


def _sizes(unit: Unit, format: Format) -> list[int]:
    """The sizes of the unit's sections, of both directions."""
    there = unit.uplink.layout(unit.count, format)
    back = unit.downlink.layout(unit.count, total_format(format))
    return [section.size for section in (*there, *back)]
