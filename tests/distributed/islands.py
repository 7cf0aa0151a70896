"""What islands that come and go do: one hosts their store, one is killed and comes again."""

import hashlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from rounds import common
from workers import World

from fewbits import localsgd

H, SHAPE = 2, (40, 30)


def change(rank: int, step: int) -> np.ndarray:
    """A made-up local step of an island."""
    source = np.random.default_rng([rank, step])
    return (0.1 * source.standard_normal(SHAPE)).astype(np.float32)


def host(world: World) -> None:
    """Keep the store until all others have ended."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    told = world.folder / "port.new"
    told.write_text(str(store.port))
    told.rename(world.folder / "port")
    while len(list(world.folder.glob("end-*"))) < world.size - 1:
        time.sleep(0.02)


def found(path: Path) -> str:
    """The text of a file, once it is there."""
    while not path.exists():
        time.sleep(0.01)
    return path.read_text()


def islands(world: World, *, rounds: int, kill: int, seed: int, **options: Any) -> None:
    """Rank 0 hosts the store. Rank 1 is killed in round `kill`, and the last one takes its place.

    It comes when the others have ended three rounds more.
    """
    if world.rank == 0:
        host(world)
        return
    last = world.size - 1
    name = 1 if world.rank == last else world.rank
    port = int(found(world.folder / "port"))
    if world.rank == last:
        found(world.folder / f"round-{kill + 3}")
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    torch.manual_seed(world.rank)
    net = torch.nn.Linear(SHAPE[1], SHAPE[0], bias=False)
    outer = localsgd.attach(
        net, options.pop("uplink", "identity"), local_steps=H, outer="nesterov",
        islands=localsgd.Islands(store, at_least=world.size - 2), **options,
    )  # fmt: skip
    end, told = world.folder / f"end-{world.rank}", world.result
    start = net.weight.detach().numpy().tobytes().hex()
    told |= {"begins": outer.taken // H, "rounds": [], "waits": [], "start": start}
    if world.rank == 1:
        (world.folder / "end-1").touch()  # it will not
    moment = random.Random(seed).uniform(0, 0.05)
    while outer.taken < rounds * H:
        with torch.no_grad():
            net.weight -= torch.from_numpy(change(name, outer.taken))
        if world.rank == 1 and outer.taken == kill * H + H - 1:
            threading.Timer(moment, os.kill, (os.getpid(), signal.SIGKILL)).start()
            time.sleep(random.Random(seed).uniform(0, 0.05))
        if outer.taken >= H * (kill + 3) and len(outer.members) < world.size - 2:
            while not store.check([f"fewbits/beat/{world.size - 1}"]):
                time.sleep(0.01)  # rounds take no time here: the new island must not be late
            time.sleep(1.0)
        began = time.monotonic()
        if outer.step():
            told["waits"].append(time.monotonic() - began)
            told["rounds"].append([outer._elastic.counted, common(outer)])
            (world.folder / f"round-{outer.taken // H}").touch()
    told |= {"number": outer._elastic.number, "final": digest(outer)}
    outer.close()
    end.touch()


def digest(outer: Any) -> str:
    """Of the model and of what is common."""
    weights = b"".join(own.detach().numpy().tobytes() for own in outer._model.parameters())
    return hashlib.sha256(weights).hexdigest() + common(outer)


SCENARIOS: dict[str, Callable[..., None]] = {"islands": islands}
