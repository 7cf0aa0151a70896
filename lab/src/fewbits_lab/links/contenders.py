"""The contenders: plain DDP, torch's hooks, fewbits, and a step without communication."""

import hashlib
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.distributed.algorithms.ddp_comm_hooks import (
    default_hooks,
    powerSGD_hook,
    quantization_hooks,
)
from torch.nn.parallel import DistributedDataParallel

import fewbits.ddp
from fewbits.ddp import Compression
from fewbits.train import references
from fewbits_lab.links import names, switch

_WIDTHS = (1024, 2048, 2048, 1536, 384)  # with ten classes 10.03 M parameters
_CLASSES, _BATCH = 10, 16
_ONE_BUCKET = 4096  # MB: hooks that chain collectives abort on gloo with more


class Spent(NamedTuple):
    """The cost of a step on this rank, as fewbits counts it; zeros for the others."""

    codec_seconds: float = 0.0
    codec_cpu_seconds: float = 0.0
    wire_seconds: float = 0.0
    sent_bytes: int = 0

    def since(self, before: "Spent") -> "Spent":
        """The difference."""
        return Spent(
            self.codec_seconds - before.codec_seconds,
            self.codec_cpu_seconds - before.codec_cpu_seconds,
            self.wire_seconds - before.wire_seconds,
            self.sent_bytes - before.sent_bytes,
        )


class LinkContender(NamedTuple):
    """A model of its own and a training step."""

    name: str
    model: DistributedDataParallel
    step: Callable[[], None]
    compression: Compression | None
    warnings: list[str]

    def spent(self) -> Spent:
        """The counts of fewbits so far."""
        if self.compression is None:
            return Spent()
        report = self.compression.report()
        sent = report.payload_bytes + report.header_bytes
        return Spent(report.codec_seconds, report.codec_cpu_seconds, report.wire_seconds, sent)

    def digest(self) -> str:
        """A hash of all parameters."""
        digest = hashlib.sha256()
        for parameter in self.model.parameters():
            digest.update(parameter.detach().numpy().tobytes())
        return digest.hexdigest()


def build(name: str, params: int, rank: int, timeout: float) -> LinkContender:
    """The contender; every rank must build all of them in the same order."""
    model, compression, warned = wrap(_net(params), name, timeout)
    return LinkContender(name, model, _step(model, rank), compression, warned)


def wrap(
    net: torch.nn.Module, name: str, timeout: float
) -> tuple[DistributedDataParallel, Compression | None, list[str]]:
    """Any model under DDP with the contender's hook, and what `attach` warned of."""
    chained = names.kind(name) == names.CHAINED
    model = DistributedDataParallel(
        net,
        bucket_cap_mb=_ONE_BUCKET if chained else None,  # None is DDP's own choice
        init_sync=False,  # all ranks draw the same: nothing to send over a slow link
    )
    if names.kind(name) != names.OURS:
        _register(model, name)
        return model, None, []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # A biased operator's answers would be natural by default: a cast casts both ways.
        master = name if name in names.CASTS else None
        more = switch.options() if names.is_switched(name) else {}
        spec = name.removesuffix(names.SWITCHED)
        compression = fewbits.ddp.attach(model, spec, master, timeout=timeout, **more)
    return model, compression, [str(warning.message) for warning in caught]


def _register(model: DistributedDataParallel, name: str) -> None:
    if name == names.COMPUTE:
        model.register_comm_hook(None, as_it_is)
    elif name == references.FP16:
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif name == names.QUANTIZATION:
        model.register_comm_hook(None, quantization_hooks.quantization_pertensor_hook)
    elif name.startswith(references.POWERSGD):
        state = powerSGD_hook.PowerSGDState(
            None,
            matrix_approximation_rank=references.rank_of(name),
            start_powerSGD_iter=references.PLAIN_STEPS,
            warm_start=True,
        )
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def as_it_is(_: None, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """No communication; but gradients go through DDP's buckets, as they do with all others."""
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def _net(params: int) -> torch.nn.Module:
    torch.manual_seed(0)
    layers: list[torch.nn.Module] = []
    for width, following in pairwise((*widths(params), _CLASSES)):
        layers += [torch.nn.Linear(width, following), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def widths(params: int) -> list[int]:
    """Layers of a perceptron of about so many parameters."""
    scale = (params / parameters(_WIDTHS)) ** 0.5
    return [max(1, round(scale * width)) for width in _WIDTHS]


def parameters(layers: tuple[int, ...] | list[int]) -> int:
    """How many parameters such layers have."""
    return sum((one + 1) * two for one, two in pairwise((*layers, _CLASSES)))


def _step(model: DistributedDataParallel, rank: int) -> Callable[[], None]:
    features = next(model.parameters()).shape[1]
    return step(model, (_BATCH, features), rank)


def step(model: DistributedDataParallel, shape: Sequence[int], rank: int) -> Callable[[], None]:
    """A training step on random inputs of this shape, ten classes."""
    generator = torch.Generator().manual_seed(rank)
    x = torch.randn(*shape, generator=generator)
    y = torch.randint(0, _CLASSES, shape[:1], generator=generator)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step
