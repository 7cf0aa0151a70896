"""The processes that `launch` starts: a template that forks ranks, and a rank's life.

An order is a line of JSON that names a scenario of one of the modules that `known` imports, its
arguments, a rank, a world size and a folder. The rank writes what it has to say to a file there and
then leaves as any program would, by the end of its main function or by the exception that left the
scenario. One that is in a hurry skips the interpreter's end, which takes longer than most
scenarios; after an error it stays alive until all have spoken, so that nobody is woken by its end.
"""

import contextlib
import ctypes
import faulthandler
import gc
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # DDP and optimizers import it at first use, which takes seconds
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[1]))

import delays
import fewbits.ddp
import fewbits.fsdp
import fewbits.localsgd  # noqa: F401
from fewbits import registry


@dataclass
class World:
    """What a scenario knows of where it runs; `result` is told even if the scenario fails."""

    rank: int
    size: int
    folder: Path
    result: dict[str, Any] = field(default_factory=dict)
    kept: tuple[object, ...] = ()

    def mark(self) -> None:
        """Note the time of the fault, and what all ranks had waited then: the first mark counts."""
        told = {"at": time.monotonic(), "waited": self.waits()}
        own = self.folder / f"mark-{self.rank}"
        own.write_text(json.dumps(told))
        with contextlib.suppress(FileExistsError):
            os.link(own, self.folder / "mark")

    def waits(self) -> dict[str, delays.Waits]:
        """What the threads of all ranks have waited for a processor."""
        pids = {file.name: int(file.read_text() or 0) for file in self.folder.glob("pid-*")}
        return {name.removeprefix("pid-"): delays.waits(pid) for name, pid in pids.items()}

    def waited(self) -> float:
        """By how much busy processors made this rank's error late, counted from the mark."""
        mark = self.folder / "mark"
        if not mark.exists():
            return 0.0
        before = json.loads(mark.read_text())["waited"]
        return delays.on_the_way(before, self.waits(), str(self.rank))

    def join(self, timeout: float = 30.0) -> None:
        """Make the default process group, over a file instead of a port."""
        store = dist.FileStore(str(self.folder / "store"), self.size)
        dist.init_process_group(
            "gloo",
            store=store,
            rank=self.rank,
            world_size=self.size,
            timeout=timedelta(seconds=timeout),
        )

    def leave(self, *kept: object) -> None:
        """Part when all are done. `kept` models outlive the scenario: torch may hang if it tears
        one with `find_unused_parameters` down while its last exchange is still being freed.
        """
        self.kept = kept
        dist.barrier()


def known() -> dict[str, Callable[..., None]]:
    """All scenarios by name. The template imports them and all operators, not each rank again."""
    import archipelago
    import clusters
    import continuations
    import endings
    import faults
    import hsdp
    import islands
    import kinds
    import loops
    import memories
    import programs
    import rounds
    import scenarios
    import sharded
    import streams
    import survivors
    import trainers

    registry.catalogue()
    modules = (scenarios, faults, memories, rounds, sharded, continuations, endings, kinds)
    modules = *modules, streams, loops, trainers, clusters, programs, hsdp, archipelago, islands
    modules = *modules, survivors
    return {name: run for module in modules for name, run in module.SCENARIOS.items()}


def live(order: dict[str, Any], run: Callable[..., None]) -> None:
    """A rank's life."""
    world = World(order["rank"], order["world"], Path(order["folder"]))
    (world.folder / f"pid-{world.rank}").write_text(str(os.getpid()))
    faulthandler.dump_traceback_later(order["deadline"] - 2)  # says where a rank hangs
    said: dict[str, Any] = {"result": world.result}
    try:
        run(world, **order["arguments"])
    except Exception as error:
        said |= {"error": type(error).__name__, "message": str(error)}
        if not order["hurry"]:
            raise
        traceback.print_exc()
    finally:
        said |= {"at": time.monotonic(), "waited": world.waited()}
        (world.folder / f"said-{world.rank}").write_text(json.dumps(said))
    if order["hurry"]:
        if "error" in said:
            while len(list(world.folder.glob("said-*"))) < world.size:
                time.sleep(0.01)
        sys.stderr.flush()
        os._exit("error" in said)


def order_for_child() -> dict[str, Any] | None:
    """Fork a rank for every order; returns its order in the child, and None at the end."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing)
    children: set[int] = set()
    pending = b""
    while True:
        ready, _, _ = select.select([0, reading], [], [])
        if reading in ready:
            os.read(reading, 4096)
            reap(children)
        if 0 not in ready:
            continue
        received = os.read(0, 65536)
        if not received:
            break
        *lines, pending = (pending + received).split(b"\n")
        for line in lines:
            order = json.loads(line)
            child = os.fork()
            if child == 0:
                become_rank(order)
                return order
            children.add(child)
            tell({"pid": child})
    for child in children:
        os.kill(child, signal.SIGKILL)
    return None


def reap(children: set[int]) -> None:
    """Tell how children ended: exit status, or minus the signal."""
    for child in list(children):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            children.discard(child)
            tell({"pid": child, "status": os.waitstatus_to_exitcode(status)})


def tell(event: dict[str, Any]) -> None:
    """One line to the launcher."""
    os.write(1, json.dumps(event).encode() + b"\n")


def become_rank(order: dict[str, Any]) -> None:
    """Leave the template's streams and signals behind, and end with the template."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    for name, descriptor in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        path = Path(order["folder"]) / f"{name}-{order['rank']}"
        opened = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, descriptor)
        os.close(opened)


if __name__ == "__main__":
    torch.set_num_interop_threads(1)
    sys.modules["workers"] = sys.modules["__main__"]
    scenarios = known()
    gc.freeze()  # or else every rank would copy the template's memory when it ends
    mine = order_for_child()
    if mine is not None:
        live(mine, scenarios[mine["scenario"]])
