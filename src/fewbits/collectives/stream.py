r"""Reductions at which the host does not look: all that they do is queued where the values lie.

The steps are those of `sharded` and of `scatter`: the same units, owners, keys and orders of sums,
so results have the same bits. But sizes are fixed, sections are aligned, and headers are sealed and
judged by the backend: encode, seal, swap boxes, judge, sum and encode again, seal, gather boxes,
judge, decode. Nothing stops on a fault. It is noted in the step's record, and the step's end, which
all ranks reach, tells all of them.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from fewbits import backend
from fewbits.backend.boxes import Boxes
from fewbits.backend.buffers import Buffer
from fewbits.collectives.aligned import AlignedPayload
from fewbits.collectives.combining import StreamSide
from fewbits.collectives.comm import BoxComm, Pending
from fewbits.collectives.correction import FeedbackState, RulesOfSides
from fewbits.collectives.header import SIZE, Phase
from fewbits.collectives.owned import by_owner
from fewbits.collectives.payload import Unit, extent
from fewbits.collectives.progress import RankProgress
from fewbits.collectives.record import StepRecord, template, with_lengths
from fewbits.collectives.reduction import guarded, plan_digest, plan_label
from fewbits.collectives.units import Batch, Summation, float_dtype, total_format
from fewbits.feedback.store import MASTER, MEAN, WORKER, Place, StreamPair
from fewbits.reference.formats import Format
from fewbits.reference.tally import Tally
from fewbits.rng import Rng

StreamHops = Generator[None, None, Buffer]


@dataclass(frozen=True, slots=True)
class StreamTask:
    """The units of a batch of `count` values on a device, and the means to reduce them.

    With `feedback`, values must have the format of their totals.
    """

    units: Sequence[Unit]
    count: int
    format: Format
    comm: BoxComm
    device: str
    threads: int = 1
    feedback: FeedbackState | None = None


class StreamedReduction:
    """The first hop, which all streams have: every rank's units to their owners."""

    name = "Streamed"

    def __init__(self, task: StreamTask) -> None:
        self.comm, self.device, self.format = task.comm, task.device, task.format
        self.totals_format = total_format(task.format)
        assert task.feedback is None or task.format == self.totals_format
        self.plan = plan_digest(task.units, task.format, self.name)
        self.label = plan_label(task.units, task.format)
        self.owned = by_owner(task.units, self._owner, task.comm.size)
        rank, device = task.comm.rank, task.device
        mine = [self.owned[rank]] * task.comm.size
        self.outgoing, sent = _boxed(self.owned, "uplink", task.format, Boxes, device)
        self.incoming, self.received = _boxed(mine, "uplink", task.format, Boxes, device)
        self.sender = Batch(sent, task.format, threads=task.threads)
        self.memories = None if task.feedback is None else _Memories(task, self.owned[rank])
        in_place = task.format == self.totals_format
        size = float_dtype(self.totals_format).itemsize * task.count
        self._totals = None if in_place else Buffer.zeros(size, device)

    def hops(
        self, values: Buffer, rng: Rng, progress: RankProgress, record: StepRecord
    ) -> StreamHops:
        """The mean of `values` over all ranks, as floats of the totals' format, where they lie.

        It is written over `values` if they have that format. The generator pauses while messages
        travel.
        """
        raise NotImplementedError

    def _owner(self, number: int, unit: Unit) -> int:
        """The unit's shard, or else its number, modulo the ranks."""
        return (number if unit.shard is None else unit.shard) % self.comm.size

    def _first_hop(
        self, batch: int, values: Buffer, rng: Rng, progress: RankProgress, record: StepRecord
    ) -> Callable[[], None]:
        """Send this rank's units; the returned function waits for those of others."""
        private = rng.fork("private", progress.step, self.comm.rank)
        _try(partial(self._encode, values, private, progress, record), progress)
        finish = self._seal(batch, Phase.FIRST_HOP, self.outgoing, record.encoded, progress, record)
        pending = self.comm.swap_boxes(self.outgoing, self.incoming)
        return partial(finish, pending, self.incoming)

    def _encode(self, values: Buffer, rng: Rng, progress: RankProgress, record: StepRecord) -> None:
        counts, memories = record.encoded, self.memories
        if memories is None or progress.without_inputs:
            self.sender.set_keys(rng)
            self.sender.run_unseen("encode", values, counts)
        else:
            memories.worker.send(self.sender, values, rng, counts, progress.unused)
            memories.worker.keep(self.sender, values, record.decoded, progress.unused)

    def _seal(
        self,
        batch: int,
        phase: Phase,
        boxes: Boxes,
        counts: Buffer,
        progress: RankProgress,
        record: StepRecord,
    ) -> Callable[[Pending, Boxes], None]:
        """Seal boxes before they go; the returned function waits and judges what has come."""
        header = template(progress, phase, batch, self.plan, self.label)
        there, peers = backend.at(self.device), self.comm.size - 1
        with progress.spent.codec():
            there.fill(boxes, with_lengths(header, boxes))
            there.seal_boxes(boxes, counts, record.verdict)
        sent = [own for rank, own in enumerate(boxes.lengths) if rank != self.comm.rank]
        progress.spent.payload_bytes += sum(sent) if len(boxes) > 1 else peers * boxes.lengths[0]
        progress.spent.header_bytes += SIZE * peers

        def finish(pending: Pending, come: Boxes) -> None:
            with progress.spent.wire():
                pending.wait()
            expected = with_lengths(header, come)  # status and text may differ
            with progress.spent.codec():
                there.judge_boxes(come, expected, record.verdict, record.met)

        return finish

    def _result(self, values: Buffer) -> Buffer:
        return values if self._totals is None else self._totals


class StreamedMean(StreamedReduction):
    """Both hops: every rank ends with the whole mean."""

    name = "Sharded, aligned"

    def __init__(self, task: StreamTask) -> None:
        super().__init__(task)
        rank, size, wide = task.comm.rank, task.comm.size, self.totals_format
        self.means, payloads = _boxed(self.owned, "downlink", wide, Boxes.alike, task.device)
        mine = [self.owned[rank]]
        room = self.means.rooms[0]
        self.own_means, (own,) = _boxed(
            mine, "downlink", wide, partial(Boxes, rooms=[room]), task.device
        )
        self._sum = Summation(
            self.received,
            task.format,
            divisor=size,
            onward=None if task.feedback else own,
            threads=task.threads,
        )
        self._return = Batch([own], wide, threads=task.threads)
        self._decode = Batch(payloads, wide, threads=task.threads)

    def hops(
        self, values: Buffer, rng: Rng, progress: RankProgress, record: StepRecord
    ) -> StreamHops:
        batch = progress.next_batch()
        common = rng.fork("second hop", progress.step)
        result = self._result(values)
        arrive = self._first_hop(batch, values, rng, progress, record)
        yield
        arrive()
        _try(partial(self._relay, result, common, record), progress)
        boxes, counts = self.own_means, record.relayed
        finish = self._seal(batch, Phase.SECOND_HOP, boxes, counts, progress, record)
        pending = self.comm.gather_boxes(boxes.memory, self.means)
        yield
        finish(pending, self.means)
        _try(partial(self._finish, result, record), progress)
        return result

    def _relay(self, means: Buffer, rng: Rng, record: StepRecord) -> None:
        if self.memories is None:
            self._sum.run_unseen(means, record.relayed, rng)
            return
        self._sum.run_unseen(means, record.relayed)
        self.memories.mean.receive(means)
        self.memories.back.send(self._return, means, rng, record.relayed)
        if self.memories.owner_keeps:
            self.memories.back.keep(self._return, means, record.decoded)

    def _finish(self, result: Buffer, record: StepRecord) -> None:
        self._decode.run_unseen("decode", result, record.decoded)
        if self.memories is not None:
            self.memories.known.receive(result)


class StreamedShard(StreamedReduction):
    """The first hop alone: every rank ends with the mean, or sum, of its own shard.

    Without feedback a `divisor` of 1 gives sums.
    """

    name = "Scatter, aligned"

    def __init__(self, task: StreamTask, divisor: int) -> None:
        super().__init__(task)
        by = divisor if task.feedback is None else task.comm.size
        self._sum = Summation(self.received, task.format, divisor=by, threads=task.threads)

    def hops(
        self, values: Buffer, rng: Rng, progress: RankProgress, record: StepRecord
    ) -> StreamHops:
        batch = progress.next_batch()
        result = self._result(values)
        arrive = self._first_hop(batch, values, rng, progress, record)
        yield
        arrive()
        _try(partial(self._finish, result, record), progress)
        return result

    def _finish(self, result: Buffer, record: StepRecord) -> None:
        self._sum.run_unseen(result, record.relayed)
        if self.memories is not None:
            self.memories.mean.receive(result)


class _Memories:
    """Feedback of both directions, as in `correction.Correction`."""

    def __init__(self, task: StreamTask, owned: Sequence[Unit]) -> None:
        assert task.feedback is not None
        method, store = task.feedback
        rules = RulesOfSides.of(method, task.units, owned, task.comm.size)
        format = total_format(task.format)
        count, dtype = extent(task.units), float_dtype(format)

        def bound(side: str) -> StreamPair:
            own = rules.stored()[side]
            places = [Place(unit.name, unit.start, unit.count) for unit, _ in own]
            rows = max((rule.rows for _, rule in own), default=1)
            return store.bind_on(task.device, side, places, rows, count if places else 0, dtype)

        master = bound(MASTER)
        self.owner_keeps = rules.owner_keeps
        self.worker = StreamSide(bound(WORKER), rules.worker, format)
        self.mean = StreamSide(bound(MEAN), rules.mean, format)
        self.back = StreamSide(master, rules.back, format)
        self.known = StreamSide(master, rules.known, format)


def _boxed(
    units: Sequence[Sequence[Unit]],
    side: Literal["uplink", "downlink"],
    format: Format,
    make: Callable[[Sequence[int], str], Boxes],
    device: str,
) -> tuple[Boxes, list[AlignedPayload]]:
    """Boxes for the units of each rank, and the payloads in them."""
    payloads = [AlignedPayload(own, side, format) for own in units]
    boxes = make([payload.length for payload in payloads], device)
    for number, payload in enumerate(payloads):
        payload.lie_in(boxes, number)
    return boxes, payloads


def _try(work: Callable[[], None], progress: RankProgress) -> None:
    """Do `work`; an error of the host is kept for the next header, as in `guarded`."""

    def done() -> Tally:
        work()
        return Tally()

    guarded(done, progress)
