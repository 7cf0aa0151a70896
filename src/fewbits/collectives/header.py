"""The fixed header before every payload, which makes a fault an error on every rank at once.

Without it, a rank that fails, skips a collective or runs another configuration causes a hang, an
abort of the process or silent drift. With it, every rank learns in the same exchange what the
others are about to send.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from fewbits import backend
from fewbits.backend import boxes
from fewbits.backend.buffers import Buffer
from fewbits.collectives.comm import Comm, Incoming
from fewbits.errors import DisagreementError, EncodeError, PeerError

SIZE = boxes.HEADER_SIZE
_MAGIC = b"fwbh"
_VERSION = 3  # of headers and payloads; docs/format.md has what changed
ALIGNED_VERSION = 4  # of streams, whose payloads have aligned sections
_TEXT = boxes.FIELD_SIZES["text"]


class Status(IntEnum):
    """The state of a rank."""

    FINE = boxes.FINE_STATUS
    FAILED = boxes.FAILED_STATUS
    NOT_FINITE = 2
    DISAGREES = 3


class Phase(IntEnum):
    """The phase of a step."""

    CONFIGURE = 0
    FIRST_HOP = 1
    SECOND_HOP = 2
    COMMIT = 3
    GATHER = 4
    INSIDE_SUM = 5
    INSIDE_MEAN = 6


@dataclass(frozen=True, slots=True)
class RankHeader:
    """The header of a rank's payload.

    `plan` is a digest of what all ranks must agree on, `parameter_digest` one of some of the
    parameters that should be equal everywhere, or 0 if this rank does not say; `promise`
    is how many bytes will go with the batch's next header, so that they need not wait for an answer
    to it.
    """

    phase: Phase
    step: int
    sequence: int
    plan: int
    status: Status = Status.FINE
    length: int = 0
    crc: int = 0
    nonfinite: int = 0
    saturated: int = 0
    parameter_digest: int = 0
    promise: int = 0
    text: str = ""
    version: int | None = None  # by default that of all but streams

    def packed(self) -> bytes:
        """The header without its checksum, which a backend can write."""
        text = self.text.encode()[:_TEXT]
        return boxes.HEADER.pack(
            _MAGIC, self.version or _VERSION, self.status, self.phase, self.step, self.sequence,
            self.plan, self.crc, self.parameter_digest, self.length, self.nonfinite, self.saturated,
            self.promise, text, 0,
        )  # fmt: skip

    def with_length(self, length: int) -> "RankHeader":
        """The same header before a payload of so many bytes."""
        return replace(self, length=length)

    def encode(self) -> Buffer:
        data = Buffer.of(np.frombuffer(bytearray(self.packed()), np.uint8))
        backend.of(data).seal(data)
        return data

    @classmethod
    def decode(cls, data: Buffer, rank: int) -> "RankHeader":
        """The header in `data`, which `rank` sent."""
        magic, version, status, phase, *numbers, text, _ = boxes.HEADER.unpack(data.tobytes())
        if magic != _MAGIC or version != _VERSION:
            raise DisagreementError(
                f"rank {rank} does not speak this version of the protocol, {_VERSION}, but "
                f"{version if magic == _MAGIC else 'another'}: install one fewbits on all ranks"
            )
        if not backend.of(data).judge(data):
            raise DisagreementError(f"the header from rank {rank} was damaged: checksums differ")
        try:
            known = Phase(phase), Status(status)
        except ValueError:
            raise DisagreementError(f"rank {rank} sent a header that makes no sense") from None
        step, sequence, plan, crc, parameter_digest, length, nonfinite, saturated, promise = numbers
        message = text.rstrip(b"\0").decode(errors="replace")
        return cls(
            known[0], step, sequence, plan, known[1], length, crc,
            nonfinite, saturated, parameter_digest, promise, message,
        )  # fmt: skip


def exchange(comm: Comm, headers: Sequence[RankHeader]) -> list[RankHeader]:
    return ExpectedHeaders(comm).start(headers)()


class ExpectedHeaders:
    """The headers of all ranks' next messages, and what comes with them; receives are posted."""

    def __init__(self, comm: Comm, *incoming: Incoming) -> None:
        self._comm = comm
        own = comm.rank
        self._received = [None if r == own else Buffer.zeros(SIZE) for r in range(comm.size)]
        self._incoming = self._received, *incoming
        self._expected = comm.expect(*self._incoming)

    def start(
        self, headers: Sequence[RankHeader], *outgoing: Sequence[Buffer | None]
    ) -> Callable[[], list[RankHeader]]:
        """Send `headers[r]` to rank r, and `outgoing` with them.

        The returned function waits for every rank's header and returns them, with our own at our
        place. It raises on every rank in the same exchange: `PeerError` if a rank failed (or
        `EncodeError` if it met values that are not finite and may not send them),
        `DisagreementError` if a rank is at another step, runs another configuration or has found a
        difference itself.
        """
        own = self._comm.rank
        ours = [None if r == own else header.encode() for r, header in enumerate(headers)]
        sent = ours, *outgoing
        mail = zip(sent, self._incoming, strict=True)
        pending = self._comm.start(*mail, expected=self._expected)

        def wait() -> list[RankHeader]:
            pending.wait()
            return self._answers(headers)

        return wait

    def _answers(self, headers: Sequence[RankHeader]) -> list[RankHeader]:
        own = self._comm.rank
        answers = [
            headers[own] if data is None else RankHeader.decode(data, rank)
            for rank, data in enumerate(self._received)
        ]
        _refuse_failures(answers)
        _refuse_disagreement(answers, own)
        _refuse_divergence(answers)
        return answers


def _refuse_failures(answers: Sequence[RankHeader]) -> None:
    for rank, header in enumerate(answers):
        if header.status is Status.NOT_FINITE:
            raise EncodeError(f"rank {rank} at step {header.step}: {header.text}")
        if header.status is Status.DISAGREES:
            raise DisagreementError(f"rank {rank} at step {header.step}: {header.text}")
        if header.status is Status.FAILED:
            raise PeerError(f"rank {rank} failed at step {header.step}: {header.text}")


def _refuse_disagreement(answers: Sequence[RankHeader], rank: int) -> None:
    own = answers[rank]
    for field in ("plan", "phase", "step", "sequence"):
        mine = getattr(own, field)
        others = [r for r, answer in enumerate(answers) if getattr(answer, field) != mine]
        if others and field == "plan":
            theirs = "; ".join(f"rank {r}: {answers[r].text}" for r in others)
            raise DisagreementError(f"ranks do not run the same: here {own.text}; {theirs}")
        if others:
            theirs = ", ".join(f"rank {r} at {getattr(answers[r], field)}" for r in others)
            raise DisagreementError(
                f"rank {rank} is at {field} {mine}, {theirs}: a rank skipped or repeated a call"
            )


def _refuse_divergence(answers: Sequence[RankHeader]) -> None:
    known = {
        rank: answer.parameter_digest
        for rank, answer in enumerate(answers)
        if answer.parameter_digest
    }
    if len(set(known.values())) > 1:
        (most, _), *_ = Counter(known.values()).most_common()
        others = [rank for rank, digest in known.items() if digest != most]
        raise DisagreementError(
            f"ranks {others} have other parameters than the rest at step {answers[0].step}: they "
            "loaded other weights or took a step alone (use no_sync() on all ranks or on none)"
        )
