"""Who takes part: members agree on it through a store that outlives each of them.

A member is an island of LocalSGD, or a rank of DDP whose failure the others survive.

A member that arrives gets a number, which is never used again. What is done together is a *turn*,
which has members. After it each member votes on whether it went well here. Once all have voted, or
are known to be gone, whoever sees it first proposes the next turn; the store takes the first
proposal only, so all go on with the same one. A turn is done if every member has voted for it: then
nobody has gone on without another. Otherwise those who have voted repeat it.

Every member counts up a number in the store, in a thread of its own. If it does not for a while,
it is gone.
"""

import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from fewbits.errors import PeerError

_LOOK = 0.01  # seconds between two looks at the store
_OVER = "over"
_BEATS = 8  # in the time after which a member is gone
LONGEST = 10.0  # seconds of it, unless somebody is in more of a hurry


@dataclass(frozen=True, slots=True)
class Turn:
    """The members of a turn, the `new` ones among them, and whether the one before is done."""

    number: int
    members: tuple[int, ...]
    new: tuple[int, ...] = ()
    is_done: bool = False

    @classmethod
    def read(cls, text: bytes) -> "Turn":
        about = json.loads(text)
        members, new = tuple(about.pop("members")), tuple(about.pop("new"))
        return cls(members=members, new=new, **about)

    def text(self) -> str:
        return json.dumps(asdict(self))


class StoreBoard:
    """A store with keys of its own; `PeerError` if it does not answer."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def clone(self) -> "StoreBoard":
        """Another connection to it, for another thread."""
        return StoreBoard(self._asked(self._store.clone))

    def put(self, key: str, text: str) -> None:
        self._asked(self._store.set, _named(key), text)

    def look(self, key: str) -> bytes | None:
        """What is there now."""
        if not self._asked(self._store.check, [_named(key)]):
            return None
        found: bytes = self._asked(self._store.get, _named(key))
        return found

    def first(self, key: str, text: str) -> bytes:
        """Put a text if nothing is there; what is there then."""
        found: bytes = self._asked(self._store.compare_set, _named(key), "", text)
        return found

    def count(self, key: str, more: int) -> int:
        return int(self._asked(self._store.add, _named(key), more))

    def _asked(self, call: Callable[..., Any], *given: Any) -> Any:
        try:
            return call(*given)
        except (RuntimeError, OSError) as error:
            why = str(error).splitlines()[0]
            raise PeerError(f"the store of the members does not answer: {why}") from error


def _named(key: str) -> str:
    return f"fewbits/{key}"


class Sight(NamedTuple):
    """The last beat of a member that was seen, when, and whether it had another one before."""

    beat: bytes | None
    since: float
    has_moved: bool = False


class Pulse(threading.Thread):
    """Shows that this member lives, and watches others."""

    def __init__(self, board: StoreBoard, own: int, patience: float) -> None:
        super().__init__(name="fewbits-pulse", daemon=True)
        self._board, self._own, self.patience = board, own, patience
        self._watched: dict[int, Sight] = {}
        self._ends, self._lock = threading.Event(), threading.Lock()
        self._let_in, self._waiting = {own}, list[int]()

    def run(self) -> None:
        count = 0
        with suppress(PeerError):  # the member hears of it when it asks the store itself
            while not self._ends.is_set():
                count += 1
                self._board.put(f"beat/{self._own}", str(count))
                self._look()
                self._ends.wait(self.patience / _BEATS)

    def _look(self) -> None:
        self._look_for_new()
        with self._lock:
            watched = list(self._watched.items())
        for number, seen in watched:
            beat = self._board.look(f"beat/{number}")
            if beat != seen.beat:
                with self._lock:
                    self._watched[number] = Sight(beat, time.monotonic(), seen.beat is not None)

    def _look_for_new(self) -> None:
        """Watch those who have come and were never let in."""
        every = set(range(1, self._board.count("arrivals", 0) + 1))
        for number in every - self._let_in:
            if self._board.look(f"admitted/{number}") is not None:
                self._let_in.add(number)
            else:
                self.is_live(number)
        self._waiting = sorted(every - self._let_in)

    def newcomers(self) -> list[int]:
        """Those of them who live for sure."""
        return [number for number in self._waiting if self.has_moved(number)]

    def is_live(self, number: int) -> bool:
        """Whether a member has moved lately; one that nobody has looked at yet is thought to."""
        if number == self._own:
            return True
        with self._lock:
            seen = self._watched.setdefault(number, Sight(None, time.monotonic()))
        return seen.beat != b"gone" and time.monotonic() - seen.since < self.patience

    def has_moved(self, number: int) -> bool:
        """Whether a member lives for sure: what it left behind when it died does not move."""
        is_live = self.is_live(number)
        with self._lock:
            return is_live and self._watched[number].has_moved

    def end(self) -> None:
        self._ends.set()
        if self.ident is not None:
            self.join(self.patience)
        with suppress(PeerError):
            self._board.put(f"beat/{self._own}", "gone")


class Membership:
    """The place of this member among all; `number` is that of its last arrival.

    One that gives no sign for `patience` seconds is gone.
    """

    def __init__(
        self, store: Any, timeout: float, at_least: int, patience: float = LONGEST
    ) -> None:
        self._board, self._timeout, self._at_least = StoreBoard(store), timeout, at_least
        self._patience = min(timeout / 2, patience)
        self._known: set[int] = set()  # numbers that have been admitted
        self._pulse: Pulse | None = None
        self.number = 0

    def arrive(self) -> Turn:
        """Wait until the others let this member in, or until there are enough to begin."""
        self.leave()
        self.number = self._board.count("arrivals", 1)
        self._pulse = Pulse(self._board.clone(), self.number, self._patience)
        self._pulse.start()
        turn = 0
        while (at := self._board.look(f"admitted/{self.number}")) is None:
            if self._board.look(_OVER) is not None:
                raise PeerError(
                    "what met in this store has ended: begin with another store, or with a "
                    "torch.distributed.PrefixStore of it"
                )
            turn = self._begin(turn)
            time.sleep(_LOOK)
        found = self._board.look(f"next/{int(at) - 1}")
        assert found is not None
        return Turn.read(found)

    def vote(
        self,
        turn: Turn,
        *,
        well: bool,
        admits: bool,
        hurry: Callable[[], object] = lambda: None,
    ) -> Turn:
        """Say how a turn went here; returns the next one, with new members if it `admits` them.

        If others let it wait, `hurry` is called once, to tell them.
        """
        self._board.put(f"vote/{turn.number}/{self.number}", "well" if well else "ill")
        deadline, key = time.monotonic() + self._timeout, f"next/{turn.number}"
        calls = deadline - 3 * self._timeout / 4
        while (found := self._board.look(key)) is None:
            votes = {each: self._board.look(f"vote/{turn.number}/{each}") for each in turn.members}
            late = [each for each, vote in votes.items() if vote is None and self._is_live(each)]
            if late and time.monotonic() < deadline:
                if time.monotonic() > calls:
                    hurry()
                    calls = deadline
                time.sleep(_LOOK)
                continue
            found = self._board.first(key, self._next(turn, votes, admits).text())
        return self._taken(Turn.read(found))

    def finish(self) -> None:
        """Let those who come later know that they are too late."""
        self._board.put(_OVER, str(self.number))

    def say(self, word: str, turn: Turn) -> None:
        """Leave a word in a turn, for its members."""
        self._board.put(f"{word}/{turn.number}/{self.number}", word)

    def have_said(self, word: str, turn: Turn, members: Sequence[int]) -> bool:
        """Whether all of some members have left a word."""
        return all(self._board.look(f"{word}/{turn.number}/{each}") for each in members)

    def newcomers(self) -> list[int]:
        """Those who wait to be let in, as far as this member has heard; asks nobody."""
        return [] if self._pulse is None else self._pulse.newcomers()

    def leave(self) -> None:
        """Tell the others that this member is gone."""
        if self._pulse is not None:
            self._pulse.end()
            self._pulse = None

    def _next(self, turn: Turn, votes: dict[int, bytes | None], admits: bool) -> Turn:
        is_done = all(vote == b"well" for vote in votes.values())
        staying = tuple(each for each, vote in votes.items() if vote is not None)
        new = tuple(self._waiting()) if is_done and admits else ()
        return Turn(turn.number + 1, staying + new, new, is_done)

    def _taken(self, turn: Turn) -> Turn:
        """Let new members know, and those who come later where to look."""
        for each in turn.new:
            self._board.put(f"admitted/{each}", str(turn.number))
        self._known.update(turn.members)
        self._board.put("latest", str(turn.number))
        return turn

    def _begin(self, turn: int) -> int:
        """Begin without those who were members, if all are gone; the last turn that is known."""
        turn, members = max(turn, int(self._board.look("latest") or b"0")), tuple[int, ...]()
        if turn and (found := self._board.look(f"next/{turn - 1}")) is not None:
            members = Turn.read(found).members
        while (found := self._board.look(f"next/{turn}")) is not None:
            members, turn = Turn.read(found).members, turn + 1
        if any(self._is_live(each) for each in members):
            return turn
        waiting = self._waiting()
        if len(waiting) >= self._at_least and waiting[0] == self.number:
            begins = Turn(turn + 1, tuple(waiting), tuple(waiting))
            self._taken(Turn.read(self._board.first(f"next/{turn}", begins.text())))
        return turn

    def _waiting(self) -> list[int]:
        """The numbers of those who live and were never admitted."""
        assert self._pulse is not None
        found = []
        for each in range(1, self._board.count("arrivals", 0) + 1):
            if each in self._known:
                continue
            if self._board.look(f"admitted/{each}") is not None:
                self._known.add(each)
            elif each == self.number or self._pulse.has_moved(each):
                found.append(each)
        return found

    def _is_live(self, number: int) -> bool:
        assert self._pulse is not None
        return self._pulse.is_live(number)
