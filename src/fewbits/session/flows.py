"""How values travel: through the host, or as a stream where they lie.

A rank whose values are on a device wants a stream, and so does one whose user has named a device.
If any rank wants one, all take it. What a stream cannot do is refused before the first step.
"""

from collections.abc import Iterator, Sequence

from fewbits import backend
from fewbits.backend.buffers import CPU
from fewbits.collectives.aligned import refused
from fewbits.collectives.units import total_format
from fewbits.core.operator import Operator
from fewbits.errors import DisagreementError, SpecError
from fewbits.feedback import DGC
from fewbits.presets import AUTO
from fewbits.reference.formats import BY_NAME, FLOAT32, Format
from fewbits.session.adapter import AdapterParts, SessionComm
from fewbits.session.choosing import Chooser
from fewbits.session.options import REDUCE_SCATTER, Options
from fewbits.session.routing import Routing

_STAGED = "pass staged=True to go through the host"


class Flow:
    """The way that this rank's values want to travel."""

    def __init__(self, comm: SessionComm, options: Options, adapter: AdapterParts) -> None:
        self._comm, self._options, self._adapter = comm, options, adapter

    @property
    def device(self) -> str:
        """Whose backend works on this rank's values in a stream."""
        return self._options.device or self._adapter.device or CPU

    def wanted(self, routing: Routing) -> str:
        """A word for all ranks if this one wants a stream, else nothing; refuses what cannot be."""
        options, lies = self._options, self._adapter.device
        if lies is not None and options.device is not None:
            there = CPU if options.device == "interpreted" else options.device
            if there.partition(":")[0] != lies.partition(":")[0]:
                raise SpecError(f"device={options.device!r}, but the model is on {lies!r}")
        if options.staged or (options.device is None and lies in (None, CPU)):
            return ""
        if routing.low_rank is not None:
            raise SpecError(f"{routing.low_rank} works on the host: {_STAGED}")
        if isinstance(routing.feedback, DGC):
            raise SpecError(f"feedback {routing.feedback} works on the host: {_STAGED}")
        for operator, count, format in _used(routing, self._adapter.formats):
            why = backend.refusal(self.device, operator.kernel(count, format), format)
            if why is not None:
                raise SpecError(f"{operator} on {self.device}: {why}")
        return self._word(self.device)

    def is_stream(self, wanted: Sequence[str], chooser: Chooser) -> bool:
        """Whether all ranks take a stream, from what each of them wants."""
        alone = len(wanted) == 1 and self._options.collective != REDUCE_SCATTER
        if alone or not any(wanted):
            return False
        ways = {word or self._word(CPU) for word in wanted}
        if len(ways) > 1:
            where = "; ".join(f"rank {rank}:{word or ' CPU'}" for rank, word in enumerate(wanted))
            raise DisagreementError(f"ranks have values on different devices, {where}: {_STAGED}")
        self._refuse(chooser)
        return True

    def _word(self, device: str) -> str:
        return f" aligned over {self._comm.box_backend(device)}"

    def _refuse(self, chooser: Chooser) -> None:
        """Refuse what no stream can do, on all ranks alike."""
        if chooser.agreed[0] == AUTO:
            raise SpecError(f"'auto' tries operators that no device has: name one, or {_STAGED}")
        if self._options.collective not in ("sharded", REDUCE_SCATTER):
            raise SpecError(
                f"collective {self._options.collective!r} goes through the host: use 'sharded', or "
                f"{_STAGED}"
            )
        if self._options.across is not None:
            raise SpecError(f"across= sums inside a node on the host: {_STAGED}")
        for operator, count, format in _used(chooser.saved.routing, self._adapter.formats):
            if any(section.varies for section in operator.layout(count, format)):
                raise SpecError(refused(str(operator)))


def _used(routing: Routing, names: Sequence[str]) -> Iterator[tuple[Operator, int, Format]]:
    """The operators of a routing, each with a number and a format of values that it will get."""
    wide = routing.feedback is not None
    found = {BY_NAME[name] for name in names} or {FLOAT32}
    trained = routing.model.trained()
    pairs = {(*routing.operators(each), min(each.size, routing.unit)) for each in trained}
    for uplink, downlink, count in pairs or {(routing.uplink, routing.downlink, routing.unit)}:
        for format in sorted(found, key=lambda each: each.code):
            if count:
                yield uplink, count, total_format(format) if wide else format
                yield downlink, count, total_format(format)
