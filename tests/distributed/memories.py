"""What the ranks of a run with feedback do: train, save, die, go on, refuse what is not theirs."""

import contextlib
import hashlib
import os
import pickle
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from scenarios import Direct, attach, batch, built, digest, everything
from torch.nn.parallel import DistributedDataParallel
from workers import World

from fewbits import DisagreementError, ddp

Run = dict[str, Any]


def remembered(state: ddp.Compression, side: str = "") -> str:
    """SHA-256 of the memories of one side, or of all."""
    hasher = hashlib.sha256()
    for key, array in sorted(state.state_dict().items()):
        if key != "fewbits" and key.startswith(side):
            hasher.update(f"{key} {array.shape} {array.dtype}".encode() + array.tobytes())
    return hasher.hexdigest()


class Training:
    """A model, its optimizer and its compression, which can be saved and restored together."""

    def __init__(self, run: Run) -> None:
        options = dict(run)
        pair = options.pop("pair", False)
        self.net = built(
            "net",
            options.pop("dtype", "float32"),
            wide=options.pop("wide", 2600),
            bucket_cap_mb=options.pop("bucket", 25),
        )
        if pair:
            options = {"policy": everything} | options
            self.state = ddp.Compression(options.pop("uplink"), **options)
            self.net.register_comm_hook(self.state, ddp.hook)
        else:
            self.state = attach(self.net, **options)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.02, momentum=0.9)

    def step(self, world: World, number: int) -> None:
        self.optimizer.zero_grad()
        x, y = batch(world, number, next(self.net.parameters()).dtype)
        torch.nn.functional.mse_loss(self.net(x), y).backward()
        self.optimizer.step()

    def save(self, folder: Path, rank: int) -> None:
        self.state.save(folder)
        torch.save(self._others(), folder / f"others-{rank}.pt")
        (folder / f"done-{rank}").touch()

    def load(self, folder: Path, rank: int) -> None:
        self.state.load(folder)
        model, optimizer = torch.load(folder / f"others-{rank}.pt", weights_only=True)
        self.net.module.load_state_dict(model)
        self.optimizer.load_state_dict(optimizer)

    def _others(self) -> tuple[Any, Any]:
        return self.net.module.state_dict(), self.optimizer.state_dict()

    def told(self) -> list[str]:
        momenta = [own["momentum_buffer"] for own in self.optimizer.state.values()]
        optimizer = hashlib.sha256(b"".join(m.numpy().tobytes() for m in momenta)).hexdigest()
        return [digest(self.net), optimizer, remembered(self.state)]


def kept(world: World, *, runs: Sequence[Run], steps: int, every: int = 1) -> None:
    """Digests of parameters and of what all ranks remember alike, for each run in turn."""
    world.join()
    alive = []
    for number, run in enumerate(runs):
        training = Training({"wide": 300, "bucket": 0.05} | run)
        digests = []
        for step in range(steps):
            training.step(world, step)
            if (step + 1) % every == 0:
                digests.append(digest(training.net))
        world.result[str(number)] = digests
        training.state.close()
        alive.append(training.net)
    world.leave(alive)


def interrupted(
    world: World,
    *,
    runs: Sequence[Run],
    steps: int,
    folder: str,
    every: int = 0,
    death: int | None = None,
) -> None:
    """Train all runs side by side and tell what they end with.

    With `every` all ranks save after so many steps; with `death`, a seed, they kill themselves at a
    random moment, not all at the same. A run goes on from what is complete in its folder.
    """
    world.join()
    trainings = [Training(run) for run in runs]
    places = [Path(folder) / str(number) for number in range(len(runs))]
    begins = [
        _begin(world, training, place) for training, place in zip(trainings, places, strict=True)
    ]
    source = random.Random(death)
    when = source.randrange(every + 1, steps), source.randrange(len(runs))
    before = random.Random(f"{death} {world.rank}").random() < 0.5  # its own save, or after it
    try:
        for step in range(steps):
            for number, training in enumerate(trainings):
                dies = death is not None and (step, number) == when
                if step >= begins[number]:
                    training.step(world, step)
                if dies and before:
                    os.kill(os.getpid(), signal.SIGKILL)
                if every and (step + 1) % every == 0:
                    training.save(places[number] / f"step-{step + 1}", world.rank)
                if dies:
                    os.kill(os.getpid(), signal.SIGKILL)
    except Exception:
        if death is None:
            raise
        os.kill(os.getpid(), signal.SIGKILL)  # another rank was first
    world.result |= {"begins": begins, "ends": [training.told() for training in trainings]}
    for training in trainings:
        training.state.close()
    world.leave(trainings)


def _begin(world: World, training: Training, place: Path) -> int:
    """Load what all ranks have saved last; the step to go on with."""
    done = [p for p in place.glob("step-*") if len(list(p.glob("done-*"))) == world.size]
    last = max((int(p.name[5:]) for p in done), default=0)
    if last:
        training.load(place / f"step-{last}", world.rank)
        assert training.state.step == last
    return last


def saved(world: World, *, run: Run, folder: str, steps: int = 3, from_: str | None = None) -> None:
    """Train, save, tell the parameters; with `from_` first take what other ranks saved there."""
    world.join()
    training = Training({"wide": 1100} | run)
    if from_ is not None:
        training.state.load(from_, reshard=True)
        assert training.state.step == 3
        training.state.save(Path(folder) / "taken")
    for step in range(steps):
        training.step(world, step)
    training.state.save(folder)
    world.result |= {"final": digest(training.net), "step": training.state.step}
    training.state.close()
    world.leave(training)


RUN: Run = {"uplink": "natural", "feedback": "ef21", "wide": 300}


def refused(world: World, *, culprit: int = 1) -> None:
    """What loading raises where one rank, or all, do not have what they need, and how soon."""
    world.join()
    folder = world.folder / "saved"
    first = Training(RUN)
    for step in range(5):  # payloads travel with their headers by then, and must not be missed
        first.step(world, step)
    first.state.save(folder)
    own = folder / f"rank-{world.rank}-of-{world.size}.safetensors"
    whole = own.read_bytes()
    told = world.result["told"] = {}
    memories, step = remembered(first.state), first.state.step

    def attempt(name: str, training: Training, damage: Callable[[], object], **how: Any) -> None:
        dist.barrier()
        if world.rank == culprit:
            damage()
        dist.barrier()
        began = time.monotonic()
        try:
            training.state.load(folder, **how)
        except DisagreementError as error:
            told[name] = ["DisagreementError", str(error), time.monotonic() - began]
        except Exception as error:
            told[name] = [type(error).__name__, str(error), time.monotonic() - began]
        else:
            told[name] = ["none", "", 0.0]
        own.write_bytes(whole)

    attempt("nothing", first, lambda: None)
    attempt("missing", first, own.unlink)
    attempt("cut short", first, lambda: own.write_bytes(whole[:-9]))
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    attempt("one bit", first, lambda: own.write_bytes(flipped))
    other = folder / f"rank-{1 - culprit}-of-{world.size}.safetensors"
    attempt("another rank's", first, lambda: own.write_bytes(other.read_bytes()))
    attempt("missing for all", first, own.unlink, reshard=True)
    world.result["untouched"] = remembered(first.state) == memories and first.state.step == step

    def older() -> None:
        first.state.step -= 1
        first.state.save(folder)
        first.state.step += 1

    attempt("another step", first, older)
    for name, change in (
        ("operator", {"uplink": "natural:coder=rans"}),
        ("feedback", {"feedback": "ef14"}),
        ("no feedback", {"feedback": None}),
        ("model", {"wide": 301}),
        ("collective", {"collective": "star"}),
    ):
        training = Training(RUN | change)
        attempt(name, training, lambda: None)
        training.state.close()
    attempt("good again", first, lambda: None)
    for step in range(5, 9):
        first.step(world, step)
    world.result["final"] = digest(first.net)
    first.state.close()
    world.leave(first)


def unpickled(world: World, *, run: Run) -> None:
    """Save and load while nothing can be unpickled; then go on."""
    world.join()
    training = Training({"wide": 300} | run)
    if run.get("pair"):
        training.state.save(world.folder / "at once")
    training.step(world, 0)
    training.state.save(world.folder / "saved")
    before = remembered(training.state)
    training.step(world, 1)
    assert remembered(training.state) != before
    with _nothing_unpickled():
        training.state.load(world.folder / "saved")
    world.result |= {
        "same": remembered(training.state) == before,
        "step": training.state.step,
        "files": sorted(path.name for path in (world.folder / "saved").iterdir()),
        "at once": sorted(path.name for path in world.folder.glob("at once/*")),
    }
    training.step(world, 1)
    report = training.state.report()
    world.result |= {"report": report.as_dict(), "text": str(report), "final": digest(training.net)}
    training.state.close()
    world.leave(training)


@contextlib.contextmanager
def _nothing_unpickled() -> Iterator[None]:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("something was unpickled")

    known = pickle.loads, pickle.load, pickle.Unpickler
    pickle.loads = pickle.load = pickle.Unpickler = refuse  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        pickle.loads, pickle.load, pickle.Unpickler = known  # type: ignore[misc]


def joined(world: World, *, run: Run) -> None:
    """Uneven inputs: whether a rank's memory stays as it was when its inputs ended."""
    world.join()
    training = Training({"wide": 300, "bucket": 0.05} | run)
    sides = ("worker", "mean", "master")
    with training.net.join():
        for step in range(6 - 3 * world.rank):
            training.step(world, step)
        before = [remembered(training.state, side) for side in sides]
    after = [remembered(training.state, side) for side in sides]
    same = [one == other for one, other in zip(before, after, strict=True)]
    world.result |= {"same": same, "final": digest(training.net)}
    training.state.close()
    world.leave(training)


def direct(
    world: World,
    *,
    run: Run,
    parts: int = 1,
    steps: int = 4,
    zero_from: int | None = None,
    sick: Sequence[int] = (),
    scaler: bool = False,
    again: bool = False,
    **model: Any,
) -> None:
    """Gradients known to all, each in so many `parts`: what the ranks get and remember.

    From step `zero_from` on they are zero; in `sick` steps rank 1 has an infinite one. `again`
    closes after an error, goes back to the start of the step and goes on.
    """
    world.join()
    sizes = [300, 7, 900]
    torch.manual_seed(0)
    net = DistributedDataParallel(Direct(sizes, ["float32"] * 3), bucket_cap_mb=0.001, **model)
    state = attach(net, **run)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scale = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=scaler)
    seen = world.result["seen"] = []
    for step in range(steps):
        optimizer.zero_grad()
        pieces = [_pieces(world.rank, step, part, sizes) for part in range(3)]
        if parts == 1:
            pieces = [[a + b + c for a, b, c in zip(*pieces, strict=True)]]
        if zero_from is not None and step >= zero_from:
            pieces = [[torch.zeros_like(x) for x in piece] for piece in pieces]
        if step in sick and world.rank == 1:
            pieces[-1][2][5] = float("inf")
        before, weights = remembered(state), digest(net)
        saved = state.state_dict()
        try:
            for part, piece in enumerate(pieces):
                with contextlib.nullcontext() if part == len(pieces) - 1 else net.no_sync():
                    scale.scale(net(*piece)).backward()
        except Exception as error:
            if not again:
                raise
            seen.append({"error": type(error).__name__})
            state.close()
            state.load_state_dict(saved)
            seen[-1]["same"] = remembered(state) == before
            net = DistributedDataParallel(net.module, bucket_cap_mb=0.001, **model)
            net.register_comm_hook(state, ddp.hook)
            continue
        scale.step(optimizer)
        scale.update()
        arrays = {key: array for key, array in state.state_dict().items() if key != "fewbits"}
        seen.append(
            {
                "gradients": digest(net, gradients=True),
                "norm": float(sum(w.grad.norm() ** 2 for w in net.module.weights) ** 0.5),
                "moved": digest(net) != weights,
                "same": remembered(state) == before,
                "finite": all(bool(np.isfinite(array).all()) for array in arrays.values()),
                "size": float(sum(np.abs(array).sum() for array in arrays.values())),
                "memories": remembered(state),
                "skipped": state.skipped,
            }
        )
    world.result |= {"final": digest(net), "report": state.report().as_dict()}
    state.close()
    world.leave(net)


class Twins(torch.nn.Module):
    """Two layers, of which the second can be left out."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(33, 3), torch.nn.Linear(33, 3)

    def forward(self, x: torch.Tensor, both: bool) -> torch.Tensor:
        return self.first(x) + self.second(x) if both else self.first(x)


def unused(world: World) -> None:
    """Memories of a layer that no rank uses in the last two steps, before and after them."""
    world.join()
    torch.manual_seed(0)
    net = DistributedDataParallel(Twins(), find_unused_parameters=True)
    state = attach(net, uplink="top-k:fraction=0.1|natural", feedback="ef14")
    seen = []
    for step in range(5):
        net.zero_grad()
        x, y = batch(world, step)
        torch.nn.functional.mse_loss(net(x, step < 3), y).backward()
        kept = state.state_dict()["worker/second.weight/0"]
        seen.append([float(np.abs(kept).sum()), net.module.second.weight.grad is None])
    world.result["seen"] = seen
    state.close()
    world.leave(net)


def _pieces(rank: int, step: int, part: int, sizes: Sequence[int]) -> list[torch.Tensor]:
    source = np.random.default_rng([rank, step, part, 8])
    return [torch.from_numpy(source.standard_normal(n).astype(np.float32)) for n in sizes]


SCENARIOS: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (kept, interrupted, saved, refused, unpickled, joined, direct, unused)
}
