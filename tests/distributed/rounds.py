"""What the ranks of LocalSGD runs do."""

import hashlib
import os
import random
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from faults import DEEDS, _before, _before_exchange
from scenarios import IN, Net, batch, digest, everything
from workers import World

from fewbits import localsgd
from fewbits.collectives.units import Batch
from fewbits.session import reducer

Run = dict[str, Any]
H = 3
ROUND = 2  # the round that ends badly, counted from 0


class Normed(Net):
    """With running statistics, and buffers that are nobody's business."""

    def __init__(self, wide: int = 257) -> None:
        super().__init__(wide)
        self.norm = torch.nn.BatchNorm1d(IN)
        self.register_buffer("mask", torch.full((2,), -torch.inf))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(self.norm(x))


def built(world: World, run: Run) -> torch.nn.Module:
    """A model whose first weights are the rank's own: attaching must give all rank 0's."""
    torch.manual_seed(world.rank)
    wide = run.pop("wide", 300)
    net: torch.nn.Module = Normed(wide) if run.pop("normed", False) else Net(wide)
    dtype = run.pop("dtype", "float32")
    if dtype == "mixed":
        net.second.to(torch.float64)
        forward = net.second.forward
        net.second.forward = lambda x: forward(x.double()).float()  # type: ignore[method-assign]
    else:
        net.to(getattr(torch, dtype))
    return net


def common(local: localsgd.LocalSGD) -> str:
    """SHA-256 of what all ranks have in common: parameters, buffers and momentum."""
    arrays = local.state_dict()
    kept = [key for key in sorted(arrays) if key.startswith(("own/start", "own/momentum"))]
    return hashlib.sha256(b"".join(arrays[key].tobytes() for key in kept)).hexdigest()


class Training:
    """A model, its optimizer and its rounds, which can be saved and restored together."""

    def __init__(self, world: World, run: Run) -> None:
        options = {"uplink": "natural", "policy": everything, "local_steps": H} | dict(run)
        rate, self.sick = options.pop("lr", 0.02), options.pop("sick", None)
        self.net = built(world, options)
        if "devices" in options:  # every rank has its own
            options["device"] = options.pop("devices")[world.rank]
        self.local = localsgd.attach(self.net, options.pop("uplink"), **options)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=rate, momentum=0.9)

    def step(self, world: World, number: int) -> bool:
        self.optimizer.zero_grad()
        x, y = batch(world, number, next(self.net.parameters()).dtype)
        loss = torch.nn.functional.mse_loss(self.net(x), y)
        if self.sick == number and world.rank == 1:
            loss = loss * torch.nan
        loss.backward()
        self.optimizer.step()
        return self.local.step()

    def save(self, folder: Path, rank: int) -> None:
        self.local.save(folder)
        torch.save(
            (self.net.state_dict(), self.optimizer.state_dict()), folder / f"others-{rank}.pt"
        )
        (folder / f"done-{rank}").touch()

    def load(self, folder: Path, rank: int) -> None:
        model, optimizer = torch.load(folder / f"others-{rank}.pt", weights_only=True)
        self.net.load_state_dict(model)
        self.optimizer.load_state_dict(optimizer)
        self.local.load(folder)


def train(world: World, *, runs: Sequence[Run], steps: int) -> None:
    """For each run what is common after every round, and all parameters at the end."""
    world.join()
    told = world.result["runs"] = []
    for run in runs:
        training = Training(world, run)
        own: dict[str, Any] = {"begins": digest(training.net), "rounds": [], "alone": []}
        for number in range(steps):
            if training.step(world, number):
                own["rounds"].append([common(training.local), digest(training.net)])
                own.setdefault("skipped", []).append(training.local.skipped)
            else:
                own["alone"].append(digest(training.net))
        training.local.sync()
        buffers = [own_ for _, own_ in sorted(training.net.named_buffers())]
        own |= {
            "final": digest(training.net),
            "finite": all(bool(p.isfinite().all()) for p in training.net.parameters()),
            "buffers": [b.double().reshape(-1).tolist() for b in buffers],
            "report": training.local.report().as_dict(),
            "text": str(training.local.report()),
            "streams": training.local.session.stream is not None,
        }
        training.local.close()
        told.append(own)
    world.leave()


def begin(world: World, training: Training, place: Path) -> int:
    """Load what all ranks have saved last; the step to go on with."""
    done = [p for p in place.glob("step-*") if len(list(p.glob("done-*"))) == world.size]
    last = max((int(p.name[5:]) for p in done), default=0)
    if last:
        training.load(place / f"step-{last}", world.rank)
    return last


def interrupted_rounds(
    world: World,
    *,
    runs: Sequence[Run],
    steps: int,
    folder: str,
    every: int = 0,
    death: int | None = None,
) -> None:
    """Train all runs side by side; with `every` save, with `death` die, and go on if one can."""
    world.join()
    trainings = [Training(world, run) for run in runs]
    begins = [
        begin(world, training, Path(folder) / str(number))
        for number, training in enumerate(trainings)
    ]
    source = random.Random(death)
    when = source.randrange(every + 1, steps), source.randrange(len(runs))
    try:
        for step in range(steps):
            for number, training in enumerate(trainings):
                if step >= begins[number]:
                    training.step(world, step)
                if every and (step + 1) % every == 0:
                    training.save(Path(folder) / str(number) / f"step-{step + 1}", world.rank)
                if death is not None and (step, number) == when:
                    os.kill(os.getpid(), signal.SIGKILL)
    except Exception:
        if death is None:
            raise
        os.kill(os.getpid(), signal.SIGKILL)  # another rank was first
    ends = []
    for training in trainings:
        before = common(training.local)
        training.local.sync()
        momenta = [own["momentum_buffer"] for own in training.optimizer.state.values()]
        own = hashlib.sha256(b"".join(m.numpy().tobytes() for m in momenta)).hexdigest()
        ends.append([before, digest(training.net), own])
        training.local.close()
    world.result |= {"begins": begins, "ends": ends}
    world.leave()


def lost(
    world: World,
    *,
    place: str,
    deed: str,
    culprit: int = 1,
    timeout: float = 30.0,
    run: Run | None = None,
) -> None:
    """Train until the culprit does a deed at a place of round `ROUND`."""
    world.join()
    training = Training(world, {"timeout": timeout} | (run or {}))
    local = training.local

    def now() -> None:
        if local.session.progress.step == H * (ROUND + 1):
            world.mark()
            DEEDS[deed]()

    if world.rank == culprit and place == "encode":
        _before(Batch, "encode", now)
    elif world.rank == culprit and place == "commit":
        _before(reducer, "commit", now)
    elif world.rank == culprit and place == "second hop":
        _before_exchange(local, 1, now)  # type: ignore[arg-type]
    _count(world, training, place if world.rank == culprit else "", deed)


def _count(world: World, training: Training, place: str, deed: str) -> None:
    """Train, counting the rounds that have ended."""
    world.result["rounds"] = 0
    for number in range(20 * H):
        if place == "local" and number == ROUND * H + 1:
            world.mark()
            DEEDS[deed]()
        if place == "early" and number == ROUND * H + 1:
            world.mark()
            training.local.sync()
        if training.step(world, number):
            world.result["rounds"] += 1


def apart(world: World, *, run: Run, culprit: int = 1) -> None:
    """The culprit attaches with another argument."""
    world.join()
    dist.barrier()
    world.mark()
    Training(world, run if world.rank == culprit else {})


def reloaded(world: World, *, run: Run, folder: str, save: bool, in_round: bool = False) -> None:
    """Save after some rounds, or go on from what any number of ranks have saved."""
    world.join()
    training = Training(world, run)
    steps = 2 * H + 1
    if save:
        for number in range(steps):
            training.step(world, number)
        if not in_round:
            training.local.sync()
        training.local.save(folder)
        world.result["common"] = common(training.local)
    else:
        training.local.load(folder, reshard=True)
        world.result |= {"common": common(training.local), "begins": digest(training.net)}
        for number in range(H):
            training.step(world, steps + number)
    world.result["final"] = digest(training.net)
    training.local.close()
    world.leave()


SCENARIOS: dict[str, Callable[..., None]] = {
    "train_rounds": train,
    "interrupted_rounds": interrupted_rounds,
    "lost": lost,
    "apart": apart,
    "reloaded": reloaded,
}
