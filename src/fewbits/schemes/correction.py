"""Feedback in a reduction: the memories of a batch's units, and what is done with them in each hop.

Units that travel exactly have no memory. Whoever sums must divide before `mean` receives, so that
the memories of all schemes are in the units of one gradient.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fewbits.feedback import Feedback, Rule
from fewbits.feedback.rule import Array
from fewbits.feedback.store import MASTER, MEAN, WORKER, Pair, Place, Store
from fewbits.kernels.formats import Format
from fewbits.kernels.units import Tally
from fewbits.operators.identity import Identity
from fewbits.rng import Rng
from fewbits.schemes.payload import Unit, extent
from fewbits.schemes.remembering import Remembering, can_remember
from fewbits.schemes.units import Batch, float_dtype

Rules = Sequence[tuple[Unit, Rule]]


class Loop(NamedTuple):
    """A method, and where this rank keeps its memories."""

    method: Feedback
    store: Store


class Side:
    """Some units with their rules, and the memory of them in one role."""

    def __init__(self, pair: Pair, rules: Rules) -> None:
        self._pair, self._rules = pair, rules
        self._at_once: Remembering | None = None

    def bind(self, batch: Batch) -> None:
        """From now on this batch is sent and kept at once, if it can be."""
        if self._rules and can_remember(batch, self._rules):
            self._at_once = Remembering(batch, self._rules)

    def send_and_keep(
        self, batch: Batch, values: Array, rng: Rng, unused: Container[str] = ()
    ) -> Tally:
        """`send`, then `keep`; what is in `values` afterwards has no meaning."""
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
        """Remember what became of the messages in `values`, which `batch` has encoded."""
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
    """Both directions of a batch on one of `size` ranks, which makes the means of `owned` units.

    `worker` sends this rank's values, `mean` receives the workers' mean, `back` sends it on and
    `known` receives it on all ranks. The last two share a memory: an error stays with the owner, a
    shift is the same on all ranks.
    """

    def __init__(
        self, loop: Loop, units: Sequence[Unit], owned: Sequence[Unit], size: int, format: Format
    ) -> None:
        rules = [(unit, loop.method.rule(unit.worker, unit.count, size)) for unit in units]
        # What goes exact has nothing to correct; but if there is momentum, it is here for all.
        there = [(own, rule) for own, rule in rules if own.worker != Identity() or rule.momentum]
        back = [
            (unit, replace(loop.method.rule(unit.master, unit.count), momentum=0.0))
            for unit in units
            if unit.master != Identity()
        ]
        mine = {unit.name for unit in owned}
        there_mine = [(unit, rule) for unit, rule in there if unit.name in mine]
        back_mine = [(unit, rule) for unit, rule in back if unit.name in mine]
        count, dtype = extent(units), float_dtype(format)

        def bound(side: str, rules: Rules) -> Pair:
            places = [Place(unit.name, unit.start, unit.count) for unit, _ in rules]
            rows = max((rule.rows for _, rule in rules), default=1)
            return loop.store.bind(side, places, rows, count if places else 0, dtype)

        def shared(rules: Rules) -> Rules:
            return [(unit, rule) for unit, rule in rules if rule.shifts]

        self.worker = Side(bound(WORKER, there), there)
        self.mean = Side(bound(MEAN, shared(there_mine)), there_mine)
        self._owner_keeps = bool(back_mine) and not shared(back_mine)
        master = bound(MASTER, back_mine if self._owner_keeps else shared(back))
        self.back, self.known = Side(master, back_mine), Side(master, back)

    def bind(self, there: Batch, back: Batch | None = None) -> None:
        """The batches that `send_worker` and `send_back` will be given."""
        self.worker.bind(there)
        if back is not None:
            self.back.bind(back)

    def send_worker(
        self, batch: Batch, values: Array, rng: Rng, *, idle: bool, unused: Container[str]
    ) -> Tally:
        """Send messages of this rank; if it only accompanies the others, zeros as they are."""
        if idle:
            return batch.encode(values.view(batch.format.bits), rng)
        return self.worker.send_and_keep(batch, values, rng, unused)

    def send_back(self, batch: Batch, means: Array, rng: Rng) -> Tally:
        """The means of this rank's units, turned into messages."""
        self.mean.receive(means)
        if self._owner_keeps:
            return self.back.send_and_keep(batch, means, rng)
        return self.back.send(batch, means, rng)
