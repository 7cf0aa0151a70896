"""Feedback in a reduction: the memories of a batch's units, and their use in each hop.

Units that travel exactly have no memory. The rank that sums must divide before `mean` receives, so
that the memories of all collectives are in the units of one gradient.
"""

from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fewbits.collectives.payload import Unit, extent
from fewbits.collectives.remembering import RememberingBatch, can_remember
from fewbits.collectives.units import Batch, float_dtype
from fewbits.feedback import Feedback, Rule
from fewbits.feedback.rule import Array
from fewbits.feedback.store import MASTER, MEAN, WORKER, MemoryPair, Place, Store
from fewbits.operators.identity import Identity
from fewbits.reference.formats import Format
from fewbits.reference.tally import Tally
from fewbits.rng import Rng

Rules = Sequence[tuple[Unit, Rule]]


class FeedbackState(NamedTuple):
    """A method of feedback, and the store of this rank's memories."""

    method: Feedback
    store: Store


class RulesOfSides(NamedTuple):
    """The units that have a memory on a rank, with their rules, by the sides of a reduction.

    `mean` are its own units, of which it averages the messages, and `back` those that it sends on.
    A shift of these is known, of `known` units, to all ranks.
    """

    worker: Rules
    mean: Rules
    back: Rules
    known: Rules

    @classmethod
    def of(
        cls, method: Feedback, units: Sequence[Unit], owned: Sequence[Unit], size: int
    ) -> "RulesOfSides":
        rules = [(unit, method.rule(unit.uplink, unit.count, size)) for unit in units]
        # What goes exact has nothing to correct; but if there is momentum, it is here for all.
        there = [(own, rule) for own, rule in rules if own.uplink != Identity() or rule.momentum]
        back = [
            (unit, method.back(unit.downlink, unit.count))
            for unit in units
            if unit.downlink != Identity()
        ]
        mine = {unit.name for unit in owned}
        there_mine = [(unit, rule) for unit, rule in there if unit.name in mine]
        return cls(there, there_mine, [each for each in back if each[0].name in mine], back)

    @property
    def owner_keeps(self) -> bool:
        """Whether what the way back loses is the owner's to remember."""
        return bool(self.back) and not _shared(self.back)

    def stored(self) -> dict[str, Rules]:
        """What has a memory, by the sides of the store."""
        master = self.back if self.owner_keeps else _shared(self.known)
        return {WORKER: self.worker, MEAN: _shared(self.mean), MASTER: master}


def _shared(rules: Rules) -> Rules:
    return [(unit, rule) for unit, rule in rules if rule.shifts]


class Side:
    """Some units with their rules and their memory, in one role."""

    def __init__(self, pair: MemoryPair, rules: Rules) -> None:
        self._pair, self._rules = pair, rules
        self._at_once: RememberingBatch | None = None

    def bind(self, batch: Batch) -> None:
        if self._rules and can_remember(batch, self._rules):
            self._at_once = RememberingBatch(batch, self._rules)

    def send_and_keep(
        self, batch: Batch, values: Array, rng: Rng, unused: Container[str] = ()
    ) -> Tally:
        """`send`, then `keep`; afterwards the content of `values` has no meaning."""
        known = self._at_once
        if known is None or any(unit.parameter in unused for unit, _ in self._rules):
            tally = self.send(batch, values, rng, unused)
            self.keep(batch, values, unused)
            return tally
        bits = values.view(batch.format.bits)
        tally = batch.encode(bits, rng, lambda bits: known.run(bits, self._pair))
        self._pair.written = True
        return tally

    def send(self, batch: Batch, values: Array, rng: Rng, unused: Container[str] = ()) -> Tally:
        """Turn `values` into messages and encode them; those of `unused` parameters stay zero."""
        for rule, *arrays in self._used(values, unused):
            rule.message(*arrays)
        return batch.encode(values.view(batch.format.bits), rng)

    def keep(self, batch: Batch, values: Array, unused: Container[str] = ()) -> None:
        """Update the memory after `batch` has encoded the messages in `values`."""
        if not self._rules:  # nor is there room for what a batch of exact units would decode to
            return
        now, then = self._pair.now, self._pair.then
        batch.decode(then[0].view(batch.format.bits))
        for rule, *arrays in self._used(values, unused):
            rule.keep(*arrays)
        for unit, _ in self._rules:
            if unit.parameter in unused:
                then[:, unit.place] = now[:, unit.place]
        self._pair.written = True

    def receive(self, values: Array) -> None:
        """Turn decoded messages, or means of them, into estimates."""
        for rule, *arrays in self._used(values):
            rule.receive(*arrays)
        self._pair.written = True

    def _used(
        self, values: Array, unused: Container[str] = ()
    ) -> Iterator[tuple[Rule, Array, Array, Array]]:
        """Each unit's rule, values and both copies of its memory."""
        pair = self._pair
        with np.errstate(all="ignore"):  # NaN and infinity are the caller's to judge
            for unit, rule in self._rules:
                if unit.parameter not in unused:
                    at = unit.place
                    yield rule, values[at], pair.now[:, at], pair.then[:, at]


class Correction:
    """Feedback of both directions of a batch on one rank, which averages the `owned` units.

    `worker` sends this rank's values, `mean` receives the workers' mean, `back` sends it on and
    `known` receives it on all ranks. The last two share a memory: an error stays with the owner, a
    shift is the same on all ranks.
    """

    def __init__(
        self,
        feedback: FeedbackState,
        units: Sequence[Unit],
        owned: Sequence[Unit],
        size: int,
        format: Format,
    ) -> None:
        rules = RulesOfSides.of(feedback.method, units, owned, size)
        count, dtype = extent(units), float_dtype(format)

        def bound(side: str, rules: Rules) -> MemoryPair:
            places = [Place(unit.name, unit.start, unit.count) for unit, _ in rules]
            rows = max((rule.rows for _, rule in rules), default=1)
            return feedback.store.bind(side, places, rows, count if places else 0, dtype)

        memories = {side: bound(side, own) for side, own in rules.stored().items()}
        self.worker = Side(memories[WORKER], rules.worker)
        self.mean = Side(memories[MEAN], rules.mean)
        self._owner_keeps = rules.owner_keeps
        self.back = Side(memories[MASTER], rules.back)
        self.known = Side(memories[MASTER], rules.known)

    def bind(self, there: Batch, back: Batch | None = None) -> None:
        """Prepare for the batches of `send_worker` and `send_back`."""
        self.worker.bind(there)
        if back is not None:
            self.back.bind(back)

    def send_worker(
        self, batch: Batch, values: Array, rng: Rng, *, without_inputs: bool, unused: Container[str]
    ) -> Tally:
        """Send this rank's messages; a rank without inputs sends zeros."""
        if without_inputs:
            return batch.encode(values.view(batch.format.bits), rng)
        return self.worker.send_and_keep(batch, values, rng, unused)

    def send_back(self, batch: Batch, means: Array, rng: Rng) -> Tally:
        """Turn the means of this rank's units into messages and encode them."""
        self.mean.receive(means)
        if self._owner_keeps:
            return self.back.send_and_keep(batch, means, rng)
        return self.back.send(batch, means, rng)
