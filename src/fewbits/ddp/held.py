"""Gradients of a step that can be exchanged again: copies travel, and DDP's buckets wait.

Batches are cut from the model's parameters, last ones first. They do not depend on DDP's buckets,
which are others on a rank that came later.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributed import GradBucket  # type: ignore[attr-defined]

from fewbits.errors import SpecError
from fewbits.session import Job, ModelParameter
from fewbits.transport.tensors import TensorValues, as_real, parameter_digest

HELD_BATCH = 1 << 20  # values of a batch, unless a parameter has more


class HeldBatch(NamedTuple):
    """Parameters that travel together."""

    parameters: Sequence[Tensor]
    described: Sequence[ModelParameter]

    @property
    def values(self) -> int:
        return sum(each.size for each in self.described)


class HeldStep:
    """The gradients of one step after the other, in batches."""

    def __init__(self, trained: Sequence[tuple[Tensor, ModelParameter]]) -> None:
        self.batches = _batches(trained)
        self._known = dict(trained)
        self._gradients: dict[Tensor, Tensor] = {}  # in DDP's buckets, as this rank computed them
        self._rooms: dict[int, Tensor] = {}
        self._submitted: list[Job] = []

    def add(self, bucket: GradBucket) -> list[Job]:
        """Take a bucket; the jobs that are complete with it."""
        flat, start = as_real(bucket.buffer()).view(-1), 0
        for own in bucket.parameters():
            if own not in self._known:
                raise SpecError(
                    f"a parameter of shape {tuple(own.shape)} was not there when attach was "
                    "called: attach when the model has its final parameters"
                )
            end = start + self._known[own].size
            self._gradients[own] = flat[start:end]
            start = end
        ready = []
        for number in range(len(self._submitted), len(self.batches)):
            if not all(own in self._gradients for own in self.batches[number].parameters):
                break
            ready.append(self._job(number))
        self._submitted += ready
        return ready

    def again(self) -> list[Job]:
        """All jobs of the step anew, from the gradients that this rank has computed."""
        self._rooms.clear()  # what has failed may still be looked at
        self._submitted = [self._job(number) for number in range(len(self.batches))]
        return self._submitted

    def end(self) -> None:
        """Put the means where DDP looks for them."""
        for number, batch in enumerate(self.batches):
            places = [self._gradients[own] for own in batch.parameters]
            means = torch.split(self._rooms[number], [place.numel() for place in places])
            for place, mean in zip(places, means, strict=True):
                place.copy_(mean)
        self.forget()

    def forget(self) -> None:
        """Begin a new step."""
        self._gradients.clear()
        self._submitted = []

    def missing(self, reached: set[Tensor]) -> list[str]:
        """The names of parameters that the backward pass did not reach."""
        return [described.name for own, described in self._known.items() if own not in reached]

    def _job(self, number: int) -> Job:
        batch = self.batches[number]
        parts = [self._gradients[own] for own in batch.parameters]
        room = self._rooms.get(number)
        if room is None:
            room = self._rooms[number] = torch.empty(batch.values, dtype=parts[0].dtype)
        torch.cat(parts, out=room)
        return Job(
            number,
            TensorValues(room),
            batch.described,
            is_last=number == len(self.batches) - 1,
            digest=partial(parameter_digest, room, batch.parameters),
        )


def _batches(trained: Sequence[tuple[Tensor, ModelParameter]]) -> list[HeldBatch]:
    """Neighbours of one type, from the last parameter to the first."""
    found: list[list[tuple[Tensor, ModelParameter]]] = []
    values = 0
    for own, described in reversed(trained):
        if not found or found[-1][0][0].dtype != own.dtype or values + described.size > HELD_BATCH:
            found.append([])
            values = 0
        found[-1].append((own, described))
        values += described.size
    return [HeldBatch(*zip(*batch, strict=True)) for batch in found]
