"""Programs that end: with or without `close()`, by themselves or by an error, busy or not."""

import sys
from collections.abc import Callable
from typing import Any

import torch
from rounds import Training
from scenarios import attach, batch, built
from workers import World


class UserError(Exception):
    """What a user's own code raises."""


def _backward(world: World, net: Any) -> None:
    x, y = batch(world, 0)
    torch.nn.functional.mse_loss(net(x), y).backward()


def _fail(*_: object) -> None:
    raise UserError("in the backward pass")


def ends(world: World, *, how: str, close: bool) -> None:
    """A step, then the end: a plain one, an error's, `sys.exit`, or one amid an exchange."""
    world.join()
    state: Any
    if how == "rounds":  # the exchange of a round is under way
        training = Training(world, {"overlap": True, "local_steps": 1, "wide": 4000})
        state = training.local
        training.step(world, 0)
    else:
        net = built("net", "float32", wide=4000, bucket_cap_mb=0.05)
        state = attach(net)
        _backward(world, net)
        world.kept = (net,)
    if how == "backward":  # buckets are under way, and the last one never comes
        net.module.first.weight.register_hook(_fail)
        _backward(world, net)
    if close:
        state.close()
        torch.distributed.destroy_process_group()
    if how == "raise":
        raise UserError("after a step")
    if how == "exit":
        sys.exit(7)


SCENARIOS: dict[str, Callable[..., None]] = {"ends": ends}
