r"""EDEN (Vargaftik et al., 2022): rotate, round to the best fixed levels, scale without bias.

A random rotation $R$ makes the values of $z = \sqrt{B}\, R x / \|x\|$ nearly standard normal,
whatever $x$ is. Each goes to its Lloyd-Max level $c(z_i)$. The decoder returns
$S\, R^{-1} c(z)$ with the scale that makes it unbiased over rotations,
$$ S = \frac{\|x\|^2}{\langle R x, c(z) \rangle}, \qquad
   E \|C(x) - x\|^2 \to \frac{D}{1 - D} \|x\|^2 , $$
$D$ the quantiser's error on normal numbers: 0.571, 0.133, 0.036 and 0.0096 at 1 to 4 bits.

As here: the rotation is a random Hadamard transform of blocks of 65,536 values, each with a
`float32` scale of its own; what is left at the end is cut into powers of two, so nothing is padded.
The published method turns the whole vector at once and sends one scale; its error is the same,
because every block loses the same share. The message is 16 bytes of key, the scales, the codes.
"""

from dataclasses import dataclass

import numpy as np

from fewbits.backend import coders
from fewbits.backend.kinds.rotated import rotate
from fewbits.coding.bitpack import packed_size
from fewbits.reference import rotation
from fewbits.reference.formats import FLOAT32
from fewbits.rng import Rng
from fewbits_lab.baselines.lloyd_max import LloydMaxLevels, quantiser
from fewbits_lab.vectors import VectorValues

EDEN_BLOCK = rotation.LARGEST_BLOCK
_KEY = 16  # bytes


def formula(bits: int) -> float:
    """The relative squared error that rotation promises on any vector."""
    lost = quantiser(bits).error
    return lost / (1 - lost)


@dataclass(frozen=True, slots=True)
class Eden:
    """EDEN with 2^bits levels."""

    bits: int

    @property
    def name(self) -> str:
        return f"EDEN, {self.bits} bit{'s' if self.bits > 1 else ''}"

    def encode(self, x: VectorValues, seed: int) -> bytes:
        rng = Rng.from_seed(seed)
        turned = _rotated(x, rng)
        codes, scales = np.empty(x.size, np.uint16), []
        best = quantiser(self.bits)
        for part in _blocks(x.size):
            own = turned[part].astype(np.float64)
            square = float(own @ own)
            normal = own * np.sqrt(own.size / square) if square else own
            codes[part] = np.searchsorted(best.cuts, normal)
            along = float(own @ best.levels[codes[part]])
            scales.append(square / along if square else 0.0)
        packed = np.empty(packed_size(x.size, self.bits), np.uint8)
        coders.pack(codes, self.bits, packed)
        return rng.key + np.array(scales, "<f4").tobytes() + packed.tobytes()

    def decode(self, message: bytes, d: int) -> VectorValues:
        parts = _blocks(d)
        body = np.frombuffer(message, np.uint8, offset=_KEY)
        scales = body[: 4 * len(parts)].view("<f4")
        codes = coders.unpack(body[4 * len(parts) :], self.bits, 1 << self.bits, d)
        levels: LloydMaxLevels = quantiser(self.bits).levels
        turned = np.empty(d, np.float32)
        for part, scale in zip(parts, scales, strict=True):
            turned[part] = levels[codes[part]] * scale
        return _rotated(turned, Rng(message[:_KEY]), inverse=True)


def _rotated(x: VectorValues, rng: Rng, *, inverse: bool = False) -> VectorValues:
    out = np.empty_like(x)
    bits = np.ascontiguousarray(x).view(FLOAT32.bits)
    rotate(bits, FLOAT32, EDEN_BLOCK, rng, out.view(FLOAT32.bits), inverse=inverse)
    return out


def _blocks(d: int) -> list[slice]:
    return [
        slice(start + size * number, start + size * (number + 1))
        for start, size, count in rotation.pieces(d, EDEN_BLOCK)
        for number in range(count)
    ]
