"""The fixed header before every payload: a fault is an error on every rank at once.

Without it a rank that fails, skips a collective or runs another configuration is a hang, an abort
of the process or silent drift. With it every rank learns in the same exchange what the others are
about to send.
"""

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from fewbits import _native
from fewbits.errors import DisagreementError, EncodeError, PeerError
from fewbits.schemes.comm import Buffer, Comm, Mail

_STRUCT = struct.Struct("<4sHHQQQQIIQQQQ172sI")
SIZE = _STRUCT.size
_MAGIC = b"fwbh"
_VERSION = 1
_TEXT = 172
_MOST_PROMISED = 2**40  # bytes


class Status(IntEnum):
    """What a rank says of itself."""

    FINE = 0
    FAILED = 1
    NOT_FINITE = 2
    DISAGREES = 3


class Phase(IntEnum):
    """Where in a step the ranks are."""

    CONFIGURE = 0
    FIRST_HOP = 1
    SECOND_HOP = 2
    COMMIT = 3
    GATHER = 4


@dataclass(frozen=True, slots=True)
class Header:
    """A rank's word before its payload.

    `plan` is a digest of what all ranks must agree on, `replica` one of some of the parameters that
    should be equal everywhere, or 0 if this rank does not say; `promise` is how many bytes will go
    with the rank's next header, whatever that is, so that they need not wait for an answer to it.
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
    replica: int = 0
    promise: int = 0
    text: str = ""

    def encode(self) -> Buffer:
        """The header's bytes."""
        text = self.text.encode()[:_TEXT]
        packed = _STRUCT.pack(
            _MAGIC, _VERSION, self.status, self.phase, self.step, self.sequence, self.plan,
            self.crc, self.replica, self.length, self.nonfinite, self.saturated,
            self.promise, text, 0,
        )  # fmt: skip
        data = np.frombuffer(bytearray(packed), np.uint8)
        data[-4:].view("<u4")[0] = _native.crc32c(data[:-4])
        return data

    @classmethod
    def decode(cls, data: Buffer, rank: int) -> "Header":
        """The header in `data`, which `rank` sent."""
        magic, version, status, phase, *numbers, text, checksum = _STRUCT.unpack(data.tobytes())
        if magic != _MAGIC or version != _VERSION:
            raise DisagreementError(f"rank {rank} does not speak this version of the protocol")
        if checksum != _native.crc32c(data[:-4]):
            raise DisagreementError(f"the header from rank {rank} was damaged: checksums differ")
        try:
            known = Phase(phase), Status(status)
        except ValueError:
            raise DisagreementError(f"rank {rank} sent a header that makes no sense") from None
        step, sequence, plan, crc, replica, length, nonfinite, saturated, promise = numbers
        if promise > _MOST_PROMISED:
            raise DisagreementError(f"rank {rank} promises {promise} bytes")
        message = text.rstrip(b"\0").decode(errors="replace")
        return cls(
            known[0], step, sequence, plan, known[1], length, crc,
            nonfinite, saturated, replica, promise, message,
        )  # fmt: skip


def exchange(comm: Comm, headers: Sequence[Header]) -> list[Header]:
    """`start` and wait."""
    return start(comm, headers)()


def start(comm: Comm, headers: Sequence[Header], *mail: Mail) -> Callable[[], list[Header]]:
    """Send `headers[r]` to rank r, and `mail` with them.

    What is returned waits for every rank's header to us and gives them, our own at our place. It
    raises on every rank in the same exchange: `PeerError` if a rank failed (or `EncodeError` if it
    met values that are not finite and may not send them), `DisagreementError` if it is elsewhere,
    runs something else or has found out that it would.
    """
    received = [np.empty(SIZE, np.uint8) for _ in range(comm.size)]
    pending = comm.start(([header.encode() for header in headers], received), *mail)

    def wait() -> list[Header]:
        pending.wait()
        answers = [
            headers[comm.rank] if rank == comm.rank else Header.decode(data, rank)
            for rank, data in enumerate(received)
        ]
        _refuse_failures(answers)
        _refuse_disagreement(answers, comm.rank)
        _refuse_divergence(answers)
        return answers

    return wait


def _refuse_failures(answers: Sequence[Header]) -> None:
    for rank, header in enumerate(answers):
        if header.status is Status.NOT_FINITE:
            raise EncodeError(f"rank {rank} at step {header.step}: {header.text}")
        if header.status is Status.DISAGREES:
            raise DisagreementError(f"rank {rank} at step {header.step}: {header.text}")
        if header.status is Status.FAILED:
            raise PeerError(f"rank {rank} failed at step {header.step}: {header.text}")


def _refuse_disagreement(answers: Sequence[Header], rank: int) -> None:
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


def _refuse_divergence(answers: Sequence[Header]) -> None:
    known = {rank: answer.replica for rank, answer in enumerate(answers) if answer.replica}
    if len(set(known.values())) > 1:
        (most, _), *_ = Counter(known.values()).most_common()
        odd = [rank for rank, replica in known.items() if replica != most]
        raise DisagreementError(
            f"ranks {odd} have other parameters than the rest at step {answers[0].step}: they "
            "loaded other weights or took a step alone (use no_sync() on all ranks or on none)"
        )
