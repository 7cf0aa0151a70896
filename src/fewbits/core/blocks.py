"""Blocks of elements that share a scale, and the parts in which long vectors are worked on."""

from collections.abc import Iterator

from fewbits.errors import SpecError
from fewbits.kernels.parallel import GRAIN

SMALLEST = 8  # elements: any code width then fills whole bytes


def check(block: int) -> None:
    """Refuse a block that could straddle two parts."""
    if block and not (SMALLEST <= block <= GRAIN and block & (block - 1) == 0):
        raise SpecError(
            f"block must be 0 (the whole vector) or a power of two from {SMALLEST} to {GRAIN}, "
            f"got {block}"
        )


def parts(count: int) -> Iterator[slice]:
    """Pieces of a vector that are small enough for a few temporary arrays."""
    for start in range(0, count, GRAIN):
        yield slice(start, min(start + GRAIN, count))
