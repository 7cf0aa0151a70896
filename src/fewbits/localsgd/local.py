"""Rounds of local steps, and the outer step with the mean change of all ranks."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, Unpack
from weakref import WeakSet

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from fewbits.attached import Attached, uncompiled
from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.localsgd.elastic import Elastic, refuse_memories
from fewbits.localsgd.inside import island_of, peers_of
from fewbits.localsgd.options import LocalOptions, RoundOptions
from fewbits.localsgd.outer import outer as named_outer
from fewbits.localsgd.parts import adapter_parts
from fewbits.localsgd.preparing import prepared
from fewbits.localsgd.report import LocalReport
from fewbits.presets import AUTO
from fewbits.session import (
    Job,
    Session,
    SessionComm,
    route,
    takes,
)
from fewbits.transport.side_stream import event
from fewbits.transport.store_comm import StoreComm
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
        model, chosen = uncompiled(model), LocalOptions.of(options)
        _check(model, uplink)
        chosen = replace(chosen, process_group=peers_of(chosen.process_group))
        self._inside = island_of(model, chosen.process_group, chosen.timeout)
        if isinstance(model, DistributedDataParallel):
            model = uncompiled(model.module)
            _check(model, uplink)
        self._model = model
        self.local_steps, self.overlap = chosen.local_steps, bool(chosen.overlap)
        self.outer, self.skipped = named_outer(chosen.outer), False
        self._under_way: list[Job] = []
        self._elastic: Elastic | None = None
        routes = partial(route, uplink, downlink)
        made = prepared(model, chosen, self._inside, self.outer, routes)
        self._standing, self._device, routing, chosen = made[:4]
        if chosen.islands is not None and comm is None:
            comm = StoreComm(chosen.islands.store, chosen.timeout)
            self._elastic = Elastic(chosen.islands, comm, self._standing)
            refuse_memories(routing.feedback)
        self.session = Session(
            comm or TorchComm(chosen.process_group, chosen.timeout),
            routing,
            chosen,
            adapter_parts(
                self._standing,
                made.given,
                f"local-steps={self.local_steps} outer={self.outer}"
                f"{' overlap' if self.overlap else ''}",
                self._device,
                self._inside,
                comes_and_goes=self._elastic is not None,
                settle=self._settle,
            ),
        )
        if self._elastic is not None:
            self._elastic.session = self.session

    def start(self) -> None:
        """Meet the other ranks, or islands, and check that all run the same.

        Every rank must call this; `attach` does.
        """
        if self._elastic is None:
            self.session.start()
            if self._inside is not None and self._model not in _IN_ROUNDS:
                self._inside.open()
        elif self._model not in _IN_ROUNDS:
            self._elastic.begin()

    @property
    def taken(self) -> int:
        """How many local steps a rank has taken, also those before an island came to the others."""
        return self._standing.taken

    @property
    def members(self) -> tuple[int, ...]:
        """The islands that train now, by the numbers that they got when they came."""
        return () if self._elastic is None else self._elastic.members

    def share_start(self) -> None:
        """Give all ranks the parameters and averaged buffers of rank 0, from which rounds begin."""
        if self._elastic is None:
            for own in self._standing.rounds:
                own.share(self.session.comm)
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
        if self._elastic is not None:
            self._elastic.exchange(self._sent, self._taken_over)
            return
        if self._receive() == "thrown away":
            standing.in_round = 0  # what came after a round that is thrown away goes with it
            standing.restart()
        if standing.in_round or not (self.overlap or standing.is_even):
            self._send()
            self._receive()
        standing.restart()

    def _sent(self) -> None:
        """Send this island's changes, and wait until their mean has arrived."""
        self._send()
        self._settle()

    def _taken_over(self) -> None:
        """Take the outer step; all islands are equal then."""
        self._receive()
        self._standing.in_round = 0
        self._standing.restart()

    def close(self) -> None:
        """End the background thread and give the process group back; every rank must call this.

        With `overlap`, call `sync()` before; otherwise a round that is under way is lost.
        """
        if self.session.failure is not None:
            # The round was not exchanged: the next `sync()` must not take ranks for equal.
            standing = self._standing
            standing.in_round = max(standing.in_round, int(standing.pending))
            standing.pending, standing.even = False, 0
        if self._elastic is not None:
            self._elastic.leave()
        self.session.close()
        if self._inside is not None:
            self._inside.close()
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
        for part in standing.by_place(fragment):
            for _, own, place in part:
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
        if jobs and self._inside is not None:
            self._inside.agree(lambda: self._wait(jobs), self._standing)
        else:
            self._wait(jobs)

    def _wait(self, jobs: Sequence[Job]) -> None:
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
        if self._inside is not None:
            told = standing.by_place(standing.fragment)
            self._inside.gather([[own.start[place] for _, own, place in part] for part in told])
        return "taken"


def _check(model: nn.Module, uplink: str | Operator) -> None:
    if not isinstance(model, nn.Module):
        raise SpecError(f"attach takes a torch module, got {type(model).__name__}")
    if model in _IN_ROUNDS:
        raise SpecError("the model has rounds already: close() them first")
    if uplink == AUTO:
        raise SpecError("'auto' times every step and is for fewbits.ddp: name an operator")
