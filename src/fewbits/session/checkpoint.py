"""Saves a rank's part of a session, and lets all ranks resume from it together."""

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fewbits.errors import DisagreementError, SpecError
from fewbits.feedback.store import BASIS, MASTER, Store
from fewbits.presets import LOW_RANK
from fewbits.session import state
from fewbits.session.adapter import AdapterParts
from fewbits.session.agreement import RankAgreement
from fewbits.session.memories import MemoryShapes
from fewbits.session.routing import ModelParameter, Routing
from fewbits.session.state import RankState, SavedState, StateOrigin

_LOG = logging.getLogger(__name__)
OWN = "own/"
"""How names of arrays begin that an adapter saves beside the memories."""


class Checkpoint:
    """Saves and loads the memories of a session and its adapter's own arrays; see `Attached`."""

    def __init__(
        self,
        agreement: RankAgreement,
        adapter: AdapterParts,
        start: Callable[[], None],
        look: Callable[[], None],
    ) -> None:
        self._agreement, self._configuration = agreement, agreement.configuration
        self._chooser = agreement.configuration.chooser
        self._adapter, self._start, self._look = adapter, start, look

    def state_dict(self) -> SavedState:
        if self._configuration.options.across is not None:
            self._start()  # what a rank has to save depends on the nodes
        self._adapter.settle()
        self._look()
        feedback = self._chooser.saved.feedback
        memories = feedback.store.arrays() if feedback else {}
        own = {f"{OWN}{name}": array for name, array in self._adapter.arrays().items()}
        comm, step = self._agreement.comm, self._agreement.progress.step
        absent = self.shapes().needed(comm.rank, comm.size).keys() - memories.keys()
        return state.pack(self.origin(), step, memories | own, absent)

    def load_state_dict(
        self, saved: SavedState | Sequence[SavedState], *, reshard: bool = False
    ) -> None:
        self._go_on(lambda: self._loaded(saved, reshard))

    def save(self, folder: str | Path) -> None:
        state.write(folder, self.state_dict())
        _LOG.info("step %d is saved in %s", self._agreement.progress.step, folder)

    def load(self, folder: str | Path, *, reshard: bool = False) -> None:
        self._go_on(lambda: self._loaded(state.read(folder, self.origin(), reshard), reshard))

    def take(self, find: Callable[[], tuple[int, SavedState]]) -> None:
        """Go on from the step and the memories that each rank finds, on all ranks or on none."""

        def found() -> tuple[int, tuple[SavedState, SavedState]]:
            step, memories = find()
            ranks = self._agreement.comm.size
            state.refuse_wrong(memories, self.shapes().possible(ranks), self.needed())
            return step, (memories, {})

        self._go_on(found)

    def needed(self) -> Iterable[str]:
        """The keys of all memories that this rank has once it has reduced the whole model."""
        comm = self._agreement.comm
        return self.shapes().needed(comm.rank, comm.size)

    def rescale(self, factor: float) -> None:
        if not isinstance(factor, int | float) or not 2.0**-126 <= factor <= 2.0**127:
            raise SpecError(f"memories are rescaled by a positive float32 number, got {factor!r}")
        if (feedback := self._chooser.reducer.feedback) is not None:
            feedback.store.scale(factor)

    def origin(self, version: int = state.VERSIONS[-1]) -> StateOrigin:
        """The rank and the run that save or load a state, in the words of a version."""
        routing, text = self._chooser.saved.routing, self._configuration.of_state(version)
        trained = routing.model.trained()
        rank, ranks = self._adapter.place(self._agreement.comm)
        return StateOrigin(
            rank=rank,
            ranks=ranks,
            feedback=routing.feedback.spec if routing.feedback else None,
            model=state.digest(f"{each.name} {each.shape}" for each in trained),
            plan=state.digest([text, *(f"{each.name} {_ways(routing, each)}" for each in trained)]),
            configuration=text,
        )

    def _go_on(self, find: Callable[[], tuple[int, tuple[SavedState, SavedState]]]) -> None:
        """Resume from the states that all ranks find, at the same step, on all ranks or on none."""
        self._adapter.settle()
        self._look()
        self._start()
        nodes = self._chooser.saved.routing.nodes
        step, (memories, own) = self._agreement.on_step(
            find,
            lambda found: self._common(found[0], range(2)) if nodes is None else 0,
        )
        if nodes is not None:  # ranks of other places have others
            across = nodes.across(self._agreement.comm.rank)
            self._agreement.on_common(self._common(memories, across), nodes)
        if (feedback := self._chooser.saved.feedback) is not None:
            feedback.store.load(memories)
        self._agreement.progress.step = step
        self._adapter.take(own)
        _LOG.info("the run goes on from step %d", step)

    def _loaded(
        self, saved: SavedState | Sequence[SavedState], reshard: bool
    ) -> tuple[int, tuple[SavedState, SavedState]]:
        """The step; this rank's memories and the adapter's own arrays."""
        if reshard and self._adapter.no_reshard is not None:
            raise SpecError(self._adapter.no_reshard)
        if reshard and self._chooser.saved.routing.nodes is not None:
            raise SpecError(state.NO_RESHARD_OF_NODES)
        step, states = state.unpack(saved, self.origin, reshard)
        memories, own = zip(*(_divided(each.arrays) for each in states), strict=True)
        self._adapter.check(own, reshard)
        for each, its in zip(states, memories, strict=True):
            self._check(each, its, reshard)
        feedback = self._chooser.saved.feedback
        if feedback is None:
            return step, ({}, own[0])
        ranks = self._agreement.comm.size
        mine = feedback.method.shared_out(memories, ranks) if reshard else memories[0]
        feedback.store.check(mine)
        return step, (mine, own[0])

    def _common(self, memories: SavedState, alike: Sequence[int]) -> int:
        """A checksum of memories that the ranks `alike` must have alike, or means would part."""
        ranks, shapes = self._agreement.comm.size, self.shapes()
        if min(ranks, len(alike)) == 1:
            return 0
        first, second = (shapes.needed(rank, ranks).keys() for rank in alike[:2])
        return state.checksum(
            {
                key: memories[key]
                for key in first & second & memories.keys()
                if key.startswith((f"{MASTER}/", f"{BASIS}/"))
            }
        )

    def _check(self, saved: RankState, memories: SavedState, reshard: bool) -> None:
        """Refuse memories that are wrong, useless here, or not all that the rank had."""
        try:
            self._compare(saved, memories, reshard)
        except DisagreementError as error:
            own = self._chooser.saved.routing.low_rank
            there = re.search(rf"uplink=({LOW_RANK}\S*)", saved.configuration)
            if own is None or there is None or there[1] == own.spec:
                raise
            raise DisagreementError(
                f"the state is of {there[1]}, this run of {own}: go on with {there[1]!r} ({error})"
            ) from error

    def _compare(self, saved: RankState, memories: SavedState, reshard: bool) -> None:
        routing, comm, shapes = self._chooser.saved.routing, self._agreement.comm, self.shapes()
        if routing.feedback is None and memories:
            raise DisagreementError("the state has memories, and this run has no feedback")
        if routing.feedback is not None and not routing.feedback.has_momentum:
            state.refuse_useless(memories, routing.exact_names())
        # Shards of FSDP's replicas are numbered within their group, and states among all ranks.
        place = (saved.rank, saved.ranks) if reshard else (comm.rank, comm.size)
        needed = set(shapes.needed(*place)) if saved.is_alike else set()
        if saved.absent is not None:
            needed -= saved.absent
        else:  # version 1 does not tell which tensors were never reduced
            there = set(map(state.parameter_of, memories))
            needed = {key for key in needed if state.parameter_of(key) in there}
        state.refuse_wrong(memories, shapes.possible(place[1]), needed)

    @property
    def memories(self) -> Store | None:
        """The memories of this rank, if there is feedback."""
        feedback = self._chooser.saved.feedback
        return None if feedback is None else feedback.store

    def shapes(self) -> MemoryShapes:
        """What the ranks of a group of any size remember."""
        routing, options = self._chooser.saved.routing, self._configuration.options
        return MemoryShapes(routing, options.collective, self._adapter.units)


def _ways(routing: Routing, parameter: ModelParameter) -> object:
    """What a state's digest says of a parameter."""
    if routing.is_factored(parameter):
        return routing.told(parameter)
    return routing.operators(parameter)


def _divided(arrays: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Memories, and the adapter's own arrays by its names."""
    own = {key.removeprefix(OWN): arrays[key] for key in arrays if key.startswith(OWN)}
    return {key: arrays[key] for key in arrays if not key.startswith(OWN)}, own
