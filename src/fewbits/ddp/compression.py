"""The state of compression in one DDP model, and the hook that DDP calls with each bucket."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.distributed import GradBucket  # type: ignore[attr-defined]

from fewbits import presets
from fewbits.core.operator import Operator
from fewbits.ddp import buckets
from fewbits.errors import SpecError
from fewbits.exchange.auto import AUTO, NONE, Auto, Figures
from fewbits.exchange.factory import Factory
from fewbits.exchange.jobs import Job
from fewbits.exchange.options import Options
from fewbits.exchange.reducer import Reducer
from fewbits.exchange.stepwise import Stepwise
from fewbits.exchange.switching import Aggregators
from fewbits.feedback import Feedback
from fewbits.links.torch_comm import TorchComm
from fewbits.policy import Policy
from fewbits.schemes.payload import CHUNK
from fewbits.schemes.reduction import NonFinite


class Compression(Stepwise):
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
        self._auto: Auto | None = None
        self._allow_bias = allow_bias
        self._before = (0.0, 0.0, 0)
        self._sample = torch.empty(0)  # of the largest bucket: small ones say little of speed
        options = Options(scheme, policy, nonfinite, seed, timeout, threads, aggregators)
        super().__init__(
            worker, master, feedback, options, names=names, process_group=process_group
        )

    def _first_reducer(
        self,
        factory: Factory,
        worker: str | Operator,
        master: str | Operator | None,
        feedback: str | Feedback | None,
    ) -> Reducer:
        if worker != AUTO:
            return super()._first_reducer(factory, worker, master, feedback)
        presets.refuse_others(AUTO, master=master, feedback=feedback)
        if self._switching is not None:
            raise SpecError("auto tries several operators, a switch adds one: use natural")
        self._auto = Auto(factory.candidates(allow_bias=self._allow_bias))
        return self._auto.reducer

    def _reducers(self) -> Sequence[Reducer]:
        return list(self._auto.candidates.values()) if self._auto else super()._reducers()

    @property
    def _saved(self) -> Reducer:
        """With `auto` plain all-reduce: whoever resumes tries anew, on another machine perhaps."""
        return self._auto.candidates[NONE] if self._auto else super()._saved

    def _begin(self, comm: TorchComm) -> None:
        if self._auto is not None:
            self._auto.ranks = comm.size
        super()._begin(comm)

    def submit(self, bucket: GradBucket) -> "torch.futures.Future[torch.Tensor]":
        """Take a bucket; the future holds the mean over all ranks, in the bucket's own tensor."""
        job = buckets.job(bucket)
        assert job.future is not None
        self._enqueue(job)
        if job.is_last:
            # DDP waits for every bucket right after this one. Waiting here costs no overlap and
            # lets an error leave backward() with its own type: a future would make it RuntimeError.
            self._await(job)
        return job.future

    def _figures(self) -> dict[str, Any]:
        if self._auto is None:
            return super()._figures()
        decision = self._auto.decision
        trying = None if decision else self._auto.current
        return super()._figures() | {"decision": decision, "trying": trying}

    def _configuration(self) -> str:
        return self._described(AUTO, AUTO) if self._auto else super()._configuration()

    def _reduce(self, job: Job) -> None:
        if self._auto is not None and job.tensor.numel() > self._sample.numel():
            self._sample = job.tensor
        super()._reduce(job)
        if self._auto is not None and job.is_last and self._comm and self._comm.size > 1:
            self._choose(job, self._comm)

    def _choose(self, last: Job, comm: TorchComm) -> None:
        """Tell `auto` what the step took, and go on with the operator that it says."""
        assert self._auto is not None
        spent = self.progress.spent
        now, codec = time.perf_counter(), spent.codec_seconds
        sent = spent.payload_bytes + spent.header_bytes
        before, self._before = self._before, (now, codec, sent)
        figures = Figures(now - before[0], now - last.since, codec - before[1], sent - before[2])
        sample = self._sample[:CHUNK].detach().float().cpu().numpy()
        self._sample = torch.empty(0)
        self._auto.end_step(self.progress.step, figures, comm.largest, sample)
        if self._auto.reducer is not self._reducer:
            self._reducer = self._auto.reducer
            self.progress.promises = self._reducer.promises
