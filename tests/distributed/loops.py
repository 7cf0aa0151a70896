"""Training loops as users write them: each is run plain, with the identity and with `natural`.

A row of the compatibility page is a function here. It gets a way to attach, trains a small model on
data that differ from rank to rank, and returns the model. Several rows run in one process group.
"""

import contextlib
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from scenarios import IN, OUT, Net, batch, digest, everything
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from workers import World

from fewbits import ddp
from fewbits.errors import SpecError
from fewbits.policy import Default


class Attaching:
    """`ddp.attach` with one operator, or nothing for plain DDP; keeps what it has attached."""

    def __init__(self, uplink: str | None) -> None:
        self.uplink = uplink
        self.states: list[ddp.Compression] = []
        self.told: dict[str, Any] = {}

    def __call__(self, model: nn.Module, **options: Any) -> ddp.Compression | None:
        if self.uplink is None:
            return None
        state = ddp.attach(model, self.uplink, **({"policy": everything} | options))
        self.states.append(state)
        return state


Row = Callable[[World, Attaching], nn.Module]


def _built(seed: int = 0, **options: Any) -> DistributedDataParallel:
    torch.manual_seed(seed)
    return DistributedDataParallel(Net(), **options)


def _train(
    world: World, model: nn.Module, steps: Sequence[int] = range(3), optimizer: Any = None
) -> None:
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in steps:
        x, y = batch(world, step)
        optimizer.zero_grad()
        mse_loss(model(x), y).backward()
        optimizer.step()


def compiled_before(world: World, attach: Attaching) -> nn.Module:
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.compile(Net(), backend="aot_eager"))
    state = attach(model)
    if state is not None:  # as without compiling, so both runs are one
        attach.told["names"] = sorted(state.session.routing.choices)
    _train(world, model)
    return model


def compiled_after(world: World, attach: Attaching) -> nn.Module:
    model = torch.compile(_built(), backend="aot_eager")
    attach(model)
    _train(world, model)
    return model


def compiled_by_inductor(world: World, attach: Attaching) -> nn.Module:
    model = torch.compile(_built())
    attach(model)
    _train(world, model)
    return model


def accumulated(world: World, attach: Attaching) -> nn.Module:
    """Several backward passes a step, each of which exchanges."""
    model = _built()
    attach(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(2):
        optimizer.zero_grad()
        for part in range(3):
            x, y = batch(world, 3 * step + part)
            (mse_loss(model(x), y) / 3).backward()
        optimizer.step()
    return model


def unfrozen(world: World, attach: Attaching) -> nn.Module:
    """A layer that is frozen at first; DDP must wrap the model again, and so must we."""
    torch.manual_seed(0)
    net = Net()
    net.second.requires_grad_(False)
    model = DistributedDataParallel(net)
    first = attach(model)
    _train(world, model, range(2))
    before = net.second.weight.detach().clone()
    net.second.requires_grad_(True)
    model = DistributedDataParallel(net)
    if first is not None:
        step = first.step
        first.close()
        second = attach(model)
        assert second is not None
        second.step = step  # no random number is drawn twice
    _train(world, model, range(2, 4))
    attach.told["moved"] = not torch.equal(before, net.second.weight)
    return model


class Tied(nn.Module):
    """The same parameter under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(130, 65), nn.Linear(65, 130, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.table((x[:, :4].abs() * 40).long().clamp(max=129)).mean(1))[:, :OUT]


def tied(world: World, attach: Attaching) -> nn.Module:
    torch.manual_seed(0)
    model = DistributedDataParallel(Tied())
    attach(model)
    _train(world, model)
    assert model.module.head.weight is model.module.table.weight
    return model


def clipped(world: World, attach: Attaching) -> nn.Module:
    model = _built()
    attach(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    norms = []
    for step in range(3):
        x, y = batch(world, step)
        optimizer.zero_grad()
        mse_loss(model(x), y).backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.05).item())
        optimizer.step()
    attach.told["norms"] = norms
    return model


def amp_bfloat16(world: World, attach: Attaching) -> nn.Module:
    model = _built()
    attach(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(3):
        x, y = batch(world, step)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = mse_loss(model(x), y.bfloat16())
        loss.backward()
        optimizer.step()
    return model


def _scaled(world: World, attach: Attaching, scaler: Any, options: dict[str, Any]) -> nn.Module:
    model = _built()
    state = attach(model, **options)
    if state is not None:
        state.track(scaler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(5):
        x, y = batch(world, step)
        optimizer.zero_grad()
        scaler.scale(mse_loss(model(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()
    return model


def grad_scaler(world: World, attach: Attaching) -> nn.Module:
    """The scale doubles in every step: with memories that follow, nothing else changes a bit."""
    options = {"feedback": "ef14"} if attach.uplink == "natural" else {}
    growing = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=1)
    model = _scaled(world, attach, growing, options)
    unscaled = _scaled(world, attach, torch.amp.GradScaler("cpu", enabled=False), options)
    attach.told |= {"scale": growing.get_scale(), "same": digest(model) == digest(unscaled)}
    return model


class Adapted(nn.Module):
    """A frozen layer and a low-rank change of it."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(256, 256).requires_grad_(False)
        self.down, self.up = nn.Linear(256, 8, bias=False), nn.Linear(8, 256, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.pad(x, (0, 256 - IN))
        return (self.base(x) + self.up(self.down(x)))[:, :OUT]


def lora(world: World, attach: Attaching) -> nn.Module:
    """Small tensors go exact by default, with a warning; the policy that it names cures it."""
    torch.manual_seed(0)
    net = Adapted()
    if attach.uplink == "natural":
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ddp.attach(DistributedDataParallel(net), "natural").close()
        attach.told["warned"] = [str(each.message) for each in caught]
        attach.told["at"] = [Path(each.filename).name for each in caught]
    model = DistributedDataParallel(net)
    state = attach(model, policy=Default(small=1024))
    _train(world, model)
    if state is not None:
        attach.told["share"] = state.report().compressed_share
    return model


class Experts(nn.Module):
    """Every input goes to one of four experts, so that ranks reach different ones."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(IN, 4)
        self.experts = nn.ModuleList(nn.Linear(IN, 130) for _ in range(4))
        self.head = nn.Linear(130, OUT)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shares = self.gate(x[:1]).softmax(-1)[0]
        chosen = int(shares.argmax())
        return self.head(torch.tanh(self.experts[chosen](x))) * shares[chosen]


def experts(world: World, attach: Attaching) -> nn.Module:
    torch.manual_seed(0)
    model = DistributedDataParallel(Experts(), find_unused_parameters=True)
    attach(model)
    _train(world, model, range(4))
    return model


def gan(world: World, attach: Attaching) -> nn.Module:
    """Two models, each with a compression; the generator's step goes through `judge.module`."""
    torch.manual_seed(0)
    maker = DistributedDataParallel(nn.Sequential(nn.Linear(8, 130), nn.Tanh(), nn.Linear(130, IN)))
    judge = DistributedDataParallel(nn.Sequential(nn.Linear(IN, 130), nn.Tanh(), nn.Linear(130, 1)))
    attach(maker)
    attach(judge)
    slow, fast = (torch.optim.SGD(each.parameters(), lr=0.05) for each in (maker, judge))
    for step in range(3):
        real, _ = batch(world, step)
        fake = maker(real[:, :8])
        fast.zero_grad()
        (judge(fake.detach()).sigmoid().mean() - judge.module(real).sigmoid().mean()).backward()
        fast.step()
        slow.zero_grad()
        (-judge.module(fake).sigmoid().mean()).backward()
        slow.step()
    return nn.ModuleList([maker, judge])


def lbfgs(world: World, attach: Attaching) -> nn.Module:
    """It compares losses, so the closure returns the mean of all ranks'."""
    model = _built()
    attach(model)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)

    for step in range(2):
        x, y = batch(world, step)

        def closure(x: torch.Tensor = x, y: torch.Tensor = y) -> float:
            optimizer.zero_grad()
            loss = mse_loss(model(x), y)
            loss.backward()
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            return mean.item() / world.size

        optimizer.step(closure)
    return model


@contextlib.contextmanager
def _interrupted(
    world: World, attach: Attaching, name: str
) -> Iterator[tuple[Any, Any, Any, Path]]:
    """A run after two steps: model, optimizer, compression and a folder of all ranks."""
    model = _built()
    state = attach(model, feedback="ef14")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    _train(world, model, range(2), optimizer)
    yield model, optimizer, state, world.folder / f"{name}-{attach.uplink}"
    _train(world, model, range(2, 4), optimizer)
    attach.told["uninterrupted"] = digest(model)


def _fresh(attach: Attaching) -> tuple[Any, Any, Any]:
    model = _built(seed=1)
    state = attach(model, feedback="ef14")
    return model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), state


def torch_saved(world: World, attach: Attaching) -> nn.Module:
    with _interrupted(world, attach, "torch") as (model, optimizer, state, folder):
        folder.mkdir(exist_ok=True)
        content = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
        if state is not None:
            content["compression"] = state.state_dict()
        torch.save(content, folder / f"rank-{world.rank}.pt")
    found = torch.load(folder / f"rank-{world.rank}.pt", weights_only=False)
    model, optimizer, state = _fresh(attach)
    model.module.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    if state is not None:
        state.load_state_dict(found["compression"])
    _train(world, model, range(2, 4), optimizer)
    return model


def torch_saved_whole(world: World, attach: Attaching) -> nn.Module:
    """The wrapped model with its hook, which nothing can save."""
    model = _built()
    if attach(model) is not None:
        try:
            pickle.dumps(model)
        except SpecError as error:
            attach.told["message"] = str(error)
    _train(world, model)
    return model


def dcp_saved(world: World, attach: Attaching) -> nn.Module:
    with _interrupted(world, attach, "dcp") as (model, optimizer, state, folder):
        dcp.save(
            {"model": model.module.state_dict(), "momentum": _momentum(model, optimizer)},
            checkpoint_id=folder,
        )
        if state is not None:
            state.save(folder / "fewbits")
    model, optimizer, state = _fresh(attach)
    momentum = {name: torch.zeros_like(own) for name, own in model.module.named_parameters()}
    content = {"model": model.module.state_dict(), "momentum": momentum}
    dcp.load(content, checkpoint_id=folder)
    model.module.load_state_dict(content["model"])
    for name, own in model.module.named_parameters():
        optimizer.state[own]["momentum_buffer"] = momentum[name]
    if state is not None:
        state.load(folder / "fewbits")
    _train(world, model, range(2, 4), optimizer)
    return model


def _momentum(model: Any, optimizer: Any) -> dict[str, torch.Tensor]:
    return {
        name: optimizer.state[own]["momentum_buffer"]
        for name, own in model.module.named_parameters()
    }


ROWS: dict[str, Row] = {
    "torch.compile before DDP": compiled_before,
    "torch.compile after DDP": compiled_after,
    "torch.compile by inductor": compiled_by_inductor,
    "gradient accumulation": accumulated,
    "frozen, then unfrozen": unfrozen,
    "tied weights": tied,
    "gradient clipping": clipped,
    "AMP bfloat16": amp_bfloat16,
    "GradScaler": grad_scaler,
    "LoRA": lora,
    "MoE": experts,
    "GAN": gan,
    "LBFGS": lbfgs,
    "torch.save": torch_saved,
    "torch.save of the whole model": torch_saved_whole,
    "DCP": dcp_saved,
}


def loops(world: World, *, rows: Sequence[str]) -> None:
    """Each row three times: what each ended with, and what it told."""
    world.join()
    kept = []
    for name in rows:
        found: dict[str, Any] = {}
        for how in (None, "identity", "natural"):
            attach = Attaching(how)
            model = ROWS[name](world, attach)
            found[how or "plain"] = attach.told | {
                "final": digest(model),
                "ratios": [state.report().ratio for state in attach.states],
            }
            for state in attach.states:
                state.close()
            kept.append(model)
        world.result[name] = found
    world.leave(kept)


SCENARIOS: dict[str, Callable[..., None]] = {"loops": loops}
