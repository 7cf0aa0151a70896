"""Streams among threads: the means of the other collectives, and verdicts that all ranks share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fewbits.backend.boxes import BOX_ALIGNMENT, HEADER_SIZE, Boxes, Wrong
from fewbits.backend.buffers import Buffer
from fewbits.collectives.aligned import AlignedPayload
from fewbits.collectives.comm import LocalComm, Pending
from fewbits.collectives.owned import Sharded
from fewbits.collectives.record import SeenStep, StepRecord
from fewbits.collectives.reduction import ReductionTask
from fewbits.collectives.stream import StreamedMean, StreamTask
from fewbits.errors import DecodeError, DisagreementError, SpecError
from fewbits.reference.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Format
from fewbits.rng import Rng
from unit.collectives.local import Rank, gradient, together, units

RNG = Rng.from_seed(8)
SIZES = 900, 31, 1, 257
OPERATORS = "natural", "natural-dithering", "float16", "identity", "top-k:fraction=0.1|natural"


class Spoiler:
    """A rank's comm that does something to the boxes that come by its first exchange."""

    def __init__(self, comm: LocalComm, deed: Callable[[Boxes], None]) -> None:
        self._comm, self._deed, self.rank, self.size = comm, deed, comm.rank, comm.size
        self.gather_boxes = comm.gather_boxes

    def swap_boxes(self, outgoing: Boxes, incoming: Boxes) -> Pending:
        self._comm.swap_boxes(outgoing, incoming).wait()
        self._deed(incoming)
        return self

    def wait(self) -> None:
        """Nothing is left to come."""


def streamed(rank: Rank, format: Format, operator: str, comm: Any = None) -> tuple[bytes, SeenStep]:
    """The mean that a rank ends with, and how it sees the step."""
    comm = comm or rank.comm
    task = StreamTask(units(SIZES, operator), sum(SIZES), format, comm, "cpu")
    record = StepRecord(comm.size, "cpu")
    values = gradient(rank.comm.rank, sum(SIZES), format, 0)
    hops = StreamedMean(task).hops(Buffer.of(values), RNG, rank.progress, record)
    while True:
        try:
            next(hops)
        except StopIteration as end:
            mean = end.value
            break
    record.exchange(comm, rank.progress)
    return mean.tobytes(), record.seen(record.memory.tobytes(), record.everyone.memory.tobytes())


@pytest.mark.parametrize("format", [FLOAT32, FLOAT64, FLOAT16, BFLOAT16], ids=lambda own: own.name)
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("ranks", [2, 3])
def test_the_mean_of_the_other_exchange(ranks: int, operator: str, format: Format) -> None:
    def usual(rank: Rank) -> bytes:
        task = ReductionTask(units(SIZES, operator), format, rank.comm)
        values = gradient(rank.comm.rank, sum(SIZES), format, 0)
        return Sharded(task).run(values, RNG, rank.progress).tobytes()

    expected = [rank.result for rank in together(ranks, usual)]
    found = [rank.result for rank in together(ranks, lambda rank: streamed(rank, format, operator))]
    assert [mean for mean, _ in found] == expected
    for _, seen in found:
        assert seen.is_well
        assert seen.met == seen.nonfinite == 0


def spoiled(deed: Callable[[Boxes], None]) -> list[SeenStep]:
    """How all ranks see a step in which something happens to what rank 1 receives."""

    def work(rank: Rank) -> tuple[bytes, SeenStep]:
        comm = Spoiler(rank.comm, deed) if rank.comm.rank == 1 else None
        return streamed(rank, FLOAT32, "natural", comm)

    return [rank.result[1] for rank in together(3, work)]


def test_a_flipped_bit_is_found_named_and_known_to_all() -> None:
    def flip(boxes: Boxes) -> None:
        boxes.payload(2).array()[3] ^= 1

    seen = spoiled(flip)
    assert not any(own.is_well for own in seen)
    told = Wrong.REPORTED  # of rank 1, and then of those whom it has told
    assert seen[1].verdict == [told, told, told | Wrong.PAYLOAD]
    assert seen[0].verdict == seen[2].verdict == [told] * 3
    fault = seen[1].fault()
    assert isinstance(fault, DecodeError)
    assert "from rank 2" in str(fault)
    assert seen[0].fault() is None


def test_a_damaged_header_and_one_of_another_step() -> None:
    def damage(boxes: Boxes) -> None:
        boxes.header(0).array()[100] ^= 1

    assert isinstance(spoiled(damage)[1].fault(), DisagreementError)


def test_sections_are_aligned_and_may_not_vary() -> None:
    payload = AlignedPayload(units(SIZES, "natural"), "uplink", FLOAT32)
    assert not (payload.offsets % BOX_ALIGNMENT).any()
    assert payload.length % BOX_ALIGNMENT == 0
    assert payload.length > sum(sum(slot.sizes) for slot in payload.slots)
    with pytest.raises(SpecError, match="staged=True"):
        AlignedPayload(units(SIZES, "natural:coder=rans"), "uplink", FLOAT32)
    assert Boxes([payload.length]).memory.size == HEADER_SIZE + payload.length


@pytest.mark.parametrize(
    ("witnesses", "parted"),
    [
        ([(5, 2), (5, 2)], False),
        ([(5, 2), (6, 2)], True),
        ([(5, 2), (0, 0)], False),
        ([(5, 2), (9, 1)], False),  # not all jobs of a rank said anything
        ([(0, 0), (0, 0)], False),
        ([(5, 2), (5 + (1 << 40), 2)], True),
    ],
)
def test_ranks_with_other_parameters(witnesses: list[tuple[int, ...]], parted: bool) -> None:
    seen = SeenStep([0, 0], 0, 0, 0, 0, [0, 0, 0], witnesses)
    assert seen.has_parted is parted
    assert seen.is_well is not parted


def test_a_record_is_used_again() -> None:
    record = StepRecord(2, "cpu")
    record.memory.array()[:] = 1
    record.witness.array()[:] = 1
    record.clear()
    assert not record.memory.array().any()
    assert not np.frombuffer(record.witness.tobytes(), np.uint8).any()
