"""What the ranks of a run do whose values travel as a stream, on the host or a device's backend."""

import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from faults import Late
from scenarios import attach, batch, built, digest
from workers import World

from fewbits import ddp
from fewbits.backend.boxes import Boxes
from fewbits.backend.buffers import Buffer
from fewbits.collectives.comm import Pending
from fewbits.errors import FewbitsError
from fewbits.transport.box_comm import TorchBoxes
from fewbits.transport.buffers import tensor_of
from fewbits.verify import quick_interpreter

INTERPRETED = "interpreted"
SMALL = {"kind": "net", "dtype": "float32", "wide": 5, "bucket_cap_mb": 0.001}
WAITING = (
    "item", "cpu", "tolist", "numpy", "nonzero", "masked_select", "is_nonzero", "__bool__",
    "__int__", "__float__", "__index__",
)  # fmt: skip
"""Methods of tensors for which a device's host waits."""


def streamed(
    world: World,
    *,
    devices: Sequence[str | None],
    steps: int = 20,
    sick: int | None = None,
    resume: int | None = None,
    model: dict[str, Any] | None = None,
    optimizer: dict[str, Any] | None = None,
    guard: bool = False,
    **options: Any,
) -> None:
    """Train; every rank has a device of its own, None for the flow through the host.

    In step `sick` rank 1 has a NaN. Before step `resume` all is saved and loaded anew.
    """
    world.join()
    options |= {"device": devices[world.rank]}
    net, state, stepper = _attached(model, optimizer, guard, options)
    kept = [net]
    world.result |= {"skipped": [], "streams": state.session.stream is not None}
    for step in range(steps):
        if step == resume:
            state.save(world.folder)
            state.close()
            parameters, momenta = net.state_dict(), stepper.state_dict()
            net, state, stepper = _attached(model, optimizer, guard, options)
            net.load_state_dict(parameters)
            stepper.load_state_dict(momenta)
            state.load(world.folder)
            kept.append(net)
        world.result["steps"] = step
        stepper.zero_grad()
        dtype = getattr(torch, (model or {}).get("dtype", "float32"), torch.float32)
        x, y = batch(world, step, dtype)
        if step == sick and world.rank == 1:
            world.mark()
            x[0, 3] = float("nan")
        torch.nn.functional.mse_loss(net(x), y).backward()
        if options.get("nonfinite") == "skip" and state.skipped:
            world.result["skipped"].append(step)
            continue
        stepper.step()
    world.result |= {"final": digest(net), "report": state.report().as_dict(), "steps": steps}
    state.close()
    world.leave(kept)


def _attached(
    model: dict[str, Any] | None,
    optimizer: dict[str, Any] | None,
    guard: bool,
    options: dict[str, Any],
) -> tuple[Any, ddp.Compression, torch.optim.Optimizer]:
    if options.get("device") == INTERPRETED:
        quick_interpreter.install()
    net = built(**(SMALL | (model or {})))
    state = attach(net, **options)
    chosen = {"lr": 0.05, "momentum": 0.9} | (optimizer or {})
    stepper = torch.optim.SGD(net.parameters(), **chosen)
    if guard:
        state.guard(stepper)
    return net, state, stepper


def broken(
    world: World,
    *,
    deed: str,
    place: str,
    device: str = "cpu",
    at: int = 3,
    steps: int = 6,
    timeout: float = 20.0,
    guard: bool = False,
    fused: bool = False,
    nap: float = 0.0,
) -> None:
    """Train until rank 1 does a deed in step `at`: before it swaps or gathers boxes, or ends.

    With `nap` rank 2 is busy in that place for so many seconds, and nobody else waits for it.
    """
    world.join()
    optimizer = {"fused": True} if fused else {}
    options = {"device": device, "timeout": timeout}
    net, state, stepper = _attached(None, optimizer, guard, options)
    if world.rank == 1:
        _plan(world, state, place, DEEDS[deed], at)
    elif world.rank == 2 and nap:
        _plan(world, state, place, partial(_nap, nap), at)
    world.result["digests"] = [digest(net)]
    for step in range(steps):
        world.result["steps"] = step
        stepper.zero_grad()
        x, y = batch(world, step)
        torch.nn.functional.mse_loss(net(x), y).backward()
        stepper.step()
        world.result["digests"].append(digest(net))
    world.leave(net)


def _plan(
    world: World,
    state: ddp.Compression,
    place: str,
    deed: Callable[[Buffer, Pending], Pending],
    at: int,
) -> None:
    progress = state.session.progress
    swap, gather = TorchBoxes.swap, TorchBoxes.gather

    def is_now(here: str) -> bool:
        if here != place or progress.step != at or progress.sequence != 1:
            return False
        if world.rank == 1:
            world.mark()
        return True

    def swapped(self: TorchBoxes, outgoing: Boxes, incoming: Boxes) -> Pending:
        now = is_now("swap")
        pending = swap(self, outgoing, incoming) if deed is not _die or not now else _die()
        return deed(incoming.payload(0), pending) if now else pending

    def gathered(self: TorchBoxes, own: Buffer, everyone: Boxes) -> Pending:
        now = is_now("gather")
        pending = gather(self, own, everyone) if deed is not _die or not now else _die()
        return deed(everyone.payload(0), pending) if now else pending

    TorchBoxes.swap, TorchBoxes.gather = swapped, gathered  # type: ignore[method-assign]


def _die(*_: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def _damage(payload: Buffer, pending: Pending) -> Pending:
    """Flip a bit of what has come from rank 0."""

    def flip() -> None:
        tensor_of(payload)[5] ^= 16

    return Late(pending, flip)


def _nap(seconds: float, payload: Buffer, pending: Pending) -> Pending:
    time.sleep(seconds)
    return pending


def _raise(payload: Buffer, pending: Pending) -> Pending:
    def fail() -> None:
        raise ZeroDivisionError("out of luck")

    return Late(pending, fail)


DEEDS: dict[str, Any] = {"kill": _die, "damage": _damage, "raise": _raise}


def waited(
    world: World,
    *,
    devices: Sequence[str | None],
    plant: bool = False,
    model: dict[str, Any] | None = None,
    **options: Any,
) -> None:
    """Count for what the host waits in good steps, on the way of the gradients."""
    world.join()
    options |= {"device": devices[world.rank]}
    net, state, stepper = _attached(model, None, False, options)
    if plant:
        _plant()
    calls: list[str] = []
    for step in range(4):
        stepper.zero_grad()
        x, y = batch(world, step)
        loss = torch.nn.functional.mse_loss(net(x), y)
        # In step 1 DDP rebuilds its buckets, and memories move to other places through the host.
        with _counted(calls if step > 1 else []):
            loss.backward()
        stepper.step()
    world.result |= {"calls": calls, "final": digest(net)}
    state.close()
    world.leave(net)


def _plant() -> None:
    """Make the exchange look at a value."""
    swap = TorchBoxes.swap

    def looking(self: TorchBoxes, outgoing: Boxes, incoming: Boxes) -> Pending:
        tensor_of(outgoing.memory).sum().item()
        return swap(self, outgoing, incoming)

    TorchBoxes.swap = looking  # type: ignore[method-assign]


@contextmanager
def _counted(calls: list[str]) -> Iterator[None]:
    """Note calls that would wait for a device, from lines of fewbits and of these tests.

    Triton's interpreter, which takes the device's place, looks at tensors of its own.
    """
    known = {name: getattr(torch.Tensor, name) for name in WAITING}
    places: list[Any] = [torch.cuda.Event, torch.cuda.Stream, torch.cuda]
    synchronize = [own.synchronize for own in places]

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            files = [
                frame.f_code.co_filename for frame, _ in traceback.walk_stack(sys._getframe(1))
            ]
            own = any("/fewbits/" in file for file in files)
            if own and not any("/triton/" in file for file in files):
                calls.append(f"{name} in {files[0]} {threading.current_thread().name}")
            return function(*given, **named)

        return call

    for name, function in known.items():
        setattr(torch.Tensor, name, noted(name, function))
    for place, function in zip(places, synchronize, strict=True):
        place.synchronize = noted("synchronize", function)
    try:
        yield
    finally:
        for name, function in known.items():
            setattr(torch.Tensor, name, function)
        for place, function in zip(places, synchronize, strict=True):
            place.synchronize = function


def unstreamed(world: World, *, cases: Sequence[dict[str, Any]]) -> None:
    """What `attach` says to options that cannot be."""
    world.join()
    told = world.result["told"] = []
    nets = []
    for options in cases:
        nets.append(built(**SMALL))
        try:
            with warnings.catch_warnings(action="ignore"):  # one of the operators is biased
                attach(nets[-1], timeout=5.0, **options)
            told.append(["nothing", ""])
        except FewbitsError as error:
            told.append([type(error).__name__, str(error)])
    world.leave(nets)


SCENARIOS = {"unstreamed": unstreamed, "streamed": streamed, "broken": broken, "waited": waited}
