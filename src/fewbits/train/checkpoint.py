"""A run's state in one safetensors file: arrays and JSON, and no code to execute."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.optim import Optimizer

from fewbits.backend import crc32c
from fewbits.errors import SpecError
from fewbits.train.history import History
from fewbits.train.settings import CHECKPOINT

_ABOUT, _HISTORY, _RANDOM, _CHECKSUM = "about", "history", "random", "checksum"


def write(
    folder: Path, net: nn.Module, optimizer: Optimizer, history: History, common: dict[str, Any]
) -> None:
    """Replace the checkpoint; a crash leaves the old one or the new one, never half of one."""
    tensors = {f"model.{name}": tensor for name, tensor in net.state_dict().items()}
    tensors |= _of_optimizer(optimizer)
    tensors[_RANDOM] = torch.get_rng_state()
    tensors[_ABOUT] = _from_text(json.dumps(common))
    tensors[_HISTORY] = _from_text(history.to_json())
    _write(folder / CHECKPOINT, tensors)


def write_optimizer(path: Path, optimizer: Optimizer) -> None:
    """Write this rank's optimizer to a file; with local steps each rank has its own."""
    _write(path, _of_optimizer(optimizer))


def read_optimizer(path: Path, optimizer: Optimizer) -> None:
    try:
        tensors = load(path.read_bytes())
        right = int(tensors.pop(_CHECKSUM)) == _checksum(tensors)
    except Exception as error:  # the package's own error has no public name in all versions
        raise SpecError(f"{path} is not an optimizer's checkpoint: {error}") from error
    if not right:
        raise SpecError(f"{path} was damaged: checksums differ")
    _to_optimizer(_fitting(tensors, optimizer), optimizer)


def _write(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write tensors with a checksum, whole or not at all."""
    tensors[_CHECKSUM] = torch.tensor([_checksum(tensors)])
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".tmp")
    with unfinished.open("wb") as file:
        file.write(save({name: tensor.contiguous() for name, tensor in tensors.items()}))
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def _of_optimizer(optimizer: Optimizer) -> dict[str, Tensor]:
    return {
        f"optimizer.{index}.{key}": value
        for index, state in optimizer.state_dict()["state"].items()
        for key, value in state.items()
    }


def _to_optimizer(tensors: dict[str, Tensor], optimizer: Optimizer) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for place, tensor in _under("optimizer.", tensors).items():
        index, _, key = place.partition(".")
        state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def forget(folder: Path, memories: Path) -> None:
    """Remove the memories of earlier checkpoints; ranks on one disk do this together."""
    for older in folder.glob("memories-*"):
        if older != memories:
            shutil.rmtree(older, ignore_errors=True)


def read(folder: Path) -> dict[str, Tensor]:
    """The checkpoint's tensors on every rank, from rank 0's disk; empty if there is none."""
    path = folder / CHECKPOINT
    content = b""
    if dist.get_rank() == 0 and path.exists():
        content = path.read_bytes()
    size = torch.tensor([len(content)])
    dist.broadcast(size, 0)
    if int(size) == 0:
        return {}
    buffer = torch.zeros(int(size), dtype=torch.uint8)
    if content:
        buffer.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
    dist.broadcast(buffer, 0)
    try:
        return load(buffer.numpy().tobytes())
    except Exception as error:  # the package's own error has no public name in all versions
        raise SpecError(f"{path} is not a checkpoint: {error}") from error


def restore(
    tensors: dict[str, Tensor], net: nn.Module, optimizer: Optimizer, common: dict[str, Any]
) -> History:
    """Restore the state; `SpecError` if the checkpoint belongs to another configuration."""
    if not {_ABOUT, _HISTORY, _RANDOM, _CHECKSUM} <= tensors.keys():
        raise SpecError("the checkpoint was not written by fewbits train")
    if int(tensors.pop(_CHECKSUM)) != _checksum(tensors):
        raise SpecError("the checkpoint was damaged: checksums differ")
    try:
        about: dict[str, Any] = dict(json.loads(_to_text(tensors[_ABOUT])))
        history = History.from_json(_to_text(tensors[_HISTORY]))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SpecError(f"the checkpoint was not written by fewbits train: {error}") from error
    for name, value in common.items():
        if about.get(name) != value:
            raise SpecError(f"the checkpoint has {name} {about.get(name)}, this run {value}")
    model = _under("model.", tensors)
    _refuse_others(model, net.state_dict(), "the model")
    _refuse_others({_RANDOM: tensors[_RANDOM]}, {_RANDOM: torch.get_rng_state()}, "the program")
    _fitting(tensors, optimizer)
    net.load_state_dict(model)  # nothing is loaded before all of it has been checked
    _to_optimizer(tensors, optimizer)
    torch.set_rng_state(tensors[_RANDOM])
    return history


def _refuse_others(found: Mapping[str, Tensor], own: Mapping[str, Tensor], whose: str) -> None:
    """Refuse tensors of other names, shapes or types."""
    kinds = [{name: (one.shape, one.dtype) for name, one in all.items()} for all in (found, own)]
    for name in kinds[0].keys() | kinds[1].keys():
        if kinds[0].get(name) != kinds[1].get(name):
            there = kinds[0].get(name, "nothing")
            raise SpecError(f"the checkpoint has {there} for {name}, {whose} {kinds[1].get(name)}")


def _fitting(tensors: dict[str, Tensor], optimizer: Optimizer) -> dict[str, Tensor]:
    """The tensors; `SpecError` unless those of the optimizer are numbers or like its parameters."""
    shapes = [own.shape for group in optimizer.param_groups for own in group["params"]]
    places = {f"optimizer.{index}": {shape, torch.Size()} for index, shape in enumerate(shapes)}
    for name, tensor in tensors.items():
        if not name.startswith("optimizer."):
            continue
        if tensor.shape not in places.get(name.rpartition(".")[0], ()):
            raise SpecError(f"the checkpoint has {tuple(tensor.shape)} for {name}: another model's")
    return tensors


def _checksum(tensors: dict[str, Tensor]) -> int:
    """A checksum, which the file format lacks; it finds even a small change of a weight."""
    crc = 0
    for name in sorted(tensors):
        values = tensors[name].detach().contiguous().reshape(-1).view(torch.uint8).numpy()
        crc = crc32c(_from_text(name).numpy(), crc)
        crc = crc32c(values, crc)
    return crc


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _from_text(text: str) -> Tensor:
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)


def _to_text(tensor: Tensor) -> str:
    return tensor.numpy().tobytes().decode()
