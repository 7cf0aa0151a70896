"""A model's parameters and running statistics as flat vectors, one for each precision.

16-bit parameters are float32 here, because 16 bits would lose small outer steps. Complex ones are
pairs of real numbers.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fewbits.attached import described
from fewbits.errors import SpecError
from fewbits.transport import tensors

_WIDE = {
    dtype: torch.promote_types(real, torch.float32) for dtype, real in tensors.AVERAGED.items()
}


class PlacedTensor(NamedTuple):
    """A tensor and its place; buffers are looked up by name, because modules may replace them."""

    name: str
    tensor: Tensor
    place: slice
    is_buffer: bool


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
        self.parameters = [
            described(each.name, each.tensor)._replace(is_trained=True) for each in self.entries
        ]

    @property
    def name(self) -> str:
        return str(self.dtype).removeprefix("torch.")

    def empty(self, count: int | None = None) -> Tensor:
        size = self.count if count is None else count
        return torch.zeros(size, dtype=self.dtype, device=self.device)

    @torch.no_grad()
    def read(self, into: Tensor) -> None:
        for entry in self.entries:
            into[entry.place].copy_(self._current(entry).reshape(-1))

    @torch.no_grad()
    def write(self, values: Tensor, *, only_buffers: bool = False) -> None:
        """Write values to the model's tensors, or to its buffers, as far as there are values."""
        for entry in self.entries:
            if entry.place.stop <= values.numel() and (entry.is_buffer or not only_buffers):
                own = self._current(entry)
                own.copy_(values[entry.place].view(own.shape))

    def _current(self, entry: PlacedTensor) -> Tensor:
        if not entry.is_buffer:
            return tensors.as_real(entry.tensor.detach())
        parent, _, last = entry.name.rpartition(".")
        found: Tensor = getattr(self._model.get_submodule(parent), last)
        return tensors.as_real(found.detach())


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
    return named


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
