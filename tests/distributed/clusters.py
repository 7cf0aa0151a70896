"""What ranks in nodes do: say where they are, rightly or wrongly, and lose a whole node."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from faults import fail
from scenarios import attach, batch, built, digest
from torch.distributed.device_mesh import init_device_mesh
from workers import World

from fewbits.errors import FewbitsError


def mesh(world: World, nodes: int = 2) -> Any:
    """All ranks as a mesh of two dimensions."""
    return init_device_mesh("cpu", (nodes, world.size // nodes), mesh_dim_names=("node", "place"))


def across(world: World, nodes: int) -> list[int]:
    """This rank's group, if ranks of a node follow each other."""
    width = world.size // nodes
    return list(range(world.rank % width, world.size, width))


def _enumerated(world: World) -> Any:
    groups = [list(range(place, world.size, 2)) for place in range(2)]
    return dist.new_subgroups_by_enumeration(groups)[0]


RIGHT: dict[str, Callable[[World], Any]] = {
    "mesh": lambda world: mesh(world)["node"],
    "group": _enumerated,
    "ranks": lambda world: across(world, 2),
}
WRONG: dict[str, Callable[[World], Any]] = {
    "whole mesh": mesh,
    "other group": lambda _: dist.new_group([0, 2]),
    "on one rank only": lambda world: [0, 2] if world.rank == 0 else None,
    "sizes": lambda world: [0, 1, 2] if world.rank < 3 else [3],
    "not alike": lambda world: [0, 2] if world.rank == 0 else [*across(world, 2), 0],
    "unknown rank": lambda world: [world.rank, 7],
    "word": lambda _: "node",
}


def grouped(world: World, *, runs: Sequence[str], steps: int = 4, **options: Any) -> None:
    """The parameters after some steps and the report, for each way to name the groups."""
    world.join()
    kept = []
    for name in runs:
        net = built("net", "float32", wide=1100, bucket_cap_mb=0.2)
        state = attach(net, across=RIGHT[name](world), **options)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        for step in range(steps):
            optimizer.zero_grad()
            x, y = batch(world, step)
            torch.nn.functional.mse_loss(net(x), y).backward()
            optimizer.step()
        world.result[name] = digest(net)
        world.result[f"report {name}"] = state.report().as_dict()
        world.result[f"text {name}"] = str(state.report())
        state.close()
        kept.append(net)
    world.leave(kept)


def chosen(world: World, *, steps: int) -> None:
    """Let `auto` decide among operators, each flat and between two nodes."""
    world.join()
    net = built("net", "float32", wide=400)
    state = attach(net, uplink="auto", across=across(world, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(steps):
        optimizer.zero_grad()
        x, y = batch(world, step % 4)
        torch.nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
        if state.report().decision is not None:
            break
    world.result["decision"] = state.report().as_dict()["decision"]
    world.result["final"] = digest(net)
    state.close()
    world.leave(net)


def misplaced(world: World, *, options: dict[str, dict[str, Any]]) -> None:
    """Errors of attaching with groups that are no arrangement, or with options beside nodes."""
    world.join()
    net = built("net", "float32")
    ways = [(how, {"across": find(world)}) for how, find in WRONG.items()]
    ways += [(how, {"nodes": 2} | given) for how, given in options.items()]
    for how, given in ways:
        dist.barrier()
        try:
            attach(net, timeout=10.0, **given)
        except FewbitsError as error:
            world.result[how] = [type(error).__name__, str(error)]
    world.leave(net)


def lose(world: World, *, culprits: Sequence[int], **options: Any) -> None:
    """Several ranks fail at the same place; see `faults.fail`."""
    own = world.rank if world.rank in culprits else -1
    fail(world, culprit=own, **options)


SCENARIOS = {"grouped": grouped, "misplaced": misplaced, "lose": lose, "chosen": chosen}
