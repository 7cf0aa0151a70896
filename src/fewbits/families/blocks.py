"""Blocks of values that share a scale, as operators take them."""

from fewbits.errors import SpecError

SMALLEST = 8  # values: any code width then fills whole bytes
LARGEST = 65_536  # values: a block lies within a coder block and a thread's slice


def check(block: int) -> None:
    """Refuse a block that could straddle two slices."""
    if block and not (SMALLEST <= block <= LARGEST and block & (block - 1) == 0):
        raise SpecError(
            f"block must be 0 (the whole vector) or a power of two from {SMALLEST} to {LARGEST}, "
            f"got {block}"
        )
