"""A rank's place in its rounds: its counts, its vectors, and the arrays that it saves."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from fewbits.errors import DisagreementError
from fewbits.localsgd.fragments import Shares
from fewbits.localsgd.rounds import Rounds
from fewbits.session import SavedState

_NOWHERE = slice(0, 0)


@dataclass(frozen=True, slots=True)
class Schedule:
    """When fragments are sent and mixed in, in steps of a round of `steps`.

    The fragments of a round are sent one after the other, the last one at its end. What is sent
    now is mixed in `delay` steps later, before anything else is sent.
    """

    steps: int
    fragments: int = 1
    delay: int = 0
    blend: float = 0.0

    @property
    def is_plain(self) -> bool:
        """Whether every round ends at once, with equal models."""
        return self == Schedule(self.steps)

    def sent(self, in_round: int) -> int | None:
        """The fragment that is sent after so many steps of a round, if one is."""
        for number in range(self.fragments):
            if (number + 1) * self.steps // self.fragments == in_round:
                return number
        return None


class Standing:
    """The rounds of one model on one rank.

    `taken` counts local steps, `in_round` those since the last round has ended. A mean is `pending`
    if it is under way, or has arrived and is not used yet; `sick` means that it will be dropped. It
    is that of a `fragment`, or of all of them (-1), which was `sent` after so many steps. After
    `even` steps the ranks' models were equal; plain rounds and those that overlap do not count it.
    """

    def __init__(
        self,
        rounds: Sequence[Rounds],
        schedule: Schedule,
        places: Sequence[Sequence[Shares]],
        place: int = 0,
    ) -> None:
        self.rounds, self.schedule = rounds, schedule
        self.places, self.shares = places, places[place]  # of all ranks of an island, and of this
        self.taken = self.in_round = self.sent = self.even = 0
        self.fragment = -1
        self.pending = self.sick = False

    @property
    def is_even(self) -> bool:
        """Whether all ranks are equal."""
        if self.in_round or self.pending:
            return False
        return self.schedule.is_plain or self.even == self.taken

    @property
    def is_due(self) -> bool:
        """Whether the mean that is under way is to be mixed in."""
        is_late = self.taken - self.sent >= self.schedule.delay
        return self.pending and is_late and not self.schedule.is_plain

    def restart(self) -> None:
        """Give this rank what is common: all ranks are equal then."""
        for own in self.rounds:
            own.restart()
        self.even = self.taken

    def parts(self, fragment: int) -> list[tuple[int, Rounds, slice]]:
        """The number of each job of a fragment, or of all of them (-1), its rounds and place."""
        return self._parts(fragment, self.shares)

    def by_place(self, fragment: int) -> list[list[tuple[int, Rounds, slice]]]:
        """The same of every rank of this rank's island."""
        return [self._parts(fragment, shares) for shares in self.places]

    def _parts(self, fragment: int, mine: Sequence[Shares]) -> list[tuple[int, Rounds, slice]]:
        numbered, found = 0, []
        for number, shares in enumerate(mine):
            for index, place in shares:
                if fragment in (-1, number):
                    found.append((numbered, self.rounds[index], place))
                numbered += 1
        return found

    def shapes_digest(self, shapes: Iterable[tuple[str, tuple[int, ...]]]) -> str:
        """A checksum of the model's names and shapes, and of the vectors made of them."""
        lines = [f"{name} {shape}" for name, shape in shapes]
        lines += [f"{own.vector.name} {own.vector.count}" for own in self.rounds]
        return blake2b("\n".join(lines).encode(), digest_size=4).hexdigest()

    def arrays(self) -> SavedState:
        counts = [self.taken, self.in_round, self.pending, self.sick]
        found = {"round": np.array(counts, np.int64)}
        if not self.schedule.is_plain:
            found["streaming"] = np.array([self.sent, self.even, self.fragment], np.int64)
        for own, place in self._pending(self.fragment if self.pending else None):
            found |= own.arrays(place)
        return found

    def _pending(self, fragment: int | None) -> list[tuple[Rounds, slice]]:
        """The part of each vector of which a fragment's mean is pending; None for no fragment."""
        places = dict.fromkeys(range(len(self.rounds)), _NOWHERE)
        if fragment == -1:
            places = {index: own.vector.whole for index, own in enumerate(self.rounds)}
        elif fragment is not None:
            places |= dict(self.shares[fragment])
        return [(self.rounds[index], place) for index, place in places.items()]

    def check(self, states: Sequence[SavedState], reshard: bool) -> None:
        for saved in states:
            counts = saved.get("round")
            if counts is None or counts.shape != (4,) or counts.dtype != np.int64:
                raise DisagreementError("this is no state of fewbits.localsgd")
            taken, in_round, pending, sick = counts.tolist()
            if not 0 <= in_round <= taken or not {pending, sick} <= {0, 1}:
                raise DisagreementError(f"the state's counts of steps make no sense: {counts}")
            known = {"round"} if self.schedule.is_plain else {"round", "streaming"}
            even, fragment = self._streaming(saved, taken)
            is_even = self.schedule.is_plain or even == taken
            if reshard and (in_round or pending or not is_even):
                raise DisagreementError(
                    "the state was saved in the middle of a round, which belongs to its rank: call "
                    "sync() before saving if the number of ranks is to change"
                )
            for own, place in self._pending(fragment if pending else None):
                known |= own.check(saved, place, sick=bool(pending and sick))
            if unknown := sorted(saved.keys() - known):
                raise DisagreementError(f"the state has {unknown[0]}, which this run does not use")

    def _streaming(self, saved: SavedState, taken: int) -> tuple[int, int]:
        """When ranks were equal, and the fragment under way."""
        if self.schedule.is_plain:
            return 0, -1
        counts = saved.get("streaming")
        if counts is None or counts.shape != (3,) or counts.dtype != np.int64:
            raise DisagreementError("the state is of rounds without fragments or a delay")
        sent, even, fragment = counts.tolist()
        if not (0 <= sent <= taken and 0 <= even <= taken and -1 <= fragment < len(self.shares)):
            raise DisagreementError(f"the state's fragment makes no sense: {counts}")
        return even, fragment

    def take(self, saved: SavedState) -> None:
        self.taken, self.in_round, pending, sick = saved["round"].tolist()
        self.pending, self.sick = bool(pending), bool(sick)
        if not self.schedule.is_plain:
            self.sent, self.even, self.fragment = saved["streaming"].tolist()
        for own, place in self._pending(self.fragment if self.pending else None):
            own.load(saved, place)
        if self.is_even:  # then all ranks have the common ones
            self.restart()
