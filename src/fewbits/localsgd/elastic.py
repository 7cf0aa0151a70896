"""Rounds with whoever is there: islands come, go and are lost between rounds, and others go on."""

from collections.abc import Callable
from typing import NamedTuple

from fewbits.backend.buffers import Buffer
from fewbits.collectives.comm import exchange
from fewbits.collectives.parcels import numbers_of_all
from fewbits.errors import DisagreementError, PeerError, SpecError
from fewbits.feedback import Feedback
from fewbits.localsgd.islands import Islands
from fewbits.localsgd.standing import Standing
from fewbits.session import Session
from fewbits.transport.membership import Membership, Turn
from fewbits.transport.store_comm import StoreComm

_NEW = -1  # rounds of an island that has no common parameters yet


def refuse_memories(feedback: Feedback | None) -> None:
    """Refuse memories, which would be lost with their island while others rely on them."""
    if feedback is not None:
        raise SpecError(
            f"feedback {feedback} remembers what ranks have lost, and islands come and go: use an "
            "operator without bias, such as 'natural', 'two-bit' or 'one-bit'"
        )


class Elastic:
    """One island among those that come and go. `rounds` counts the outer steps of all."""

    def __init__(self, islands: Islands, comm: StoreComm, standing: Standing) -> None:
        self._membership = Membership(islands.store, comm.timeout, islands.at_least)
        self._comm, self._standing = comm, standing
        self._turn = Turn(0, ())
        self.rounds = _NEW
        self.counted: tuple[int, ...] = ()  # whose changes are in the last mean
        self.session: Session | None = None  # set by the one who makes it

    @property
    def members(self) -> tuple[int, ...]:
        """The numbers of the islands that train now."""
        return self._turn.members

    @property
    def number(self) -> int:
        """What the others call this island."""
        return self._membership.number

    def begin(self) -> None:
        """Wait until the others let this island in, and take over what is common."""
        self._turn = self._membership.arrive()
        self._leaving(self._gather)

    def leave(self) -> None:
        """Let the others go on without this island."""
        self._membership.leave()

    def exchange(self, send: Callable[[], None], apply: Callable[[], None]) -> None:
        """End a round: `send` changes and wait for their mean, then `apply` it.

        An island that is lost on the way costs the others a repetition, and no round. New ones are
        let in afterwards.
        """
        self._leaving(lambda: self._exchange(send, apply))

    def _exchange(self, send: Callable[[], None], apply: Callable[[], None]) -> None:
        while True:
            number, well, members = self.number, True, self.members
            try:
                send()
            except PeerError:
                well, self._standing.pending = False, False
            self._advance(well, admits=True)
            if self.number != number:  # the others had given this island up: it is a new one
                self._gather()
                return
            if self._turn.is_done:
                apply()
                self.rounds += 1
                self.counted = members
                if self._turn.new:
                    self._gather()
                return
            self._gather()

    def _leaving(self, work: Callable[[], None]) -> None:
        """Do what an island that fails by itself does not survive."""
        try:
            work()
        except BaseException:
            self.leave()
            raise

    def _advance(self, well: bool, *, admits: bool = False) -> None:
        """Go on to the next turn, with a new number if the others take this island for lost."""
        self._turn = self._membership.vote(self._turn, well=well, admits=admits)
        if self.number not in self._turn.members:
            self._turn = self._membership.arrive()

    def _gather(self) -> None:
        """Connect the members until all of them are, and have what is common."""
        while True:
            self._advance(self._is_connected())
            if self._turn.is_done:
                return

    def _is_connected(self) -> bool:
        assert self.session is not None
        is_new = self.number in self._turn.new
        self.session.close()
        members = self._turn.members
        self._comm.meet(str(self._turn.number), members.index(self.number), len(members))
        try:
            self._comm.open()
            told = self._told()
            self.session.progress.step = told[_first(told)].step  # headers have it
            self.session.start()
            self._share(told)
        except PeerError:
            return False
        except DisagreementError:
            if is_new:
                raise
            return False  # a new island runs something else: go on without it
        return True

    def _told(self) -> "list[IslandProgress]":
        """What each member has done."""
        assert self.session is not None
        own = self.rounds, self._standing.taken, self.session.progress.step
        return [IslandProgress(*each) for each in numbers_of_all(self._comm, own)]

    def _share(self, told: "list[IslandProgress]") -> None:
        """Give those who have not got them the common parameters and the outer momentum."""
        comm, standing, source = self._comm, self._standing, _first(told)
        most = told[source]
        needy = [
            rank
            for rank, own in enumerate(told)
            if rank != source and (own.rounds < most.rounds or own.rounds == _NEW)
        ]
        if needy and comm.rank in (source, *needy):
            is_source = comm.rank == source
            for tensor in (each for own in standing.rounds for each in own.common()):
                host = tensor.cpu()
                content = Buffer.of(host.numpy())
                outgoing = [content if is_source and r in needy else None for r in range(comm.size)]
                incoming = [None if is_source or r != source else content for r in range(comm.size)]
                exchange(comm, (outgoing, incoming))
                tensor.copy_(host)
        if comm.rank in needy:
            standing.in_round, standing.taken, standing.pending = 0, most.taken, False
            standing.restart()
        self.rounds = max(most.rounds, 0)


class IslandProgress(NamedTuple):
    """What an island has behind it."""

    rounds: int
    taken: int
    step: int


def _first(told: "list[IslandProgress]") -> int:
    """The first of those who have done most rounds."""
    rounds = [own.rounds for own in told]
    return rounds.index(max(rounds))
