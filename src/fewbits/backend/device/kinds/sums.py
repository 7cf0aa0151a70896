"""Rows that clear or divide totals."""

import numpy as np

from fewbits.backend.device.kernels.rows import AT_OWN
from fewbits.backend.device.kernels.sums import step_totals
from fewbits.backend.device.launches import Launch, RowGroup, launch_blocks
from fewbits.backend.kernel import Kernel, Kind
from fewbits.reference.formats import FLOAT64, Format


def refusal(kernel: Kernel, format: Format) -> str | None:  # noqa: ARG001
    if format == FLOAT64:
        return "sums of float64 values: use float32"
    return None


def is_exact(divisor: int) -> bool:
    """Whether a product with the reciprocal is the quotient: that of a power of two is a float."""
    return 0 < divisor <= 1 << 126 and divisor & (divisor - 1) == 0


def divisor_bits(divisor: int) -> int:
    """What kernels find in a row's line: the float to divide by or, if exact, to multiply by."""
    number = np.float32(1 / divisor) if is_exact(divisor) else np.float32(divisor)
    return int(number.view(np.int32))


def launches(group: RowGroup) -> list[Launch]:
    """A launch for each way to divide."""
    is_clear = group.kernel.kind is Kind.CLEAR
    exact = np.array([is_exact(own) for own in group.divisors.tolist()]) & (not is_clear)
    found = []
    for way in np.unique(exact).tolist():
        own = exact == way
        numbers, counts = group.numbers[own], group.counts[own]
        if not is_clear:
            bits = [divisor_bits(divisor) for divisor in group.divisors[own].tolist()]
            group.lines[numbers, AT_OWN] = bits
        constants = {
            "CLEAR": is_clear,
            "EXACT": way,
            "BLOCK": group.block,
            "ALIGNED": group.is_aligned(0),
        }
        found += launch_blocks(step_totals, numbers, counts, group.block, constants)
    return found
