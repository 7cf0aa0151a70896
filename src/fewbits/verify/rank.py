"""One rank of a comparison: `python -m fewbits.verify.rank DEVICES SPECS STEPS FOLDER [--flip]`.

Its gradients are given, so that no arithmetic of a model differs between devices. After each step
rank 0 keeps the bits of all parameters, in one file for each device and spec. What is told, and
what a flipped byte does, is of the first device.
"""

import gc
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from fewbits import backend, ddp
from fewbits.backend.boxes import Boxes
from fewbits.errors import FewbitsError
from fewbits.exits import end_with_parent
from fewbits.verify import quick_interpreter
from fewbits.verify.ranks import kept_file

SHAPES = ((90, 67), (4099,), (9001,))
TIMEOUT = 60.0  # seconds
_FLIPPING = 1  # the rank that sends a wrong byte


class GivenGradients(torch.nn.Module):
    """Its loss is the product of parameters and what it is given: that is the gradient."""

    def __init__(self, place: Any) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList(
            [torch.nn.Parameter(torch.zeros(shape, device=place)) for shape in SHAPES]
        )

    def forward(self, parts: list[Any]) -> Any:
        return sum((own * part).sum() for own, part in zip(self.weights, parts, strict=True))


def main() -> int:
    words = [word for word in sys.argv[1:] if word != "--flip"]
    (device, *others), specs = words[0].split(","), words[1].split(",")
    steps, folder = int(words[2]), Path(words[3])
    end_with_parent()
    torch.set_num_threads(1)
    if device == "interpreted":
        quick_interpreter.install()
    place, transport = _place(device)
    dist.init_process_group(transport, timeout=timedelta(seconds=TIMEOUT))
    result: dict[str, Any] = {"transport": transport, "memory": {}}
    for own in (device, *others):
        for spec in specs:
            kept, memory = _train(own, place, spec, steps)
            if dist.get_rank() == 0:
                np.save(kept_file(folder, own, spec), kept)
            result["values"] = int(kept[0].size)
            result["memory"].setdefault(spec, memory)
    if "--flip" in sys.argv:
        result["flipped"] = _flipped(device, place)
    if dist.get_rank() == 0:
        sys.stdout.write(json.dumps({"event": "result"} | result) + "\n")
        sys.stdout.flush()
    return 0


def _place(device: str) -> tuple[Any, str]:
    """Where tensors are, and what moves them."""
    if not device.startswith("cuda"):
        return torch.device("cpu"), "gloo"
    place = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(place)
    return place, "nccl"


def _train(
    device: str, place: Any, spec: str, steps: int
) -> tuple[np.ndarray[Any, Any], dict[str, float]]:
    """The bits of all parameters after each step, and what memory was taken."""
    model = GivenGradients(place)
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    more: Any = {"device": device} if device == "interpreted" else {}
    compression = ddp.attach(wrapped, spec, policy=lambda *_: None, timeout=TIMEOUT, **more)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rank, kept = dist.get_rank(), []
    for step in range(steps):
        optimizer.zero_grad()
        parts = [torch.from_numpy(_given(rank, step, n)).to(place) for n in range(len(SHAPES))]
        with _guarded(place, step):
            wrapped(parts).backward()
        optimizer.step()
        bits = [own.detach().cpu().numpy().reshape(-1) for own in model.parameters()]
        kept.append(np.concatenate(bits).view(np.uint32))
    memory = _memory(place, kept[0].size)
    compression.close()
    return np.stack(kept), memory


def _given(rank: int, step: int, number: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Gradients of a rank and a step, the same on every device."""
    random = np.random.default_rng((step, number, rank))
    return random.standard_normal(SHAPES[number]).astype(np.float32)


@contextmanager
def _guarded(place: Any, step: int) -> Iterator[None]:
    """On a device whatever waits for it in a good step is an error.

    The first step sets up, and in the second DDP orders its buckets anew, for which it waits.
    """
    on = place.type == "cuda" and step > 1
    if on:
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        if on:
            torch.cuda.set_sync_debug_mode("default")


def _memory(place: Any, count: int) -> dict[str, float]:
    """What messages take, and the peak of all that a device has lent, for each parameter."""
    boxes = [own for own in gc.get_objects() if isinstance(own, Boxes)]
    found = {"message_bytes_per_parameter": sum(own.memory.size for own in boxes) / count}
    if place.type == "cuda":
        found["peak_bytes_per_parameter"] = torch.cuda.max_memory_allocated() / count
    return found


def _flipped(device: str, place: Any) -> str:
    """What this rank says when rank 1 changes a byte of what it has sealed."""
    if dist.get_rank() == _FLIPPING:
        _flip_what_is_sealed(device)
    try:
        _train(device, place, "natural", 2)
    except FewbitsError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _flip_what_is_sealed(device: str) -> None:
    from fewbits.backend import device as device_backend

    own: Any = backend.at(device)
    seal = own.seal_boxes

    def sealing(boxes: Any, *rest: Any, **more: Any) -> None:
        seal(boxes, *rest, **more)
        tensor = device_backend.tensor_of(boxes.payload(0))
        tensor[tensor.numel() // 2] ^= 4

    own.seal_boxes = sealing


if __name__ == "__main__":
    sys.exit(main())
