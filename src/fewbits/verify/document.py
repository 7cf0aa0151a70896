"""All comparisons of one run, as one document that can be shown to others."""

import platform
import re
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fewbits import registry
from fewbits.bench.machine import this_machine
from fewbits.errors import SpecError
from fewbits.reference.formats import FORMATS
from fewbits.verify import cases, checksums, damage, quick_interpreter, ranks, speeds
from fewbits.verify.places import DevicePlaces

VerifyDocument = dict[str, Any]
Advance = Callable[[int], None]
DIFFERENCES = 5  # that are told of each part
_INTERPRETED = "interpreted"
# How far a part moves the bar, where one case of vectors moves it by 1.
_STEPS = {"checksums": 3, "damage": 7, "ranks": 50}
_FOLDERS = re.compile(r"(?:[A-Za-z]:)?(?:[\\/][^\s\\/:\"']+)+[\\/]")
NO_DEVICE = (
    "no device: kernels ran under Triton's interpreter on the CPU. This says nothing of a device's "
    "own compiler, memory or speed."
)


def chosen_device(asked: str | None) -> str:
    """The device that is meant: the first CUDA or ROCm device, or the interpreter without one."""
    import torch

    there = torch.cuda.is_available()
    if asked == "cuda" and not there:
        raise SpecError("torch sees no CUDA or ROCm device here; --device cpu runs the interpreter")
    return "cuda:0" if there and asked != "cpu" else _INTERPRETED


def verified(
    device: str, count: int, *, thorough: bool = False, advance: Advance = lambda _: None
) -> VerifyDocument:
    """Compare everything; whatever goes wrong is part of the document."""
    start = time.perf_counter()
    places = DevicePlaces(device)
    if device == _INTERPRETED:
        quick_interpreter.install()
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "vectors": lambda: vectors(places, thorough=thorough, advance=advance),
        "checksums": lambda: checksums.compared(places),
        "damage": lambda: damage.injected(places),
        "ranks": lambda: ranks.compared(device, count),
        "speeds": lambda: speeds.measured(places),
    }
    reasons = not_run(device, count)
    found = {}
    for name, part in parts.items():
        if name not in reasons:
            found[name] = _tried(part)
            advance(_STEPS.get(name, 0))
    return {
        "format": "fewbits-verify", "version": 1,
        "held": all(own["held"] for own in found.values()),
        "device": _described(device), "note": NO_DEVICE if device == _INTERPRETED else "",
        "not_run": reasons,
        "seconds": round(time.perf_counter() - start, 1), "machine": _machine(), **found,
    }  # fmt: skip


def steps(device: str, count: int, *, thorough: bool) -> int:
    """How far `advance` will go."""
    on_device = device != _INTERPRETED
    number = sum(1 for _ in cases.every_case(thorough=thorough, on_device=on_device))
    return number + sum(own for name, own in _STEPS.items() if name not in not_run(device, count))


def not_run(device: str, count: int) -> dict[str, str]:
    """The parts that cannot be run here, and why."""
    import torch

    if device == _INTERPRETED:
        return {"speeds": "there is no device"}
    here = torch.cuda.device_count()
    if here >= count:
        return {}
    return {"ranks": f"NCCL wants a device for each of {count} ranks, and here is {here}"}


def _tried(part: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    began = time.perf_counter()
    try:
        found = part()
    except Exception as error:  # a device may fail in any way, and the others shall be told
        found = {"held": False, "differences": [_shareable(f"{type(error).__name__}: {error}")]}
    return found | {"seconds": round(time.perf_counter() - began, 1)}


def _shareable(text: str) -> str:
    """One line of what others have said, without folders and without the host's name."""
    text = _FOLDERS.sub("", " ".join(text.split()))
    return text.replace(platform.node() or "\n", "HOST")[:500]


def vectors(
    places: DevicePlaces, *, thorough: bool, advance: Advance = lambda _: None
) -> dict[str, Any]:
    """All cases, and the operators that the device refuses, with the reason."""
    wrong: list[str] = []
    runs = number = failed = 0
    for case in cases.every_case(thorough=thorough, on_device=places.device != _INTERPRETED):
        count, difference = cases.compared(case, places)
        runs, number = runs + count, number + 1
        if difference is not None:
            failed += 1
            wrong += [str(difference)] if len(wrong) < DIFFERENCES else []
        advance(1)
    whole = sum(1 for _ in cases.every_case(thorough=True))
    refused = {
        f"{registry.operator(spec).spec} {format.name}": reason
        for spec in cases.VERIFIED_SPECS
        for format in FORMATS
        if (reason := cases.supported(spec, format)) is not None
    }
    return {
        "held": not wrong, "cases": number, "left_out": whole - number, "runs": runs,
        "failed": failed, "refused": refused, "differences": wrong,
    }  # fmt: skip


def _described(device: str) -> dict[str, Any]:
    import torch

    if device == _INTERPRETED:
        return {"name": _INTERPRETED, "is_device": False}
    own = torch.cuda.get_device_properties(device)
    return {
        "name": own.name, "is_device": True, "memory_bytes": own.total_memory,
        "capability": f"{own.major}.{own.minor}", "count": torch.cuda.device_count(),
        "architecture": getattr(own, "gcnArchName", ""),
    }  # fmt: skip


def _machine() -> dict[str, Any]:
    import torch

    def installed(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    return asdict(this_machine()) | {
        "kernel": platform.release(), "triton": installed("triton"),
        "cuda": torch.version.cuda, "hip": torch.version.hip,
    }  # fmt: skip
