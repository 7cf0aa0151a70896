"""Checks that all ranks agree on a configuration, a state or a common action."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar

import numpy as np

from fewbits.backend.buffers import Buffer
from fewbits.collectives.header import Phase, RankHeader
from fewbits.collectives.nodes import RankNodes
from fewbits.collectives.progress import RankProgress
from fewbits.collectives.reduction import agree
from fewbits.errors import DisagreementError, SpecError
from fewbits.session.adapter import SessionComm
from fewbits.session.configuration import RankConfiguration

Found = TypeVar("Found")
_TEXT = 4096  # bytes of a configuration, of every rank: nobody need believe a length
_DIGITS = 16  # of the digest before it
_WANTED = 64  # bytes at most of what a rank wants
_LINE = 256  # bytes at most of a decision of a policy
_SHOWN = 80  # letters of a value
_NOBODY = -1  # in the place of a rank


@dataclass(frozen=True, slots=True)
class RankAgreement:
    """Asks the other ranks of a session."""

    comm: SessionComm
    progress: RankProgress
    configuration: RankConfiguration

    def on_configuration(self, flow: Callable[[], str] = lambda: "") -> list[str]:
        """Raise unless all ranks have the same configuration; the error names what differs.

        `flow` is how this rank's values want to travel, in a word, or an error that all ranks get.
        Returns what each rank wants.
        """
        start = RankProgress(step=self.progress.step)  # of its own: reports count steps only
        _, (own, wanted) = _found(
            self.comm, start, lambda: (start.step, (self.configuration.agreed(), flow()))
        )
        told = [_divided(text) for text in _exchanged(self.comm, _packed(own, wanted))]
        texts = [text for text, _ in told]
        if len(set(texts)) > 1:
            defaults = self.configuration.options.agreed(defaults=True)
            found = [defaults | _unpacked(text) for text in texts]
            if _is_policy_alone(found):
                self._show_policies(found)
            raise DisagreementError(
                f"ranks do not run the same: {_differences(found, self.comm.rank)}"
            )
        return [theirs for _, theirs in told]

    def on_nodes(self, find: Callable[[], Sequence[int]]) -> RankNodes:
        """The arrangement of all ranks, each of which finds its own group across nodes.

        All ranks see the same groups, so all of them take the arrangement or refuse it.
        """
        start, size = RankProgress(step=self.progress.step), self.comm.size

        def found() -> tuple[int, list[int]]:
            members = list(find())
            if len(members) > size or not all(isinstance(each, int) for each in members):
                raise SpecError(f"across= must be some of {size} ranks, got {members}")
            return start.step, members

        _, own = _found(self.comm, start, found)
        line = np.array([*own, *[_NOBODY] * (size - len(own))], "<i4")
        told = [np.frombuffer(each, "<i4") for each in _exchanged(self.comm, line.tobytes())]
        return RankNodes.of([each[each != _NOBODY].tolist() for each in told])

    def _show_policies(self, found: Sequence[dict[str, str]]) -> None:
        """Put the first decision that differs in the place of the digests of all.

        All ranks have read the same texts, so all of them ask or none.
        """
        lines = self.configuration.decisions()
        own = np.array([_digest(line) for line in lines], "<u8").tobytes()
        every = np.array(
            [np.frombuffer(each, "<u8") for each in _exchanged(self.comm, own)], ndmin=2
        )
        (places,) = np.nonzero((every != every[0]).any(axis=0))
        if places.size:
            line = lines[int(places[0])].encode()[:_LINE].ljust(_LINE, b"\0")
            for each, told in zip(found, _exchanged(self.comm, line), strict=True):
                each["policy"] = told.rstrip(b"\0").decode(errors="replace")

    def on_deed(self, text: str) -> None:
        """Raise unless all ranks are about to do the same."""
        progress = self.progress
        own = RankHeader(Phase.GATHER, progress.step, progress.sequence, _digest(text), text=text)
        with progress.spent.wire():
            agree(self.comm, own, progress)

    def on_step(
        self, find: Callable[[], tuple[int, Found]], witness: Callable[[Found], int]
    ) -> tuple[int, Found]:
        """Find a state on every rank, of the same step; raises on all ranks or on none.

        `witness` is a checksum of what all ranks' states have in common.
        """
        return _found(self.comm, self.progress, find, witness)

    def on_common(self, common: int, nodes: RankNodes) -> None:
        """Raise on all ranks unless those of one place have the same checksum of memories."""
        told = [_number(each) for each in _exchanged(self.comm, common.to_bytes(8, "little"))]
        for members in nodes.groups:
            if len({told[rank] for rank in members}) > 1:
                found = "; ".join(f"rank {rank}: {told[rank]:08x}" for rank in members)
                raise DisagreementError(f"ranks do not run the same: common memories, {found}")


def _found(
    comm: SessionComm,
    progress: RankProgress,
    find: Callable[[], tuple[int, Found]],
    witness: Callable[[Found], int] = lambda _: 0,
) -> tuple[int, Found]:
    step, found, common = progress.step, None, 0
    try:
        step, found = find()
        common = witness(found)
    except Exception as error:
        progress.fault = error
    text = f"step {step}" + (f" with common memories {common:08x}" if common else "")
    own = RankHeader(Phase.CONFIGURE, step, 0, common, text=text)
    try:
        if comm.size > 1:
            agree(comm, own, progress)
        elif progress.fault is not None:
            raise progress.fault
    finally:
        progress.fault = None
    assert found is not None
    return step, found


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _number(told: bytes) -> int:
    return int.from_bytes(told, "little")


def _packed(pairs: Mapping[str, str], wanted: str = "") -> bytes:
    """A digest of everything, and as much of it as there is room for; ranks may want another flow.

    That is a word behind the digest, and not in it.
    """
    text = "".join(f"\n{name}={value}" for name, value in pairs.items())
    return f"{_digest(text):016x}{wanted}{text}".encode()[:_TEXT].ljust(_TEXT, b"\0")


def _divided(content: bytes) -> tuple[bytes, str]:
    """What all ranks must have in common, and what this one wants."""
    first, line, rest = content.rstrip(b"\0").partition(b"\n")
    told, wanted = first[:_DIGITS] + line + rest, first[_DIGITS:]
    return told[: _TEXT - _WANTED], wanted.decode(errors="replace")  # the digest knows the rest


def _unpacked(content: bytes) -> dict[str, str]:
    lines = content.rstrip(b"\0").decode(errors="replace").split("\n")[1:]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def _is_policy_alone(found: Sequence[Mapping[str, str]]) -> bool:
    """Whether nothing else explains that policies differ: tensors and candidates are the same."""
    others = ("uplink", "downlink", "candidates", "feedback", "model")
    counts = {name: len({each.get(name) for each in found}) for name in ("policy", *others)}
    return counts.pop("policy") > 1 and set(counts.values()) == {1}


def _exchanged(comm: SessionComm, own: bytes) -> list[bytes]:
    """What all ranks tell, each as many bytes."""
    received = [Buffer.zeros(len(own)) for _ in range(comm.size)]
    received[comm.rank] = content = Buffer.of(np.frombuffer(bytearray(own), np.uint8))
    if comm.size > 1:
        comm.start(([content] * comm.size, received)).wait()
    return [each.tobytes() for each in received]


def _differences(found: Sequence[Mapping[str, str]], rank: int) -> str:
    """`name: value here, another on rank 1`, for each name."""
    told = []
    for name in dict.fromkeys(name for each in found for name in each):
        mine = found[rank].get(name, "nothing")
        others: dict[str, list[str]] = {}
        for number, each in enumerate(found):
            if (theirs := each.get(name, "nothing")) != mine:
                others.setdefault(theirs, []).append(str(number))
        there = [f"{_shown(theirs)} on rank {', '.join(who)}" for theirs, who in others.items()]
        if there:
            told.append(f"{_shown(name)}: {_shown(mine)} here, {', '.join(there)}")
    return "; ".join(told) or "their configurations differ where they are too long to be shown"


def _shown(text: str) -> str:
    """Text of another rank that fits into a line."""
    short = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return "".join(letter if letter.isprintable() else "?" for letter in short)
