"""What an adapter hands to its session, which it does not override: ranks, and own parts."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from fewbits.backend.buffers import Buffer
from fewbits.collectives.comm import BoxComm, Comm, Pending
from fewbits.collectives.payload import Unit
from fewbits.collectives.progress import Ranges
from fewbits.core.vector import Vector
from fewbits.errors import DisagreementError
from fewbits.session.routing import Routing
from fewbits.session.state import SavedState


class SessionComm(Comm, BoxComm, Protocol):
    """Ranks that meet when a session starts. `rank` and `size` may be asked for before."""

    @property
    def timeout(self) -> float:
        """Seconds after which a rank that does not answer is given up."""

    def open(self) -> None:
        """Connect to the other ranks anew; every rank must call this."""

    def close(self) -> None:
        """Disconnect from the other ranks; every rank must call this."""

    def abort(self) -> None:
        """Break this rank's connections, from any thread: whoever waits for a rank is told so."""

    def box_backend(self, device: str) -> str:
        """What carries boxes of a device, as a word that must be the same on all ranks.

        `SpecError` if nothing does.
        """

    def open_boxes(self, device: str) -> None:
        """Get ready for boxes of a device; every rank must call this after `open`."""

    def beside(self, ready: object = None) -> AbstractContextManager[None]:
        """Queue what a block does on the stream of boxes, after `ready`, an event."""

    def joined(self) -> AbstractContextManager[None]:
        """Let that stream and the program's wait for each other, around a block."""

    def found_inf(self, verdict: Buffer, met: Buffer | None) -> object:
        """What tells torch's optimizers to skip a step that has not ended well."""

    def start_mean(self, vector: Vector) -> Pending:
        """Begin to replace a vector by its mean over all ranks, without compression."""


def _place(comm: SessionComm) -> tuple[int, int]:
    return comm.rank, comm.size


def _nothing(*_: object) -> None:
    pass


def _as_given(across: Any) -> Sequence[int]:
    return tuple(across)


def _refuse_all(states: Sequence[SavedState], _: bool) -> None:
    """Refuse the arrays of another adapter: this one has none."""
    for name in (name for own in states for name in own):
        raise DisagreementError(f"the state has {name!r}, which is of another adapter")


@dataclass(frozen=True, slots=True)
class AdapterParts:
    """An adapter's additions; by default there are none.

    All ranks must have the same `agreed`, beside the options; `first_words` is what states of
    version 1 have instead. `stream` names the random stream of this rank's group, if several groups
    train together. Without `has_thread` jobs are done when `submit` returns. `place` is the rank
    and the number of ranks whose states belong together; `no_reshard` says why another number of
    ranks cannot load them. `units` are those of the whole model, if not the routing's own. `device`
    is where the values lie, and `formats` are theirs. `members` makes ranks of the session's `comm`
    of what the option `across` was given; it may need the group, so it is called after `open`.

    An adapter saves its own `arrays` by name. `check` raises `DisagreementError` for arrays that
    `take` could not take, and `settle` waits for exchanges that are under way. `ranges` shows a
    profiler the parts of a step.
    """

    agreed: Mapping[str, str] = field(default_factory=dict)
    first_words: str = ""
    stream: tuple[int | str, ...] = ()
    has_thread: bool = True
    place: Callable[[SessionComm], tuple[int, int]] = _place
    no_reshard: str | None = None
    units: Callable[[Routing, int], Sequence[Unit]] | None = None
    device: str | None = None  # not known before there are values
    formats: Sequence[str] = ()
    members: Callable[[Any], Sequence[int]] = _as_given
    arrays: Callable[[], SavedState] = dict
    check: Callable[[Sequence[SavedState], bool], None] = _refuse_all
    take: Callable[[SavedState], None] = _nothing
    settle: Callable[[], None] = _nothing
    ranges: Ranges | None = None
