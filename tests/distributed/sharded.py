"""What the ranks of a run under FSDP do, healthy or not."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import faults
import numpy as np
import torch
import torch.distributed as dist
from faults import DEEDS, STEP
from scenarios import IN, OUT, Net, batch, everything
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultAllGather
from workers import World

from fewbits import Rng, fsdp
from fewbits.collectives.payload import UNIT
from fewbits.collectives.units import Batch
from fewbits.fsdp.comms import CheckedAllGather
from fewbits.reference import natural as natural_reference
from fewbits.reference.formats import FLOAT32
from fewbits.rng import token
from fewbits.session import scattering


class Seldom(Net):
    """A frozen layer, and one that no input reaches."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = torch.nn.Linear(OUT, OUT).requires_grad_(False)
        self.seldom = torch.nn.Linear(OUT, OUT)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.frozen(super().forward(x))


class Direct(torch.nn.Module):
    """A model whose gradient is its input."""

    def __init__(self, shapes: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.zeros(tuple(shape)) for shape in shapes)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return sum((weight * x).sum() for weight, x in zip(self.weights, inputs, strict=True))


def sharded(
    world: World, net: torch.nn.Module, *, replicas: int = 1, apart: bool = True, **options: Any
) -> Any:
    """The model under FSDP, with a group of its own for each child if they are `apart`."""
    shape = (replicas, world.size // replicas) if replicas > 1 else (world.size,)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard")[-len(shape) :])
    for child in net.children() if apart else ():
        fully_shard(child, mesh=mesh, **options)
    return fully_shard(net, mesh=mesh, **options)


def attach(net: Any, **options: Any) -> fsdp.ShardedCompression:
    """`fsdp.attach` with all tensors compressed unless the options say otherwise."""
    options = {"uplink": "natural", "policy": everything} | options
    if options["policy"] == "default":
        del options["policy"]
    if "devices" in options:  # every rank has its own
        options["device"] = options.pop("devices")[dist.get_rank()]
    return fsdp.attach(net, options.pop("uplink"), **options)


def local(net: torch.nn.Module) -> Iterator[torch.Tensor]:
    """This rank's shards."""
    return (parameter.detach().to_local() for parameter in net.parameters())  # type: ignore[attr-defined]


def digest(net: torch.nn.Module) -> str:
    """SHA-256 of this rank's shards."""
    hasher = hashlib.sha256()
    for shard in local(net):
        hasher.update(shard.contiguous().reshape(-1).view(torch.uint8).numpy())
    return hasher.hexdigest()


BF16, HALF = torch.bfloat16, torch.float16
FEATURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "one group": {"apart": False},
    "kept whole after the forward pass": {"reshard_after_forward": False},
    "accumulation": {"accumulate": 3},
    "accumulation of means": {"accumulate": 2, "sync": True},
    "bfloat16": {"mp_policy": MixedPrecisionPolicy(BF16, BF16)},
    "bfloat16, reduced in float32": {"mp_policy": MixedPrecisionPolicy(BF16, torch.float32)},
    "float16": {"mp_policy": MixedPrecisionPolicy(HALF, HALF)},
    "sums": {"sums": True},
    "another divisor": {"sums": True, "factor": 3.0},
    "a divisor before the sum": {"factor": 4.0},  # gloo itself cannot: plain runs divide after it
    "unused and frozen": {"kind": "seldom", "apart": False},
    "a group that is never used": {"kind": "seldom"},
    "parameters of the root": {"only": "second"},
}


LOSSY = ("plain", "accumulation", "bfloat16", "sums")  # those that are also run with natural


def train(
    world: World,
    *,
    compression: dict[str, Any] | None,
    steps: int = 4,
    accumulate: int = 1,
    sync: bool = False,
    sums: bool = False,
    factor: float | None = None,
    kind: str = "net",
    only: str | None = None,
    wide: int = 257,
    **options: Any,
) -> dict[str, Any]:
    """Train; digests and losses, and the report if there is compression."""
    torch.manual_seed(0)
    net: Any = Seldom() if kind == "seldom" else Net(wide)
    if only is not None:
        mesh = init_device_mesh("cpu", (world.size,))
        fully_shard(getattr(net, only), mesh=mesh)
        net = fully_shard(net, mesh=mesh)
    else:
        net = sharded(world, net, **options)
    for module in net.modules():
        if isinstance(module, torch.distributed.fsdp.FSDPModule):
            plain = compression is None
            module.set_force_sum_reduction_for_comms(sums or (plain and factor is not None))
            if factor is not None:
                module.set_gradient_divide_factor(factor)
    net.set_reduce_scatter_unused_params(kind == "seldom")
    state = None if compression is None else attach(net, **compression)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(accumulate):
            x, y = batch(world, step * accumulate + part)
            net.set_requires_gradient_sync(sync or part == accumulate - 1)
            loss = torch.nn.functional.mse_loss(net(x), y)
            loss.backward()
        losses.append(loss.item())
        optimizer.step()
    told: dict[str, Any] = {"losses": losses, "final": digest(net)}
    if state is not None:
        told |= {"report": state.report().as_dict(), "text": str(state.report())}
        told["streams"] = state.session.stream is not None
        state.close()
    return told


def features(world: World, *, names: Sequence[str], replicas: int = 1, steps: int = 4) -> None:
    """For each feature: training without compression, with the identity, and some with natural."""
    world.join()
    for name in names:
        more = {"replicas": replicas} if replicas > 1 else {}
        world.result[name] = {
            uplink: train(
                world,
                compression=None if uplink == "none" else {"uplink": uplink},
                steps=steps,
                **FEATURES[name],
                **more,
            )
            for uplink in ("none", "identity", "natural")[: 3 if name in LOSSY else 2]
        }
    world.leave()


def runs(world: World, *, compressions: Sequence[dict[str, Any]], **options: Any) -> None:
    """Several runs one after the other."""
    world.join()
    world.result["runs"] = [train(world, compression=each, **options) for each in compressions]
    world.leave()


def inputs(rank: int, step: int, shapes: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    source = np.random.default_rng([rank, step, 5])
    return [torch.from_numpy(source.standard_normal(shape, np.float32)) for shape in shapes]


def law(world: World, *, shapes: Sequence[Sequence[int]], seed: int) -> None:
    """Is every shard's gradient the mean of what natural compression makes of all ranks' parts?"""
    world.join()
    net = sharded(world, Direct(shapes), apart=False)
    state = attach(net, seed=seed)
    exact, moved = True, 0
    for step in range(3):
        net.zero_grad()
        given = [inputs(rank, step, shapes) for rank in range(world.size)]
        net(*given[world.rank]).backward()
        for number, weight in enumerate(net.weights):
            found = weight.grad.to_local().reshape(-1).numpy()
            total = np.zeros(found.size, np.float32)
            for rank, tensors in enumerate(given):
                part = [*torch.chunk(tensors[number], world.size), *[torch.empty(0)] * world.size]
                rng = Rng.from_seed(seed).fork("private", step, rank)
                name = f"weights.{number}/{world.rank}"
                total += _natural(part[world.rank].reshape(-1).numpy(), rng, name)
            exact &= found.tobytes() == (total / np.float32(world.size)).tobytes()
            moved += found.size
    world.result |= {"exact": exact, "moved": moved, "report": state.report().as_dict()}
    state.close()
    world.leave()


def _natural(values: np.ndarray, rng: Rng, name: str) -> np.ndarray:
    out = np.empty_like(values)
    for number, start in enumerate(range(0, values.size, UNIT)):
        own = Rng(rng.child_key(token(f"{name}.{number}")))
        part = values[start : start + UNIT].view(np.uint32)
        codes = natural_reference.rounded(part, FLOAT32, own)
        bits = natural_reference.values(codes.exponents, codes.signs, FLOAT32)
        out[start : start + UNIT] = bits.view(np.float32)
    return out


def nonfinite(
    world: World, *, policy: str, places: Sequence[tuple[int, int, float]], uplink: str = "identity"
) -> None:
    """A step whose gradient has values at places (rank, row, value), then a healthy step.

    Every rank keeps four rows, and tells of each step which of them are finite.
    """
    world.join()
    shape = (4 * world.size, 50)
    net = sharded(world, Direct([shape]), apart=False)
    state = attach(net, nonfinite=policy, uplink=uplink)
    world.result["told"] = []
    for step in range(2):
        net.zero_grad()
        x = torch.ones(shape)
        for rank, row, value in places:
            if step == 0 and rank == world.rank:
                x[row, 7] = value
        net(x).backward()
        gradient = net.weights[0].grad.to_local()
        finite = gradient.isfinite().all(dim=1).tolist()
        world.result["told"].append([finite, bool(gradient.any()), state.skipped])
    world.result["report"] = state.report().as_dict()
    world.leave()


def resumed(
    world: World, *, compressions: Sequence[dict[str, Any]], folder: str, replicas: int = 1
) -> None:
    """Six steps, and three steps after a restart from what was saved after three."""
    world.join()
    ends = []
    for number, compression in enumerate(compressions):
        place = Path(folder) / str(number)
        net, optimizer, state = _begun(world, compression, replicas)
        for step in range(6):
            _step(world, net, optimizer, step)
            if step == 2:
                state.save(place)
                weights = [shard.clone() for shard in local(net)]
                momenta = {k: v["momentum_buffer"].clone() for k, v in optimizer.state.items()}
        ends.append([_told(net, state)])
        state.close()
        again, its, other = _begun(world, compression, replicas)
        other.load(place)
        with torch.no_grad():
            for shard, weight in zip(local(again), weights, strict=True):
                shard.copy_(weight)
        for parameter, momentum in zip(again.parameters(), momenta.values(), strict=True):
            its.state[parameter]["momentum_buffer"] = momentum
        for step in range(3, 6):
            _step(world, again, its, step)
        ends[-1].append(_told(again, other))
        try:
            other.load(place, reshard=True)
        except Exception as error:
            world.result["reshard"] = f"{type(error).__name__}: {error}"
        other.close()
    world.result["ends"] = ends
    world.leave()


def _begun(
    world: World, compression: dict[str, Any], replicas: int
) -> tuple[Any, Any, fsdp.ShardedCompression]:
    torch.manual_seed(0)
    net = sharded(world, Net(600), replicas=replicas)
    state = attach(net, **compression)
    return net, torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9), state


def _step(world: World, net: Any, optimizer: Any, number: int) -> None:
    optimizer.zero_grad()
    x, y = batch(world, number)
    torch.nn.functional.mse_loss(net(x), y).backward()
    optimizer.step()


def _told(net: Any, state: fsdp.ShardedCompression) -> list[Any]:
    hasher = hashlib.sha256()
    for key, array in sorted(state.state_dict().items()):
        if key != "fewbits":
            hasher.update(f"{key} {array.shape}".encode() + array.tobytes())
    return [digest(net), hasher.hexdigest(), state.step]


def fail(
    world: World,
    *,
    place: str,
    deed: str,
    culprit: int = 1,
    timeout: float = 30.0,
    replicas: int = 1,
) -> None:
    """Train until the culprit does a deed at a place of step `STEP`."""
    world.join()
    torch.manual_seed(0)
    net = sharded(world, Net(), replicas=replicas)
    state = attach(net, timeout=timeout)

    def now() -> None:
        if state.session.progress.step == STEP:
            world.mark()
            DEEDS[deed]()

    if world.rank == culprit:
        owner, name = PLACES[place]
        faults._before(owner, name, now)
    _train(world, net)


PLACES: dict[str, tuple[Any, str]] = {
    "encode": (Batch, "encode"),
    "pieces": (scattering.Scattering, "_pieces"),
    "between replicas": (scattering.Scattering, "_average"),
    "commit": (scattering, "commit"),
    "before an all-gather": (CheckedAllGather, "__call__"),
    "in an all-gather": (DefaultAllGather, "__call__"),
}


def _train(world: World, net: Any, skip: Callable[[int], bool] = lambda step: False) -> None:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for step in range(STEP + 3):
        world.result["steps"] = step
        optimizer.zero_grad()
        x, y = batch(world, step)
        loss = torch.nn.functional.mse_loss(net(x), y)
        if not skip(step):
            loss.backward()
        optimizer.step()
    world.result["steps"] = STEP + 3


def stray(world: World, *, how: str, culprit: int = 1, timeout: float = 30.0) -> None:
    """The culprit runs something else than the others, from the start or from step `STEP` on."""
    world.join()
    mine = world.rank == culprit
    torch.manual_seed(0)
    net = sharded(world, Net())
    dist.barrier()
    if how in OTHERS:
        world.mark()
    attach(net, timeout=timeout, **(OTHERS.get(how, {}) if mine else {}))

    def alone(step: int) -> bool:
        if mine and step == STEP:
            world.mark()
        if mine and how == "no sync":
            net.set_requires_gradient_sync(step != STEP)
        return mine and how == "skip" and step == STEP

    _train(world, net, alone)


OTHERS: dict[str, dict[str, Any]] = {
    "operator": {"uplink": "natural:coder=rans"},
    "seed": {"seed": 1},
    "policy": {"policy": "default"},
}


def unused(world: World) -> None:
    """A parameter without a gradient, and nobody said that there would be one."""
    world.join()
    attach(net := sharded(world, Seldom(), apart=False))
    net(torch.zeros(1, IN)).sum().backward()


def twice(world: World) -> None:
    """Attach, close, attach, and attach once more."""
    world.join()
    net = sharded(world, Net())
    attach(net).close()
    state = attach(net)
    x, y = batch(world, 0)
    torch.nn.functional.mse_loss(net(x), y).backward()
    world.result["again"] = state.report().steps == 1
    attach(net)


def interrupted(world: World, *, timeout: float) -> None:
    """An interrupt in the middle of rank 1's first reduction, and then another step."""
    world.join()
    net = sharded(world, Net())
    attach(net, timeout=timeout)
    if world.rank == 1:
        faults._before(Batch, "encode", DEEDS["interrupt"])
        try:
            _train(world, net)
        except KeyboardInterrupt:
            world.result["first"] = "KeyboardInterrupt"
    _train(world, net)


SCENARIOS = {
    f"sharded {function.__name__}": function
    for function in (
        features,
        runs,
        law,
        nonfinite,
        resumed,
        fail,
        stray,
        unused,
        twice,
        interrupted,
    )
}
