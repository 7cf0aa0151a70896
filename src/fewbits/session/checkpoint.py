"""Saves a rank's part of a session, and lets all ranks resume from it together."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fewbits.errors import SpecError
from fewbits.session import state
from fewbits.session.adapter import AdapterParts
from fewbits.session.agreement import RankAgreement
from fewbits.session.state import SavedState, StateOrigin

OWN = "own/"
"""How names of arrays begin that an adapter saves beside the memories."""


class Checkpoint:
    """Saves and loads the memories of a session and its adapter's own arrays; see `Attached`."""

    def __init__(
        self, agreement: RankAgreement, adapter: AdapterParts, start: Callable[[], None]
    ) -> None:
        self._agreement, self._chooser = agreement, agreement.chooser
        self._adapter, self._start = adapter, start

    def state_dict(self) -> SavedState:
        self._adapter.settle()
        feedback = self._chooser.saved.feedback
        memories = feedback.store.arrays() if feedback else {}
        own = {f"{OWN}{name}": array for name, array in self._adapter.arrays().items()}
        return state.pack(self.origin(), self._agreement.progress.step, memories | own)

    def load_state_dict(
        self, saved: SavedState | Sequence[SavedState], *, reshard: bool = False
    ) -> None:
        self._go_on(lambda: saved, reshard)

    def save(self, folder: str | Path) -> None:
        state.write(folder, self.state_dict())

    def load(self, folder: str | Path, *, reshard: bool = False) -> None:
        self._go_on(lambda: state.read(folder, self.origin(), reshard), reshard)

    def rescale(self, factor: float) -> None:
        if not isinstance(factor, int | float) or not 2.0**-126 <= factor <= 2.0**127:
            raise SpecError(f"memories are rescaled by a positive float32 number, got {factor!r}")
        if (feedback := self._chooser.reducer.feedback) is not None:
            feedback.store.scale(factor)

    def origin(self) -> StateOrigin:
        """The rank and the run that save or load a state."""
        routing, text = self._chooser.saved.routing, self._agreement.configuration()
        trained = routing.model.trained()
        rank, ranks = self._adapter.place(self._agreement.comm)
        return StateOrigin(
            rank=rank,
            ranks=ranks,
            feedback=routing.feedback.spec if routing.feedback else None,
            model=state.digest(f"{each.name} {each.shape}" for each in trained),
            plan=state.digest([text, *(f"{p.name} {routing.operators(p)}" for p in trained)]),
            configuration=text,
        )

    def _go_on(self, find: Callable[[], SavedState | Sequence[SavedState]], reshard: bool) -> None:
        """Resume from the states that all ranks find, at the same step, on all ranks or on none."""
        self._adapter.settle()
        self._start()
        step, (memories, own) = self._agreement.on_step(lambda: self._loaded(find(), reshard))
        if (feedback := self._chooser.saved.feedback) is not None:
            feedback.store.load(memories)
        self._agreement.progress.step = step
        self._adapter.take(own)

    def _loaded(
        self, saved: SavedState | Sequence[SavedState], reshard: bool
    ) -> tuple[int, tuple[SavedState, SavedState]]:
        """The step; this rank's memories and the adapter's own arrays."""
        if reshard and self._adapter.no_reshard is not None:
            raise SpecError(self._adapter.no_reshard)
        origin = self.origin()
        step, states = state.unpack(saved, origin, reshard)
        memories, own = zip(*(_divided(arrays) for arrays in states), strict=True)
        self._adapter.check(own, reshard)
        feedback = self._chooser.saved.feedback
        if feedback is None:
            return step, ({}, own[0])
        mine = feedback.method.shared_out(memories, origin.ranks) if reshard else memories[0]
        feedback.store.check(mine)
        state.refuse_useless(mine, self._chooser.saved.routing.exact_names())
        return step, (mine, own[0])


def _divided(arrays: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Memories, and the adapter's own arrays by its names."""
    own = {key.removeprefix(OWN): arrays[key] for key in arrays if key.startswith(OWN)}
    return {key: arrays[key] for key in arrays if not key.startswith(OWN)}, own
