"""The arrays of one precision that a rank keeps from round to round."""

import numpy as np
import torch
from torch import Tensor

from fewbits.backend.buffers import Buffer
from fewbits.collectives.comm import Comm, exchange
from fewbits.errors import DisagreementError
from fewbits.localsgd.outer import Outer
from fewbits.localsgd.vectors import FlatTensors
from fewbits.session import SavedState


class Rounds:
    """The common parameters, and this rank's own.

    `start` holds the common parameters and averaged buffers, the same on all ranks. `changed` holds
    what this rank sends, and then the mean of all. `origin` holds the parameters with which this
    rank began the round; without overlap those are the common ones.
    """

    def __init__(self, vector: FlatTensors, *, momentum: bool, overlap: bool) -> None:
        self.vector = vector
        self.start, self.changed = vector.empty(), vector.empty()
        self.momentum = vector.empty(vector.trained) if momentum else None
        vector.read(self.start)
        common = self.start[: vector.trained]
        self.origin = common.clone() if overlap else common
        self._overlap = overlap

    def common(self) -> list[Tensor]:
        """What is the same on all ranks."""
        return [self.start] if self.momentum is None else [self.start, self.momentum]

    def share(self, comm: Comm) -> None:
        """Begin with what rank 0 has."""
        host = self.start.cpu()  # itself, if it lies there
        content = Buffer.of(host.numpy())
        to_all = [content if comm.rank == 0 else None] * comm.size
        from_first = [content if comm.rank and not rank else None for rank in range(comm.size)]
        if comm.size > 1:
            exchange(comm, (to_all, from_first))
            self.start.copy_(host)
        self.restart()

    def restart(self) -> None:
        self.vector.write(self.start)
        if self._overlap:
            self.origin.copy_(self.start[: self.vector.trained])

    def change(self, place: slice) -> None:
        """Compute the change of parameters in a round; buffers are sent themselves."""
        self.vector.read(self.changed, place)
        trained = self._trained(place)
        own = self.changed[trained]
        torch.sub(self.origin[trained], own, out=own)

    def go_on(self, *, buffers: bool) -> None:
        """Begin the next round with the common parameters and this rank's own last change.

        The buffers, if they were averaged since, are the common ones.
        """
        count = self.vector.trained
        torch.sub(self.start[:count], self.changed[:count], out=self.origin)
        self.vector.write(self.origin)
        if buffers:
            self.vector.write(self.start, only_buffers=True)

    def apply(self, outer: Outer, place: slice) -> None:
        """Take the outer step of a part: `changed` holds the mean there, and is used up."""
        trained = self._trained(place)
        buffers = slice(max(place.start, self.vector.trained), place.stop)
        start, mean = self.start[trained], self.changed[trained]
        momentum = None if self.momentum is None else self.momentum[trained]
        if self.start.device.type != "cpu":
            outer.apply_there(start, mean, momentum)
        else:
            outer.apply(start.numpy(), mean.numpy(), None if momentum is None else momentum.numpy())
        if buffers.start < buffers.stop:
            self.start[buffers] = self.changed[buffers]

    def mix(self, place: slice, own_share: float) -> None:
        """Move this rank's own values to the common ones, by all but a share of the way."""
        self.vector.mix(self.start, place, own_share)

    def _trained(self, place: slice) -> slice:
        """The part of it that parameters have."""
        return slice(place.start, max(place.start, min(place.stop, self.vector.trained)))

    def arrays(self, pending: slice) -> SavedState:
        """Copies for a state; `pending` is the part of the mean that is not used yet."""
        return {key: tensor.cpu().numpy().copy() for key, tensor in self._saved(pending).items()}

    def check(self, arrays: SavedState, pending: slice, *, sick: bool) -> set[str]:
        """Refuse arrays that do not fit or are not finite; returns the names of those needed.

        A round that will be dropped may hold values that are not.
        """
        saved = self._saved(pending)
        for key, own in saved.items():
            given = arrays.get(key)
            if (
                given is None
                or given.shape != tuple(own.shape)
                or given.dtype.name != self.vector.name
            ):
                found = "nothing" if given is None else f"{given.shape} {given.dtype}"
                raise DisagreementError(
                    f"the state has {found} for {key}, this run needs {tuple(own.shape)} "
                    f"{self.vector.name}: it was saved with another outer step or other buffers"
                )
            dropped = sick and key.startswith(("origin", "pending"))
            if not dropped and not np.isfinite(given).all():
                raise DisagreementError(f"the state's {key} is not finite: that run had diverged")
        return set(saved)

    def load(self, arrays: SavedState, pending: slice) -> None:
        for key, own in self._saved(pending).items():
            own.copy_(torch.from_numpy(arrays[key].copy()))

    def _saved(self, pending: slice) -> dict[str, Tensor]:
        found = {"start": self.start}
        if self.momentum is not None:
            found["momentum"] = self.momentum
        if self._overlap:
            found["origin"] = self.origin
        if pending.start < pending.stop:
            found["pending"] = self.changed[pending]
        return {f"{name}/{self.vector.name}": tensor for name, tensor in found.items()}
