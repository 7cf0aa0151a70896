"""Rounds of local steps, and the outer step on the mean of what all ranks have changed."""

from collections.abc import Callable, Container, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from fewbits.core.operator import Operator
from fewbits.errors import DisagreementError, SpecError
from fewbits.exchange import defaults
from fewbits.exchange.auto import AUTO
from fewbits.exchange.exchange import OWN, Exchange, Loaded
from fewbits.exchange.jobs import Job
from fewbits.exchange.options import Options
from fewbits.exchange.state import State
from fewbits.exchange.switching import SWITCH
from fewbits.feedback import Feedback
from fewbits.feedback import feedback as named_feedback
from fewbits.localsgd import vectors
from fewbits.localsgd.report import LocalReport
from fewbits.localsgd.rounds import Rounds
from fewbits.outer import Outer
from fewbits.outer import outer as named_outer
from fewbits.policy import Exact, Policy
from fewbits.schemes.comm import exchange
from fewbits.schemes.reduction import NonFinite

STATISTICS = ("*running_mean", "*running_var")
"""Buffers of normalisation layers."""


class LocalSGD(Exchange):
    """Rounds of `local_steps` steps between exchanges; see `attach` for the arguments.

    `skipped` says whether the last round to be exchanged was thrown away (`nonfinite="skip"`).
    """

    def __init__(
        self,
        model: nn.Module,
        worker: str | Operator,
        master: str | Operator | None = None,
        *,
        local_steps: int,
        outer: str | Outer = "sgd",
        overlap: bool = False,
        average_buffers: Sequence[str] = STATISTICS,
        feedback: str | Feedback | None = None,
        scheme: str = "sharded",
        policy: Policy | Mapping[str, str | Operator] | None = None,
        nonfinite: NonFinite = "propagate",
        seed: int = 0,
        timeout: float = 60.0,
        threads: int = 1,
        process_group: Any = None,
    ) -> None:
        _check(model, worker, local_steps, feedback)
        if scheme == SWITCH:
            raise SpecError("scheme 'switch' sums gradients of every step: it is for fewbits.ddp")
        self.local_steps, self.outer, self.overlap = local_steps, named_outer(outer), bool(overlap)
        named = vectors.trained(model)
        buffers = vectors.averaged_buffers(model, average_buffers)
        self._buffers = {name: tuple(own.shape) for name, own in buffers}
        self._rounds = [
            Rounds(each, momentum=self.outer.has_momentum, overlap=self.overlap)
            for each in vectors.of(model, named, buffers)
        ]
        self._taken = self._in_round = 0
        self._under_way: list[Job] = []
        self._pending = False  # a mean is under way, or there and not used yet
        self._sick = False  # that mean is to be thrown away
        rules = _exact_buffers(defaults.policy(policy), self._buffers)
        super().__init__(
            worker,
            master,
            feedback,
            Options(scheme, rules, nonfinite, seed, timeout, threads),
            names=[*named, *buffers],
            process_group=process_group,
        )

    def share_start(self) -> None:
        """Give all ranks the parameters and averaged buffers of rank 0, from which rounds begin."""
        comm = self._comm
        assert comm is not None
        for own in self._rounds:
            content = own.start.numpy().view(np.uint8)
            to_all = [content if comm.rank == 0 else None] * comm.size
            from_first = [content if comm.rank and not rank else None for rank in range(comm.size)]
            if comm.size > 1:
                exchange(comm, (to_all, from_first))
            own.restart()

    def step(self) -> bool:
        """Count a local step; the last one of a round exchanges. Whether it did.

        To be called on every rank after each step of its optimizer.
        """
        self._taken += 1
        self._in_round += 1
        if self._in_round < self.local_steps:
            return False
        if self.overlap:
            self._end_round_later()
        else:
            self.sync()
        return True

    def sync(self) -> None:
        """End the round now, however many steps it had, and wait: all ranks are equal then.

        Every rank must call this after as many steps. Without any since the last exchange there is
        nothing to do.
        """
        if not self._in_round and not self._pending:
            return
        if self._receive() == "thrown away":
            self._in_round = 0  # what came after a round that is thrown away goes with it
        if self._in_round:
            self._send()
            self._receive()
        for own in self._rounds:
            own.restart()

    def close(self) -> None:
        """End the background thread and give the process group back; every rank must call this.

        With `overlap`, call `sync()` before: a round that is under way is lost otherwise.
        """
        if self._pipeline is not None and self._pipeline.failure is not None:
            # The round was not exchanged: the next `sync()` must not take ranks for equal.
            self._in_round = max(self._in_round, int(self._pending))
            self._pending = False
        super().close()
        self._under_way = []

    def _end_round_later(self) -> None:
        """Take the last round's mean, send this round's and go on from where this rank is."""
        arrived = self._receive()
        if arrived == "thrown away":
            self._in_round = 0
            for own in self._rounds:
                own.restart()
            return
        self._send(go_on=True, buffers=arrived == "taken")

    def _send(self, *, go_on: bool = False, buffers: bool = False) -> None:
        """Begin to exchange this round's changes, and `go_on` meanwhile."""
        self.start()
        for own in self._rounds:
            own.change()
            if go_on:
                own.go_on(buffers=buffers)
        self._in_round = 0
        # In headers and random streams: ranks that have taken another number of steps disagree.
        self.progress.step = self._taken
        self._pending = True
        for index, own in enumerate(self._rounds):
            parameters = [entry.tensor for entry in own.vector.entries]
            is_last = index == len(self._rounds) - 1
            job = Job(index, own.changed, parameters, is_last, witnesses=[own.start])
            self._under_way.append(job)
            self._enqueue(job)

    def _end_step(self) -> None:
        """In the background thread: the caller's `skipped` changes only when it waits."""
        told = self.skipped
        super()._end_step()
        self._sick, self.skipped = self.skipped, told

    def _settle(self) -> None:
        """Wait until nothing is under way."""
        jobs, self._under_way = self._under_way, []
        for job in jobs:
            self._await(job)

    def _receive(self) -> Literal["nothing", "taken", "thrown away"]:
        """Wait for the mean that is under way, if one is, and take the outer step."""
        self._settle()
        self.skipped = self._pending and self._sick
        if not self._pending:
            return "nothing"
        self._pending = False
        if self.skipped:
            return "thrown away"
        for own in self._rounds:
            own.apply(self.outer)
        return "taken"

    def report(self) -> LocalReport:
        """What was sent and what it cost, on this rank, since the start."""
        return LocalReport(
            **self._figures(),
            local_steps=self.local_steps,
            taken=self._taken,
            outer=self.outer.spec,
            overlap=self.overlap,
        )

    def state_dict(self) -> State:
        """The round and what belongs to it, as plain arrays: every rank must save its own.

        Beside it, every rank must save its own model and optimizer. Waits for what is under way.
        """
        self._settle()
        return super().state_dict()

    def _own_arrays(self) -> State:
        counts = [self._taken, self._in_round, self._pending, self._sick]
        found: dict[str, Any] = {f"{OWN}round": np.array(counts, np.int64)}
        for own in self._rounds:
            kept = own.arrays(pending=self._pending)
            found |= {f"{OWN}{name}": array for name, array in kept.items()}
        return found

    def _check_own(self, states: Sequence[State], reshard: bool) -> None:
        for saved in states:
            counts = saved.get(f"{OWN}round")
            if counts is None or counts.shape != (4,) or counts.dtype != np.int64:
                raise DisagreementError("this is no state of fewbits.localsgd")
            _, in_round, pending, _ = counts.tolist()
            if reshard and (in_round or pending):
                raise DisagreementError(
                    "the state was saved in the middle of a round, which belongs to its rank: call "
                    "sync() before saving if the number of ranks is to change"
                )
            for own in self._rounds:
                own.check(_named(saved), pending=bool(pending))

    def _take(self, own: State) -> None:
        self._taken, self._in_round, pending, sick = own[f"{OWN}round"].tolist()
        self._pending, self._sick = bool(pending), bool(sick)
        for each in self._rounds:
            each.load(_named(own), pending=self._pending)
            if not self._in_round and not self._pending:  # then all ranks have the common ones
                each.restart()

    def _together(self, find: Callable[[], Loaded]) -> None:
        self._settle()
        super()._together(find)

    def _configuration(self) -> str:
        shapes = [f"{name} {shape}" for name, shape in self.planner.model().items()]
        shapes += [f"{name} {shape}" for name, shape in self._buffers.items()]
        shapes += [f"{own.vector.name} {own.vector.count}" for own in self._rounds]
        model = blake2b("\n".join(shapes).encode(), digest_size=4).hexdigest()
        overlap = " overlap" if self.overlap else ""
        return (
            f"local-steps={self.local_steps} outer={self.outer}{overlap} model={model} "
            f"{super()._configuration()}"
        )


def _named(own: State) -> State:
    """Arrays by the names that `Rounds` knows."""
    return {key.removeprefix(OWN): array for key, array in own.items()}


def _check(
    model: nn.Module, worker: str | Operator, local_steps: int, feedback: str | Feedback | None
) -> None:
    if isinstance(model, DistributedDataParallel):
        raise SpecError(
            "attach takes a model that is not wrapped in DistributedDataParallel, which exchanges "
            "gradients in every step"
        )
    if not isinstance(model, nn.Module):
        raise SpecError(f"attach takes a torch module, got {type(model).__name__}")
    if not isinstance(local_steps, int) or local_steps < 1:
        raise SpecError(f"local_steps must be a positive whole number, got {local_steps!r}")
    if worker == AUTO:
        raise SpecError("'auto' times every step and is for fewbits.ddp: name an operator")
    if feedback is not None and named_feedback(feedback).has_momentum:
        raise SpecError(
            f"feedback {feedback} has momentum, which is the outer step's: outer='nesterov'"
        )


def _exact_buffers(policy: Policy, buffers: Container[str]) -> Policy:
    """The policy, but buffers go as they are."""

    def choose(name: str, shape: tuple[int, ...]) -> Operator | Exact | str | None:
        return Exact("averaged buffers") if name in buffers else policy(name, shape)

    return choose
