"""What ranks do that go on without a lost one: one hosts their store, one is killed and returns.

Each keeps what it had before every step, from which a fresh job of fewer ranks can begin.
"""

import hashlib
import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from islands import found, host
from scenarios import IN, OUT, Net, everything
from torch.nn.parallel import DistributedDataParallel
from workers import World

from fewbits import ddp
from fewbits.collectives import header
from fewbits.ddp import held
from fewbits.transport.torch_comm import TorchComm

COMPRESSED = {
    "natural": {"uplink": "natural"},
    "rans": {"uplink": "natural:coder=rans"},
    "two-bit": {"uplink": "two-bit"},
    "star": {"uplink": "natural", "collective": "star"},
    "ef14": {"uplink": "top-k:fraction=0.1|natural", "downlink": "sign", "feedback": "ef14"},
    "tiny": {"uplink": "tiny"},
}


def inputs(name: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What one rank of the training sees, whatever its number is now."""
    source = np.random.default_rng([name, step])
    x, y = source.standard_normal((5, IN)), source.standard_normal((5, OUT))
    return torch.from_numpy(x).float(), torch.from_numpy(y).float()


class Training:
    """A model on one rank, with an optimizer that has a state."""

    def __init__(self, group: Any = None, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.net = Net(257)
        self.model = DistributedDataParallel(
            self.net, process_group=group, bucket_cap_mb=0.03, forward_sync_buffers=False
        )
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.01)
        self.compression: ddp.Compression

    def attach(self, kind: str, **options: Any) -> None:
        held.HELD_BATCH = 6000
        chosen: dict[str, Any] = COMPRESSED[kind] | {"policy": everything} | options
        if kind == "tiny":
            del chosen["policy"]
        self.compression = ddp.attach(self.model, chosen.pop("uplink"), **chosen)

    def step(self, name: int, number: int, *, adds: bool = False) -> None:
        if not adds:
            self.optimizer.zero_grad()
        self.backward(name, number)
        self.optimizer.step()

    def backward(self, name: int, number: int) -> None:
        x, y = inputs(name, number)
        torch.nn.functional.mse_loss(self.model(x), y).backward()

    def state(self) -> dict[str, Any]:
        memories = self.compression.session.checkpoint.memories
        return {
            "net": {key: own.clone() for key, own in self.net.state_dict().items()},
            "optimizer": _copied(self.optimizer.state_dict()),
            "memories": {} if memories is None else memories.arrays(),
        }

    def digest(self) -> str:
        """Of the model and of the optimizer's state."""
        hasher = hashlib.sha256()
        for own in _tensors([self.net.state_dict(), self.optimizer.state_dict()]):
            hasher.update(own.detach().reshape(-1).contiguous().numpy().tobytes())
        return hasher.hexdigest()


def _copied(state: Any) -> Any:
    if isinstance(state, torch.Tensor):
        return state.clone()
    if isinstance(state, Mapping):
        return {key: _copied(each) for key, each in state.items()}
    return [_copied(each) for each in state] if isinstance(state, list) else state


def _tensors(state: Any) -> Iterator[torch.Tensor]:
    if isinstance(state, torch.Tensor):
        yield state
    elif isinstance(state, Mapping | list):
        for each in state.values() if isinstance(state, Mapping) else state:
            yield from _tensors(each)


def die_in_commit(step: int, told: int) -> None:
    """Let this rank die in a step when it has sent its last header to some of the others only."""
    start, send = header.ExpectedHeaders.start, TorchComm._start

    def dying(self: Any, headers: Any, *outgoing: Any) -> Any:
        if headers[0].phase is not header.Phase.COMMIT or headers[0].step != step:
            return start(self, headers, *outgoing)
        TorchComm._start = lambda own, operation, buffer, rank, *rest: (  # type: ignore[method-assign]
            None if operation is dist.isend and rank >= told
            else send(own, operation, buffer, rank, *rest)
        )  # fmt: skip
        start(self, headers, *outgoing)
        time.sleep(0.5)
        return os.kill(os.getpid(), signal.SIGKILL)

    header.ExpectedHeaders.start = dying  # type: ignore[method-assign,assignment]


def die(moment: float | None, step: int, rank: int) -> None:
    """Let this rank be killed after a moment, or in the last headers of a step."""
    if moment is None:
        die_in_commit(step, told=2 if rank == 0 else 1)
    else:
        threading.Timer(moment, os.kill, (os.getpid(), signal.SIGKILL)).start()


def survivors(
    world: World,
    *,
    kind: str,
    kill: int,
    victim: int,
    moment: float | None,
    folder: str,
    **options: Any,
) -> None:
    """Rank 0 hosts the store. Rank `victim` is killed in step `kill`, and comes again as the last.

    It comes when the others have ended three steps more; then all take four. Without a `moment` it
    dies when it has ended the step for one of the others only.
    """
    if world.rank == 0:
        host(world)
        return
    last = world.size - 1
    comes = world.rank == last
    name = victim if comes else world.rank
    port = int(found(world.folder / "port"))
    if comes:
        found(world.folder / f"step-{kill + 3}")
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    own = Training(seed=world.rank)
    meeting = ddp.MeetingPlace(store, at_least=world.size - 2, state=[own.optimizer])
    own.attach(kind, on_failure="continue", meeting=meeting, **options)
    compression, told = own.compression, world.result
    told |= {"begins": compression.step, "name": name, "digests": {}, "waits": [], "changes": []}
    if world.rank == victim:
        (world.folder / f"end-{world.rank}").touch()  # it will not
    group = compression._surviving.group
    end = kill + 8
    while compression.step < end:
        number = compression.step
        before = own.state()
        torch.save(before, Path(folder) / f"before-{name}-{number}")
        if number == kill + 4 and not comes:
            while not group._membership.newcomers():
                time.sleep(0.01)  # steps take no time here: the new rank must not be late
        if world.rank == victim and number == kill:
            die(moment, number, compression.rank)
        members, began = group.members, time.monotonic()
        own.step(name, number)
        told["waits"].append(time.monotonic() - began)
        if group.members != members:
            told["changes"].append([number + group._is_over, compression.rank, compression.size])
            told["caught_up"] = told.get("caught_up", False) or group._is_over
        told["digests"][number] = own.digest()
        (world.folder / f"step-{number + 1}").touch()
    report = compression.report()
    told |= {"lost": [report.lost_ranks, report.lost_values], "rank": compression.rank}
    compression.close()
    (world.folder / f"end-{world.rank}").touch()


def fresh(
    world: World, *, kind: str, names: list[int], begin: int, end: int, folder: str, **options: Any
) -> None:
    """A job of as many ranks as were left, from what these had before a step; by plain DDP."""
    world.join()
    own = Training()
    own.attach(kind, **options)
    every = [torch.load(Path(folder) / f"before-{name}-{begin}", weights_only=False)
             for name in names]  # fmt: skip
    before = every[world.rank]
    own.net.load_state_dict(before["net"])
    own.optimizer.load_state_dict(before["optimizer"])
    own.compression.step = begin
    session = own.compression.session
    if session.checkpoint.memories is not None:
        needed = session.checkpoint.shapes().needed(world.rank, world.size)
        of_owners = {
            key: array
            for each in every
            for key, array in each["memories"].items()
            if key.startswith("master/")
        }
        memories = of_owners | before["memories"]
        session.checkpoint.memories.restart(
            {key: memories[key] for key in needed if key in memories}
        )
    digests = world.result["digests"] = {}
    for number in range(begin, end):
        own.step(names[world.rank], number)
        digests[number] = own.digest()
    own.compression.close()
    world.leave(own)


def stopped(world: World, *, victim: int, **options: Any) -> None:
    """Rank `victim` stops for longer than the others wait for it."""
    if world.rank == 0:
        host(world)
        return
    store = dist.TCPStore("127.0.0.1", int(found(world.folder / "port")), is_master=False)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    own, end = Training(), world.folder / f"end-{world.rank}"
    meeting = ddp.MeetingPlace(store, at_least=world.size - 1, state=[own.optimizer])
    own.attach("natural", on_failure="continue", meeting=meeting, **options)
    try:
        for number in range(6):
            if world.rank == victim and number == 3:
                world.mark()
                os.kill(os.getpid(), signal.SIGSTOP)
            own.step(world.rank, number)
            if number == 3 and world.rank != victim:
                (world.folder / f"went-{world.rank}").touch()
                pid = int((world.folder / f"pid-{victim}").read_text())
                if len(list(world.folder.glob("went-*"))) == world.size - 2:
                    os.kill(pid, signal.SIGCONT)
        own.compression.close()
        world.result |= {"digest": own.digest(), "size": own.compression.report().ranks}
    finally:
        end.touch()


def losses(world: World, *, folder: str, **options: Any) -> None:
    """Ranks 1 and 3 are lost in one step and the others in a later one; then 5 and 6 come."""
    if world.rank == 0:
        host(world)
        return
    end, dies = world.folder / f"end-{world.rank}", {1: 2, 3: 2, 2: 5, 4: 5}.get(world.rank)
    if dies is None:
        for rank in (2, 4):
            found(Path(folder) / f"told-{rank}")
    else:
        end.touch()  # it will not
    store = dist.TCPStore("127.0.0.1", int(found(world.folder / "port")), is_master=False)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    own = Training(seed=world.rank)
    at_least = 2 if dies is None else 4
    meeting = ddp.MeetingPlace(store, at_least=at_least, state=[own.optimizer])
    own.attach("ef14", on_failure="continue", meeting=meeting, nonfinite="skip", **options)
    compression, told = own.compression, world.result
    told |= {"begins": compression.step, "digests": [], "sizes": [], "skipped": []}
    while (number := compression.step) < 6:
        if number == dies:
            (Path(folder) / f"told-{world.rank}").write_text(json.dumps(told))
            os.kill(os.getpid(), signal.SIGKILL)
        own.optimizer.zero_grad()
        with own.model.no_sync():
            own.backward(world.rank, 100 + number)
        if number == 3 and compression.rank == 0:
            own.net.last.bias.grad.fill_(math.nan)
        own.step(world.rank, number, adds=True)
        told["skipped"].append(compression.skipped)
        told["digests"].append(own.digest())
        told["sizes"].append(compression.size)
    compression.close()
    end.touch()


def leaves(world: World, *, early: int, **options: Any) -> None:
    """Rank `early` closes after three steps, and the others train on; then all close."""
    if world.rank == 0:
        host(world)
        return
    store = dist.TCPStore("127.0.0.1", int(found(world.folder / "port")), is_master=False)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    own, end = Training(), world.folder / f"end-{world.rank}"
    meeting = ddp.MeetingPlace(store, at_least=world.size - 1, state=[own.optimizer])
    own.attach("natural", on_failure="continue", meeting=meeting, **options)
    try:
        for number in range(3 if world.rank == early else 6):
            own.step(world.rank, number)
        for _ in range(2):  # closing again does nothing
            own.compression.close()
        world.result |= {"digest": own.digest(), "size": own.compression.report().ranks}
    finally:
        end.touch()


SCENARIOS: dict[str, Callable[..., None]] = {
    "survivors": survivors, "fresh": fresh, "stopped": stopped, "losses": losses,
    "leaves": leaves,
}  # fmt: skip
