"""The state of compression in one DDP model, and the hook that DDP calls with each bucket."""

import warnings
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import torch
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel

from fewbits import _native
from fewbits import policy as policies
from fewbits.core import vector
from fewbits.core.operator import Operator
from fewbits.ddp.pipeline import Job, Pipeline
from fewbits.ddp.plan import Names, Planner
from fewbits.ddp.report import Report
from fewbits.errors import EncodeError, SpecError
from fewbits.kernels.formats import FLOAT32
from fewbits.links.torch_comm import TorchComm
from fewbits.policy import Policy
from fewbits.registry import operator
from fewbits.rng import Rng
from fewbits.schemes import header
from fewbits.schemes.gather import Gather
from fewbits.schemes.header import Header, Phase
from fewbits.schemes.owned import Sharded, Star
from fewbits.schemes.payload import CHUNK
from fewbits.schemes.promises import Promises
from fewbits.schemes.reduction import NonFinite, Progress, Reduction, commit, give_up

SCHEMES: dict[str, type[Reduction]] = {"sharded": Sharded, "star": Star, "gather": Gather}
REPLICA_SAMPLE = 256  # values
NEGLIGIBLE_BIAS = 1e-3  # squared relative error below which a biased operator is a mere cast


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
        chosen = operator(worker)
        self.scheme, self.seed, self.timeout, self.threads = scheme, seed, timeout, threads
        self.planner = Planner(chosen, _master(chosen, master), _policy(policy), Names.of(names))
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
        _warn_of_bias(chosen)

    def start(self) -> None:
        """Make the process group and check that all ranks run the same: every rank must call this.

        `attach` does; with the plain pair the first bucket does.
        """
        if self._pipeline is not None:
            return
        self._comm = TorchComm(self._group, self.timeout)
        self.progress.promises = Promises()  # those of an earlier group went with it
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
        job = _job(bucket)
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
        )

    def close(self) -> None:
        """End the background thread and give the process group back; every rank must call this."""
        if self._pipeline is not None and self._comm is not None:
            self._pipeline.close()
            if self._pipeline.failure is None:
                self._comm.close()
        self._pipeline = None
        self._reductions.clear()  # their buffers belong to a group that is gone

    def _configuration(self) -> str:
        """What all ranks must agree on."""
        planner = self.planner
        names = blake2b("\n".join(planner.names.known.values()).encode(), digest_size=4).hexdigest()
        return (
            f"worker={planner.worker} master={planner.master} scheme={self.scheme} "
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
            host = _to_host(job)
            values, _ = vector.from_array(host)
            reduction = self._reduction(job, values, comm)
            self.progress.replica = _replica(job)
        except Exception as error:  # a user's policy, or too little memory for the buffers
            give_up(comm, self.progress, error)
        mean = reduction.run(values.bits, self._rng, self.progress)
        if values.format != reduction.totals_format:  # 16 bits: an overflow must become infinite
            with self.progress.spent.codec():
                host.copy_(torch.from_numpy(mean))
        if host is not job.tensor:
            job.tensor.copy_(host)
        self._plain_bytes += 2 * (comm.size - 1) * values.bits.nbytes // comm.size

    def _reduction(self, job: Job, values: vector.Vector, comm: TorchComm) -> Reduction:
        """The bucket's buffers and tables, made anew when DDP rebuilds its buckets."""
        identity = (values.format, tuple(map(id, job.parameters)))
        known = self._reductions.get(job.index)
        if known is None or known[0] != identity:
            units = self.planner.units(job.parameters)
            known = identity, SCHEMES[self.scheme](units, values.format, comm, self.threads)
            self._reductions[job.index] = known
        return known[1]

    def _end_step(self) -> None:
        progress = self.progress
        if progress.nonfinite != "propagate" and not progress.saw_nonfinite:
            self._judge_means()
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
    scheme: str = "sharded",
    policy: Policy | Mapping[str, str | Operator] | None = None,
    nonfinite: NonFinite = "propagate",
    seed: int = 0,
    timeout: float = 60.0,
    threads: int = 1,
) -> Compression:
    """Compress a DDP model's gradients; every rank must call this with the same arguments.

    `worker` compresses each rank's gradient, `master` the mean that is sent back: by default the
    same operator if it is unbiased, else `natural`, entropy coded if that operator is;
    `"identity"` for one direction only. `scheme`
    is `sharded` (every rank averages a share), `star` (rank 0 does) or `gather` (everyone does).
    `policy` says which tensors are compressed: patterns of names, `{"head.*": "exact"}`, or a
    function of name and shape; by default one-dimensional and small tensors go exact. `nonfinite`:
    `propagate` NaN and infinity, `skip` the step on all ranks (gradients are zeroed and `skipped`
    is True), or `raise` on all ranks. After `timeout` seconds without an answer from a rank, all
    others raise `PeerError`.
    """
    if not isinstance(model, DistributedDataParallel):
        raise SpecError(f"attach takes a DistributedDataParallel model, got {type(model).__name__}")
    compression = Compression(
        worker,
        master,
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


def _master(worker: Operator, master: str | Operator | None) -> Operator:
    if master is not None:
        return operator(master)
    if worker.guarantee(CHUNK).unbiased:
        return worker
    coded = any(section.varies for section in worker.layout(CHUNK, FLOAT32))
    return operator("natural:coder=rans" if coded else "natural")


def _policy(policy: Policy | Mapping[str, str | Operator] | None) -> Policy:
    if policy is None:
        return policies.Default()
    if isinstance(policy, Mapping):
        return policies.Chain((policies.ByName(policy), policies.Default()))
    if not callable(policy):
        raise SpecError(f"policy must be a mapping or a function, got {type(policy).__name__}")
    return policy


def _warn_of_bias(worker: Operator) -> None:
    guarantee = worker.guarantee(CHUNK)  # the fewer values, the less some operators lose
    if not guarantee.unbiased and guarantee.error > NEGLIGIBLE_BIAS:
        warnings.warn(
            f"{worker} is biased and nothing corrects it: training may stall short of the optimum; "
            "use an unbiased operator such as 'natural'",
            stacklevel=4,
        )


def _job(bucket: GradBucket) -> Job:
    tensor = bucket.buffer()
    future: torch.futures.Future[torch.Tensor]
    ready = None
    if tensor.is_cuda:  # never run: there was no GPU to run it on
        future = torch.futures.Future(devices=[tensor.device])
        ready = torch.cuda.Event()  # type: ignore[no-untyped-call]
        ready.record()
    else:
        future = torch.futures.Future()
    return Job(bucket.index(), tensor, bucket.parameters(), bucket.is_last(), future, ready)


def _replica(job: Job) -> int:
    """A checksum of values from the bucket's first and last parameter, the same on all ranks.

    0, which claims nothing, if the gradient seems to be zero: a rank without inputs that only
    accompanies the others (DDP's `join`) does not step with them.
    """
    stride = max(1, job.tensor.numel() // REPLICA_SAMPLE)
    if not job.tensor[::stride].any():
        return 0
    crc = 0
    for parameter in (job.parameters[0], job.parameters[-1]):
        if parameter.numel() == 0:
            continue
        line = parameter.detach()
        while line.dim() > 1:
            line = line.select(-1, 0)
        sample = line.reshape(-1)[:: max(1, line.numel() // REPLICA_SAMPLE)].cpu().contiguous()
        crc = _native.crc32c(sample.view(torch.uint8).numpy(), crc)
    return crc or 1


def _to_host(job: Job) -> torch.Tensor:
    """The tensor itself, or a copy of a CUDA tensor in pinned memory."""
    if not job.tensor.is_cuda:
        return job.tensor
    job.ready.synchronize()  # never run: there was no GPU to run it on
    host = torch.empty(job.tensor.shape, dtype=job.tensor.dtype, pin_memory=True)
    host.copy_(job.tensor)
    return host
