r"""Integers in blocks: the largest magnitude of a block becomes the largest integer.

With $s = \max_i |x_i| / L$ over the block and $u$ uniform on $[0, 1)$, the code of $x_i$ is
$\lfloor x_i / s + u \rfloor$, an integer from $-L$ to $L$, and its value is $s$ times the code:
unbiased, with the error $s^2 f (1 - f)$, $f$ the fraction of $x_i / s$. $L$ is 127 at 8 bits and 7
at 4. Scales are `float32`, one for 256 values: 8.125 and 4.125 bits a value in all.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fewbits.backend import coders
from fewbits.coding.bitpack import packed_size
from fewbits_lab.vectors import VectorValues

BLOCK = 256
_Scales = npt.NDArray[np.float32]
Wide = npt.NDArray[np.float64]


def scales_of(x: VectorValues, largest: float) -> _Scales:
    """The scale of every block: its largest magnitude is `largest` scales, or all are 0."""
    starts = np.arange(0, x.size, BLOCK)
    return (np.maximum.reduceat(np.abs(x), starts) / np.float64(largest)).astype(np.float32)


def spread(scales: _Scales, d: int) -> _Scales:
    """The scale of every value."""
    return np.repeat(scales, BLOCK)[:d]


def scaled(x: VectorValues, scales: _Scales) -> Wide:
    """Values in units of their block's scale; 0 in a block of zeros."""
    each = spread(scales, x.size).astype(np.float64)
    return np.divide(x, each, out=np.zeros(x.size), where=each > 0)


@dataclass(frozen=True, slots=True)
class IntegerBlocks:
    """Stochastic rounding to whole numbers of so many bits, signs included."""

    bits: int

    @property
    def name(self) -> str:
        return f"int{self.bits}, blocks of {BLOCK}"

    @property
    def largest(self) -> int:
        """The largest integer."""
        return (1 << (self.bits - 1)) - 1

    def encode(self, x: VectorValues, seed: int) -> bytes:
        scales = scales_of(x, self.largest)
        noise = np.random.default_rng(seed).random(x.size)
        # The scale was rounded, so the largest value may exceed the largest integer by an ulp.
        units = np.clip(np.floor(scaled(x, scales) + noise), -self.largest, self.largest)
        codes = (units + self.largest).astype(np.uint16)
        packed = np.empty(packed_size(x.size, self.bits), np.uint8)
        coders.pack(codes, self.bits, packed)
        return scales.astype("<f4").tobytes() + packed.tobytes()

    def decode(self, message: bytes, d: int) -> VectorValues:
        blocks = -(-d // BLOCK)
        scales = np.frombuffer(message, "<f4", blocks)
        packed = np.frombuffer(message, np.uint8, offset=4 * blocks)
        codes = coders.unpack(packed, self.bits, 2 * self.largest + 1, d)
        units = codes.astype(np.float32) - np.float32(self.largest)
        return units * spread(scales, d)
