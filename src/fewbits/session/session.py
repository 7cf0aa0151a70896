"""The session: the compression of one model on one rank, composed of named parts."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from fewbits.collectives.payload import unit_for
from fewbits.collectives.progress import RankProgress
from fewbits.rng import Rng
from fewbits.session import defaults
from fewbits.session.accounting import Accounting
from fewbits.session.adapter import AdapterParts, SessionComm
from fewbits.session.agreement import RankAgreement
from fewbits.session.auto import UNCOMPRESSED
from fewbits.session.checkpoint import Checkpoint
from fewbits.session.choosing import AutoChooser, Chooser
from fewbits.session.configuration import RankConfiguration
from fewbits.session.ending import StepEnding
from fewbits.session.exactness import advice
from fewbits.session.flows import Flow
from fewbits.session.jobs import Job, StreamOutcome
from fewbits.session.options import REDUCE_SCATTER, Options
from fewbits.session.pipeline import GRACE, Background, Pipeline, Watch
from fewbits.session.plain import Plain
from fewbits.session.reducer import Compressed, Reducer
from fewbits.session.routing import Routing
from fewbits.session.scattering import Scattering
from fewbits.session.streaming import ScatteringStream, Streaming
from fewbits.session.thinning import Thinning
from fewbits.switch.job import Switching
from fewbits.warned import warn_user

_Result = TypeVar("_Result")
_LOG = logging.getLogger(__name__)
logging.getLogger("fewbits").addHandler(logging.NullHandler())


class Session:
    """Averages vectors over the ranks of `comm`, compressed in both directions.

    `routing` may be several by name, of which `auto` chooses one. A *step* is one reduction of all
    jobs up to one that `is_last`, or up to a call of `end_step`. Parts: `checkpoint` saves and
    loads, `accounting` counts, `ending` ends steps.
    """

    def __init__(
        self,
        comm: SessionComm,
        routing: Routing | Mapping[str, Routing],
        options: Options,
        adapter: AdapterParts | None = None,
    ) -> None:
        adapter = adapter or AdapterParts()
        self.comm, self.options = comm, options
        self._flow, self._rng = Flow(comm, options, adapter), _rng(options, adapter.stream)
        self.progress = RankProgress(options.nonfinite)
        if adapter.ranges is not None:
            self.progress.spent.ranges = adapter.ranges
        switching = Switching.of(options.collective, options.aggregators)
        self._chooser = _chooser(routing, self.progress, options, self._rng, switching)
        self._units = [reducer.routing.unit for reducer in self._chooser.reducers]
        configuration = RankConfiguration(self._chooser, options, adapter)
        self._agreement = RankAgreement(comm, self.progress, configuration)
        self._has_thread, self._members = adapter.has_thread, adapter.members
        self.accounting = Accounting(self.progress, self._chooser, options.collective)
        self.checkpoint = Checkpoint(self._agreement, adapter, self.start, self.look)
        self._pipeline: Pipeline | None = None
        self.ending = StepEnding(self.progress, self._chooser, self.accounting)
        self._has_advised = False

    @property
    def routing(self) -> Routing:
        """The routing of the current reducer."""
        return self._chooser.reducer.routing

    @property
    def failure(self) -> Exception | None:
        """The error after which the session must be closed."""
        return self._pipeline.failure if self._pipeline is not None else None

    def start(self) -> None:
        """Open the group and check that all ranks run the same: every rank must call this.

        Methods that need the group start the session if nobody has.
        """
        if self._pipeline is not None:
            return
        self.comm.open()
        defaults.refuse_momentum_alone(self.routing.feedback, self.comm.size)
        self.progress.near = frozenset()
        for reducer in self._chooser.reducers:
            reducer.routing.nodes = None  # those of an earlier group
        self._fit_units()
        wanted = self._agreement.on_configuration(lambda: self._flow.wanted(self.routing))
        self._take_flow(self._flow.is_stream(wanted, self._chooser))
        if self.options.across is not None:
            self._take_nodes()
        for reducer in self._chooser.reducers:
            reducer.prepare(self.comm)
        self.progress.promises = self._chooser.reducer.promises
        self._pipeline = self._background() if self._has_thread else Pipeline(self._reduce)
        _LOG.info(
            "rank %d of %d: uplink %s, downlink %s, %s",
            *(self.comm.rank, self.comm.size, *self._chooser.agreed, self.options.collective),
        )
        if self.routing.model.given:
            self._advise()

    def _fit_units(self) -> None:
        """Make units smaller where ranks that own units outnumber them."""
        options, ranks = self.options, self.comm.size
        if options.collective != "sharded" and options.across is None:
            return
        for reducer, most in zip(self._chooser.reducers, self._units, strict=True):
            trained = reducer.routing.model.trained()
            if trained:
                values = sum(each.size for each in trained)
                reducer.routing.unit = min(most, unit_for(values, ranks))

    def _take_nodes(self) -> None:
        """Learn where the ranks are; nodes of a single rank are a flat group."""
        comm = self.comm
        nodes = self._agreement.on_nodes(lambda: self._members(self.options.across))
        defaults.refuse_momentum_alone(self.routing.feedback, nodes.count)
        if nodes.width > 1:
            routings = [reducer.routing for reducer in self._chooser.reducers]
            for routing in [own for own in routings if own.between] or routings:
                routing.nodes = nodes
            self._chooser.take_nodes(nodes)
            self.progress.near = frozenset(nodes.inside(comm.rank)) - {comm.rank}

    def _advise(self) -> None:
        """Warn once, on one rank, if little of the model is compressed."""
        if self._has_advised or self.comm.rank != 0 or self.comm.size == 1:
            return
        self._has_advised = True
        if (text := advice(self._chooser.reducers[-1].routing)) is not None:
            warn_user(text)

    def _take_flow(self, stream: bool) -> None:
        """Let the values travel as all ranks want it."""
        reducer, arguments = self._chooser.reducer, (self.progress, self.options, self._rng)
        scatters = self.options.collective == REDUCE_SCATTER
        if stream:
            if not isinstance(reducer, Streaming):
                kind = ScatteringStream if scatters else Streaming
                self._chooser.use(kind(self.routing, *arguments, self.accounting.end_step))
            assert isinstance(self._chooser.reducer, Streaming)
            self._chooser.reducer.device = self._flow.device
            self.comm.open_boxes(self._flow.device)
        elif isinstance(reducer, Streaming):  # of an earlier group
            through_host = Scattering if scatters else Compressed
            self._chooser.use(through_host(self.routing, *arguments))

    def _background(self) -> Background:
        spent, comm = self.progress.spent, self.comm
        # An exchange waits twice at most, and adds up what it has spent after each of its parts.
        return Background(
            self._reduce,
            Watch(
                lambda: (spent.codec_seconds, spent.wire_seconds),
                2 * comm.timeout + GRACE,
                comm.abort,
            ),
        )

    def submit(self, job: Job) -> None:
        """Take a job; an earlier failure raises again."""
        pipeline = self._started()
        if pipeline.failure is not None:
            raise pipeline.failure
        if self._chooser.reducer.is_light:
            pipeline.start_here(job)
        else:
            pipeline.submit(job)

    def wait(self, job: Job) -> None:
        """Wait for a job; an error raises here with its own type.

        So does a thread that is gone, or an exchange that does not move.
        """
        self._started().wait(job)
        if self.failure is not None:
            raise self.failure
        if job.is_last:
            self._advise()

    def end_step(self) -> None:
        """End the step now, without a thread, if no job is marked as the last."""
        self._started().call(lambda: self._end_step(0.0))

    @property
    def stream(self) -> Streaming | None:
        """The reducer, if the values travel where they lie and steps are looked at later."""
        reducer = self._chooser.reducer
        return reducer if isinstance(reducer, Streaming) else None

    def look(self) -> None:
        """Wait until it is known how all steps have gone, not while one is under way."""
        stream = self.stream
        if stream is not None:
            self._started().call(lambda: stream.look(self.comm, wait=True))

    def together(self, text: str, work: Callable[[], _Result]) -> _Result:
        """Do `work`, which `text` describes, once all ranks are about to; without a thread."""

        def agreed() -> _Result:
            self._agreement.on_deed(text)
            return work()

        return self._started().call(agreed)

    def figures(self) -> dict[str, Any]:
        """The fields of this rank's report."""
        if self.stream is not None and self.failure is None and not self.ending.outcomes:
            self.stream.look_if_well()
        return self.accounting.figures(self.comm.size)

    def close(self) -> None:
        """End the background thread and give the group back; every rank must call this."""
        if self._pipeline is not None:
            if self._pipeline.is_left_behind:
                return  # thread and group are those of the process that was forked
            self._pipeline.close()
            failed = self._pipeline.failure is not None
            for reducer in self._chooser.reducers:
                reducer.close(failed=failed)
            if not failed:
                self.comm.close()
        self._pipeline = None
        self.ending.outcomes.clear()  # of a step that failed: whoever goes on begins one anew
        self.progress.fault, self.progress.saw_nonfinite, self.progress.sequence = None, False, 0

    def _started(self) -> Pipeline:
        self.start()
        assert self._pipeline is not None
        self._pipeline.check_process()
        return self._pipeline

    def _works(self, reducer: Reducer) -> bool:
        return self.comm.size > 1 or reducer.works_alone

    def _reduce(self, job: Job) -> None:
        """Reduce one job in the pipeline; its mean is in place at the end of the step."""
        reducer = self._chooser.reducer
        self.ending.outcomes.append(job.outcome or job.values)
        self._chooser.watch(job)
        if self.stream is None and not self.options.staged:  # a device is not asked for values
            self.accounting.watch(job)
        if self._works(reducer):
            reducer.start(job, self.comm)
            self.accounting.add(job, self.comm.size)
        if job.is_last:
            self._end_step(job.since)

    def _end_step(self, since: float) -> None:
        progress, reducer = self.progress, self._chooser.reducer
        if isinstance(reducer, Streaming):
            reducer.end_step(self.comm, cast(list[StreamOutcome], self.ending.outcomes))
            self.ending.outcomes.clear()
            return
        if self._works(reducer):
            reducer.end_step(self.comm)
        else:
            progress.step += 1
        self.ending.conclude(since, self.comm)


def _rng(options: Options, stream: tuple[int | str, ...]) -> Rng:
    rng = Rng.from_seed(options.seed)
    return rng.fork(*stream) if stream else rng


def _chooser(
    routing: Routing | Mapping[str, Routing],
    progress: RankProgress,
    options: Options,
    rng: Rng,
    switching: Switching | None,
) -> Chooser:
    if isinstance(routing, Mapping):
        candidates: dict[str, Reducer] = {
            name: _compressed(each)(each, progress, options, rng)
            for name, each in routing.items()
            if name != UNCOMPRESSED
        }
        return AutoChooser({UNCOMPRESSED: Plain(routing[UNCOMPRESSED], progress)} | candidates)
    if switching is not None:
        switching.check(routing.uplink, routing.downlink, routing.feedback)
    if options.collective == REDUCE_SCATTER:
        return Chooser(Scattering(routing, progress, options, rng))
    return Chooser(_compressed(routing)(routing, progress, options, rng, switching))


def _compressed(routing: Routing) -> type[Compressed]:
    return Compressed if routing.low_rank is None else Thinning
