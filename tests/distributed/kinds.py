"""What ranks do with parameters of unusual kinds, and with models that `attach` refuses."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from faults import _before
from scenarios import IN, OUT, batch, everything
from sharded import sharded
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from workers import World

from fewbits import ddp, fsdp, localsgd

Shapes = Sequence[Sequence[int]]


class Plane(nn.Module):
    """Complex parameters, whose gradient is the input, conjugated or not."""

    def __init__(self, shapes: Shapes, dtype: torch.dtype) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.zeros(tuple(s), dtype=dtype) for s in shapes)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        pairs = zip(self.weights, inputs, strict=True)
        return sum((w.real * x.real + w.imag * x.imag).sum() for w, x in pairs)


class WithBias(Plane):
    """Real parameters beside them."""

    def __init__(self, shapes: Shapes, dtype: torch.dtype) -> None:
        super().__init__(shapes, dtype)
        self.bias = nn.Parameter(torch.zeros(11))

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return super().forward(*inputs) + self.bias.sum()


def _inputs(rank: int, step: int, shapes: Shapes, dtype: torch.dtype) -> list[torch.Tensor]:
    source = np.random.default_rng([rank, step, 11])
    made = [source.standard_normal((*shape, 2)) for shape in shapes]
    return [torch.view_as_complex(torch.from_numpy(each)).to(dtype) for each in made]


def attached(world: World, adapter: str, net: nn.Module, **options: Any) -> tuple[Any, Any]:
    """The model that is trained, and its compression; `hook` is DDP's, registered by hand."""
    options = {"policy": everything} | options
    uplink = options.pop("uplink")
    if adapter == "fsdp":
        options.pop("downlink", None)
        net = sharded(world, net, apart=False)
        return net, fsdp.attach(net, uplink, **options)
    if adapter == "localsgd":
        return net, localsgd.attach(net, uplink, local_steps=1, **options)
    model = DistributedDataParallel(net, bucket_cap_mb=0.2)
    if adapter == "hook":
        state = ddp.Compression(uplink, **options)
        model.register_comm_hook(state, ddp.hook)
        return model, state
    return model, ddp.attach(model, uplink, **options)


def _found(adapter: str, own: Any) -> torch.Tensor:
    if adapter == "localsgd":
        return own.detach()
    return own.grad.to_local() if adapter == "fsdp" else own.grad


def planes(
    world: World, *, adapter: str, dtype: str, shapes: Shapes, uplink: str, steps: int = 2
) -> None:
    """Means of complex gradients: how far they are from those of all ranks' inputs."""
    world.join()
    kind, complexes = (Plane if adapter == "fsdp" else WithBias), getattr(torch, dtype)
    net = kind(shapes, complexes)
    model, state = attached(world, adapter, net, uplink=uplink, downlink=uplink)
    worst, count, hasher = 0.0, 0, hashlib.sha256()
    for step in range(steps):
        model.zero_grad()
        given = [_inputs(rank, step, shapes, complexes) for rank in range(world.size)]
        model(*given[world.rank]).backward()
        if adapter == "localsgd":
            with torch.no_grad():
                for own in net.weights:
                    own.copy_(own.grad)
            state.step()
        for number, own in enumerate(net.weights):
            mean = sum(tensors[number] for tensors in given) / world.size
            if adapter == "fsdp":
                parts = [*torch.chunk(mean, world.size), *[mean[:0]] * world.size]
                mean = parts[world.rank]
            found = _found(adapter, own)
            scale = max(float(tensors[number].abs().max()) for tensors in given)
            errors = (found - mean).abs().reshape(-1)
            worst = max(worst, float(errors.max()) / scale if errors.numel() else 0.0)
            count += found.numel()
            hasher.update(torch.view_as_real(found.contiguous()).numpy().tobytes())
            if adapter == "localsgd":
                with torch.no_grad():
                    own.zero_()
        if adapter == "localsgd":
            break
    report = state.report()
    world.result |= {"worst": worst, "count": count, "digest": hasher.hexdigest()}
    world.result["elements"] = report.elements
    state.close()
    world.leave(model)


class Words(nn.Module):
    """An embedding with sparse gradients."""

    def __init__(self, *, bag: bool) -> None:
        super().__init__()
        self.deep = nn.Module()
        table = nn.EmbeddingBag if bag else nn.Embedding
        self.deep.table = table(50, 8, sparse=True)
        self.head = nn.Linear(8, 2)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.deep.table(words))


def sparse(world: World, *, adapter: str, bag: bool = False) -> None:
    """Sparse gradients: refused by `attach`, or by the first backward pass."""
    world.join()
    torch.manual_seed(0)
    net = Words(bag=bag)
    model, state = attached(world, adapter, net, uplink="natural")
    words = torch.tensor([[3, 4 + world.rank]])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    world.result["attached"] = True
    model(words).sum().backward()
    optimizer.step()
    if adapter == "localsgd":
        state.step()
        world.result["table"] = net.deep.table.weight.detach().double().reshape(-1).tolist()
    state.close()
    world.leave(model)


def odd_dtype(world: World, *, adapter: str, dtype: str, trained: bool = True) -> None:
    """A parameter of a type that nobody can average."""
    world.join()
    net = nn.Sequential(nn.Linear(IN, OUT), nn.Module())
    odd = torch.zeros(4, dtype=getattr(torch, dtype))
    net[1].odd = nn.Parameter(odd, requires_grad=trained)
    net[1].forward = lambda x: x
    if adapter in ("ddp", "hook"):
        net._ddp_params_and_buffers_to_ignore = ["1.odd"]  # gloo cannot send it at first
    _, state = attached(world, adapter, net, uplink="natural")
    state.close()
    world.leave()


def short(world: World, *, culprits: Sequence[int]) -> None:
    """Parameters that do not fill their bucket: the culprits take the last one for smaller."""
    world.join()
    net = nn.Linear(IN, OUT)
    model, state = attached(world, "ddp", net, uplink="natural")
    if world.rank in culprits:
        state._names._known[net.bias] = state._names(net.bias)._replace(shape=(OUT - 1,))
    x, y = batch(world, 0)
    world.mark()
    nn.functional.mse_loss(model(x), y).backward()


def twice(world: World, *, adapter: str, close: bool = False) -> None:
    """A second `attach` on one model, without a word to the other ranks."""
    world.join()
    net = nn.Linear(IN, OUT)
    model, state = attached(world, adapter, net, uplink="natural")
    if close:
        state.close()
    asked: list[object] = []
    _before(type(state), "start", lambda: asked.append(1))
    again: dict[str, Callable[..., Any]] = {"ddp": ddp.attach, "fsdp": fsdp.attach}
    try:
        if adapter == "localsgd":
            localsgd.attach(model, "natural", local_steps=1).close()
        else:
            again[adapter](model, "natural").close()
    finally:
        world.result["asked"] = len(asked)


SCENARIOS: dict[str, Callable[..., None]] = {
    "planes": planes,
    "sparse": sparse,
    "odd dtype": odd_dtype,
    "short": short,
    "twice attached": twice,
}
