"""Several ranks on a device against the same ranks on the CPU, and one that sends a wrong byte."""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from fewbits.reference.formats import FLOAT32
from fewbits.train import launcher
from fewbits.verify import cases

_STEPS = 3
_TINY = "top-k:fraction=0.01|natural"  # what `tiny` is made of
_Bits = np.ndarray[Any, np.dtype[np.uint32]]


def compared(device: str, ranks: int) -> dict[str, Any]:
    """Train on both with the same gradients: parameters must have the same bits after each step.

    Then rank 1 sends a flipped byte, and rank 0 must name it.
    """
    specs = ["natural"] + ["tiny"] * (cases.supported(_TINY, FLOAT32) is None)
    with tempfile.TemporaryDirectory(prefix="fewbits-verify-") as folder:
        if device == "interpreted":  # one start of the processes does for both
            got = expected = _trained(Path(folder), (device, "cpu"), specs, ranks, "--flip")
        else:
            got = _trained(Path(folder), (device,), specs, ranks, "--flip")
            expected = _trained(Path(folder), ("cpu",), specs, ranks)
        wrong = [
            text
            for spec in specs
            for text in difference(
                spec, *(np.load(kept_file(Path(folder), own, spec)) for own in (device, "cpu"))
            )
        ]
    told = got.pop("flipped")
    if "rank 1" not in told:
        wrong.append(f"rank 1 sent a flipped byte, and rank 0 said: {told or 'nothing'}")
    return {
        "held": not wrong, "ranks": ranks, "steps": _STEPS, "specs": specs, **got,
        "against": expected["transport"], "flipped_byte": told, "differences": wrong,
    }  # fmt: skip


def _trained(
    folder: Path, devices: tuple[str, ...], specs: list[str], ranks: int, *flags: str
) -> dict[str, Any]:
    command = [
        sys.executable, "-m", "fewbits.verify.rank", ",".join(devices), ",".join(specs),
        str(_STEPS), str(folder), *flags,
    ]  # fmt: skip
    result = launcher.launch(command, ranks, lambda _: None)[-1]
    return {name: own for name, own in result.items() if name != "event"}


def kept_file(folder: Path, device: str, spec: str) -> Path:
    """Where rank 0 keeps the parameters after all steps."""
    return folder / f"{device.replace(':', '-')}-{spec}.npy"


def difference(spec: str, got: _Bits, expected: _Bits) -> list[str]:
    """The first parameter that differs, and after which step."""
    found = np.argwhere(got != expected)
    if not found.size:
        return []
    step, index = (int(own) for own in found[0])
    bits = [f"0x{int(own[step, index]):08x}" for own in (got, expected)]
    return [f"{spec}: parameter {index} is {bits[0]} after step {step}, the CPU has {bits[1]}"]
