r"""Products of a matrix with thin factors, and orthonormal columns: the order of every operation.

Each number of a product is a sum of rounded products in the order of an index, from 0 on, in the
matrix's own precision. So it depends neither on the share of a thread nor on the instruction set.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.floating]

NOTHING = 1e-12  # a column is left out if so much of its square is left, of what it was


def left_factor(matrix: _Floats, basis: _Floats) -> _Floats:
    """`matrix @ basis`, summed in the order of the matrix's columns."""
    total = np.zeros((len(matrix), basis.shape[1]), matrix.dtype)
    with np.errstate(all="ignore"):
        for column, row in zip(matrix.T, basis, strict=True):
            total += column[:, None] * row
    return total


def right_factor(matrix: _Floats, left: _Floats) -> _Floats:
    """`matrix.T @ left`, summed in the order of the matrix's rows."""
    return left_factor(matrix.T, left)


def product(left: _Floats, right: _Floats) -> _Floats:
    """`left @ right.T`, summed in the order of the factors' columns."""
    return left_factor(left, right.T)


def settled(matrix: _Floats, left: _Floats, own: _Floats, mean: _Floats) -> tuple[_Floats, _Floats]:
    """The product with the `mean`, and what the matrix has beside the product with `own`."""
    with np.errstate(all="ignore"):
        return product(left, mean), matrix - product(left, own)


def orthonormal(factor: _Floats) -> _Floats:
    """Columns made orthonormal in their order, by Gram-Schmidt in float64.

    A column that the ones before it make up becomes zeros. What is not finite makes its column and
    those behind it NaN.
    """
    with np.errstate(all="ignore"):
        return _orthonormal(_scaled(factor)).astype(factor.dtype)


def basis(kept: _Floats, words: Callable[[int], npt.NDArray[np.uint32]]) -> _Floats:
    """The kept columns with a length of 1; one that is zero is drawn from random `words`."""
    wide = _scaled(kept, axis=0)
    for column in np.flatnonzero(~kept.any(axis=0)).tolist():
        wide[:, column] = (words(column) + 0.5) / 2.0**32 - 0.5
    length = np.sqrt(np.add.accumulate(wide * wide)[-1])
    unit: _Floats = (wide / length).astype(kept.dtype)
    return unit


def _scaled(factor: _Floats, axis: int | None = None) -> npt.NDArray[np.float64]:
    """The factor, or each of its columns, over a power of two: the largest square is in range.

    NaN does not count, and what has an infinity stays as it is.
    """
    wide = factor.astype(np.float64)
    largest = np.fmax.reduce(np.abs(wide), axis=axis, initial=0.0)
    return np.ldexp(wide, -np.frexp(np.where(np.isinf(largest), 0.0, largest))[1])


def _orthonormal(factor: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    if not factor.size:
        return factor
    before = np.add.accumulate(factor * factor)[-1]
    for column in range(factor.shape[1]):
        own = factor[:, column].copy()
        products = np.add.accumulate(own[:, None] * factor[:, column:])[-1]
        square = products[0]
        if square == 0 or square < NOTHING * before[column]:
            factor[:, column] = 0
            continue
        factor[:, column + 1 :] -= (products[1:] / square) * own[:, None]
        factor[:, column] = own / np.sqrt(square)
    return factor
