"""What ranks do that keep replicas of shards (HSDP), or whose parameters are on several meshes."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from scenarios import Net, batch
from sharded import BF16, HALF, _step, attach, digest, local, sharded
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp._fully_shard._fsdp_common import FSDPMeshInfo, ShardPlacementResult
from torch.distributed.tensor import Shard
from workers import World

from fewbits import fsdp
from fewbits.errors import FewbitsError

WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "accumulation": {"accumulate": 2},
    "accumulation of shards": {"accumulate": 2, "all_reduce": False},
    "bfloat16": {"mp_policy": MixedPrecisionPolicy(BF16, BF16)},
    "float16": {"mp_policy": MixedPrecisionPolicy(HALF, HALF)},
    "sums": {"sums": True},
    "another divisor": {"sums": True, "factor": 3.0},
    "no shards": {"replicas": 4},
    "no replicas": {"replicas": 1, "shape": (1, 4)},
}


def _mesh(shape: Sequence[int]) -> Any:
    names = ("replicate", "shard")[-len(shape) :]
    return init_device_mesh("cpu", tuple(shape), mesh_dim_names=names)


def run(
    world: World,
    compression: dict[str, Any] | None,
    *,
    replicas: int = 2,
    shape: Sequence[int] | None = None,
    accumulate: int = 1,
    all_reduce: bool = True,
    sums: bool = False,
    factor: float | None = None,
    steps: int = 3,
    wide: int = 257,
    **options: Any,
) -> dict[str, Any]:
    """Train; losses and digests, and the report if there is compression."""
    torch.manual_seed(0)
    mesh = _mesh(shape or (replicas, world.size // replicas))
    net: Any = Net(wide)
    for child in net.children():
        fully_shard(child, mesh=mesh, **options)
    net = fully_shard(net, mesh=mesh, **options)
    for module in net.modules():
        if isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(sums)
            if factor is not None:
                module.set_gradient_divide_factor(factor)
    state = None if compression is None else attach(net, **compression)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(accumulate):
            x, y = batch(world, step * accumulate + part)
            last = part == accumulate - 1
            net.set_requires_gradient_sync(last or not all_reduce)
            net.set_requires_all_reduce(last or all_reduce)
            loss = torch.nn.functional.mse_loss(net(x), y)
            loss.backward()
        losses.append(loss.item())
        optimizer.step()
    told: dict[str, Any] = {"losses": losses, "final": digest(net)}
    if state is not None:
        told |= {"report": state.report().as_dict(), "text": str(state.report())}
        state.close()
    return told


def ways(world: World, *, names: Sequence[str], compressions: Sequence[Any]) -> None:
    """The same training, each way with each compression or none."""
    world.join()
    for name in names:
        world.result[name] = [run(world, each, **WAYS[name]) for each in compressions]
    world.leave()


def bytes_sent(world: World, *, compression: dict[str, Any]) -> None:
    """What is sent for a model that is large enough for headers to be small."""
    world.join()
    world.result |= run(world, compression, wide=6000, steps=2)
    world.leave()


class Experts(torch.nn.Module):
    """A layer that all ranks share, and one of which some have another."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = torch.nn.Linear(24, 300)
        self.experts = torch.nn.Linear(300, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.experts(torch.tanh(self.dense(x)))


def _apart(net: Any) -> Any:
    """Experts among two ranks, everything else among all four."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("other", "experts"))
    fully_shard(net.experts, mesh=mesh["experts"])
    return fully_shard(net, mesh=_mesh((4,)))


def _beside_replicas(net: Any) -> Any:
    """Experts among two ranks, everything else among two with replicas."""
    mesh = _mesh((2, 2))
    fully_shard(net.experts, mesh=mesh["shard"])
    return fully_shard(net, mesh=mesh)


def _within(net: Any) -> Any:
    """Parameters of one module on two meshes."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("other", "experts"))
    info = FSDPMeshInfo(mesh["experts"], shard_mesh_dim=0)
    own = set(net.experts.parameters())
    return fully_shard(
        net,
        mesh=_mesh((4,)),
        shard_placement_fn=lambda each: (
            ShardPlacementResult(Shard(0), info) if each in own else None
        ),
    )


def _overlapping(net: Any) -> Any:
    """Two meshes of which none has the other's ranks."""
    grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    fully_shard(net.experts, mesh=grid["a"])
    return fully_shard(net, mesh=grid["b"])


MESHES: dict[str, Callable[[Any], Any]] = {
    "apart": _apart, "beside replicas": _beside_replicas, "within": _within,
    "overlapping": _overlapping,
}  # fmt: skip


def meshes(world: World, *, names: Sequence[str], uplinks: Sequence[str | None]) -> None:
    """Parameters on several meshes: the shards after some steps, or what was refused."""
    world.join()
    for name in names:
        told = world.result[name] = []
        for uplink in uplinks:
            torch.manual_seed(0)
            net = MESHES[name](Experts())
            try:
                state = None if uplink is None else attach(net, uplink=uplink)
            except FewbitsError as error:
                told.append(f"{type(error).__name__}: {error}")
                continue
            optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
            source = torch.Generator().manual_seed(world.rank)
            for _ in range(3):
                optimizer.zero_grad()
                x = torch.randn(16, 24, generator=source)
                net(x).square().mean().backward()
                optimizer.step()
            told.append([float(shard.double().sum()) for shard in local(net)])
            if state is not None:
                state.close()
    world.leave()


def saved(
    world: World, *, folder: str, shape: Sequence[int], there: bool, compression: dict[str, Any]
) -> None:
    """Train and save with torch.distributed.checkpoint, or load that and go on.

    A run that saves also goes on, so that it can be compared with one that loads.
    """
    world.join()
    torch.manual_seed(0)
    mesh, net = _mesh(shape), Net(600)
    for child in net.children():
        fully_shard(child, mesh=mesh)
    fully_shard(net, mesh=mesh)
    state = attach(net, **compression)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    if there:
        for step in range(3):
            _step(world, net, optimizer, step)
        model, its = get_state_dict(net, optimizer)
        whole = {"model": model, "optimizer": its, "compression": fsdp.DistributedState(state)}
        dcp.save(whole, checkpoint_id=folder)
    else:
        model, its = get_state_dict(net, optimizer)
        own = fsdp.DistributedState(state, folder)
        dcp.load({"model": model, "optimizer": its, "compression": own}, checkpoint_id=folder)
        set_state_dict(net, optimizer, model_state_dict=model, optim_state_dict=its)
    world.result["step"] = state.step
    world.result["errors"] = _errors(world, state)
    whole_weights = (each.full_tensor() for each in net.parameters())  # type: ignore[attr-defined]
    world.result["weights"] = [float(each.double().sum()) for each in whole_weights]
    for step in range(3, 5):
        _step(world, net, optimizer, step)
    world.result |= {"final": digest(net), "after": state.step}
    state.close()
    world.leave()


def _errors(world: World, state: fsdp.ShardedCompression) -> dict[str, float]:
    """The sums over all ranks of what is remembered, by side and parameter."""
    found: dict[str, float] = {}
    for key, array in state.state_dict().items():
        if key != "fewbits":
            name = key.rpartition("/")[0]
            found[name] = found.get(name, 0.0) + float(array.sum(dtype="f8"))
    every: list[Any] = [None] * world.size
    dist.all_gather_object(every, found)
    names = sorted({name for each in every for name in each})
    return {name: sum(each.get(name, 0.0) for each in every) for name in names}


def refused(world: World) -> None:
    """Errors of attaching with options that the meshes cannot have."""
    world.join()
    given: dict[str, tuple[int, dict[str, Any]]] = {
        "inside alone": (1, {"inside": "natural"}),
        "biased inside": (2, {"inside": "sign"}),
        "stream": (2, {"device": "interpreted"}),
        "gather": (2, {"gather": "float16"}),
    }
    for name, (replicas, options) in given.items():
        net = sharded(world, Net(), replicas=replicas)
        try:
            attach(net, **options)
        except FewbitsError as error:
            world.result[name] = f"{type(error).__name__}: {error}"
    net = sharded(world, Net(), replicas=2)
    net.first.set_all_reduce_hook(lambda _: None)
    try:
        attach(net)
    except FewbitsError as error:
        world.result["hook"] = f"{type(error).__name__}: {error}"
    world.leave()


SCENARIOS = {
    f"hsdp {function.__name__}": function for function in (ways, meshes, saved, refused)
} | {"hsdp bytes": bytes_sent}
