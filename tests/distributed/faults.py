"""What the ranks of a run do in which one of them, the culprit, fails, stops or goes astray."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from scenarios import attach, batch, built, everything
from workers import World

from fewbits import ddp
from fewbits.backend.kernel import Row, Written
from fewbits.collectives import header
from fewbits.collectives.comm import Mail, Pending
from fewbits.collectives.units import Batch
from fewbits.core.operator import Operator
from fewbits.operators.natural import Natural
from fewbits.reference.formats import Format
from fewbits.reference.tally import Tally
from fewbits.session import pipeline, plain, reducer, session
from fewbits.session.jobs import Job
from fewbits.session.pipeline import Background
from fewbits.session.reducer import Compressed
from fewbits.transport.torch_comm import TorchComm
from fewbits.wire.sections import Section

STEP = 4  # the step in which things go wrong: payloads travel with their headers by then
EARLY_STEP = 1  # where they still follow their headers
EXCHANGES = {  # what a rank is about to exchange, by how many exchanges there were in the step
    "header": 0,
    "payload": 1,
    "first hop": 0,
    "second hop": 1,
    "next bucket": 2,
}


@dataclass
class Late:
    """Mail to which something is done when it has arrived."""

    pending: Pending
    deed: Callable[[], None]

    def wait(self) -> None:
        self.pending.wait()
        self.deed()


def step_of(place: str) -> int:
    """The step in which something goes wrong at that place."""
    return EARLY_STEP if place in ("header", "payload") else STEP


def fail(
    world: World,
    *,
    place: str,
    deed: str,
    culprit: int = 1,
    timeout: float = 30.0,
    steps: int = 7,
    options: dict[str, Any] | None = None,
) -> None:
    """Train until the culprit does a deed at a place."""
    world.join()
    net = built("net", "float32", bucket_cap_mb=0.05)
    state = attach(net, timeout=timeout, **(options or {}))
    if world.rank == culprit:
        _prepare(world, state, place, deed)
    _train(world, net, steps)


def _train(world: World, net: Any, steps: int, local: int | None = None) -> None:
    """Plain training, counting the optimizer's steps; step `local` is not synchronised."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for step in range(steps):
        world.result["steps"] = step
        optimizer.zero_grad()
        x, y = batch(world, step, next(net.parameters()).dtype)
        if step == local:
            world.mark()
        with net.no_sync() if step == local else contextlib.nullcontext():
            torch.nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
    world.result["steps"] = steps


def _prepare(world: World, state: ddp.Compression, place: str, deed: str) -> None:
    """Patch this process so that it does the deed when it comes to the place."""

    def now() -> None:
        if state.session.progress.step == step_of(place):
            world.mark()
            DEEDS[deed]()

    if place == "hook":
        _before(ddp.Compression, "submit", now)
    elif place == "encode":
        _before(Batch, "encode", now)
    elif place == "prepare":
        _before(Compressed, "_pieces", now)
    elif place == "commit":
        for module in (plain, reducer):
            _before(module, "commit", now)
    elif deed == "damage":
        _damage(world, state, step_of(place))
    else:
        _before_exchange(state, EXCHANGES[place], now)


def _before(owner: Any, name: str, deed: Callable[[], None]) -> None:
    function = getattr(owner, name)

    def patched(*arguments: Any, **options: Any) -> Any:
        deed()
        return function(*arguments, **options)

    setattr(owner, name, patched)


def _before_exchange(state: ddp.Compression, number: int, deed: Callable[[], None]) -> None:
    """Before the exchange with this number, counted from the start of the step."""
    seen = {"step": -1, "count": 0}

    def count() -> None:
        if seen["step"] != state.session.progress.step:
            seen.update(step=state.session.progress.step, count=0)
        if seen["count"] == number:
            deed()
        seen["count"] += 1

    _before(TorchComm, "start", count)


def _damage(world: World, state: ddp.Compression, step: int) -> None:
    """Flip one bit of the last payload that arrives in that step, after it left its sender."""
    start = TorchComm.start

    def patched(self: TorchComm, *mail: Mail, **options: Any) -> Pending:
        pending = start(self, *mail, **options)
        sender = (self.rank + 1) % self.size

        def damage() -> None:
            for _, incoming in mail:
                payload = incoming[sender]
                if (
                    state.session.progress.step == step
                    and payload is not None
                    and payload.size > 1000
                ):
                    world.mark()
                    payload.array()[500] ^= 16

        return Late(pending, damage)

    TorchComm.start = patched  # type: ignore[method-assign]


def _raise(error: BaseException) -> Callable[[], None]:
    def deed() -> None:
        raise error

    return deed


def _stop() -> None:
    """Stop here: another thread may take the signal, while this one would go on for a moment."""
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(1000)


DEEDS: dict[str, Callable[[], None]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stop": _stop,
    "raise": _raise(ZeroDivisionError("out of luck")),
    "memory": _raise(MemoryError("out of room")),
    "damage": lambda: None,
    "exit": _raise(SystemExit(3)),
    "cancel": _raise(asyncio.CancelledError("enough")),
    "interrupt": _raise(KeyboardInterrupt()),
    "hang": lambda: time.sleep(1000),
}


def poison(
    world: World,
    *,
    culprit: int = 1,
    timeout: float = 30.0,
    options: dict[str, Any] | None = None,
) -> None:
    """The culprit's gradient is NaN at step `STEP`, and the policy is to raise."""
    world.join()
    net = built("net", "float32")
    attach(net, timeout=timeout, nonfinite="raise", **(options or {}))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for step in range(5):
        world.result["steps"] = step
        optimizer.zero_grad()
        x, y = batch(world, step)
        loss = torch.nn.functional.mse_loss(net(x), y)
        if step == STEP and world.rank == culprit:
            world.mark()
            loss = loss * torch.nan
        loss.backward()
        optimizer.step()


def stray(
    world: World,
    *,
    how: str,
    culprit: int = 1,
    timeout: float = 30.0,
    more: dict[str, Any] | None = None,
) -> None:
    """The culprit runs something else than the others, from the start or from step `STEP` on."""
    world.join()
    mine = world.rank == culprit
    dtype = "float64" if mine and how == "dtype" else "float32"
    net = built("net", dtype, bucket_cap_mb=0.05 if how != "no_sync" else 25)
    options = BASE_OPTIONS.get(how, {}) | (OTHER_OPTIONS.get(how, {}) if mine else {})
    options |= more or {}
    if mine and how == "length":
        _lengthen(Natural)
    if mine and how == "version":
        header._VERSION = 1
    dist.barrier()
    if how not in LATE:
        world.mark()
    if how == "policy of a hook":  # which learns the names of tensors from the first buckets
        net.register_comm_hook(ddp.Compression("natural", timeout=timeout, **options), ddp.hook)
    else:
        state = attach(net, timeout=timeout, **options)
    if mine and how in ("swap", "skip"):
        _rearrange(world, state, how)
    if mine and how == "weights":
        with torch.no_grad():
            net.module.last.bias += 1e-3
    _train(world, net, 6, local=STEP if mine and how == "no_sync" else None)


LATE = ("swap", "skip", "no_sync")  # these go astray at step `STEP`, and mark that moment
OTHER_OPTIONS: dict[str, dict[str, Any]] = {
    "operator": {"uplink": "natural:rounding=nearest", "downlink": "natural"},
    "downlink": {"downlink": "identity"},
    "seed": {"seed": 1},
    "collective": {"collective": "star"},
    "switch": {"collective": "switch", "aggregators": ["127.0.0.1:9"]},
    "nonfinite": {"nonfinite": "skip"},
    "policy": {"policy": "default"},
    "policy of a hook": {"policy": None},
    "bias": {"allow_bias": True},
}
BASE_OPTIONS: dict[str, dict[str, Any]] = {
    "bias": {"uplink": "auto"},
    "policy of a hook": {"policy": everything},
}


def _lengthen(operator: Any) -> None:
    """Another version of an operator, with one more byte in a section."""
    layout = operator.layout

    def longer(self: Natural, d: int, format: Format) -> tuple[Section, ...]:
        exponents, signs = layout(self, d, format)
        return exponents, replace(signs, count=signs.count + 8)

    def padded(self: Natural, row: Row) -> Written:
        return Written(Tally(), tuple(section.size for section in row.sections))

    operator.layout, operator.encode_row = longer, padded
    operator.kernel = Operator.kernel  # whose rows call `encode_row`


def _rearrange(world: World, state: ddp.Compression, how: str) -> None:
    """In step `STEP`, hand the first two buckets over in the other order, or drop the first."""
    submit, held = Background.submit, []

    def patched(self: Background, job: Job) -> None:
        if state.session.progress.step == STEP and job.index == 0:
            world.mark()
            held.append(job)
            return
        submit(self, job)
        while held and how == "swap":
            submit(self, held.pop())

    Background.submit = patched  # type: ignore[method-assign]


def absent(world: World, *, culprit: int = 1, timeout: float = 3.0, deed: str = "stop") -> None:
    """The culprit never attaches."""
    world.join()
    net = built("net", "float32")
    dist.barrier()
    world.mark()
    if world.rank == culprit:
        DEEDS[deed]()
    attach(net, timeout=timeout)


def stuck(world: World, *, grace: float, timeout: float) -> None:
    """The culprit's thread hangs where nothing bounds it, or is gone."""
    pipeline.GRACE, pipeline.LOOK = grace, 0.1
    session.GRACE = grace
    fail(world, place="encode", deed="hang", timeout=timeout)


def gone(world: World, *, culprit: int = 1) -> None:
    """The culprit's thread ends without a word."""
    world.join()
    net = built("net", "float32")
    state = attach(net, timeout=1.5)
    if world.rank == culprit:
        background = state.session._pipeline
        assert isinstance(background, Background)
        background._jobs.put(None)
        world.mark()
    _train(world, net, 1)


SCENARIOS = {
    "stuck": stuck,
    "gone": gone,
    "fail": fail,
    "poison": poison,
    "stray": stray,
    "absent": absent,
}
