"""Rows that add two vectors, each with a factor."""

from fewbits.backend.device.kernels.combining import combine_terms
from fewbits.backend.device.launches import Launch, RowGroup, launch_blocks
from fewbits.backend.kernel import Kernel
from fewbits.reference.formats import FLOAT32, Format


def refusal(_: Kernel, format: Format) -> str | None:
    return None if format == FLOAT32 else f"memories of {format.name}: use float32"


def launches(group: RowGroup) -> list[Launch]:
    constants = {"BLOCK": group.block, "ALIGNED": group.is_aligned(2)}
    return launch_blocks(combine_terms, group.numbers, group.counts, group.block, constants)
