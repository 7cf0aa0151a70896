"""A rank's place in its rounds: its counts, its vectors, and the arrays that it saves."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np

from fewbits.errors import DisagreementError
from fewbits.localsgd.rounds import Rounds
from fewbits.session import SavedState


class Standing:
    """The rounds of one model on one rank.

    `taken` counts local steps, `in_round` those since the last exchange. A mean is `pending` if it
    is under way, or has arrived and is not used yet; `sick` means that it will be dropped.
    """

    def __init__(self, rounds: Sequence[Rounds]) -> None:
        self.rounds = rounds
        self.taken = self.in_round = 0
        self.pending = self.sick = False

    def restart(self) -> None:
        for own in self.rounds:
            own.restart()

    def shapes_digest(self, shapes: Iterable[tuple[str, tuple[int, ...]]]) -> str:
        """A checksum of the model's names and shapes, and of the vectors made of them."""
        lines = [f"{name} {shape}" for name, shape in shapes]
        lines += [f"{own.vector.name} {own.vector.count}" for own in self.rounds]
        return blake2b("\n".join(lines).encode(), digest_size=4).hexdigest()

    def arrays(self) -> SavedState:
        counts = [self.taken, self.in_round, self.pending, self.sick]
        found = {"round": np.array(counts, np.int64)}
        for own in self.rounds:
            found |= own.arrays(pending=self.pending)
        return found

    def check(self, states: Sequence[SavedState], reshard: bool) -> None:
        for saved in states:
            counts = saved.get("round")
            if counts is None or counts.shape != (4,) or counts.dtype != np.int64:
                raise DisagreementError("this is no state of fewbits.localsgd")
            taken, in_round, pending, sick = counts.tolist()
            if not 0 <= in_round <= taken or not {pending, sick} <= {0, 1}:
                raise DisagreementError(f"the state's counts of steps make no sense: {counts}")
            if reshard and (in_round or pending):
                raise DisagreementError(
                    "the state was saved in the middle of a round, which belongs to its rank: call "
                    "sync() before saving if the number of ranks is to change"
                )
            known = {"round"}
            for own in self.rounds:
                known |= own.check(saved, pending=bool(pending), sick=bool(pending and sick))
            if unknown := sorted(saved.keys() - known):
                raise DisagreementError(f"the state has {unknown[0]}, which this run does not use")

    def take(self, saved: SavedState) -> None:
        self.taken, self.in_round, pending, sick = saved["round"].tolist()
        self.pending, self.sick = bool(pending), bool(sick)
        for own in self.rounds:
            own.load(saved, pending=self.pending)
            if not self.in_round and not self.pending:  # then all ranks have the common ones
                own.restart()
