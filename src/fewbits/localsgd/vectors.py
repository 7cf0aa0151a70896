"""A model's parameters and running statistics as flat vectors, one for each precision.

16-bit parameters are float32 here, because 16 bits would lose small outer steps. Complex ones are
pairs of real numbers.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from fewbits.attached import described
from fewbits.errors import SpecError
from fewbits.session import ModelParameter
from fewbits.transport import tensors

_WIDE = {
    dtype: torch.promote_types(real, torch.float32) for dtype, real in tensors.AVERAGED.items()
}


class PlacedTensor(NamedTuple):
    """A tensor, or some of its rows, and its place in a vector.

    Buffers are looked up by name, because modules may replace them.
    """

    name: str
    tensor: Tensor
    place: slice
    is_buffer: bool
    part: slice | None = None  # of the first dimension; None for the whole tensor

    @property
    def size(self) -> int:
        return int(self.place.stop - self.place.start)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape as real numbers."""
        whole = tensors.real_shape(self.tensor)
        return whole if self.part is None else (self.part.stop - self.part.start, *whole[1:])

    @property
    def rows(self) -> int:
        return self.shape[0] if self.shape else 1

    @property
    def row(self) -> int:
        """The values of a row."""
        return self.size // max(self.rows, 1)

    @property
    def described(self) -> ModelParameter:
        """The parameter that travels; a part has a name of its own."""
        name = self.name
        if self.part is not None:
            name += f"[{self.part.start}:{self.part.stop}]"
        return ModelParameter(name, self.shape)

    def cut(self, places: Sequence[int]) -> list["PlacedTensor"]:
        """The parts between places of the vector, in their order, which lie between rows."""
        first, last = self.place.start, self.place.stop
        inner = sorted({place for place in places if first < place < last})
        if not inner:
            return [self]
        bounds = [first, *inner, last]
        return [
            self._replace(
                place=slice(a, b), part=slice((a - first) // self.row, (b - first) // self.row)
            )
            for a, b in pairwise(bounds)
        ]


class FlatTensors:
    """All tensors of one precision, parameters first: the first `trained` values are theirs."""

    def __init__(
        self,
        model: nn.Module,
        dtype: torch.dtype,
        named: Sequence[tuple[str, Tensor]],
        device: str,
    ) -> None:
        self.dtype, self.device = dtype, device
        self._model = model
        buffers = dict(model.named_buffers())
        self.entries: list[PlacedTensor] = []
        end = self.trained = 0
        for name, tensor in named:
            place = slice(end, end + tensors.as_real(tensor).numel())
            is_buffer = name in buffers
            self.entries.append(PlacedTensor(name, tensor, place, is_buffer))
            end = place.stop
            if not is_buffer:
                self.trained = end
        self.count = end

    @property
    def whole(self) -> slice:
        return slice(0, self.count)

    def parameters(self, place: slice) -> list[ModelParameter]:
        """What travels of a part of the vector."""
        return [each.described for each in self.within(place)]

    def cut(self, places: Sequence[int]) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Cut entries at places between rows; the whole of each part by the part's name."""
        wholes, cut = dict[str, tuple[str, tuple[int, ...]]](), list[PlacedTensor]()
        for entry in self.entries:
            parts = entry.cut(places)
            if len(parts) > 1:
                wholes |= {part.described.name: (entry.name, entry.shape) for part in parts}
            cut += parts
        self.entries = cut
        return wholes

    @property
    def name(self) -> str:
        return str(self.dtype).removeprefix("torch.")

    def empty(self, count: int | None = None) -> Tensor:
        size = self.count if count is None else count
        return torch.zeros(size, dtype=self.dtype, device=self.device)

    @torch.no_grad()
    def read(self, into: Tensor, place: slice | None = None) -> None:
        for entry in self.within(place or self.whole):
            into[entry.place].copy_(self._current(entry).reshape(-1))

    @torch.no_grad()
    def mix(self, values: Tensor, place: slice, own_share: float) -> None:
        """Move the model's tensors towards values, in the vector's precision.

        A share of 0 makes them the values themselves.
        """
        for entry in self.within(place):
            own = self._current(entry)
            given = values[entry.place].view(own.shape)
            if own_share:
                own.copy_(torch.lerp(given, own.to(given.dtype), own_share))
            else:
                own.copy_(given)

    def within(self, place: slice) -> list[PlacedTensor]:
        """The entries of a part of the vector."""
        if place == self.whole:
            return self.entries
        return [e for e in self.entries if place.start <= e.place.start < place.stop]

    @torch.no_grad()
    def write(self, values: Tensor, *, only_buffers: bool = False) -> None:
        """Write values to the model's tensors, or to its buffers, as far as there are values."""
        for entry in self.entries:
            if entry.place.stop <= values.numel() and (entry.is_buffer or not only_buffers):
                own = self._current(entry)
                own.copy_(values[entry.place].view(own.shape))

    def _current(self, entry: PlacedTensor) -> Tensor:
        found: Tensor = entry.tensor
        if entry.is_buffer:
            parent, _, last = entry.name.rpartition(".")
            found = getattr(self._model.get_submodule(parent), last)
        real = tensors.as_real(found.detach())
        return real if entry.part is None else real[entry.part]


def averaged_buffers(model: nn.Module, patterns: Sequence[str]) -> list[tuple[str, Tensor]]:
    if isinstance(patterns, str):  # whose letters would be patterns, a star among them
        raise SpecError(f"average_buffers is a list of patterns, got {patterns!r}")
    return [
        (name, buffer)
        for name, buffer in model.named_buffers()
        if buffer.dtype in _WIDE and any(fnmatchcase(name, each) for each in patterns)
    ]


def trained(model: nn.Module) -> list[tuple[str, Tensor]]:
    """The parameters that local steps change."""
    named: list[tuple[str, Any]] = [
        (name, own) for name, own in model.named_parameters() if own.requires_grad
    ]
    if not named:
        raise SpecError(f"{type(model).__name__} has no parameters that are trained")
    for name, own in named:
        described(name, own)
    return [(name, own.to_local() if isinstance(own, DTensor) else own) for name, own in named]


def wholes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """The whole shapes of sharded parameters."""
    found = model.named_parameters()
    return {name: tensors.real_shape(own) for name, own in found if isinstance(own, DTensor)}


def of(
    model: nn.Module,
    named: Sequence[tuple[str, Tensor]],
    buffers: Sequence[tuple[str, Tensor]],
    device: str = "cpu",
) -> list[FlatTensors]:
    """One vector on a device for each precision, in the order of its first parameter."""
    wide = {name: _WIDE[own.dtype] for name, own in (*named, *buffers)}
    both = *named, *buffers
    return [
        FlatTensors(model, dtype, [(n, own) for n, own in both if wide[n] == dtype], device)
        for dtype in dict.fromkeys(wide.values())
    ]
