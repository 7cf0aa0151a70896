"""The state of compression in one DDP model, and the hook that DDP calls with each bucket."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from torch.distributed import GradBucket  # type: ignore[attr-defined]

from fewbits import presets
from fewbits.core.operator import Operator
from fewbits.ddp import buckets, defaults, state
from fewbits.ddp.auto import AUTO, Auto, Figures
from fewbits.ddp.factory import Factory
from fewbits.ddp.pipeline import Job, Pipeline
from fewbits.ddp.plan import Names, Planner
from fewbits.ddp.reducer import SCHEMES, Reducer
from fewbits.ddp.report import Report
from fewbits.ddp.state import State
from fewbits.ddp.switching import Aggregators, Switching
from fewbits.errors import EncodeError, SpecError
from fewbits.feedback import Feedback
from fewbits.links.torch_comm import TorchComm
from fewbits.policy import Policy
from fewbits.schemes import header
from fewbits.schemes.correction import Loop
from fewbits.schemes.header import Header, Phase
from fewbits.schemes.payload import CHUNK
from fewbits.schemes.reduction import NonFinite, Progress, agree, commit


class Compression:
    """Compresses every bucket's gradients in both directions; see `attach` for the arguments.

    For frameworks that register the hook themselves: `register_comm_hook(Compression("natural"),
    hook)`, or Lightning's `DDPStrategy(ddp_comm_state=Compression("natural"), ddp_comm_hook=hook)`.
    """

    def __init__(
        self,
        worker: str | Operator,
        master: str | Operator | None = None,
        *,
        feedback: str | Feedback | None = None,
        scheme: str = "sharded",
        aggregators: Sequence[str] | Aggregators = (),
        policy: Policy | Mapping[str, str | Operator] | None = None,
        nonfinite: NonFinite = "propagate",
        seed: int = 0,
        timeout: float = 60.0,
        threads: int = 1,
        allow_bias: bool = False,
        names: Iterable[tuple[str, Any]] = (),
        process_group: Any = None,
    ) -> None:
        if scheme not in SCHEMES:
            raise SpecError(f"scheme must be {', '.join(SCHEMES)}, got {scheme!r}")
        if nonfinite not in ("propagate", "skip", "raise"):
            raise SpecError(f"nonfinite must be propagate, skip or raise, got {nonfinite!r}")
        if not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
            raise SpecError(f"timeout must be a positive number of seconds, got {timeout!r}")
        if not isinstance(threads, int) or threads < 1:
            raise SpecError(f"threads must be a positive whole number, got {threads!r}")
        self.scheme, self.seed, self.timeout, self.threads = scheme, seed, timeout, threads
        self.progress = Progress(nonfinite)
        self._group = process_group
        self._comm: TorchComm | None = None
        self._pipeline: Pipeline | None = None
        self._this_step: list[Job] = []
        self._plain_bytes = 0
        self._steps = self._nonfinite_steps = self._skipped_steps = 0
        self._latency, self._before = 0.0, (0.0, 0.0, 0)
        self.skipped = False
        rules, known = defaults.policy(policy), Names.of(names)
        self._switching = Switching.of(scheme, aggregators)
        factory = Factory(scheme, threads, seed, rules, known, self.progress, self._switching)
        self._auto: Auto | None = None
        if worker == AUTO:
            presets.refuse_others(AUTO, master=master, feedback=feedback)
            if self._switching is not None:
                raise SpecError("auto tries several operators, a switch adds one: use natural")
            self._auto = Auto(factory.candidates(allow_bias=allow_bias))
            self._reducer: Reducer = self._auto.reducer
        else:
            self._reducer = factory.compressed(worker, master, feedback)
            if self.loop is None:
                defaults.warn_of_bias(self.planner.worker)

    @property
    def planner(self) -> Planner:
        """How each parameter travels at present."""
        return self._reducer.planner

    @property
    def loop(self) -> Loop | None:
        """The feedback and its memories, if there are any."""
        return self._reducer.loop

    def _reducers(self) -> Sequence[Reducer]:
        return list(self._auto.candidates.values()) if self._auto else [self._reducer]

    def start(self) -> None:
        """Make the process group and check that all ranks run the same: every rank must call this.

        `attach` does; with the plain pair the first bucket does.
        """
        if self._pipeline is not None:
            return
        self._comm = TorchComm(self._group, self.timeout)
        for reducer in self._reducers():
            reducer.prepare(self._comm)
        if self._auto is not None:
            self._auto.ranks = self._comm.size
        defaults.refuse_momentum_alone(self.loop, self._comm.size)
        self.progress.promises = self._reducer.promises
        text = self._configuration()
        plan = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
        own = Header(Phase.CONFIGURE, self.progress.step, 0, plan, text=text)
        header.exchange(self._comm, [own] * self._comm.size)
        self._pipeline = Pipeline(self._reduce)

    def submit(self, bucket: GradBucket) -> "torch.futures.Future[torch.Tensor]":
        """Take a bucket; the future holds the mean over all ranks, in the bucket's own tensor."""
        self.start()
        assert self._pipeline is not None
        if self._pipeline.failure is not None:
            raise self._pipeline.failure
        job = buckets.job(bucket)
        self._pipeline.submit(job)
        if job.is_last:
            # DDP waits for every bucket right after this one. Waiting here costs no overlap and
            # lets an error leave backward() with its own type: a future would make it RuntimeError.
            job.done.wait()
            if self._pipeline.failure is not None:
                raise self._pipeline.failure
        return job.future

    @property
    def step(self) -> int:
        """How many steps were reduced; set it on every rank when a run is resumed."""
        return self.progress.step

    @step.setter
    def step(self, step: int) -> None:
        if not isinstance(step, int) or step < 0:
            raise SpecError(f"a step is a whole number from 0 on, got {step!r}")
        self.progress.step = step

    def report(self) -> Report:
        """What was sent and what it cost, on this rank, since the start."""
        planner, spent = self.planner, self.progress.spent
        exact = planner.exact()
        worker, master = self._reducer.specs
        return Report(
            worker=worker,
            master=master,
            scheme=self.scheme,
            ranks=self._comm.size if self._comm else 1,
            steps=self._steps,
            payload_bytes=spent.payload_bytes,
            header_bytes=spent.header_bytes,
            plain_bytes=self._plain_bytes,
            codec_seconds=spent.codec_seconds,
            codec_cpu_seconds=spent.codec_cpu_seconds,
            wire_seconds=spent.wire_seconds,
            elements=planner.elements(),
            compressed_elements=planner.elements() - sum(exact.values()),
            exact=exact,
            saturated=spent.saturated,
            below_span=spent.below_span,
            resent=spent.resent,
            nonfinite_steps=self._nonfinite_steps,
            skipped_steps=self._skipped_steps,
            feedback=self.loop.method.spec if self.loop else None,
            memory_bytes=self.loop.store.nbytes if self.loop else 0,
            decision=self._auto.decision if self._auto else None,
            trying=self._auto.current if self._auto and not self._auto.decision else None,
        )

    def state_dict(self) -> State:
        """The step and the memories of this rank, as plain arrays: every rank must save its own.

        Not during a backward pass.
        """
        arrays = self.loop.store.arrays() if self.loop else {}
        return state.pack(self._place(), self.progress.step, arrays)

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
        planner, model = self.planner, self.planner.model()
        operators = [f"{name} {planner.operators(name, model[name])}" for name in model]
        made = torch.distributed.is_initialized()  # the plain pair may save before its first bucket
        return state.Place(
            rank=torch.distributed.get_rank(self._group) if made else 0,
            ranks=torch.distributed.get_world_size(self._group) if made else 1,
            feedback=self.loop.method.spec if self.loop else None,
            model=state.digest(f"{name} {shape}" for name, shape in model.items()),
            plan=state.digest([self._configuration(), *operators]),
            configuration=self._configuration(),
        )

    def _loaded(self, saved: State | Sequence[State], reshard: bool) -> tuple[int, State]:
        """The step and the memories of a state, which may be this rank's."""
        place = self._place()
        step, states = state.unpack(saved, place, reshard)
        if self.loop is None:
            return step, {}
        own = self.loop.method.shared_out(states, place.ranks) if reshard else states[0]
        self.loop.store.check(own)
        state.refuse_useless(own, self.planner.exact_names())
        return step, own

    def _together(self, find: Callable[[], tuple[int, State]]) -> None:
        """Go on from what all ranks `find`, at the same step: on all of them or on none."""
        self.start()
        comm, progress = self._comm, self.progress
        assert comm is not None
        step: int = progress.step
        memories: State = {}
        try:
            step, memories = find()
        except Exception as error:
            progress.fault = error
        own = Header(Phase.CONFIGURE, step, 0, 0, text=f"step {step}")
        try:
            if comm.size > 1:
                agree(comm, own, progress)
            elif progress.fault is not None:
                raise progress.fault
        finally:
            progress.fault = None
        if self.loop is not None:
            self.loop.store.load(memories)
        progress.step = step

    def _configuration(self) -> str:
        """What all ranks must agree on."""
        planner = self.planner
        given = "\n".join(
            map(planner.names, planner.names.given)
        )  # not those that DDP's order gave
        names = blake2b(given.encode(), digest_size=4).hexdigest()
        return (
            f"worker={AUTO if self._auto else planner.worker} "
            f"master={AUTO if self._auto else planner.master} scheme={self.scheme} "
            f"feedback={self.loop.method if self.loop else None} "
            f"{self._switching or ''}"
            f"seed={self.seed} nonfinite={self.progress.nonfinite} names={names}"
        )

    def _reduce(self, job: Job) -> None:
        """One bucket, in the background thread; its mean is in place at the end of the step."""
        comm, progress = self._comm, self.progress
        assert comm is not None
        self._this_step.append(job)
        if comm.size > 1:
            self._reducer.start(job, comm)
            self._plain_bytes += 2 * (comm.size - 1) * job.tensor.nbytes // comm.size
        if not job.is_last:
            return
        if comm.size > 1:
            self._reducer.finish()
            began = time.perf_counter()
            commit(comm, progress)
            self._latency = time.perf_counter() - began
        else:
            progress.step += 1
        self._end_step()
        if self._auto is not None and comm.size > 1:
            self._choose(job, comm)

    def _choose(self, last: Job, comm: TorchComm) -> None:
        """Tell `auto` what the step took, and go on with the operator that it says."""
        assert self._auto is not None
        spent = self.progress.spent
        now, codec = time.perf_counter(), spent.codec_seconds
        sent = spent.payload_bytes + spent.header_bytes
        before, self._before = self._before, (now, codec, sent)
        figures = Figures(now - before[0], now - last.since, codec - before[1], sent - before[2])
        sample = last.tensor[:CHUNK].detach().float().cpu().numpy()
        self._auto.end_step(self.progress.step, figures, self._latency, comm.largest, sample)
        if self._auto.reducer is not self._reducer:
            self._reducer = self._auto.reducer
            self.progress.promises = self._reducer.promises

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
        progress.saw_nonfinite = not all(bool(j.tensor.isfinite().all()) for j in self._this_step)
        if progress.saw_nonfinite and progress.nonfinite == "raise":
            raise EncodeError(f"the mean gradient of step {progress.step - 1} is NaN or infinite")
