"""What a rank that comes later gets from the others: the model, optimizers and schedulers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fewbits.collectives import parcels
from fewbits.errors import DisagreementError, SpecError

_TENSOR = "tensor"


class Carried:
    """A model and other things that have a state, as bytes for another rank and back."""

    def __init__(self, model: nn.Module, others: Sequence[Any]) -> None:
        self._model, self._others = model, others

    def pack(self) -> bytes:
        """All states; `SpecError` if one holds what does not travel."""
        return parcels.packed([_arrays(each.state_dict()) for each in self._all()])

    def take(self, content: bytes) -> None:
        """Replace all states by those of another rank."""
        states = parcels.unpacked(content)
        if not isinstance(states, list) or len(states) != len(self._others) + 1:
            raise DisagreementError(
                f"the others carry other things than a model and {len(self._others)} more: pass "
                "the same state= on all ranks"
            )
        for own, state in zip(self._all(), states, strict=True):
            try:
                own.load_state_dict(_tensors(state))
            except (RuntimeError, ValueError, KeyError) as error:
                raise DisagreementError(
                    f"the others' {type(own).__name__} is another one: {error}"
                ) from error

    def _all(self) -> list[Any]:
        return [self._model, *self._others]


def _arrays(state: Any) -> Any:
    """A state with arrays in the place of tensors."""
    if isinstance(state, Tensor):
        own = state.detach().cpu().contiguous()
        name = str(own.dtype).removeprefix("torch.")
        content = own.reshape(-1).view(torch.uint8).numpy() if own.numel() else np.empty(0, "u1")
        return {_TENSOR: name, "shape": tuple(own.shape), "content": content}
    if isinstance(state, dict):
        if _TENSOR in state:
            raise SpecError(f"a state that travels has no key {_TENSOR!r}")
        found = {key: _arrays(each) for key, each in state.items()}
        return type(state)(found) if type(state) is not dict else found
    if type(state) in (list, tuple):
        return type(state)(_arrays(each) for each in state)
    return state


def _tensors(state: Any) -> Any:
    if isinstance(state, dict):
        if _TENSOR in state:
            dtype = getattr(torch, state[_TENSOR])
            return torch.from_numpy(state["content"]).view(dtype).reshape(state["shape"])
        found = {key: _tensors(each) for key, each in state.items()}
        return type(state)(found) if type(state) is not dict else found
    if isinstance(state, list | tuple):
        return type(state)(_tensors(each) for each in state)
    return state
