"""The state of compression of one model on one rank: what every adapter has and does alike."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fewbits.core.operator import Operator
from fewbits.errors import EncodeError, SpecError
from fewbits.exchange import defaults, jobs, state
from fewbits.exchange.factory import Factory
from fewbits.exchange.jobs import Job
from fewbits.exchange.options import Options
from fewbits.exchange.pipeline import Pipeline
from fewbits.exchange.plan import Names, Planner
from fewbits.exchange.reducer import Reducer
from fewbits.exchange.report import Report
from fewbits.exchange.state import State
from fewbits.exchange.switching import Switching
from fewbits.feedback import Feedback
from fewbits.links.torch_comm import TorchComm
from fewbits.schemes import header
from fewbits.schemes.correction import Loop
from fewbits.schemes.header import Header, Phase
from fewbits.schemes.reduction import Progress, agree

OWN = "own/"
"""How names of arrays begin that an adapter saves beside the memories."""


class Loaded(NamedTuple):
    """What was found in a state: the step, this rank's memories, and the adapter's own arrays."""

    step: int
    memories: State
    own: State


class Exchange:
    """Averages vectors over all ranks, compressed in both directions; adapters are subclasses.

    A *step* is one exchange of all jobs up to one that `is_last`.
    """

    def __init__(
        self,
        worker: str | Operator,
        master: str | Operator | None,
        feedback: str | Feedback | None,
        options: Options,
        *,
        names: Iterable[tuple[str, Any]] = (),
        process_group: Any = None,
    ) -> None:
        self.scheme, self.seed, self.timeout = options.scheme, options.seed, options.timeout
        self.threads = options.threads
        self.progress = Progress(options.nonfinite)
        self._group = process_group
        self._comm: TorchComm | None = None
        self._pipeline: Pipeline | None = None
        self._this_step: list[Job] = []
        self._plain_bytes = 0
        self._steps = self._nonfinite_steps = self._skipped_steps = 0
        self.skipped = False
        rules, known = defaults.policy(options.policy), Names.of(names)
        self._switching = Switching.of(self.scheme, options.aggregators)
        own = rules, known, self.progress, self._switching
        factory = Factory(self.scheme, self.threads, self.seed, *own)
        self._reducer: Reducer = self._first_reducer(factory, worker, master, feedback)

    def _first_reducer(
        self,
        factory: Factory,
        worker: str | Operator,
        master: str | Operator | None,
        feedback: str | Feedback | None,
    ) -> Reducer:
        """What reduces from the first step on."""
        reducer = factory.compressed(worker, master, feedback)
        if reducer.loop is None:
            defaults.warn_of_bias(reducer.planner.worker)
        return reducer

    @property
    def planner(self) -> Planner:
        """How each parameter travels at present."""
        return self._reducer.planner

    @property
    def loop(self) -> Loop | None:
        """The feedback and its memories, if there are any."""
        return self._reducer.loop

    def _reducers(self) -> Sequence[Reducer]:
        return [self._reducer]

    @property
    def _saved(self) -> Reducer:
        """Whose plan and memories a state has."""
        return self._reducer

    def start(self) -> None:
        """Make the process group and check that all ranks run the same: every rank must call this.

        `attach` does; otherwise the first step does.
        """
        if self._pipeline is not None:
            return
        self._comm = TorchComm(self._group, self.timeout)
        self._begin(self._comm)
        self._pipeline = self._new_pipeline()

    def _new_pipeline(self) -> Pipeline:
        return Pipeline(self._reduce)

    def _begin(self, comm: TorchComm) -> None:
        """Get ready for a group, all ranks of which must agree before anything else is sent."""
        defaults.refuse_momentum_alone(self.loop, comm.size)
        text = self._configuration()
        plan = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
        own = Header(Phase.CONFIGURE, self.progress.step, 0, plan, text=text)
        header.exchange(comm, [own] * comm.size)
        for reducer in self._reducers():
            reducer.prepare(comm)
        self.progress.promises = self._reducer.promises

    def _enqueue(self, job: Job) -> None:
        """Give a job to the thread; an earlier failure raises again."""
        self.start()
        assert self._pipeline is not None
        if self._pipeline.failure is not None:
            raise self._pipeline.failure
        if self._reducer.is_light:
            self._pipeline.start_here(job)
        else:
            self._pipeline.submit(job)

    def _await(self, job: Job) -> None:
        """Wait for a job; what failed raises here with its own type."""
        job.done.wait()
        if self._pipeline is not None and self._pipeline.failure is not None:
            raise self._pipeline.failure

    def report(self) -> Report:
        """What was sent and what it cost, on this rank, since the start."""
        return Report(**self._figures())

    def _figures(self) -> dict[str, Any]:
        """The fields of a report."""
        planner, spent = self.planner, self.progress.spent
        exact = planner.exact()
        worker, master = self._reducer.specs
        return {
            "worker": worker,
            "master": master,
            "scheme": self.scheme,
            "ranks": self._comm.size if self._comm else 1,
            "steps": self._steps,
            "payload_bytes": spent.payload_bytes,
            "header_bytes": spent.header_bytes,
            "plain_bytes": self._plain_bytes,
            "codec_seconds": spent.codec_seconds,
            "codec_cpu_seconds": spent.codec_cpu_seconds,
            "wire_seconds": spent.wire_seconds,
            "elements": planner.elements(),
            "compressed_elements": planner.elements() - sum(exact.values()),
            "exact": exact,
            "saturated": spent.saturated,
            "below_span": spent.below_span,
            "resent": spent.resent,
            "nonfinite_steps": self._nonfinite_steps,
            "skipped_steps": self._skipped_steps,
            "feedback": self.loop.method.spec if self.loop else None,
            "memory_bytes": self.loop.store.nbytes if self.loop else 0,
        }

    def state_dict(self) -> State:
        """The step and the memories of this rank, as plain arrays: every rank must save its own.

        Not while a step is under way.
        """
        loop = self._saved.loop
        arrays = loop.store.arrays() if loop else {}
        return state.pack(self._place(), self.progress.step, arrays | dict(self._own_arrays()))

    def _own_arrays(self) -> State:
        """What an adapter saves beside the memories; names begin with `OWN`."""
        return {}

    def load_state_dict(self, saved: State | Sequence[State], *, reshard: bool = False) -> None:
        """Go on from `state_dict()`; every rank must call this, each with its own state.

        Another number of ranks, operator, feedback or model raises `DisagreementError` on all
        ranks. With `reshard` and the states of all ranks that saved, in their order, memories are
        shared out among those that there are now: what all of them have lost, their sum, is kept.
        """
        self._together(lambda: self._loaded(saved, reshard))

    def rescale(self, factor: float) -> None:
        """Multiply what is remembered, on every rank: gradients will be so many times as large.

        After `scaler.update()` of a GradScaler: its new scale over its old one.
        """
        if not isinstance(factor, int | float) or not 2.0**-126 <= factor <= 2.0**127:
            raise SpecError(f"memories are rescaled by a positive float32 number, got {factor!r}")
        if self.loop is not None:
            self.loop.store.scale(factor)

    def save(self, folder: str | Path) -> None:
        """Write `state_dict()` to a file of this rank in `folder`, whole or not at all."""
        state.write(folder, self.state_dict())

    def load(self, folder: str | Path, *, reshard: bool = False) -> None:
        """`load_state_dict` from what `save` wrote to `folder`; every rank must call this.

        A missing file raises `DisagreementError` on all ranks, also with `reshard`: nobody knows
        what it held.
        """
        self._together(lambda: self._loaded(state.read(folder, self._place(), reshard), reshard))

    def close(self) -> None:
        """End the background thread and give the process group back; every rank must call this."""
        if self._pipeline is not None and self._comm is not None:
            self._pipeline.close()
            for reducer in self._reducers():
                reducer.close(failed=self._pipeline.failure is not None)
            if self._pipeline.failure is None:
                self._comm.close()
        self._pipeline = None
        self._this_step.clear()  # of a step that failed: whoever goes on begins one anew
        self.progress.fault, self.progress.saw_nonfinite, self.progress.sequence = None, False, 0

    def _place(self) -> state.Place:
        """Who saves or loads a state."""
        planner, loop = self._saved.planner, self._saved.loop
        model = planner.model()
        operators = [f"{name} {planner.operators(name, model[name])}" for name in model]
        made = torch.distributed.is_initialized()  # some save before their first step
        return state.Place(
            rank=torch.distributed.get_rank(self._group) if made else 0,
            ranks=torch.distributed.get_world_size(self._group) if made else 1,
            feedback=loop.method.spec if loop else None,
            model=state.digest(f"{name} {shape}" for name, shape in model.items()),
            plan=state.digest([self._configuration(), *operators]),
            configuration=self._configuration(),
        )

    def _loaded(self, saved: State | Sequence[State], reshard: bool) -> Loaded:
        """What a state holds for this rank."""
        place = self._place()
        step, states = state.unpack(saved, place, reshard)
        memories, own = zip(*(_divided(arrays) for arrays in states), strict=True)
        self._check_own(own, reshard)
        loop = self._saved.loop
        if loop is None:
            return Loaded(step, {}, own[0])
        mine = loop.method.shared_out(memories, place.ranks) if reshard else memories[0]
        loop.store.check(mine)
        state.refuse_useless(mine, self._saved.planner.exact_names())
        return Loaded(step, mine, own[0])

    def _check_own(self, states: Sequence[State], reshard: bool) -> None:
        """Refuse what `_take` could not take, with `DisagreementError`."""

    def _take(self, own: State) -> None:
        """Go on from an adapter's own arrays, which were checked."""

    def _together(self, find: Callable[[], Loaded]) -> None:
        """Go on from what all ranks `find`, at the same step: on all of them or on none."""
        self.start()
        comm, progress = self._comm, self.progress
        assert comm is not None
        found = Loaded(progress.step, {}, {})
        try:
            found = find()
        except Exception as error:
            progress.fault = error
        own = Header(Phase.CONFIGURE, found.step, 0, 0, text=f"step {found.step}")
        try:
            if comm.size > 1:
                agree(comm, own, progress)
            elif progress.fault is not None:
                raise progress.fault
        finally:
            progress.fault = None
        if self._saved.loop is not None:
            self._saved.loop.store.load(found.memories)
        progress.step = found.step
        self._take(found.own)

    def _configuration(self) -> str:
        """What all ranks must agree on."""
        planner = self.planner
        return self._described(planner.worker.spec, planner.master.spec)

    def _described(self, worker: str, master: str) -> str:
        names, loop = self.planner.names, self._saved.loop
        given = "\n".join(map(names, names.given))  # not those that the order of jobs gave
        return (
            f"worker={worker} master={master} scheme={self.scheme} "
            f"feedback={loop.method if loop else None} {self._switching or ''}"
            f"seed={self.seed} nonfinite={self.progress.nonfinite} "
            f"names={blake2b(given.encode(), digest_size=4).hexdigest()}"
        )

    def _reduce(self, job: Job) -> None:
        """One job, in the background thread; its mean is in place at the end of the step."""
        comm, progress = self._comm, self.progress
        assert comm is not None
        self._this_step.append(job)
        if comm.size > 1:
            self._reducer.start(job, comm)
            self._plain_bytes += 2 * (comm.size - 1) * job.tensor.nbytes // comm.size
        if not job.is_last:
            return
        if comm.size > 1:
            self._reducer.end_step(comm)
        else:
            progress.step += 1
        self._end_step()

    def _end_step(self) -> None:
        progress = self.progress
        if (self.loop or progress.nonfinite != "propagate") and not progress.saw_nonfinite:
            self._judge_means()
        if self.loop is not None:
            self.loop.store.end_step(well=not progress.saw_nonfinite)
        self._nonfinite_steps += progress.saw_nonfinite
        self.skipped = progress.saw_nonfinite and progress.nonfinite == "skip"
        if self.skipped:  # a hook cannot skip the optimizer's step: zero the gradients and say so
            self._skipped_steps += 1
            for job in self._this_step:
                job.tensor.zero_()
        self._steps += 1
        progress.saw_nonfinite = False
        self._this_step.clear()

    def _judge_means(self) -> None:
        """Finite gradients may overflow when they are summed or rounded to 16 bits at the end.

        The means are the same on all ranks, so all judge alike and need not ask each other.
        """
        progress = self.progress
        with progress.spent.codec():
            progress.saw_nonfinite = not all(jobs.is_finite(own.tensor) for own in self._this_step)
        if progress.saw_nonfinite and progress.nonfinite == "raise":
            raise EncodeError(f"the mean gradient of step {progress.step - 1} is NaN or infinite")


def _divided(arrays: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Memories, and what is the adapter's own."""
    own = {key: array for key, array in arrays.items() if key.startswith(OWN)}
    return {key: array for key, array in arrays.items() if key not in own}, own
