"""What the ranks of a healthy run do."""

import contextlib
import hashlib
import pickle
import random
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from workers import World

from fewbits import ddp
from fewbits.backend import library as _native
from fewbits.collectives import header
from fewbits.collectives.units import Batch, Summation
from fewbits.errors import SpecError

IN, OUT = 33, 3


class Net(torch.nn.Module):
    """Odd sizes, a matrix large enough for the default policy, and one of several chunks."""

    def __init__(self, wide: int = 257) -> None:
        super().__init__()
        self.first = torch.nn.Linear(IN, wide)
        self.second = torch.nn.Linear(wide, 65)
        self.last = torch.nn.Linear(65, OUT)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.second(torch.tanh(self.first(x)))))


class Odd(Net):
    """A layer that some inputs do not reach, a frozen one, an empty and a scalar parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.seldom = torch.nn.Linear(OUT, OUT)
        self.frozen = torch.nn.Linear(OUT, OUT).requires_grad_(False)
        self.empty = torch.nn.Parameter(torch.zeros(0, 3))
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor, seldom: bool = False) -> torch.Tensor:
        y = self.frozen(super().forward(x)) * self.scale + self.empty.sum()
        return self.seldom(y) if seldom else y


class Direct(torch.nn.Module):
    """A model whose gradient is its input: one parameter for each size and dtype."""

    def __init__(self, sizes: Sequence[int], dtypes: Sequence[str]) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList(
            torch.zeros(size, dtype=getattr(torch, dtype))
            for size, dtype in zip(sizes, dtypes, strict=True)
        )

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return sum(
            (weight * x).sum().double() for weight, x in zip(self.weights, inputs, strict=True)
        )


def everything(name: str, shape: tuple[int, ...]) -> None:
    """The policy that compresses every tensor."""


def attach(model: DistributedDataParallel, **options: Any) -> ddp.Compression:
    """`ddp.attach` with all tensors compressed unless the options say otherwise."""
    options = {"uplink": "natural", "policy": everything} | options
    if options["policy"] == "default":
        del options["policy"]
    if "key" in options:
        given = options.pop("aggregators")
        options["aggregators"] = ddp.Aggregators(given, key=options.pop("key"))
    if nodes := options.pop("nodes", None):  # ranks of a node follow each other
        rank, size = dist.get_rank(), dist.get_world_size()
        options["across"] = range(rank % (size // nodes), size, size // nodes)
    return ddp.attach(model, options.pop("uplink"), options.pop("downlink", None), **options)


def batch(world: World, step: int, dtype: torch.dtype = torch.float32, rows: int = 5) -> Any:
    """Input and target of one rank's step, the same in every run."""
    source = np.random.default_rng([world.rank, step])
    x, y = source.standard_normal((rows, IN)), source.standard_normal((rows, OUT))
    return torch.from_numpy(x).to(dtype), torch.from_numpy(y).to(dtype)


def digest(model: torch.nn.Module, gradients: bool = False) -> str:
    """SHA-256 of all parameters, or of their gradients."""
    hasher = hashlib.sha256()
    for parameter in model.parameters():
        values = parameter.grad if gradients else parameter
        if values is not None:
            hasher.update(values.detach().contiguous().reshape(-1).view(torch.uint8).numpy())
    return hasher.hexdigest()


def built(kind: str, dtype: str, seed: int = 0, wide: int = 257, **options: Any) -> Any:
    """A small model under DDP, the same on all ranks."""
    torch.manual_seed(seed)
    net: torch.nn.Module = Odd() if kind == "odd" else Net(wide)
    if dtype == "mixed":
        net.second.to(torch.float64)
        net.second.forward = _in_double(net.second.forward)  # type: ignore[method-assign]
    else:
        net.to(getattr(torch, dtype))
    return DistributedDataParallel(net, **options)


def _in_double(forward: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    return lambda x: forward(x.double()).float()


def train(
    world: World,
    *,
    steps: int = 4,
    model: dict[str, Any] | None = None,
    compression: dict[str, Any] | None = None,
    pair: bool = False,
    accumulate: int = 1,
    uneven: bool = False,
    simd: Sequence[str] | None = None,
) -> None:
    """Train, compressed if `compression` is not None, and tell digests and the report.

    `pair` registers state and hook without `attach`; `accumulate` backward passes make a step;
    `uneven` gives higher ranks fewer steps, within DDP's join; `simd` names each rank's kernels.
    """
    if simd is not None:
        _native.use_simd(simd[world.rank])
    world.join()
    kind = {"kind": "net", "dtype": "float32"} | (model or {})
    net = built(**kind)
    state = _registered(net, compression, pair)
    dtype = getattr(torch, kind["dtype"], torch.float32)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    losses = []
    mine = steps - world.rank if uneven else steps
    with net.join() if uneven else contextlib.nullcontext():
        for step in range(mine):
            optimizer.zero_grad()
            for part in range(accumulate):
                x, y = batch(world, step * accumulate + part, dtype)
                last = part == accumulate - 1
                extra = {"seldom": step % 2 == world.rank % 2} if kind["kind"] == "odd" else {}
                with contextlib.nullcontext() if last else net.no_sync():
                    loss = torch.nn.functional.mse_loss(net(x, **extra), y)
                    loss.backward()
            losses.append(loss.item())
            optimizer.step()
    world.result |= {"losses": losses, "final": digest(net)}
    if state is not None:
        world.result["report"] = state.report().as_dict()
        world.result["text"] = str(state.report())
        state.close()
    world.leave(net)


def _registered(
    net: DistributedDataParallel, compression: dict[str, Any] | None, pair: bool
) -> ddp.Compression | None:
    if compression is None:
        return None
    if not pair:
        return attach(net, **compression)
    options = {"policy": everything} | compression
    state = ddp.Compression(options.pop("uplink"), options.pop("downlink", None), **options)
    net.register_comm_hook(state, ddp.hook)
    return state


def replicas(
    world: World,
    *,
    runs: Sequence[tuple[str, str]],
    steps: int,
    every: int = 1,
    inner: int | None = None,
    optimizer: str = "SGD",
) -> None:
    """Digests of the parameters at checkpoints, for each operator and collective in turn.

    `inner` is torch's own number of threads, which holds for the calling thread only.
    """
    if inner is not None:
        torch.set_num_threads(inner)
    world.join()
    kept = []
    for uplink, collective in runs:
        net = built("net", "float32", wide=1100, bucket_cap_mb=0.2)
        with warnings.catch_warnings(action="ignore"):  # one of the operators is biased
            state = attach(net, uplink=uplink, collective=collective)
        stepper = getattr(torch.optim, optimizer)(net.parameters(), lr=0.01)
        digests = []
        for step in range(steps):
            stepper.zero_grad()
            x, y = batch(world, step)
            torch.nn.functional.mse_loss(net(x), y).backward()
            stepper.step()
            if (step + 1) % every == 0:
                digests.append(digest(net))
        world.result[f"{uplink} {collective}"] = digests
        state.close()
        kept.append(net)
    world.leave(kept)


def means(
    world: World, *, sizes: Sequence[int], dtypes: Sequence[str], collective: str, uplink: str
) -> None:
    """Gradients known to all: are their means those in rank order, in every dtype?"""
    world.join()
    net = DistributedDataParallel(Direct(sizes, dtypes), bucket_cap_mb=0.01)
    state = attach(net, uplink=uplink, downlink="identity", collective=collective)
    exact, finite = True, True
    for step in range(3):
        net.zero_grad()
        given = [_inputs(rank, step, sizes, dtypes) for rank in range(world.size)]
        net(*given[world.rank]).backward()
        for number, weight in enumerate(net.module.weights):
            wide = torch.float64 if weight.dtype == torch.float64 else torch.float32
            total = torch.zeros(weight.shape, dtype=wide)
            for inputs in given:
                total += inputs[number].to(wide)
            expected = (total / world.size).to(weight.dtype)
            exact &= torch.equal(weight.grad, expected)
            finite &= bool(weight.grad.isfinite().all())
    world.result |= {"exact": exact, "finite": finite, "digest": digest(net, gradients=True)}
    state.close()
    world.leave(net)


def _inputs(
    rank: int, step: int, sizes: Sequence[int], dtypes: Sequence[str]
) -> list[torch.Tensor]:
    source = np.random.default_rng([rank, step, 7])
    return [
        torch.from_numpy(source.standard_normal(size)).to(getattr(torch, dtype))
        for size, dtype in zip(sizes, dtypes, strict=True)
    ]


def nonfinite(
    world: World,
    *,
    policy: str,
    collective: str,
    uplink: str = "natural",
    downlink: str | None = None,
    dtype: str = "float32",
    cases: Sequence[tuple[float, int | None, int | None]],
    **options: Any,
) -> None:
    """For each case (value, place, rank): a step with that value there, then a healthy step.

    A place of None is everywhere, a rank of None all ranks. Stops at the first error.
    """
    world.join()
    count = 1001
    net = DistributedDataParallel(Direct([count], [dtype]))
    state = attach(
        net, uplink=uplink, downlink=downlink, collective=collective, nonfinite=policy, **options
    )
    seen = world.result["seen"] = []
    for value, place, rank in cases:
        for sick in (True, False):
            net.zero_grad()
            (x,) = _inputs(world.rank, len(seen), [count], [dtype])
            if sick and rank in (None, world.rank):
                world.mark()
                x[slice(None) if place is None else place] = value
            net(x).backward()
            gradient = net.module.weights[0].grad
            bad = ~gradient.isfinite()
            seen.append(
                {
                    "bad": int(bad.sum()),
                    "at": None if place is None else bool(bad[place]),
                    "zero": not gradient.any(),
                    "skipped": state.skipped,
                    "digest": digest(net, gradients=True),
                }
            )
    world.result["report"] = state.report().as_dict()
    state.close()
    world.leave(net)


def scaled(world: World, *, uplink: str | None, collective: str = "sharded") -> None:
    """Scales of a GradScaler over steps of which some have an infinite gradient on one rank."""
    world.join()
    net = DistributedDataParallel(Direct([301], ["float32"]))
    state = attach(net, uplink=uplink, collective=collective) if uplink else None
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    scales, before = [], digest(net)
    for step in range(8):
        optimizer.zero_grad()
        (x,) = _inputs(world.rank, step, [301], ["float32"])
        if step in (2, 5) and world.rank == 1:
            x[step] = float("inf") if step == 2 else 1e38  # the second one overflows when scaled
        scaler.scale(net(x)).backward()
        scaler.step(optimizer)
        scaler.update()
        after = digest(net)
        scales.append([scaler.get_scale(), after != before])
        before = after
    world.result |= {"scales": scales, "final": before}
    if state is not None:
        state.close()
    world.leave(net)


def globals_kept(world: World) -> None:
    """Whether a compressed step leaves the program's random generators alone."""
    world.join()
    net = built("net", "float32")
    state = attach(net)
    x, y = batch(world, 0)
    loss = torch.nn.functional.mse_loss(net(x), y)
    python, legacy, torchs = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    loss.backward()
    kept = [
        random.getstate() == python,
        all(np.array_equal(a, b) for a, b in zip(np.random.get_state(), legacy, strict=True)),  # noqa: NPY002
        torch.equal(torch.get_rng_state(), torchs),
    ]
    world.result["kept"] = kept
    state.close()
    world.leave(net)


def several(world: World, *, together: bool) -> None:
    """Two models with compression, step by step in turn or one after the other."""
    world.join()
    nets = [built("net", "float32", seed=seed, bucket_cap_mb=0.05) for seed in (1, 2)]
    states = [attach(nets[0], uplink="natural"), attach(nets[1], uplink="float16")]
    order = [(n, s) for s in range(3) for n in (0, 1)]
    for number, step in order if together else sorted(order):
        nets[number].zero_grad()
        x, y = batch(world, step)
        torch.nn.functional.mse_loss(nets[number](x), y).backward()
        with torch.no_grad():
            for parameter in nets[number].parameters():
                parameter -= 0.1 * parameter.grad
    world.result["final"] = [digest(net) for net in nets]
    for state in states:
        state.close()
    world.leave(nets)


def again(world: World, *, how: str, group: Sequence[int] | None = None) -> None:
    """Training that is interrupted by `close`: then the same state goes on, or a new model with a
    new state comes; `never` does not interrupt, and `twice` attaches once more, which is refused.
    `group` trains on these ranks only.
    """
    world.join()
    chosen = dist.new_group(group) if group is not None else None
    finals = []
    if group is None or world.rank in group:
        net = built("net", "float32", process_group=chosen)
        state = attach(net)
        for step in range(4):
            if step == 2 and how == "twice":
                with contextlib.suppress(SpecError):
                    attach(net)
                    raise AssertionError("a second hook was taken")
            elif step == 2 and how != "never":
                state.close()
                if how == "new":
                    net = DistributedDataParallel(net.module, process_group=chosen)
                    state = attach(net)
            net.zero_grad()
            x, y = batch(world, step)
            torch.nn.functional.mse_loss(net(x), y).backward()
            with torch.no_grad():
                for parameter in net.parameters():
                    parameter -= 0.1 * parameter.grad
        finals.append(digest(net))
        threads = [thread.name for thread in threading.enumerate()]
        world.result["threads"] = threads.count("fewbits-session")
        state.close()
        world.kept = (net,)
    world.result["final"] = finals
    world.leave(*world.kept)


def audited(world: World, *, collective: str) -> None:
    """The audit events of a compressed run that would mean code on the wire."""
    world.join()
    net = built("net", "float32", bucket_cap_mb=0.05)
    state = attach(net, collective=collective)
    pickles: list[str] = []
    inside: list[str] = []
    decoding = threading.local()

    def listen(event: str, arguments: Any) -> None:
        thread = threading.current_thread().name  # the main one may import, which uses marshal
        if event == "pickle.find_class" or (event == "marshal.loads" and "fewbits" in thread):
            pickles.append(f"{event} in {thread}")
        if event in ("exec", "compile", "import") and getattr(decoding, "now", False):
            inside.append(event)

    calls = [0]
    decoders = (
        (Batch, "decode"),
        (Summation, "run"),
        (Summation, "relay"),
        (header.RankHeader, "decode"),
    )
    for owner, name in decoders:
        _watch(owner, name, decoding, calls)
    sys.addaudithook(listen)
    for step in range(4):
        net.zero_grad()
        x, y = batch(world, step)
        torch.nn.functional.mse_loss(net(x), y).backward()
    pickled = list(pickles)
    pickle.loads(pickle.dumps(Net))  # the listener does hear
    world.result |= {
        "pickles": pickled, "inside": inside, "calls": calls[0], "heard": len(pickles),
    }  # fmt: skip
    state.close()
    world.leave(net)


def _watch(owner: Any, name: str, decoding: threading.local, calls: list[int]) -> None:
    function = getattr(owner, name)

    def watched(*arguments: Any) -> Any:
        decoding.now = True
        calls[0] += 1
        try:
            return function(*arguments)
        finally:
            decoding.now = False

    setattr(owner, name, watched)


def naturally(world: World, *, close: bool) -> None:
    """A healthy program that just ends, with or without closing."""
    world.join()
    net = built("net", "float32")
    state = attach(net)
    x, y = batch(world, 0)
    torch.nn.functional.mse_loss(net(x), y).backward()
    world.mark()
    if close:
        state.close()
        dist.destroy_process_group()


def clients(world: World, *, names: Sequence[str]) -> None:
    """Federated methods whose clients are spread over the ranks."""
    from clients import CLIENTS, points

    from fewbits.methods import Fleet
    from fewbits.transport.torch_comm import TorchComm

    world.join()
    comm = TorchComm()
    world.result |= {name: points(name, Fleet(CLIENTS, comm)) for name in names}
    comm.close()
    world.leave()


SCENARIOS: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (
        train, replicas, means, nonfinite, scaled, globals_kept, several, again, audited, naturally,
        clients,
    )
}  # fmt: skip
