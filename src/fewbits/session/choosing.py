"""Chooses the reducer of the step that begins now; for `auto` by timing the steps of each."""

import logging
import math
import time
from collections.abc import Mapping, Sequence

import numpy as np

from fewbits.collectives.comm import largest
from fewbits.collectives.nodes import RankNodes
from fewbits.collectives.payload import UNIT
from fewbits.collectives.progress import RankProgress
from fewbits.presets import AUTO
from fewbits.session.adapter import SessionComm
from fewbits.session.auto import UNCOMPRESSED, Auto, Decision, Figures
from fewbits.session.jobs import Job, JobValues
from fewbits.session.reducer import Reducer
from fewbits.theory.clusters import Cluster

_LOG = logging.getLogger(__name__)


class Chooser:
    """Always chooses the same `reducer`.

    A state has the routing and the memories of `saved`. All ranks must have named the operators of
    both directions as in `agreed`.
    """

    decision: Decision | None = None  # the last one, if decisions are made
    trying: str | None = None  # the candidate of this step, until there is a decision
    candidates: Sequence[str] = ()  # names of those among which it chooses, in their order

    def __init__(self, reducer: Reducer) -> None:
        self.reducer = self.saved = reducer
        self.reducers: Sequence[Reducer] = [reducer]
        self.agreed = reducer.routing.specs

    def use(self, reducer: Reducer) -> None:
        """Choose another one from now on, with the memories of the first."""
        reducer.feedback = self.saved.feedback
        self.reducer = self.saved = reducer
        self.reducers = [reducer]

    def take_nodes(self, nodes: RankNodes) -> None:
        """Learn where the ranks are."""

    def watch(self, job: Job) -> None:
        """Look at a job before it is reduced."""

    def end_step(self, since: float, progress: RankProgress, comm: SessionComm) -> None:
        """Take a step into account, the last job of which came at `since`."""


class AutoChooser(Chooser):
    """Chooses among the candidates of `auto`.

    A state is that of plain all-reduce, because a resumed run tries anew, perhaps on another
    machine. Ranks agree on the word `auto`, because the operator changes.
    """

    def __init__(self, candidates: Mapping[str, Reducer]) -> None:
        super().__init__(candidates[UNCOMPRESSED])
        self.reducers, self.candidates = list(candidates.values()), list(candidates)
        self.agreed = AUTO, AUTO
        self._auto, self.trying = Auto(candidates), UNCOMPRESSED
        self._before = (0.0, 0.0, 0)
        self._largest: JobValues | None = None  # small batches say little of speed

    def take_nodes(self, nodes: RankNodes) -> None:
        # Nothing is known of the links inside but that they are the faster ones.
        self._auto.cluster = Cluster(nodes.count, nodes.width, math.inf)

    def watch(self, job: Job) -> None:
        if self._largest is None or job.values.count > self._largest.count:
            self._largest = job.values

    def end_step(self, since: float, progress: RankProgress, comm: SessionComm) -> None:
        values, self._largest = self._largest, None
        if comm.size == 1:
            return
        spent = progress.spent
        now, codec = time.perf_counter(), spent.codec_seconds
        sent = spent.payload_bytes + spent.header_bytes
        before, self._before = self._before, (now, codec, sent)
        figures = Figures(now - before[0], now - since, codec - before[1], sent - before[2])
        sample = np.empty(0, np.float32) if values is None else values.sample(UNIT)
        auto = self._auto
        auto.ranks = comm.size
        auto.end_step(progress.step, figures, lambda own: largest(comm, own), sample)
        if auto.decision is not None and auto.decision != self.decision:
            _LOG.info("auto goes on with %s from step %d on", auto.current, progress.step)
        self.reducer, self.decision = auto.reducer, auto.decision
        self.trying = None if auto.decision else auto.current
        progress.promises = self.reducer.promises
