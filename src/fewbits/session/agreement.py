"""Checks that all ranks agree on a configuration, a state or a common action."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar

from fewbits.collectives import header
from fewbits.collectives.header import Phase, RankHeader
from fewbits.collectives.progress import RankProgress
from fewbits.collectives.reduction import agree
from fewbits.session.adapter import SessionComm
from fewbits.session.choosing import Chooser
from fewbits.session.options import Options
from fewbits.switch.job import Switching

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class RankAgreement:
    """Asks the other ranks of a session; `adapter` is the adapter's part of the configuration."""

    comm: SessionComm
    progress: RankProgress
    chooser: Chooser
    options: Options
    switching: Switching | None
    adapter: str

    def configuration(self) -> str:
        """The configuration as text. Headers and states hold its hash, so its words stay."""
        uplink, downlink = self.chooser.agreed
        routing, options = self.chooser.saved.routing, self.options
        given = "\n".join(parameter.name for parameter in routing.model.given)
        return (
            f"{self.adapter}worker={uplink} master={downlink} scheme={options.collective} "
            f"feedback={routing.feedback} {self.switching or ''}"
            f"seed={options.seed} nonfinite={options.nonfinite} "
            f"names={blake2b(given.encode(), digest_size=4).hexdigest()}"
        )

    def on_configuration(self) -> None:
        """Raise unless all ranks have the same configuration."""
        text = self.configuration()
        own = RankHeader(Phase.CONFIGURE, self.progress.step, 0, _digest(text), text=text)
        header.exchange(self.comm, [own] * self.comm.size)

    def on_deed(self, text: str) -> None:
        """Raise unless all ranks are about to do the same."""
        progress = self.progress
        own = RankHeader(Phase.GATHER, progress.step, progress.sequence, _digest(text), text=text)
        with progress.spent.wire():
            agree(self.comm, own, progress)

    def on_step(self, find: Callable[[], tuple[int, Found]]) -> tuple[int, Found]:
        """Find a state on every rank, of the same step; raises on all ranks or on none."""
        comm, progress = self.comm, self.progress
        step, found = progress.step, None
        try:
            step, found = find()
        except Exception as error:
            progress.fault = error
        own = RankHeader(Phase.CONFIGURE, step, 0, 0, text=f"step {step}")
        try:
            if comm.size > 1:
                agree(comm, own, progress)
            elif progress.fault is not None:
                raise progress.fault
        finally:
            progress.fault = None
        assert found is not None
        return step, found


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
