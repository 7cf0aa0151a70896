"""What ranks of islands do that are DDP or FSDP2 groups: two islands of two ranks."""

import hashlib
import os
import signal
from collections.abc import Callable
from typing import Any

import torch
from clusters import mesh
from rounds import H, Normed
from scenarios import Net, batch, everything
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from workers import World

from fewbits import localsgd


class Island:
    """A model on all ranks of an island, its optimizer and its rounds."""

    def __init__(self, world: World, kind: str, **options: Any) -> None:
        torch.manual_seed(world.rank // 2)  # the ranks of an island begin alike
        own = mesh(world)
        self.net: torch.nn.Module = Normed(300) if kind == "normed" else Net(300)
        self.model: torch.nn.Module
        if kind == "fsdp":
            for part in (self.net.first, self.net):
                fully_shard(part, mesh=own["place"])
            self.model = self.net
        else:
            self.model = DistributedDataParallel(self.net, process_group=own["place"].get_group())
        options = {"policy": everything, "local_steps": H, "outer": "nesterov"} | options
        self.local = localsgd.attach(
            self.model, options.pop("uplink"), process_group=own["node"], **options
        )
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9)

    def step(self, world: World, number: int) -> bool:
        self.optimizer.zero_grad()
        x, y = batch(world, number)
        torch.nn.functional.mse_loss(self.model(x), y).backward()
        self.optimizer.step()
        return self.local.step()

    def whole(self) -> torch.Tensor:
        """All parameters, gathered."""
        found = []
        for own in self.net.parameters():
            each = own.detach()
            found.append((each.full_tensor() if isinstance(each, DTensor) else each).reshape(-1))
        return torch.cat(found)


def islands_of_ranks(
    world: World, *, runs: list[dict[str, Any]], steps: int, folder: str = ""
) -> None:
    """The whole model at the end of each run; with a folder, halfway saved and loaded anew."""
    world.join()
    told = world.result["runs"] = []
    for run in runs:
        island = Island(world, **run)
        ends = []
        for number in range(steps):
            if folder and number == steps // 2:
                island.local.save(folder)
                island.local.close()
                island = again(world, run, island, folder)
            if island.step(world, number):
                ends.append(digest_of(island))
        island.local.sync()
        report = island.local.report()
        told.append({
            "ends": ends, "whole": island.whole().tolist(), "digest": digest_of(island),
            "sent": report.payload_bytes, "elements": report.elements,
            "buffers": [b.double().reshape(-1).tolist() for _, b in island.net.named_buffers()],
        })  # fmt: skip
        island.local.close()
    world.leave()


def again(world: World, run: dict[str, Any], before: Island, folder: str) -> Island:
    """The island as a program that was started again would have it."""
    island = Island(world, **run)
    with torch.no_grad():
        for own, old in zip(island.net.parameters(), before.net.parameters(), strict=True):
            own.copy_(old)
    island.optimizer.load_state_dict(before.optimizer.state_dict())
    island.local.load(folder)
    return island


def digest_of(island: Island) -> str:
    return hashlib.sha256(island.whole().numpy().tobytes()).hexdigest()


def lost_of_island(world: World, *, kind: str) -> None:
    """One rank of an island is killed before the second exchange."""
    world.join()
    island = Island(world, kind, uplink="natural", timeout=10.0)
    for number in range(3 * H):
        if world.rank == 3 and number == 2 * H - 1:
            island.local.step = lambda: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
            world.mark()
        if island.step(world, number):
            world.result["rounds"] = number // H + 1


SCENARIOS: dict[str, Callable[..., None]] = {
    "islands_of_ranks": islands_of_ranks,
    "lost_of_island": lost_of_island,
}
