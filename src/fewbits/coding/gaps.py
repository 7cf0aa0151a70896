r"""Places of the few codes of a block that are not 0, as gaps between them.

If each of $N$ codes is not 0 with probability $p = n / N$, a gap, the number of zeros before the
next one, is geometric: $P(g) = p (1 - p)^g$. Its low $r$ bits are close to uniform and travel as
they are; its *step* $g \gg r$ is geometric with ratio $\rho = (1 - p)^{2^r}$ and is entropy coded
with frequencies that follow from $n$ and $N$, so there is no table. $r$ is the largest with
$\rho \ge 5/8$: then the low bits are at most 0.014 bits a gap away from what they say.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.coding.frequencies import TOTAL, SymbolCounts

LEAST_SHARE = 8  # at most one code in so many is not 0
STEP_WIDTH = 16  # bits of a step that has no symbol
_ONE = 1 << 32
_SLOT = _ONE // TOTAL
_LEAST_RATIO = 5 << 29


class GapModel(NamedTuple):
    """The bits below a step, and the frequencies of steps; the last is of those beyond."""

    low: int
    frequencies: SymbolCounts

    @property
    def escape(self) -> int:
        return self.frequencies.size - 1


def model(count: int, nonzero: int) -> GapModel:
    """The model of a block, in integers: equal on every machine."""
    ratio, low = (count - nonzero) * _ONE // count, 0
    while ratio * ratio >> 32 >= _LEAST_RATIO:
        ratio, low = ratio * ratio >> 32, low + 1
    left, frequencies = _ONE, []
    while left >= _SLOT:
        after = left * ratio >> 32
        frequencies.append(max(1, (left - after) // _SLOT))
        left = after
    frequencies.append(1)
    frequencies[0] += TOTAL - sum(frequencies)
    return GapModel(low, np.array(frequencies, np.int64))


def lanes(nonzero: int) -> int:
    """A lane costs three bytes; one for 2048 gaps is less than one percent."""
    return 1 << (nonzero >> 11).bit_length()


def gaps(places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The zeros before each place."""
    return np.diff(places, prepend=-1) - 1
