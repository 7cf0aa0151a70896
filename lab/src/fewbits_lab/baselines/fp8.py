r"""Floats of 8 bits, E4M3 (Micikevicius et al., 2022), in blocks of 256, rounded at random.

A block is scaled so that its largest magnitude is 448, the format's largest number. Then $|v|$
lies in $[2^e, 2^{e+1})$ with $e \ge -6$, or below $2^{-6}$, where $e = -6$ too (subnormal numbers).
Neighbours are $2^{e-3}$ apart, and with $u$ uniform on $[0, 1)$
$$ n = \lfloor |v| / 2^{e-3} + u \rfloor, \qquad \text{code} = 8 (e + 6) + n $$
is unbiased, and the 7 bits of the number beside its sign: where $n$ is 16, the code is the next
power of two's by itself.
"""

from dataclasses import dataclass

import numpy as np

from fewbits_lab.baselines.blocks import BLOCK, scaled, scales_of, spread
from fewbits_lab.vectors import VectorValues

_LARGEST = 448.0
_LOW = -6  # the smallest exponent
_TOP = 126  # the code of the largest number; 127 would be NaN
_SIGN = 0x80


def numbers() -> VectorValues:
    """The magnitudes that codes 0 to 126 stand for, in order."""
    codes = np.arange(_TOP + 1)
    exponents = np.maximum(codes // 8 - 1, 0)  # subnormal numbers share the first power of two
    return np.asarray(np.ldexp(codes - 8.0 * exponents, exponents + _LOW - 3), np.float32)


@dataclass(frozen=True, slots=True)
class Fp8:
    """Stochastic rounding to E4M3."""

    @property
    def name(self) -> str:
        return f"fp8 E4M3, blocks of {BLOCK}"

    def encode(self, x: VectorValues, seed: int) -> bytes:
        scales = scales_of(x, _LARGEST)
        v = scaled(x, scales)
        exponents = np.where(v == 0, _LOW, np.maximum(np.frexp(np.abs(v))[1] - 1, _LOW))
        noise = np.random.default_rng(seed).random(x.size)
        steps = np.floor(np.ldexp(np.abs(v), 3 - exponents) + noise)
        # The scale was rounded, so the largest value may exceed 448 by an ulp.
        codes = np.minimum(8 * (exponents - _LOW) + steps, _TOP) + np.where(v < 0, _SIGN, 0)
        return scales.astype("<f4").tobytes() + np.asarray(codes, np.uint8).tobytes()

    def decode(self, message: bytes, d: int) -> VectorValues:
        blocks = -(-d // BLOCK)
        scales = np.frombuffer(message, "<f4", blocks)
        codes = np.frombuffer(message, np.uint8, offset=4 * blocks)
        signs = np.where(codes & _SIGN, np.float32(-1), np.float32(1))
        magnitudes: VectorValues = numbers()[codes & (_SIGN - 1)]
        return magnitudes * signs * spread(scales, d)
