"""The data of the codec benchmark and the expected results."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits.codec import compress
from fewbits.coding.bitpack import packed_size
from fewbits.core import vector
from fewbits.core.operator import Operator
from fewbits.core.vector import Vector
from fewbits.errors import FewbitsError
from fewbits.reference.formats import FLOAT32, Bits, Format
from fewbits.rng import Rng
from fewbits.wire import frame as wire

SEED = 7
_CERTAIN = 10_000  # values from which one draw meets a bound in expectation, within the slack
_SLACK = 1.1

Float32s = npt.NDArray[np.float32]
AnyFloats = npt.NDArray[Any]
FrameBytes = npt.NDArray[np.uint8]


class Workload:
    """One Gaussian vector, and warm memory for all results."""

    def __init__(self, elements: int, format: Format = FLOAT32) -> None:
        self.elements, self.format = elements, format
        drawn = np.random.default_rng(0).standard_normal(elements, np.float32)
        dtype = vector.empty_array(format, (0,)).dtype
        self.x: AnyFloats = drawn.astype(dtype, copy=False)
        self.copy = np.zeros_like(self.x)
        self.out = np.zeros_like(self.x)
        self.totals = np.zeros_like(self.x)
        sizes = (packed_size(elements, FLOAT32.exponent), packed_size(elements, 1))
        self.planes = np.zeros(sizes[0], np.uint8), np.zeros(sizes[1], np.uint8)
        self.rng = Rng.from_seed(SEED).fork(0)  # as `compress` does with this seed
        self.frames: dict[str, FrameBytes] = {}
        self.decoded: dict[str, AnyFloats] = {}

    @property
    def bits(self) -> Bits:
        return self.x.view(self.format.bits)

    def prepare(self, operator: Operator) -> None:
        """Make the operator's frame and, without `decompress`, the vector that is in it."""
        made = compress(self.x, operator, seed=SEED, threads=1)
        frame = np.frombuffer(made, np.uint8).copy()
        direct = np.zeros_like(self.x)
        sections = wire.parse(frame, self.elements).sections
        operator.decode(sections, Vector(direct.view(self.format.bits), self.format))
        guarantee = operator.guarantee(self.elements, self.format)
        if guarantee.sure or self.elements >= _CERTAIN:
            error = _relative_error(self.x, direct)
            what = f"{operator} has the relative error {error:.3g}"
            expect(error <= guarantee.error * _SLACK, what)
        self.frames[operator.spec], self.decoded[operator.spec] = frame, direct

    def forget(self, operator: Operator) -> None:
        """Give the memory of an operator's results back."""
        del self.frames[operator.spec], self.decoded[operator.spec]


def expect(fact: bool, name: str) -> None:
    """Stop the benchmark unless `fact` holds; the time of a wrong job means nothing."""
    if not fact:
        raise FewbitsError(f"the benchmark met a wrong result: {name}")


def equal_bits(a: AnyFloats, b: AnyFloats) -> bool:
    """Whether two vectors are the same, NaN and the sign of 0 included."""
    own = np.dtype(f"u{a.itemsize}")
    return np.array_equal(a.view(own), b.view(own))


def _relative_error(x: AnyFloats, y: AnyFloats) -> float:
    wide = x.dtype if x.itemsize >= FLOAT32.itemsize else np.dtype(np.float32)
    values = x.astype(wide, copy=False)
    difference = y.astype(wide, copy=False) - values
    return float(np.vdot(difference, difference)) / max(float(np.vdot(values, values)), 1e-30)
