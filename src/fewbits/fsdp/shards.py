"""The places of parameters in the vectors that FSDP reduces.

FSDP cuts every parameter into a shard for each rank, along its first dimension unless told
otherwise, and pads the last ones to the size of the first. The vector has a row for each rank. A
row has the rank's shards of all parameters of a group, one after the other.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn
from torch.distributed.fsdp import FSDPModule

from fewbits.backend.buffers import Buffer
from fewbits.collectives.payload import Unit, units_of
from fewbits.errors import SpecError
from fewbits.fsdp.meshes import ShardMesh
from fewbits.session import ModelParameter, Routing
from fewbits.theory.cost import PIECE
from fewbits.transport.tensors import TensorValues


@dataclass(frozen=True, slots=True)
class ShardedParameter:
    """One parameter: its name, its shape and the dimension along which it is cut.

    An element has so many `parts`: two real numbers if it is complex.
    """

    name: str
    shape: tuple[int, ...]
    dim: int = 0
    parts: int = 1

    def counts(self, ranks: int) -> list[int]:
        """How many real numbers there are in each rank's shard, without padding."""
        count = math.prod(self.shape) * self.parts
        if self.dim != 0:  # FSDP refuses uneven ones
            return [count // ranks] * ranks
        length = self.shape[0]
        most, row = -(-length // ranks), count // max(length, 1)
        return [row * min(most, max(length - most * rank, 0)) for rank in range(ranks)]


@dataclass(frozen=True, slots=True)
class ShardLayout:
    """The vector of some parameters among `ranks` ranks."""

    parameters: tuple[ShardedParameter, ...]
    ranks: int

    @property
    def width(self) -> int:
        return sum(parameter.counts(self.ranks)[0] for parameter in self.parameters)

    def units(self, routing: Routing) -> list[Unit]:
        """Units of shards: a unit belongs to one parameter and to one rank."""
        units: list[Unit] = []
        column, width = 0, self.width
        for parameter in self.parameters:
            counts = parameter.counts(self.ranks)
            shape = *parameter.shape[:-1], parameter.shape[-1] * parameter.parts
            both = routing.operators(ModelParameter(parameter.name, shape))
            for rank, count in enumerate(counts):
                start, owners = rank * width + column, [rank] * -(-count // routing.unit)
                own = units_of(parameter.name, start, count, *both, owners, size=routing.unit)
                names = [f"{parameter.name}/{rank}.{number}" for number in range(len(own))]
                units += [replace(unit, name=name) for unit, name in zip(own, names, strict=True)]
            column += counts[0]
        return units

    def pieces(self, routing: Routing, rows: int = 0) -> list[tuple[slice, list[Unit]]]:
        """Columns that are reduced together, about a million elements of all rows, in order.

        Units lie as in a vector of these columns alone. With `rows` there are as many columns as if
        each of so many ranks averaged a part of one row.
        """
        width = self.width
        size = max(PIECE, rows * routing.unit) if rows else max(PIECE // self.ranks, routing.unit)
        found: dict[int, list[Unit]] = {0: []}
        for unit in self.units(routing):
            found.setdefault(unit.start % width // size, []).append(unit)
        own = [found[number] for number in sorted(found)]
        starts = [min(unit.start % width for unit in units) for units in own[1:]]
        columns = list(map(slice, [0, *starts], [*starts, width]))
        return [
            (part, [_moved(unit, width, part) for unit in units])
            for part, units in zip(columns, own, strict=True)
        ]


def _moved(unit: Unit, width: int, columns: slice) -> Unit:
    """The unit's place if all rows are as short as `columns`."""
    row, column = divmod(unit.start, width)
    return replace(unit, start=row * (columns.stop - columns.start) + column - columns.start)


class ShardGroup:
    """A group of parameters that FSDP reduces together, which is `index` in the model."""

    def __init__(self, index: int, its: Any, names: Mapping[nn.Module, str]) -> None:
        self.index, self.its = index, its
        if not hasattr(its.mesh_info, "shard_process_group"):
            raise SpecError("the model is replicated and not sharded: use fewbits.ddp")
        self.names = [_name(parameter, names) for parameter in its.fsdp_params]
        self.mesh = ShardMesh.of(its.mesh_info)

    @property
    def process_group(self) -> Any:
        """The ranks that keep a shard each."""
        return self.its.mesh_info.shard_process_group

    @property
    def trained(self) -> list[Any]:
        """The parameters, as FSDP has them, that are not frozen."""
        return [each for each in self.its.fsdp_params if each.sharded_param.requires_grad]

    def is_finite(self) -> bool:
        """Always true: every rank has checked its own means and told the others."""
        return True

    def clear(self) -> None:
        """Zero the gradients that FSDP has by the end of a step."""
        for parameter in self.trained:
            if parameter.sharded_param.grad is not None:
                parameter.sharded_param.grad.zero_()

    def note_nonfinite(self, counts: Buffer) -> None:
        """Note nothing: every rank has noted its own means."""

    def clear_if(self, device: str, verdict: Buffer, met: Buffer | None) -> None:
        """Zero the gradients that FSDP has by the end of a step, unless it has ended well."""
        for parameter in self.trained:
            gradient = parameter.sharded_param.grad
            if gradient is not None:
                TensorValues(gradient.to_local()).clear_if(device, verdict, met)

    def shards(self, ranks: int) -> ShardLayout:
        """The layout of the gradients of all parameters that are not frozen."""
        parameters = tuple(
            ShardedParameter(
                name,
                tuple(each._orig_size),
                each.fsdp_placement.dim,
                2 if each.sharded_param.is_complex() else 1,
            )
            for name, each in zip(self.names, self.its.fsdp_params, strict=True)
            if each.sharded_param.requires_grad
        )
        return ShardLayout(parameters, ranks)

    def layout(self, count: int, ranks: int) -> ShardLayout:
        """The layout of a vector of `count` elements that FSDP wants to be reduced."""
        layout = self.shards(ranks)
        if layout.width * ranks != count:
            raise SpecError(
                f"some of {', '.join(p.name for p in layout.parameters)} had no gradient: call "
                "set_reduce_scatter_unused_params(True) of the model"
            )
        return layout


def groups(model: nn.Module) -> Sequence[ShardGroup]:
    """The groups of a model, all of the same ranks; `SpecError` if there are none."""
    names: dict[nn.Module, str] = {module: name for name, module in model.named_modules()}
    sharded = [
        module
        for module in model.modules()
        if isinstance(module, FSDPModule) and module._get_fsdp_state()._fsdp_param_groups
    ]
    found: list[ShardGroup] = []
    for module in sharded:
        for its in module._get_fsdp_state()._fsdp_param_groups:
            if all(its is not other.its for other in found):  # some modules share one
                found.append(ShardGroup(len(found), its, names))
    if not found:
        raise SpecError("attach takes a model to which fully_shard was applied, this one has none")
    return found


def _name(parameter: Any, names: Mapping[nn.Module, str]) -> str:
    info = parameter._module_info
    return ".".join(filter(None, (names.get(info.module, "?"), info.param_name)))
