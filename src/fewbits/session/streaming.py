"""Means of jobs by streams: everything is queued where the values lie, and looked at later."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, cast

from fewbits.backend.buffers import Buffer
from fewbits.collectives.comm import LaterReading
from fewbits.collectives.header import Phase, RankHeader, Status
from fewbits.collectives.overlap import Overlap
from fewbits.collectives.payload import Unit
from fewbits.collectives.progress import RankProgress
from fewbits.collectives.record import SeenStep, StepRecord
from fewbits.collectives.reduction import agree
from fewbits.collectives.stream import StreamedMean, StreamedReduction, StreamedShard, StreamTask
from fewbits.errors import EncodeError, PeerError
from fewbits.reference.formats import Format
from fewbits.rng import Rng
from fewbits.session.adapter import SessionComm
from fewbits.session.jobs import Job, JobValues, ScatterJob, StreamOutcome, StreamValues
from fewbits.session.options import Options
from fewbits.session.reducer import Reducer
from fewbits.session.routing import Routing, cut

StreamPieces = Sequence[tuple[slice, StreamedReduction]]
_UNSEEN = 2  # steps that may be under way at the end of which nobody has looked


class UnseenStep(NamedTuple):
    """A step that has ended on the host, and perhaps not yet on the device."""

    step: int
    record: StepRecord
    reading: LaterReading


class Streaming(Reducer):
    """Averages where the values lie, on every rank in the same order.

    `counted` is called for each step when the host has seen how it went, in the order of
    steps, with the number of steps that have ended since.
    """

    def __init__(
        self,
        routing: Routing,
        progress: RankProgress,
        options: Options,
        rng: Rng,
        counted: Callable[..., None],
    ) -> None:
        super().__init__(routing, progress)
        self.threads, self.rng, self.device = options.threads, rng, ""
        self._counted, self._overlap = counted, Overlap()
        self._known: dict[int, tuple[object, StreamPieces]] = {}
        self._record: StepRecord | None = None
        self._free: list[StepRecord] = []
        self._unseen: deque[UnseenStep] = deque()
        self._abandoned: list[object] = []  # other ranks may still write to their buffers
        self.found_inf: object = None  # of the last step, for optimizers

    def start(self, job: Job, comm: SessionComm) -> None:
        """Begin the reduction of a job, piece by piece, and continue those before it."""
        if self._record is None:  # the first job of a step: nobody has looked at the last one
            self.look(comm)
        try:
            with comm.beside(_lendable(job.values).ready):
                self._start(job, comm)
        except Exception:
            comm.abort()  # the other ranks are in a collective, and hear of it in no other way
            raise

    def _start(self, job: Job, comm: SessionComm) -> None:
        record, progress = self._current(comm), self.progress
        wide = self.feedback is not None
        lendable = _lendable(job.values)
        values, format = lendable.lend(self.device, wide=wide)
        pieces = self._pieces(job, format, comm)
        progress.without_inputs, progress.unused = job.without_inputs, frozenset(job.unused)
        job.witness(record.witness)

        def arrived(part: slice, totals: Format, mean: Buffer) -> None:
            lendable.take(part, mean, totals)

        for part, reduction in pieces:
            own = values[part.start * format.itemsize : part.stop * format.itemsize]
            hops = reduction.hops(own, self.rng, progress, record)
            self._overlap.add(hops, partial(arrived, part, reduction.totals_format))
        self._overlap.advance()

    def end_step(self, comm: SessionComm, outcomes: Sequence[StreamOutcome] = ()) -> None:
        """Queue the end of the step; with `nonfinite="raise"` wait until it is known."""
        progress = self.progress
        with comm.beside():
            self._overlap.finish()
            record = self._current(comm)
            if self.feedback is not None or progress.nonfinite != "propagate":
                for outcome in outcomes:
                    outcome.note_nonfinite(record.decoded)
            record.exchange(comm, progress)
            met = record.met if progress.nonfinite == "skip" else None
            if self.feedback is not None:
                self.feedback.store.commit(record.verdict, record.met)
            for outcome in outcomes:
                outcome.clear_if(self.device, record.verdict, met)
            self.found_inf = comm.found_inf(record.verdict, met)
            reading = comm.read_later(record.memory, record.everyone.memory)
        self._unseen.append(UnseenStep(progress.step, record, reading))
        self._record = None
        progress.step += 1
        progress.sequence = 0
        if progress.fault is not None or progress.nonfinite == "raise":
            self.look(comm, wait=True)

    def look(self, comm: SessionComm, *, wait: bool = False) -> None:
        """See how the steps have gone that are known by now, or with `wait` all; raises faults."""
        while self._unseen and (wait or self._is_due()):
            self._see(self._unseen.popleft(), comm)

    def look_if_well(self) -> None:
        """Count the steps that have gone well; of the others the next step will tell."""
        while self._unseen:
            _, record, reading = self._unseen[0]
            seen = record.seen(*reading.contents())
            if not seen.is_well:
                return
            self._free.append(self._unseen.popleft().record)
            self._count(seen)

    def close(self, *, failed: bool) -> None:
        """Forget the buffers, or after a failure keep those that may still be written to."""
        if failed:
            self._abandoned += [self._overlap, self._known, self._record]
        self._overlap, self._known, self._record = Overlap(), {}, None
        self._unseen.clear()
        self._free.clear()
        self.found_inf = None

    def _is_due(self) -> bool:
        return len(self._unseen) > _UNSEEN or self._unseen[0].reading.is_there()

    def _see(self, step: UnseenStep, comm: SessionComm) -> None:
        seen = step.record.seen(*step.reading.contents())
        self._free.append(step.record)
        if not seen.is_well or (seen.met and self.progress.nonfinite == "raise"):
            self._tell(step.step, seen, comm)
        self._count(seen)

    def _count(self, seen: SeenStep) -> None:
        progress = self.progress
        progress.spent.saturated += seen.saturated
        progress.spent.nonfinite += seen.nonfinite
        progress.saw_nonfinite = seen.met > 0
        self._counted(later=len(self._unseen))
        progress.saw_nonfinite = False

    def _tell(self, step: int, seen: SeenStep, comm: SessionComm) -> None:
        """Tell the other ranks what was wrong here and raise; all ranks come here."""
        progress = self.progress
        progress.fault = progress.fault or seen.fault()
        own = RankHeader(
            Phase.COMMIT, step, 0, 0, nonfinite=seen.sent,
            parameter_digest=seen.digest(comm.rank), text="the end of the step",
        )  # fmt: skip
        if seen.sent and progress.nonfinite == "raise":
            text = f"{seen.sent} gradient values are NaN or infinite"
            own = replace(own, status=Status.NOT_FINITE, text=text)
        agree(comm, own, progress)
        if seen.is_well:
            raise EncodeError(f"the mean gradient of step {step} is NaN or infinite")
        ranks = [rank for rank, bits in enumerate(seen.verdict) if bits]
        raise PeerError(f"ranks {ranks} have told of a failure at step {step}")

    def _current(self, comm: SessionComm) -> StepRecord:
        if self._record is None:
            self._record = self._free.pop() if self._free else StepRecord(comm.size, self.device)
            self._record.clear()
        return self._record

    def _pieces(self, job: Job, format: Format, comm: SessionComm) -> StreamPieces:
        """The job's boxes and tables, made anew when it has other parameters."""
        routing, count = self.routing, job.values.count

        def make() -> StreamPieces:
            units = routing.units(job.parameters, count)
            return [
                (part, StreamedMean(self._task(own, part.stop - part.start, format, comm)))
                for part, own in cut(units, comm.size, routing.unit)
            ]

        return self._kept(job.index, (format, count, tuple(job.parameters)), make)

    def _task(
        self, units: Sequence[Unit], count: int, format: Format, comm: SessionComm
    ) -> StreamTask:
        return StreamTask(units, count, format, comm, self.device, self.threads, self.feedback)

    def _kept(self, index: int, identity: object, make: Callable[[], StreamPieces]) -> StreamPieces:
        known = self._known.get(index)
        if known is None or known[0] != identity:
            known = self._known[index] = identity, make()
        return known[1]


class ScatteringStream(Streaming):
    """Reduces and scatters where the values lie, in one hop."""

    works_alone = True

    @property
    def specs(self) -> tuple[str, str]:
        return self.routing.uplink.spec, "none"

    def plain_bytes(self, job: Job, ranks: int) -> int:
        """Bytes that a reduce-scatter would send, in a ring."""
        assert isinstance(job, ScatterJob)
        return (ranks - 1) * job.result.nbytes

    def _start(self, job: Job, comm: SessionComm) -> None:
        """Queue the whole reduction of a job, whose result is used at once."""
        assert isinstance(job, ScatterJob)
        record, progress = self._current(comm), self.progress
        layout = job.layout(job.values.count, comm.size)
        wide = self.feedback is not None
        values, result = _lendable(job.values), _lendable(job.result)
        _, format = values.lend(self.device, wide=wide)
        divisor = 1 if job.sums else comm.size

        def make() -> StreamPieces:
            pieces = [
                (columns, units, comm.size * (columns.stop - columns.start))
                for columns, units in layout.pieces(self.routing)
            ]
            return [
                (columns, StreamedShard(self._task(units, count, format, comm), divisor))
                for columns, units, count in pieces
            ]

        def arrived(columns: slice, totals: Format, means: Buffer) -> None:
            width = (columns.stop - columns.start) * totals.itemsize
            result.take(columns, means[comm.rank * width : (comm.rank + 1) * width], totals)

        for columns, reduction in self._kept(job.index, (format, layout, job.sums), make):
            part, _ = values.lend_columns(self.device, columns, comm.size, wide=wide)
            hops = reduction.hops(part, self.rng, progress, record)
            self._overlap.add(hops, partial(arrived, columns, reduction.totals_format))
        self._overlap.finish()
        factor = job.factor * (comm.size if job.sums and self.feedback else 1)
        if factor != 1:
            result.multiply(factor)
        if self.feedback is not None or progress.nonfinite != "propagate":
            result.note_nonfinite(record.decoded)


def _lendable(values: JobValues) -> StreamValues:
    """Values of an adapter whose sessions may be streams."""
    return cast(StreamValues, values)
