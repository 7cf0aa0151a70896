"""What a backend notes of a step while the host does not look, and what the host makes of it.

Notes lie where the values lie. At the end of a step every rank sends all others one small box,
which says whether it has seen a fault, so all ranks come to the same verdict. The host reads it
later; if something was wrong, ranks then tell each other what, by headers of the host.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fewbits import backend
from fewbits.backend.boxes import (
    COUNTS_SIZE,
    MET_SIZE,
    VERDICT_ITEM,
    Boxes,
    Count,
    Met,
    Wrong,
    aligned,
)
from fewbits.backend.buffers import Buffer
from fewbits.collectives.comm import BoxComm
from fewbits.collectives.header import ALIGNED_VERSION, Phase, RankHeader
from fewbits.collectives.progress import RankProgress
from fewbits.collectives.reduction import faulty
from fewbits.errors import DecodeError, DisagreementError, FewbitsError

WITNESS_SIZE = 16
"""Bytes of a rank's two int64: a digest of parameters, and how many jobs have added to it."""
_LINES = 3
_ENCODED, _RELAYED, _DECODED = range(_LINES)


class StepRecord:
    """The notes of one step: a verdict on each rank, what was met, and counts of runs.

    Jobs add digests of parameters that should be equal on all ranks to `witness`.
    """

    def __init__(self, ranks: int, device: str) -> None:
        self._ranks, self.device = ranks, device
        self._met = aligned(VERDICT_ITEM * ranks)
        self._counts = self._met + MET_SIZE
        self.memory = Buffer.zeros(self._counts + _LINES * COUNTS_SIZE, device)
        self.verdict = self.memory[: VERDICT_ITEM * ranks]
        self.met = self.memory[self._met : self._counts]
        self.encoded, self.relayed, self.decoded = map(self._line, range(_LINES))
        self._zeros = bytes(self.memory.size), bytes(WITNESS_SIZE)
        self.own = Boxes([WITNESS_SIZE], device)
        self.everyone = Boxes([WITNESS_SIZE] * ranks, device)

    def clear(self) -> None:
        """Begin another step."""
        there = backend.at(self.device)
        there.put(self.memory, self._zeros[0])
        there.put(self.witness, self._zeros[1])

    @property
    def witness(self) -> Buffer:
        return self.own.payload(0)

    def exchange(self, comm: BoxComm, progress: RankProgress) -> None:
        """Tell all ranks whether this one has seen a fault, and take note of what they tell."""
        header = template(progress, Phase.COMMIT, progress.sequence, 0, "the end of the step")
        there, expected = backend.at(self.device), with_lengths(header, self.everyone)
        there.fill(self.own, with_lengths(header, self.own))
        there.seal_boxes(self.own, self.memory[self._counts :], self.verdict)
        comm.gather_boxes(self.own.memory, self.everyone).wait()
        there.judge_boxes(self.everyone, expected, self.verdict, self.met)

    def seen(self, notes: bytes, boxes: bytes) -> "SeenStep":
        """What the host makes of a copy of the notes and of all ranks' boxes."""
        counts = np.frombuffer(notes[self._counts :], np.int64).reshape(_LINES, len(Count))
        starts = [start + self.everyone.rooms[0] - WITNESS_SIZE for start in self.everyone.starts]
        return SeenStep(
            np.frombuffer(notes[: VERDICT_ITEM * self._ranks], np.int32).tolist(),
            int(np.frombuffer(notes[self._met : self._counts], np.int64)[Met.NONFINITE]),
            int(counts[:, Count.SATURATED].sum()),
            int(counts[_ENCODED, Count.NONFINITE]),
            int(counts[:, Count.NONFINITE].sum()),
            counts[:, Count.FIRST_BAD].tolist(),
            [(*np.frombuffer(boxes[at : at + WITNESS_SIZE], np.int64).tolist(),) for at in starts],
        )

    def _line(self, number: int) -> Buffer:
        start = self._counts + number * COUNTS_SIZE
        return self.memory[start : start + COUNTS_SIZE]


class SeenStep(NamedTuple):
    """A step as the host sees it.

    `met` counts values that are not finite on any rank, and is 0 only if there are none; `sent`
    are those of this rank's own gradient, `nonfinite` all that this rank has encoded.
    """

    verdict: list[int]
    met: int
    saturated: int
    sent: int
    nonfinite: int
    first_bad: list[int]
    witnesses: list[tuple[int, ...]]

    @property
    def is_well(self) -> bool:
        """Whether no rank has seen a fault; values that are not finite are none."""
        return not any(self.verdict) and not self.has_parted

    @property
    def has_parted(self) -> bool:
        """Whether some ranks have other parameters, of those that say anything."""
        return len(set(filter(None, map(self.digest, range(len(self.witnesses)))))) > 1

    def digest(self, rank: int) -> int:
        """32 bits of a rank's witness; 0 if not all of its jobs said anything, as in a header."""
        digest, jobs = self.witnesses[rank]
        if not jobs or jobs != max(own for _, own in self.witnesses):
            return 0
        return ((digest ^ (digest >> 32)) & 0xFFFFFFFF) or 1

    def fault(self) -> FewbitsError | None:
        """What this rank has found wrong itself."""
        for rank, bits in enumerate(self.verdict):
            if bits & Wrong.HEADER:
                return DisagreementError(
                    f"the header from rank {rank} was damaged: checksums differ"
                )
            if bits & Wrong.OTHER:
                return DisagreementError(
                    f"rank {rank} is at another step or batch, or runs another configuration: a "
                    "rank skipped or repeated a call"
                )
            if bits & Wrong.PAYLOAD:
                return DecodeError(f"the bytes from rank {rank} were damaged: checksums differ")
        for number in filter(None, self.first_bad):
            return DecodeError(
                f"row {number - 1} of a batch cannot be decoded, though its checksum is right"
            )
        return None


def template(progress: RankProgress, phase: Phase, batch: int, plan: int, text: str) -> RankHeader:
    """The header of this rank's boxes in an exchange, without what the backend will write."""
    own = RankHeader(phase, progress.step, batch, plan, text=text, version=ALIGNED_VERSION)
    return own if progress.fault is None else faulty(own, progress.fault)


def with_lengths(header: RankHeader, boxes: Boxes) -> Sequence[bytes]:
    """The header of each box."""
    return [header.with_length(length).packed() for length in boxes.lengths]
