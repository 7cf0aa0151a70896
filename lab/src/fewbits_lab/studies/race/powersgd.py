"""torch's PowerSGD hook for ranks of one process: its operations in its order."""

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fewbits.train.references import PLAIN_STEPS

_torch: Any = import_module("torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook")
_SAVING = 2  # times fewer numbers in the factors, else the hook sends the tensor as it is


class PowerSgd:
    """Warm start, feedback of errors, and plain means of the first steps, as the hook has them."""

    def __init__(self, shapes: Sequence[tuple[int, ...]], rank: int, ranks: int) -> None:
        self._shapes, self._rank = shapes, rank
        self._step = 0
        self.errors = [torch.zeros(sum(map(math.prod, shapes))) for _ in range(ranks)]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(np.random.RandomState(0).randint(1_000_000_000))  # as the hook draws
            self._bases = {
                number: torch.randn(1, columns, min(rank, rows, columns))
                for number, (rows, columns) in enumerate(map(_matrix, shapes))
                if self._is_compressed(rows, columns)
            }

    def mean(self, gradients: Sequence[Tensor]) -> Tensor:
        """The mean that all ranks take; each remembers what it lacks of the rank's own gradient."""
        self._step += 1
        if self._step <= PLAIN_STEPS:
            return _mean(gradients)
        inputs = [own + error for own, error in zip(gradients, self.errors, strict=True)]
        result = _mean(inputs)  # of what is not compressed
        start = 0
        for number, shape in enumerate(self._shapes):
            place = slice(start, start + math.prod(shape))
            start = place.stop
            if number in self._bases:
                rows, columns = _matrix(shape)
                own = [each[place].view(1, rows, columns) for each in inputs]
                result[place] = self._product(number, own).reshape(-1)
        self.errors = [own - result for own in inputs]
        return result

    def close(self) -> None:
        """Nothing to end."""

    def _product(self, number: int, matrices: list[Tensor]) -> Tensor:
        basis = self._bases[number]
        _torch._orthogonalize(basis, 0)
        left = sum(torch.bmm(own, basis) for own in matrices)
        assert isinstance(left, Tensor)
        _torch._orthogonalize(left, 0)
        right = _mean([torch.bmm(own.transpose(1, 2), left) for own in matrices])
        self._bases[number] = right
        return torch.bmm(left, right.transpose(1, 2))

    def _is_compressed(self, rows: int, columns: int) -> bool:
        rank = min(rows, columns, self._rank)
        return columns > 1 and (rows + columns) * rank * _SAVING < rows * columns


def _matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    return shape[0], math.prod(shape[1:])


def _mean(parts: Sequence[Tensor]) -> Tensor:
    total = parts[0].clone()
    for own in parts[1:]:
        total += own
    return total / len(parts)
