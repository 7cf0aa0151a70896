"""What factors of matrices cost: the planner's figures of `low-rank`, for a model."""

import math
import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from fewbits.backend import products
from fewbits.core.operator import Operator
from fewbits.low_rank import LowRank, matrix_shape
from fewbits.session.routing import ModelParameter
from fewbits.theory.cost import Codec

_ROUNDS = 3
_FloatArray = npt.NDArray[np.float32]


def measured(
    low_rank: LowRank,
    parameters: Sequence[ModelParameter],
    sample: _FloatArray,
    bits: Callable[[Operator], float],
) -> Codec:
    """Bits a value of the model, and speeds on a square of a gradient's values, the best of three.

    `bits` tells those of an operator. What does not fit counts as small tensors do, and is as fast
    as what does.
    """
    side = max(1, math.isqrt(sample.size))
    matrix = np.resize(sample, (side, side))
    trials = [_passes(low_rank, matrix) for _ in range(_ROUNDS)]
    made, settled = (min(own[part] for own in trials) for part in (0, 1))
    fitting = [each for each in parameters if low_rank.fits(each.shape)]
    factors = sum(low_rank.rank * sum(matrix_shape(each.shape)) for each in fitting)
    total = max(1, sum(each.size for each in parameters))
    rest = total - sum(each.size for each in fitting)
    all_bits = (factors + rest) * bits(low_rank.operator)
    return Codec(all_bits / total, matrix.size / made, matrix.size / settled)


def _passes(low_rank: LowRank, matrix: _FloatArray) -> tuple[float, float]:
    """Seconds of both factors, and of the memory and the mean that they give."""
    side, rank = len(matrix), low_rank.rank
    wide = products.lanes(rank)
    values, error, then = matrix.copy(), np.zeros_like(matrix), np.zeros_like(matrix)
    basis, left, right = (np.zeros((side, wide), np.float32) for _ in range(3))
    basis[:, :rank] = np.resize(matrix, (side, rank))
    own = products.Remembered(values, error)
    began = time.perf_counter()
    own.left_factor(basis, left, threads=1)
    products.orthonormal(left)
    own.right_factor(left, right, threads=1)
    middle = time.perf_counter()
    thin = np.ascontiguousarray(right[:, :rank])
    own.settle(left, thin, thin, then, threads=1)
    return max(middle - began, 1e-9), max(time.perf_counter() - middle, 1e-9)
