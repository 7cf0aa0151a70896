"""A golden checkpoint of `fewbits train`, of a model that is small enough to keep.

`python tests/golden/train_file.py` makes the file if it is missing and never overwrites it. The
one that is kept was made by commit d55dedf.
"""

import hashlib
from pathlib import Path
from typing import Any

import torch

from fewbits.cli import train as train_command
from fewbits.cli.console import Parser
from fewbits.train import checkpoint, settings
from fewbits.train.history import Epoch, History

FILE = Path(__file__).with_name("checkpoints") / "train.safetensors"
SPEC = "natural"
LINE = ["--operator", SPEC, "--feedback", "ef14", "--workers", "2", "--collective", "star"]
PARAMETERS = "91f0ea54116fc3ffd7660c040a766310ca34b0d9e92f9afaa5706dd1e094d480"  # a step later


def common() -> dict[str, Any]:
    """What the file says of its run, and a run that goes on from it must have."""
    parser = Parser()
    train_command.add_options(parser)
    found = settings.from_options(parser.parse_args(LINE))
    return found.common(SPEC)


def history() -> History:
    """Two steps, one epoch."""
    epoch = Epoch(0.5, 0.25, 0.75, 100.0, 400.0, 0.125, 0.0625)
    return History([1.0, 0.5], [0.25, 0.25], [0.125, 0.125], [epoch], {"warnings": []})


def model() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """Two layers and their momenta."""
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    return net, torch.optim.SGD(net.parameters(), lr=0.125, momentum=0.5)


def step(net: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """A step in which nothing is rounded apart on another machine."""
    for index, parameter in enumerate(net.parameters()):
        parameter.grad = torch.arange(parameter.numel()).view(parameter.shape) / 2.0**index
    optimizer.step()


def digest(net: torch.nn.Module) -> str:
    """Of all parameters in order."""
    content = b"".join(own.detach().numpy().tobytes() for own in net.parameters())
    return hashlib.sha256(content).hexdigest()


def main() -> None:
    """Write the file and say what a further step leads to."""
    if FILE.exists():
        raise SystemExit(f"{FILE.name} is there: it is never overwritten")
    torch.manual_seed(3)
    net, optimizer = model()
    step(net, optimizer)
    checkpoint.write(FILE.parent, net, optimizer, history(), common())
    (FILE.parent / settings.CHECKPOINT).rename(FILE)
    step(net, optimizer)
    print(digest(net))  # noqa: T201


if __name__ == "__main__":
    main()
