"""Speeds of a device's kernels against a copy on the same device; only there they mean anything."""

from typing import Any

import numpy as np

from fewbits import registry
from fewbits.backend.kernel import RowDirection
from fewbits.backend.table import Table
from fewbits.collectives.payload import UNIT
from fewbits.reference.formats import FLOAT32
from fewbits.rng import Rng
from fewbits.verify.cases import VERIFIED_SPECS, supported
from fewbits.verify.places import DevicePlaces

UNITS = 256
_ROUNDS = 20


def measured(device: DevicePlaces) -> dict[str, Any]:
    """Values a second of every kernel on units of the usual size, and of a copy of as many."""
    import torch

    count = UNIT * UNITS
    values = torch.randn(count, device=device.device)
    other = torch.empty_like(values)
    copy = _seconds(lambda: other.copy_(values))
    rows = []
    for spec in VERIFIED_SPECS:
        if supported(spec, FLOAT32) is None:
            for direction in ("encode", "decode"):
                seconds = _kernel(device, spec, direction)
                rows.append({
                    "kernel": f"{spec} {direction}", "values_per_second": count / seconds,
                    "times_copy": copy / seconds,
                })  # fmt: skip
    return {"held": True, "values": count, "copy_seconds": copy, "kernels": rows}


def _kernel(device: DevicePlaces, spec: str, direction: RowDirection) -> float:
    operator = registry.operator(spec)
    layout = operator.layout(UNIT, FLOAT32)
    sizes = np.array([[own.size for own in layout]] * UNITS, np.uint64)
    room = -(-sizes.astype(np.int64) // 16) * 16
    ends = np.cumsum(room.reshape(-1)).reshape(room.shape)
    table = Table(UNITS, len(layout))
    for number in range(UNITS):
        kernel = operator.kernel(UNIT, FLOAT32)
        table.describe(number, kernel, FLOAT32, UNIT, len(layout))
    random = np.random.default_rng(1).standard_normal(UNIT * UNITS).astype(np.float32)
    values = device.filled(random)
    memory = device.filled(np.zeros(int(ends[-1, -1]), np.uint8))
    counts = device.filled(np.zeros(4, np.int64))
    table.place(slice(None), memory, (ends - room).astype(np.uint64), sizes)
    table.bind(values, np.arange(UNITS, dtype=np.uint64) * np.uint64(4 * UNIT))
    table.set_keys(slice(None), [Rng.from_seed(number).key for number in range(UNITS)])
    device.backend.run("encode", table, counts=counts)
    return _seconds(lambda: device.backend.run(direction, table, counts=counts))


def _seconds(job: Any) -> float:
    """The best of several rounds, by the device's own clock."""
    import torch

    best = float("inf")
    for _ in range(_ROUNDS):
        event: Any = torch.cuda.Event
        start, end = (event(enable_timing=True) for _ in range(2))
        start.record()
        job()
        end.record()
        end.synchronize()
        best = min(best, start.elapsed_time(end) / 1e3)
    return best
