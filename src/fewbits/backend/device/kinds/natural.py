"""Rows of natural compression."""

from fewbits.backend.device.kernels.natural import natural_encode
from fewbits.backend.device.kernels.powers import natural_decode
from fewbits.backend.device.launches import Launch, RowGroup, launch_blocks
from fewbits.backend.kernel import CODED, Kernel
from fewbits.reference.formats import FLOAT64, Format

NEAREST_OPTION = 1  # in the option


def refusal(kernel: Kernel, format: Format) -> str | None:
    if kernel.option & CODED:
        return "coder=rans: use coder=packed"
    if format == FLOAT64:
        return "float64 values: use float32"
    return None


def launches(group: RowGroup) -> list[Launch]:
    constants = {
        "EXPONENT": group.format.exponent,
        "MANTISSA": group.format.mantissa,
        "BLOCK": group.block,
        "ALIGNED": group.is_aligned(2),
        "RARE": True,
    }
    if group.direction == "encode":
        constants["NEAREST"] = bool(group.kernel.option & NEAREST_OPTION)
        kernel = natural_encode
    else:
        constants["ADD"] = group.direction == "accumulate"
        kernel = natural_decode
    return launch_blocks(kernel, group.numbers, group.counts, group.block, constants)
