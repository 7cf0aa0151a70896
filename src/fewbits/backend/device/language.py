"""Triton, imported after it is known whether kernels are compiled or interpreted.

Triton decides that when it is imported. Without a device its interpreter runs kernels on CPU
tensors; `TRITON_INTERPRET=0` in the environment keeps them to be compiled for devices elsewhere.
"""

import os

import torch

from fewbits.errors import SpecError

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

import triton
import triton.language as tl

INTERPRETED = "interpreted"
"""The device name of CPU tensors whose rows go through Triton's interpreter."""


def is_interpreted() -> bool:
    """Whether Triton was imported to interpret: its own library is what it decided on first."""
    return type(tl.sum).__name__ == "InterpretedFunction"


def check(device: str) -> None:
    """Refuse a device whose kernels this process cannot run."""
    if device == INTERPRETED and not is_interpreted():
        raise SpecError(
            "triton was imported to compile, so it cannot interpret: set TRITON_INTERPRET=1 in the "
            "environment before the program starts"
        )
    if device != INTERPRETED and not torch.cuda.is_available():
        raise SpecError(f"torch finds no device for memory on {device!r} here")
    if device != INTERPRETED and is_interpreted():
        raise SpecError(
            f"triton was imported to interpret, so memory on {device!r} has no kernels: unset "
            "TRITON_INTERPRET before the program starts"
        )


__all__ = ["INTERPRETED", "check", "is_interpreted", "tl", "triton"]
