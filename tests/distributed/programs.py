"""Scripts and commands of users as ranks, in processes that have imported torch already."""

import functools
import io
import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout

import torch.distributed as dist
from workers import World

from fewbits.cli import main


def script(world: World, *, path: str, arguments: Sequence[str]) -> None:
    """Run a script, and tell what it prints."""
    sys.argv = [path, *arguments]
    with rank_of(world) as printed:
        runpy.run_path(path, run_name="__main__")
    world.result["printed"] = printed.getvalue()


def command(world: World, *, arguments: Sequence[str]) -> None:
    """Run `fewbits` as this rank, and tell its exit code and what it prints."""
    with rank_of(world) as printed:
        world.result["code"] = main(list(arguments))
    world.result["printed"] = printed.getvalue()


@contextmanager
def rank_of(world: World) -> Iterator[io.StringIO]:
    """The environment that torchrun makes, but that the ranks' group meets over a file."""
    rank, size = str(world.rank), str(world.size)
    os.environ |= {"RANK": rank, "WORLD_SIZE": size}
    os.environ |= {"LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size}
    store = dist.FileStore(str(world.folder / "store"), world.size)
    dist.init_process_group = functools.partial(
        dist.init_process_group, store=store, rank=world.rank, world_size=world.size
    )
    with redirect_stdout(io.StringIO()) as printed:
        yield printed


SCENARIOS = {"script": script, "command": command}
