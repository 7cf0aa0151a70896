"""The state of compression in one DDP model, and the hook that DDP calls with each bucket."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel

from fewbits import presets
from fewbits.core import vector
from fewbits.core.operator import Operator
from fewbits.ddp import buckets, defaults, state
from fewbits.ddp.pipeline import Job, Pipeline
from fewbits.ddp.plan import Names, Planner
from fewbits.ddp.report import Report
from fewbits.ddp.state import State
from fewbits.errors import EncodeError, SpecError
from fewbits.feedback import Feedback
from fewbits.feedback import feedback as feedback_method
from fewbits.feedback.store import Store
from fewbits.links.torch_comm import TorchComm
from fewbits.policy import Policy
from fewbits.registry import operator
from fewbits.rng import Rng
from fewbits.schemes import header
from fewbits.schemes.correction import Loop
from fewbits.schemes.gather import Gather
from fewbits.schemes.header import Header, Phase
from fewbits.schemes.owned import Sharded, Star
from fewbits.schemes.payload import CHUNK
from fewbits.schemes.promises import Promises
from fewbits.schemes.reduction import NonFinite, Progress, Reduction, agree, commit, give_up
from fewbits.schemes.units import total_format

SCHEMES: dict[str, type[Reduction]] = {"sharded": Sharded, "star": Star, "gather": Gather}


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
        policy: Policy | Mapping[str, str | Operator] | None = None,
        nonfinite: NonFinite = "propagate",
        seed: int = 0,
        timeout: float = 60.0,
        threads: int = 1,
        names: Iterable[tuple[str, Any]] = (),
        process_group: Any = None,
    ) -> None:
        if scheme not in SCHEMES:
            raise SpecError(f"scheme must be {', '.join(SCHEMES)}, got {scheme!r}")
        if nonfinite not in ("propagate", "skip", "raise"):
            raise SpecError(f"nonfinite must be propagate, skip or raise, got {nonfinite!r}")
        if timeout <= 0 or threads < 1:
            raise SpecError(f"timeout and threads must be positive, got {timeout} and {threads}")
        preset = presets.expand(worker, master=master, feedback=feedback)
        if preset is not None:
            worker, feedback = preset.operator, preset.feedback
        chosen = operator(worker)
        self.scheme, self.seed, self.timeout, self.threads = scheme, seed, timeout, threads
        self.loop = None if feedback is None else Loop(feedback_method(feedback), Store())
        back = defaults.master(chosen, master, corrected=bool(self.loop))
        self.planner = Planner(
            chosen, back, defaults.policy(policy), Names.of(names), bool(self.loop)
        )
        self.progress = Progress(nonfinite)
        self._rng = Rng.from_seed(seed)
        self._group = process_group
        self._comm: TorchComm | None = None
        self._pipeline: Pipeline | None = None
        self._reductions: dict[int, tuple[Any, Reduction]] = {}
        self._this_step: list[Job] = []
        self._plain_bytes = 0
        self._nonfinite_steps = self._skipped_steps = 0
        self.skipped = False
        if self.loop is not None:
            for each in (chosen, back):
                self.loop.method.rule(each, CHUNK)  # refuses what it cannot correct
        else:
            defaults.warn_of_bias(chosen)

    def start(self) -> None:
        """Make the process group and check that all ranks run the same: every rank must call this.

        `attach` does; with the plain pair the first bucket does.
        """
        if self._pipeline is not None:
            return
        self._comm = TorchComm(self._group, self.timeout)
        self.progress.promises = Promises()  # those of an earlier group went with it
        self.planner.share(self._comm.size)
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
        self.progress.step = step

    def report(self) -> Report:
        """What was sent and what it cost, on this rank, since the start."""
        planner, spent = self.planner, self.progress.spent
        exact = planner.exact()
        return Report(
            worker=planner.worker.spec,
            master=planner.master.spec,
            scheme=self.scheme,
            ranks=self._comm.size if self._comm else 1,
            steps=self.progress.step,
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
            nonfinite_steps=self._nonfinite_steps,
            skipped_steps=self._skipped_steps,
            feedback=self.loop.method.spec if self.loop else None,
            memory_bytes=self.loop.store.nbytes if self.loop else 0,
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
        if not 0 < factor < math.inf:
            raise SpecError(f"memories can be rescaled by a positive number, got {factor}")
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
            if self._pipeline.failure is None:
                self._comm.close()
        self._pipeline = None
        self._reductions.clear()  # their buffers belong to a group that is gone
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
                agree(comm, [own] * comm.size, progress)
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
            f"worker={planner.worker} master={planner.master} scheme={self.scheme} "
            f"feedback={self.loop.method if self.loop else None} "
            f"seed={self.seed} nonfinite={self.progress.nonfinite} names={names}"
        )

    def _reduce(self, job: Job) -> None:
        """One bucket, in the background thread."""
        comm, progress = self._comm, self.progress
        assert comm is not None
        if comm.size > 1:
            self._mean(job, comm)
        self._this_step.append(job)
        if not job.is_last:
            return
        if comm.size > 1:
            commit(comm, progress)
        else:
            progress.step += 1
        self._end_step()

    def _mean(self, job: Job, comm: TorchComm) -> None:
        try:
            host = buckets.to_host(job)
            # Memories have 32 bits or more, and so have the gradients that they are added to.
            wide = host.float() if self.loop and host.element_size() < 4 else host
            values, _ = vector.from_array(wide)
            reduction = self._reduction(job, values, comm)
            self.progress.replica = buckets.replica(job)
            self.progress.idle = job.idle
        except Exception as error:  # a user's policy, or too little memory for the buffers
            give_up(comm, self.progress, error)
        mean = reduction.run(values.bits, self._rng, self.progress)
        if host is not wide or values.format != total_format(values.format):
            # To 16 bits: an overflow must become infinite.
            with self.progress.spent.codec():
                host.copy_(torch.from_numpy(mean))
        if host is not job.tensor:
            job.tensor.copy_(host)
        self._plain_bytes += 2 * (comm.size - 1) * host.nbytes // comm.size

    def _reduction(self, job: Job, values: vector.Vector, comm: TorchComm) -> Reduction:
        """The bucket's buffers and tables, made anew when DDP rebuilds its buckets."""
        identity = (values.format, tuple(map(id, job.parameters)))
        known = self._reductions.get(job.index)
        if known is None or known[0] != identity:
            units = self.planner.units(job.parameters)
            scheme = SCHEMES[self.scheme]
            known = identity, scheme(units, values.format, comm, self.threads, self.loop)
            self._reductions[job.index] = known
        return known[1]

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


def hook(state: Compression, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The communication hook for `register_comm_hook`; its state is a `Compression`."""
    return state.submit(bucket)


def attach(
    model: DistributedDataParallel,
    worker: str | Operator,
    master: str | Operator | None = None,
    *,
    feedback: str | Feedback | None = None,
    scheme: str = "sharded",
    policy: Policy | Mapping[str, str | Operator] | None = None,
    nonfinite: NonFinite = "propagate",
    seed: int = 0,
    timeout: float = 60.0,
    threads: int = 1,
) -> Compression:
    """Compress a DDP model's gradients; every rank must call this with the same arguments.

    `worker` compresses each rank's gradient, `master` the mean that is sent back: by default the
    same operator if it is unbiased or there is feedback, else `natural`, entropy coded if that
    operator is; `"identity"` for one direction only. `feedback` gives both directions a memory,
    without which biased operators do not converge: `ef14` adds what was lost to the next gradient,
    `ef21`, `diana` and `ef-bv` send changes of the gradient. `worker="tiny"` is a preset, an
    operator and its feedback in one word. `scheme` is `sharded` (every rank
    averages a share), `star` (rank 0 does) or `gather` (everyone does). `policy` says which tensors
    are compressed: patterns of names, `{"head.*": "exact"}`, or a function of name and shape; by
    default one-dimensional and small tensors go exact. `nonfinite`: `propagate` NaN and infinity,
    `skip` the step on all ranks (gradients are zeroed and `skipped` is True), or `raise` on all
    ranks; memories never take them up. After `timeout` seconds without an answer from a rank, all
    others raise `PeerError`.
    """
    if not isinstance(model, DistributedDataParallel):
        raise SpecError(f"attach takes a DistributedDataParallel model, got {type(model).__name__}")
    compression = Compression(
        worker,
        master,
        feedback=feedback,
        scheme=scheme,
        policy=policy,
        nonfinite=nonfinite,
        seed=seed,
        timeout=timeout,
        threads=threads,
        names=model.module.named_parameters(),
        process_group=model.process_group,
    )
    compression.start()
    try:
        model.register_comm_hook(compression, hook)
    except Exception:  # the model has a hook already, on this rank and on all others
        compression.close()
        raise
    return compression
