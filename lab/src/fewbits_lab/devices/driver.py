"""A driver for Triton that has no device: kernels are compiled for a target, and emulated.

Triton launches through it as it would on a device: it looks at the arguments, chooses what to
specialise, compiles, and hands over the machine code. So what is emulated is what a device would
be given. Set `TRITON_INTERPRET=0` in the environment before fewbits or triton is imported.
"""

import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from fewbits.backend import device as device_backend
from fewbits_lab.devices.machine import LaunchGrid, PtxMachine
from fewbits_lab.devices.memory import GlobalMemory
from fewbits_lab.devices.ptx import parse

TARGETS: dict[str, GPUTarget] = {
    "sm_80": GPUTarget("cuda", 80, 32), "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32), "gfx942": GPUTarget("hip", "gfx942", 64),
}  # fmt: skip
EMULATED = "cuda:0"  # what the backend takes CPU tensors for, while a driver emulates
_CPU = torch.device("cpu")
_BACKEND = device_backend.__name__
_SHARED = 64 << 10  # bytes that every target lends a block
_THREADS = 1024


@dataclass(frozen=True)
class Started:
    """A launch: which kernel, from which source, compiled how, on which grid."""

    name: str
    source: Any
    compiled: Any
    grid: LaunchGrid

    @property
    def constants(self) -> dict[str, Any]:
        names = self.source.fn.arg_names
        return {names[path[0]]: value for path, value in self.source.constants.items()}

    @property
    def ptx(self) -> str:
        return str(self.compiled.asm["ptx"])


@dataclass
class Recording:
    """A launch with the memory that it found and left."""

    started: Started
    arguments: list[int]
    pieces: dict[int, npt.NDArray[np.uint8]]
    before: dict[int, bytes]
    after: dict[int, bytes]
    longest: int  # instructions, of all blocks together

    def gives_the_same(self, ptx: str, limit: int) -> bool:
        """Whether another text leaves the same memory; `PtxError` if the machine refuses it."""
        memory = GlobalMemory()
        for address, data in self.pieces.items():
            data[:] = np.frombuffer(self.before[address], np.uint8)
            memory.add_at(address, data)
        machine = PtxMachine(parse(ptx), self.started.compiled.metadata.shared)
        machine.run(self.started.grid, self.arguments, memory, limit)
        return all(data.tobytes() == self.after[own] for own, data in self.pieces.items())


@dataclass
class Emulation:
    """What was started, and the memory that programs may touch beside their arguments."""

    target: str
    runs: bool = True
    records: bool = False
    lent: list[Any] = field(default_factory=list)
    started: list[Started] = field(default_factory=list)
    recordings: list[Recording] = field(default_factory=list)
    instructions: int = 0
    _machines: dict[str, PtxMachine] = field(default_factory=dict)

    def lend(self, tensor: Any) -> Any:
        """Let kernels touch a tensor to which only tables point."""
        self.lent.append(tensor)
        return tensor

    def start(
        self, compiled: Any, source: Any, grid: LaunchGrid, arguments: tuple[Any, ...]
    ) -> None:
        own = Started(source.fn.__name__, source, compiled, grid)
        self.started.append(own)
        if not self.runs:
            return
        tensors = (*self.lent, *(given for given in arguments if isinstance(given, torch.Tensor)))
        pieces = {
            tensor.data_ptr(): tensor.detach().reshape(-1).view(torch.uint8).numpy()
            for tensor in tensors
        }
        memory = GlobalMemory()
        for address, data in pieces.items():
            memory.add_at(address, data)
        numbers = [
            _number(given, source.signature[name])
            for name, given in zip(source.fn.arg_names, arguments, strict=True)
            if source.signature[name] != "constexpr"
        ]
        numbers += [0, 0]  # scratch memory, which these kernels do not use
        before = {at: data.tobytes() for at, data in pieces.items()} if self.records else {}
        machine = self._machines.get(own.ptx)
        if machine is None:
            machine = PtxMachine(parse(own.ptx), compiled.metadata.shared)
            self._machines[own.ptx] = machine
        taken = machine.run(grid, numbers, memory)
        self.instructions += taken
        if self.records:
            after = {at: data.tobytes() for at, data in pieces.items()}
            self.recordings.append(Recording(own, numbers, pieces, before, after, taken))


def _number(value: Any, kind: str) -> int:
    if isinstance(value, torch.Tensor):
        return int(value.data_ptr())
    if kind == "fp32":
        return int.from_bytes(struct.pack("<f", value), "little")
    return int(value)


class _Tools:
    """What Triton asks of a driver about devices and binaries."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {"max_shared_mem": _SHARED, "warpSize": 32}

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[Any, ...]:
        return name, name, 0, 0, _THREADS

    def unload_module(self, module: object) -> None: ...


class EmulatingDriver(DriverBase):  # type: ignore[misc]
    """Compiles for one target and hands launches to an emulation."""

    def __init__(self, emulation: Emulation) -> None:
        self.emulation, self.utils = emulation, _Tools()

    def launcher_cls(self, source: Any, metadata: Any) -> Callable[..., None]:
        device = self.get_current_device()

        # Triton's caches outlive an emulation, so the launcher asks who drives now.
        def launch(x: int, y: int, z: int, *more: Any) -> None:
            kernels = source.fn.device_caches[device][0].values()
            compiled = next(own for own in kernels if own.src is source)
            driving = triton.runtime.driver.active.emulation
            driving.start(compiled, source, (x, y, z), more[6:])

        return launch

    @classmethod
    def is_active(cls) -> bool:
        return True

    def get_current_target(self) -> GPUTarget:
        return TARGETS[self.emulation.target]

    def get_current_device(self) -> int:
        return list(TARGETS).index(self.emulation.target)

    def get_current_stream(self, device: int) -> int:
        return 0

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_active_torch_device(self) -> Any:
        return torch.device("cpu")

    def get_benchmarker(self) -> Any:
        raise NotImplementedError


@contextmanager
def emulating(target: str, *, runs: bool = True, records: bool = False) -> Iterator[Emulation]:
    """Kernels that are started inside run here, on CPU tensors of the device `EMULATED`."""
    emulation = Emulation(target, runs, records)
    driver = triton.runtime.driver
    before = driver._active
    driver.set_active(EmulatingDriver(emulation))
    try:
        with _hosted(emulation):
            yield emulation
    finally:
        driver._active = before


@contextmanager
def _hosted(emulation: Emulation) -> Iterator[None]:
    """Let the backend take CPU tensors for those of a device; what it makes itself is lent too."""
    zeros = torch.zeros

    def lent(*words: Any, **named: Any) -> Any:
        return emulation.lend(zeros(*words, **named))

    mine = [own for name, own in sys.modules.items() if name.startswith(_BACKEND)]
    places = [own for own in mine if hasattr(own, "torch_device")]
    with ExitStack() as patches:
        for own in places:
            patches.enter_context(patch.object(own, "torch_device", lambda _: _CPU))
        patches.enter_context(patch.object(torch.Tensor, "pin_memory", lambda self: self))
        patches.enter_context(patch.object(torch, "zeros", lent))
        yield
