r"""Matrices as products of two thin factors, which all ranks average one after the other.

Each matrix has a basis $Q$ of few columns, the same on all ranks, and on every rank an error
memory $e$. With $M = g + e$:

1. Every rank sends $P = M Q$. All take the mean $\bar P$ of what was decoded and make its columns
   orthonormal: $\hat P$.
2. Every rank sends $R = M^\top \hat P$. All take the mean $\bar R$ of what was decoded.
3. The mean gradient is $\hat P \bar R^\top$. A step that ends well makes
   $e \leftarrow M - \hat P c^\top$, where $c$ is what this rank's own message of $R$ decodes to,
   and $Q \leftarrow \bar R$.

This is PowerSGD's iteration (Vogels, Karimireddy, Jaggi, 2019) with encoded factors. What is shared
derives from decoded bytes by operations in a fixed order, so all ranks have the same bits. A factor
of a matrix has units, and so scales, of its own.

A column of the basis that is zero, as all are at first, is drawn from the seed.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fewbits.backend import products
from fewbits.backend.products import Remembered
from fewbits.collectives.factors import FactorExchange, Factors, MatrixPlace
from fewbits.collectives.gather import Gather
from fewbits.collectives.owned import Sharded
from fewbits.collectives.progress import RankProgress
from fewbits.collectives.reduction import Hops, ReductionTask, guarded
from fewbits.collectives.units import float_dtype
from fewbits.feedback.rule import Array
from fewbits.feedback.store import BASIS, WORKER, Place
from fewbits.low_rank import LowRank
from fewbits.reference import low_rank as reference
from fewbits.reference.tally import Tally
from fewbits.rng import Rng
from fewbits.theory.cost import FEW_RANKS


def exchange_of(ranks: int, collective: str) -> FactorExchange:
    """What averages factors among so many ranks whose other values go by `collective`."""
    return Gather if collective == "gather" or ranks <= FEW_RANKS else Sharded


class Factored:
    """The matrices of a batch; other values of the batch are not touched."""

    def __init__(
        self,
        task: ReductionTask,
        matrices: Sequence[MatrixPlace],
        low_rank: LowRank,
        exchange: FactorExchange,
    ) -> None:
        task = replace(task, told=self._told)
        assert task.feedback is not None
        rank, operator, dtype = low_rank.rank, low_rank.operator, float_dtype(task.format)
        self._matrices, self._threads, self._width = matrices, task.threads, products.lanes(rank)
        lefts = [(matrix, matrix.rows) for matrix in matrices]
        rights = [(matrix, matrix.columns) for matrix in matrices]
        self._left = Factors(task, "left", lefts, rank, operator, exchange)
        self._right = Factors(task, "right", rights, rank, operator, exchange)
        self._orthonormal: list[Array] = []  # of the step
        self._bad = 0  # values of the step's gradient that are NaN or infinite
        store, ends = task.feedback.store, np.cumsum([each.columns * rank for each in matrices])
        places = [Place(each.key, each.start, each.count) for each in matrices]
        self._errors = store.bind(
            WORKER, places, 1, max(each.place.stop for each in matrices), dtype
        )
        self._places = [
            Place(each.key, int(end) - each.columns * rank, each.columns * rank)
            for each, end in zip(matrices, ends, strict=True)
        ]
        self._bases = store.bind(BASIS, self._places, 1, int(ends[-1]), dtype)

    def hops(self, values: Array, rng: Rng, progress: RankProgress) -> Hops:
        """Replace the matrices in `values` (bits) by their means; pauses while bytes travel."""
        numbers = values.view(self._errors.now.dtype)
        silent = Silence(progress.without_inputs, progress.unused)
        draws = rng.fork(BASIS, progress.step)
        guarded(lambda: self._project(numbers, silent, draws), progress, "project")
        yield from self._left.reduction.hops(self._left.bits, rng, progress)
        guarded(lambda: self._project_back(numbers, silent), progress, "project")
        yield from self._right.reduction.hops(self._right.bits, rng, progress)
        guarded(lambda: self._settle(numbers, silent), progress, "settle")
        return numbers

    def _project(self, numbers: Array, silent: "Silence", draws: Rng) -> Tally:
        """Make this rank's left factors."""
        self._bad = 0
        for number, matrix in enumerate(self._matrices):
            made = np.zeros((matrix.rows, self._width), numbers.dtype)
            if matrix.name not in silent:
                basis = self._padded(self._basis(number, draws.fork(matrix.name)))
                self._remembered(numbers, matrix).left_factor(basis, made, threads=self._threads)
                if not np.isfinite(made).all():  # rare: only then are the values looked at
                    self._bad += int(np.count_nonzero(~np.isfinite(matrix.of(numbers))))
            self._left.of(number)[...] = made[:, : self._left.rank]
        return Tally()

    def _project_back(self, numbers: Array, silent: "Silence") -> Tally:
        """Make the means of left factors orthonormal, and this rank's right factors."""
        self._orthonormal = []
        for number, matrix in enumerate(self._matrices):
            left = self._padded(self._left.of(number))
            products.orthonormal(left)
            self._orthonormal.append(left)
            made = np.zeros((matrix.columns, self._width), numbers.dtype)
            if matrix.name not in silent:
                self._remembered(numbers, matrix).right_factor(left, made, threads=self._threads)
            self._right.of(number)[...] = made[:, : self._right.rank]
        return Tally()

    def _settle(self, numbers: Array, silent: "Silence") -> Tally:
        """Write the means, and the memories that become current if the step ends well."""
        self._right.decode_own()
        errors, bases = self._errors, self._bases
        for number, matrix in enumerate(self._matrices):
            own, mean = self._right.own(number), self._right.of(number)
            if matrix.name in silent:  # it has told nothing, but may own what was lost on the way
                matrix.of(numbers)[...] = 0
            self._remembered(numbers, matrix).settle(
                self._orthonormal[number],
                own,
                mean,
                matrix.of(errors.then[0]),
                threads=self._threads,
            )
            place = self._places[number]
            at = slice(place.start, place.start + place.count)
            bases.then[0, at] = mean.reshape(-1) if mean.any() else bases.now[0, at]
        errors.written = bases.written = True
        return Tally()

    def _told(self, _: int) -> str:
        """What other ranks read of a factor with numbers that are not finite: of the gradient."""
        if self._bad:
            return f"{self._bad} gradient values are NaN or infinite"
        return "gradient values are finite, but too large for the numbers of a factor"

    def _basis(self, number: int, draws: Rng) -> Array:
        """Columns of length 1; one that is zero is drawn anew."""
        kept = self._bases.part(self._places[number]).reshape(-1, self._right.rank)
        return reference.basis(kept, lambda column: draws.fork(column).words(0, len(kept)))

    def _remembered(self, numbers: Array, matrix: MatrixPlace) -> Remembered:
        return Remembered(matrix.of(numbers), matrix.of(self._errors.now[0]))

    def _padded(self, factor: Array) -> Array:
        """A copy of a factor as native code takes it."""
        wide = np.zeros((len(factor), self._width), factor.dtype)
        wide[:, : factor.shape[1]] = factor
        return wide


@dataclass(frozen=True, slots=True)
class Silence:
    """The parameters of which this rank has no gradient: it sends zeros and remembers all."""

    everything: bool
    names: Container[str]

    def __contains__(self, name: str) -> bool:
        return self.everything or name in self.names
