"""Figures of every step for TensorBoard, Weights & Biases and Prometheus, from one place.

    torchrun --nproc-per-node 2 examples/ddp_monitoring.py tensorboard wandb prometheus

It needs fewbits[torch] and nothing else. A tool that is not installed is replaced by a stand-in
that prints. Rank 0 logs; its figures are its own, and all ranks send about as much.
"""

import sys
from collections.abc import Callable
from importlib.util import find_spec

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import fewbits.ddp

Sink = Callable[[int, dict[str, float]], None]


def tensorboard() -> Sink:
    """A scalar for each figure."""
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter("build/tensorboard")

    def sink(step: int, found: dict[str, float]) -> None:
        for name, value in found.items():
            writer.add_scalar(name, value, step)

    return sink


def wandb() -> Sink:
    """One call a step; `offline` needs no server."""
    import wandb as package

    run = package.init(project="fewbits", mode="offline")
    return lambda step, found: run.log(found, step=step)


def prometheus() -> Sink:
    """A gauge for each figure, read at http://localhost:8000/metrics."""
    from prometheus_client import Gauge, start_http_server

    start_http_server(8000, addr="127.0.0.1")
    gauges: dict[str, Gauge] = {}

    def sink(_: int, found: dict[str, float]) -> None:
        for name, value in found.items():
            if name not in gauges:
                gauges[name] = Gauge(name.replace("/", "_"), name)
            gauges[name].set(value)

    return sink


SINKS = {"tensorboard": tensorboard, "wandb": wandb, "prometheus": prometheus}
PACKAGES = {"tensorboard": "tensorboard", "wandb": "wandb", "prometheus": "prometheus_client"}


def opened(name: str) -> Sink:
    """The sink, or a stand-in that prints what it would get."""
    if find_spec(PACKAGES[name]) is not None:
        return SINKS[name]()
    return lambda step, found: print(name, step, {k: float(f"{v:.4g}") for k, v in found.items()})


def figures(compression: fewbits.ddp.Compression) -> dict[str, float]:
    """The numbers of the last step under names of our own."""
    own = compression.last_step().as_dict()
    return {f"fewbits/{k}": v for k, v in own.items() if isinstance(v, int | float)}


def main() -> None:
    """Train a small network and log every step."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 1))
    model = DistributedDataParallel(net)
    compression = fewbits.ddp.attach(model, "natural")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    sinks = [opened(name) for name in sys.argv[1:]] if dist.get_rank() == 0 else []
    own = torch.Generator().manual_seed(dist.get_rank())
    for step in range(5):
        x = torch.randn(64, 64, generator=own)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), x[:, :1]).backward()
        optimizer.step()
        for sink in sinks:
            sink(step, figures(compression))
    compression.close()


if __name__ == "__main__":
    main()
