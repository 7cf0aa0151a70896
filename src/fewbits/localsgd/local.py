"""Rounds of local steps, and the outer step with the mean change of all ranks."""

from collections.abc import Container, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, Unpack
from weakref import WeakSet

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from fewbits.attached import Attached, described, placed, ranges, uncompiled
from fewbits.backend.buffers import Buffer
from fewbits.collectives.comm import exchange
from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.localsgd import fragments, vectors
from fewbits.localsgd.options import LocalOptions, RoundOptions
from fewbits.localsgd.outer import outer as named_outer
from fewbits.localsgd.report import LocalReport
from fewbits.localsgd.rounds import Rounds
from fewbits.localsgd.standing import Schedule, Standing
from fewbits.policy import Exact, Policy, refuse_unmatched
from fewbits.presets import AUTO
from fewbits.session import (
    AdapterParts,
    Job,
    ModelParameter,
    ModelParameters,
    Session,
    SessionComm,
    resolved_policy,
    route,
    takes,
)
from fewbits.transport.side_stream import event
from fewbits.transport.tensors import TensorValues, add_witness, parameter_digest
from fewbits.transport.torch_comm import TorchComm

_IN_ROUNDS: WeakSet[nn.Module] = WeakSet()  # models whose rounds are not closed


class LocalSGD(Attached):
    """Rounds of `local_steps` steps between exchanges; see `attach` for the arguments.

    `skipped` says whether the last exchanged round was dropped (`nonfinite="skip"`). Beside its
    state, every rank must save its own model and optimizer. `comm` takes the place of torch's
    process group.
    """

    @takes(RoundOptions, LocalOptions)
    def __init__(
        self,
        model: nn.Module,
        uplink: str | Operator,
        downlink: str | Operator | None = None,
        *,
        comm: SessionComm | None = None,
        **options: Unpack[RoundOptions],
    ) -> None:
        model = uncompiled(model)
        _check(model, uplink)
        self._model = model
        chosen = LocalOptions.of(options)
        self.local_steps, self.overlap = chosen.local_steps, bool(chosen.overlap)
        self.outer, self.skipped = named_outer(chosen.outer), False
        named = vectors.trained(model)
        buffers = vectors.averaged_buffers(model, chosen.average_buffers)
        lies, _ = placed(own for _, own in named)
        self._device = "cpu" if lies is None or chosen.staged else lies
        self._under_way: list[Job] = []
        given = [described(name, own) for name, own in (*named, *buffers)]
        wanted, held = resolved_policy(chosen.policy), {name for name, _ in buffers}
        refuse_unmatched(wanted, [*dict(model.named_parameters()), *held])
        chosen = replace(chosen, policy=_exact_buffers(wanted, held))
        flat = vectors.of(model, named, buffers, self._device)
        routing, shares = fragments.routed(
            flat, route(uplink, downlink, chosen, ModelParameters(given)), chosen.fragments
        )
        rounds = [Rounds(v, momentum=self.outer.has_momentum, overlap=self.overlap) for v in flat]
        self._standing = Standing(rounds, _schedule(chosen), shares)
        self.session = Session(
            comm or TorchComm(chosen.process_group, chosen.timeout),
            routing,
            chosen,
            self._parts(given, [(each.name, each.shape) for each in given[len(named) :]]),
        )

    def _parts(
        self, given: Sequence[ModelParameter], buffers: Sequence[tuple[str, tuple[int, ...]]]
    ) -> AdapterParts:
        standing = self._standing
        shapes = [(each.name, each.shape) for each in given if each.is_trained]
        model = standing.shapes_digest([*shapes, *buffers])
        overlap = " overlap" if self.overlap else ""
        return AdapterParts(
            device=self._device,
            formats=[own.vector.name for own in standing.rounds],
            agreed={"vectors": model},
            first_words=f"local-steps={self.local_steps} outer={self.outer}{overlap} "
            f"model={model} ",
            arrays=standing.arrays,
            check=standing.check,
            take=standing.take,
            settle=self._settle,
            ranges=ranges,
        )

    def share_start(self) -> None:
        """Give all ranks the parameters and averaged buffers of rank 0, from which rounds begin."""
        comm = self.session.comm
        for own in self._standing.rounds:
            host = own.start.cpu()  # itself, if it lies there
            content = Buffer.of(host.numpy())
            to_all = [content if comm.rank == 0 else None] * comm.size
            from_first = [content if comm.rank and not rank else None for rank in range(comm.size)]
            if comm.size > 1:
                exchange(comm, (to_all, from_first))
                own.start.copy_(host)
            own.restart()
        _IN_ROUNDS.add(self._model)

    def step(self) -> bool:
        """Count a local step; the last one of a round exchanges. Returns whether it did.

        Every rank calls this after each step of its optimizer.
        """
        standing = self._standing
        standing.taken += 1
        standing.in_round += 1
        if standing.is_due:
            self._mix()
        fragment = standing.schedule.sent(standing.in_round)
        if fragment is None:
            return False
        if self.overlap:
            self._end_round_later()
        elif standing.schedule.is_plain:
            self.sync()
        else:
            self._send(fragment)
            if standing.is_due:
                self._mix()
        return True

    def sync(self) -> None:
        """End the round now and wait for the exchange; then all ranks are equal.

        Every rank must call this after the same number of steps. Without a step since the last
        exchange it does nothing.
        """
        standing = self._standing
        if standing.is_even:
            return
        if self._receive() == "thrown away":
            standing.in_round = 0  # what came after a round that is thrown away goes with it
            standing.restart()
        if standing.in_round or not (self.overlap or standing.is_even):
            self._send()
            self._receive()
        standing.restart()

    def close(self) -> None:
        """End the background thread and give the process group back; every rank must call this.

        With `overlap`, call `sync()` before; otherwise a round that is under way is lost.
        """
        if self.session.failure is not None:
            # The round was not exchanged: the next `sync()` must not take ranks for equal.
            standing = self._standing
            standing.in_round = max(standing.in_round, int(standing.pending))
            standing.pending, standing.even = False, 0
        self.session.close()
        self._under_way = []
        _IN_ROUNDS.discard(self._model)

    def report(self) -> LocalReport:
        """Bytes, seconds and counts of this rank since the start."""
        return LocalReport(
            **self.session.figures(),
            local_steps=self.local_steps,
            taken=self._standing.taken,
            outer=self.outer.spec,
            overlap=self.overlap,
            fragments=self._standing.schedule.fragments,
            delay=self._standing.schedule.delay,
            model_bytes=sum(own.changed.nbytes for own in self._standing.rounds),
        )

    def _mix(self) -> None:
        """Take the outer step of the fragment under way, and mix it into this rank's own values."""
        standing = self._standing
        fragment = standing.fragment
        if self._receive() == "thrown away":
            standing.restart()
            return
        for _, own, place in standing.parts(fragment):
            own.mix(place, standing.schedule.blend)

    def _end_round_later(self) -> None:
        """Apply the last round's mean, send this round's change and continue with local steps."""
        arrived = self._receive()
        if arrived == "thrown away":
            self._standing.in_round = 0
            self._standing.restart()
            return
        self._send(go_on=True, buffers=arrived == "taken")

    def _send(self, fragment: int = -1, *, go_on: bool = False, buffers: bool = False) -> None:
        """Begin to exchange the changes of a fragment, or of all, and call `go_on` meanwhile."""
        self.session.start()
        standing = self._standing
        parts = standing.parts(fragment)
        for _, own, place in parts:
            own.change(place)
            if go_on:
                own.go_on(buffers=buffers)
        if fragment in (-1, standing.schedule.fragments - 1):
            standing.in_round = 0
        standing.fragment, standing.sent = fragment, standing.taken
        # In headers and random streams: ranks that have taken another number of steps disagree.
        self.session.progress.step = standing.taken
        standing.pending = True
        for index, own, place in parts:
            changed, common = own.changed[place], [own.start[place]]
            job = Job(
                index,
                TensorValues(changed, None if self._device == "cpu" else event()),
                own.vector.parameters(place),
                is_last=index == parts[-1][0],
                digest=partial(parameter_digest, changed, common),
                witness=partial(add_witness, changed, common),
            )
            self._under_way.append(job)
            self.session.submit(job)

    def _settle(self) -> None:
        jobs, self._under_way = self._under_way, []
        for job in jobs:
            self.session.wait(job)
        with self.session.comm.joined():
            pass  # from here on the program's stream has the means
        if jobs:
            if self.session.options.nonfinite != "propagate":
                self.session.look()  # what becomes of the round depends on it
            self._standing.sick = self.session.accounting.skipped

    def _receive(self) -> Literal["nothing", "taken", "thrown away"]:
        """Wait for the mean that is under way, if one is, and take the outer step."""
        self._settle()
        standing = self._standing
        self.skipped = standing.pending and standing.sick
        if not standing.pending:
            return "nothing"
        standing.pending = False
        if self.skipped:
            return "thrown away"
        for _, own, place in standing.parts(standing.fragment):
            own.apply(self.outer, place)
        return "taken"


def _check(model: nn.Module, uplink: str | Operator) -> None:
    if isinstance(model, DistributedDataParallel):
        raise SpecError(
            "attach takes a model that is not wrapped in DistributedDataParallel, which exchanges "
            "gradients in every step"
        )
    if not isinstance(model, nn.Module):
        raise SpecError(f"attach takes a torch module, got {type(model).__name__}")
    if model in _IN_ROUNDS:
        raise SpecError("the model has rounds already: close() them first")
    if uplink == AUTO:
        raise SpecError("'auto' times every step and is for fewbits.ddp: name an operator")


def _schedule(options: LocalOptions) -> Schedule:
    return Schedule(options.local_steps, options.fragments, options.delay, float(options.blend))


def _exact_buffers(policy: Policy, buffers: Container[str]) -> Policy:
    """The policy, with buffers sent exactly."""

    def choose(name: str, shape: tuple[int, ...]) -> Operator | Exact | str | None:
        return Exact("averaged buffers") if name in buffers else policy(name, shape)

    return choose
