"""Programs that end: with or without `close()`, by themselves or by an error, busy or not."""

import contextlib
import io
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import sharded
import torch
from kinds import attached
from rounds import Training
from scenarios import IN, OUT, Net, attach, batch, built
from workers import World

from fewbits import localsgd


class UserError(Exception):
    """What a user's own code raises."""


class Slow(io.StringIO):
    """An output that the interpreter flushes for long when it ends and no thread may run."""

    def flush(self) -> None:
        time.sleep(1.0)


def _backward(world: World, net: Any) -> None:
    x, y = batch(world, 0)
    torch.nn.functional.mse_loss(net(x), y).backward()


def _fail(*_: object) -> None:
    raise UserError("in the backward pass")


def ends(world: World, *, how: str, close: bool = False) -> None:
    """A step, then the end: a plain one, an error's, `sys.exit`, or one amid an exchange."""
    world.join()
    state: Any = _rounds(world, how) if how in ("rounds", "late") else _steps(world, how)
    if close:
        state.close()
        torch.distributed.destroy_process_group()
    if how == "raise":
        raise UserError("after a step")
    if how == "exit":
        sys.exit(7)


def _rounds(world: World, how: str) -> Any:
    """The exchange of a round is under way; `late` comes when the interpreter is about to end."""
    training = Training(world, {"overlap": True, "local_steps": 1, "wide": 4000})
    world.mark()
    if how == "late" and world.rank == 1:
        time.sleep(1.6)
    elif how == "late":
        sys.stdout = Slow()
    training.step(world, 0)
    if how == "late" and world.rank == 0:
        time.sleep(0.3)  # until the thread waits for the other rank
    return training.local


def _steps(world: World, how: str) -> Any:
    state: Any
    if how == "shards":
        net = sharded.sharded(world, Net(4000))
        state = sharded.attach(net)
    else:
        net = built("net", "float32", wide=4000, bucket_cap_mb=0.05)
        state = attach(net)
    _backward(world, net)
    world.mark()
    world.kept = (net,)
    if how == "backward":  # buckets are under way, and the last one never comes
        net.module.first.weight.register_hook(_fail)
        _backward(world, net)
    return state


def forked(world: World, *, adapter: str) -> None:
    """A child that is forked after `attach` tries a step; then the parent takes one."""
    world.join()
    net = torch.nn.Linear(IN, OUT)
    model, state = attached(world, adapter, net, uplink="natural", timeout=5.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    said = world.folder / f"child-{world.rank}"
    child = os.fork()
    if child == 0:
        try:
            _step(world, model, optimizer, state)
            said.write_text("stepped")
        except Exception as error:
            said.write_text(f"{type(error).__name__}: {error}")
        with contextlib.suppress(Exception):
            state.close()  # which is the parent's
            said.write_text(said.read_text() + " closed")
        os._exit(0)
    deadline = time.monotonic() + 10.0
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    world.result["child"] = said.read_text() if said.exists() else "nothing"
    _step(world, model, optimizer, state)
    world.result["steps"] = state.report().steps
    state.close()
    world.leave(model)


def _step(world: World, model: Any, optimizer: Any, state: Any) -> None:
    x, y = batch(world, 0)
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    if isinstance(state, localsgd.LocalSGD):
        state.step()


SCENARIOS: dict[str, Callable[..., None]] = {"ends": ends, "forked": forked}
