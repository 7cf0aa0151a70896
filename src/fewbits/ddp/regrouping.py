"""Ranks that go on without a lost one, and let it in again: `on_failure="continue"`.

All of it happens inside the backward pass. When an exchange has failed, those who are left agree in
the store who they are, connect anew and repeat the exchange with the gradients that each has
computed. If another rank has ended the step, so does this one: only the last headers can be
missing here, because a rank sends its own after all messages have arrived. A rank that comes is let
in at the beginning of a step: the first member then breaks the connections on purpose.

DDP's own process group has this rank alone, because torch's groups end with any of their ranks.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fewbits.collectives.parcels import numbers_of_all, swapped
from fewbits.ddp.carried import Carried
from fewbits.errors import DisagreementError, PeerError
from fewbits.session import Job, SavedState, Session, lost_values, moved
from fewbits.transport.membership import Membership, Turn
from fewbits.transport.store_comm import StoreComm

_LOG = logging.getLogger(__name__)
_ENDS = "end"
_LAST_TURNS = 3  # in which a rank that ends helps those who lack the end of the last step
_PAUSE = 3.0  # seconds after ranks were asked in until they are asked again


class RankStanding(NamedTuple):
    """What a rank has: the model or not yet, the steps that it has ended, and where it is."""

    has_model: int
    ended: int
    at: int


class _OutsideError(PeerError):
    """The others have given this rank up, or cannot take it now."""


class Regrouping:
    """One rank among those that go on without each other, with a session of its own.

    `at` is the step whose exchange is under way here, or comes next.
    """

    def __init__(
        self, membership: Membership, comm: StoreComm, session: Session, carried: Carried
    ) -> None:
        self._membership, self._comm, self._carried = membership, comm, carried
        self._session, self._turn = session, Turn(0, ())
        self._settled = tuple[int, ...]()  # the members that were last connected
        self._kept: tuple[SavedState, int] = {}, 0  # memories from then on, and values that go
        self._has_model, self._is_over, self._at = False, False, 0
        self._has_left = False
        self._failure: PeerError | None = None
        self._asked = 0.0  # when ranks that wait were last asked in

    @property
    def members(self) -> tuple[int, ...]:
        """The numbers of the ranks that train now."""
        return self._settled

    def begin(self) -> None:
        """Wait until the others let this rank in, and take over what they have."""
        self._carried.pack()  # what cannot travel is found before anybody needs it
        self._or_leave(self._begin)

    def admit(self) -> None:
        """Let ranks in that have come; called before the first job of a step."""
        self._at = self._session.progress.step
        waits = time.monotonic() - self._asked > _PAUSE and self._membership.newcomers()
        if self._comm.rank == 0 and waits:
            self._asked = time.monotonic()
            self._or_leave(self._regroup)

    def submit(self, job: Job) -> None:
        """Take a job; if a rank is lost, `finish` will know."""
        if self._failure is None:
            try:
                self._session.submit(job)
            except PeerError as error:
                self._failure = error

    def finish(self, last: Job, again: Callable[[], Sequence[Job]]) -> None:
        """Wait for the end of the step; `again` makes its jobs anew if a rank is lost."""
        self._or_leave(lambda: self._finish(last, again))

    def end(self) -> None:
        """Leave, once nobody needs this rank to know how the last step has ended."""
        if self._session.failure is None and self._settled and not self._has_left:
            self._at = self._session.progress.step
            self._or_leave(self._last_turn)
        self.leave()

    def leave(self) -> None:
        """Let the others go on without this rank."""
        self._has_left = True
        self._membership.leave()

    def _or_leave(self, work: Callable[[], object]) -> None:
        """Do what a rank that fails by itself does not survive."""
        try:
            work()
        except _OutsideError as error:
            self.leave()
            raise PeerError(str(error)) from None
        except BaseException:
            self.leave()
            raise

    def _begin(self) -> None:
        while not self._has_model:
            self._turn = self._membership.arrive()
            try:
                self._meet()
            except _OutsideError as error:
                _LOG.info("%s", error)

    def _finish(self, last: Job, again: Callable[[], Sequence[Job]]) -> None:
        while True:
            if self._has_ended(last) or self._regroup():
                return
            for job in again():
                self.submit(job)
                last = job

    def _has_ended(self, last: Job) -> bool:
        """Wait for the last job; whether no rank was lost."""
        if self._failure is None:
            try:
                self._session.wait(last)
            except PeerError as error:
                self._failure = error
        if self._failure is not None:
            _LOG.warning("step %d: %s", self._at, self._failure)
        return self._failure is None

    def _regroup(self) -> bool:
        """Agree on who is left and connect to them; whether the step has ended meanwhile."""
        self._is_over = False
        self._comm.abort()  # the others hear of it where they wait
        self._advance(well=True, admits=True)
        self._meet()
        self._failure = None
        return self._is_over

    def _last_turn(self) -> None:
        """Vote at the end, too: a rank may lack the last headers of the last step.

        Those that train on wait for this rank in an exchange, so its connections are broken before
        they give it up, or it them; then they go on without it.
        """
        for _ in range(_LAST_TURNS):
            turn = self._turn
            self._membership.say(_ENDS, turn)
            self._advance(well=True, hurry=self._comm.abort)
            if self._membership.have_said(_ENDS, turn, self._turn.members):
                self._membership.finish()
                return
            self._comm.abort()
            self._meet()

    def _advance(
        self, *, well: bool, admits: bool = False, hurry: Callable[[], object] = lambda: None
    ) -> None:
        self._turn = self._membership.vote(self._turn, well=well, admits=admits, hurry=hurry)
        if self._membership.number not in self._turn.members:
            raise _OutsideError(
                "the other ranks have given this one up and gone on without it, because it did not "
                "answer in time: start it again"
            )

    def _meet(self) -> None:
        """Connect the members until all of them are, and have what is common."""
        while True:
            self._advance(well=self._is_connected())
            if self._turn.is_done:
                self._settle()
                return

    def _is_connected(self) -> bool:
        session, members, is_new = self._session, self._turn.members, not self._has_model
        if session.failure is None:
            session.close()
        place, told = members.index(self._membership.number), list[RankStanding]()
        self._comm.meet(str(self._turn.number), place, len(members))
        try:
            self._comm.open()
            told = self._told()
            self._catch_up(max(each.ended for each in told))
            if session.failure is not None:
                session.close()
            session.start()
            self._share(told)
            self._kept = self._moved()
        except _OutsideError:
            if is_new:
                raise
            return False
        except PeerError:
            return False
        except DisagreementError:
            if is_new or all(own.has_model for own in told):
                raise
            return False  # a new rank runs something else: go on without it
        return True

    def _told(self) -> list[RankStanding]:
        own = self._has_model, self._session.progress.step if self._has_model else 0, self._at
        return [RankStanding(*each) for each in numbers_of_all(self._comm, own)]

    def _catch_up(self, ended: int) -> None:
        """End the step here if another rank has."""
        progress = self._session.progress
        if self._has_model and self._at < ended and not self._is_over:
            self._is_over = True
            progress.step, progress.sequence = ended, 0
            self._session.ending.conclude(0.0, self._comm)
        elif not self._has_model:
            progress.step = ended  # headers have it

    def _share(self, told: Sequence[RankStanding]) -> None:
        """Give those who have not got it the model of this step, and what goes with it."""
        needy = [rank for rank, own in enumerate(told) if not own.has_model]
        if not needy:
            return
        ended = max(own.ended for own in told)
        having = [rank for rank, own in enumerate(told) if own.has_model and own.at == ended]
        if not having and len(needy) < len(told):
            raise _OutsideError("no rank has taken the step of its optimizer yet: a new one waits")
        source = having[0] if having else 0  # all are new: begin with what the first has
        rank, content = self._comm.rank, b""
        if rank == source:
            content = self._carried.pack()
        sent = [content if r in needy and r != source else b"" for r in range(len(told))]
        received = swapped(self._comm, sent)[source]
        if rank in needy and rank != source:
            self._carried.take(received)

    def _moved(self) -> tuple[SavedState, int]:
        checkpoint = self._session.checkpoint
        if checkpoint.memories is None:
            return {}, 0
        return moved(self._comm, checkpoint.memories.arrays(), checkpoint.shapes())

    def _settle(self) -> None:
        """Go on with those who are connected, and tell what the others took with them."""
        before, members = self._settled, self._turn.members
        checkpoint, accounting = self._session.checkpoint, self._session.accounting
        memories, lost = self._kept
        gone = [place for place, number in enumerate(before) if number not in members]
        if checkpoint.memories is not None:
            checkpoint.memories.restart(memories)
            shapes = checkpoint.shapes()
            lost += sum(lost_values(shapes, place, len(before)) for place in gone)
        accounting.lost_ranks += len(gone)
        accounting.lost_values += lost
        self._settled, self._has_model = members, True
        if gone:
            _LOG.warning("ranks %s are lost, and %d values of memories", gone, lost)
