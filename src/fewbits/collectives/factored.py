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

Vectors and small matrices travel by the same operator, with a memory each, in the messages of $P$.

A column of the basis that is zero, as all are at first, is drawn from the seed.
"""

from collections.abc import Container, Generator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fewbits.backend import products
from fewbits.backend.products import Remembered
from fewbits.collectives.factors import (
    LEFT_FACTOR,
    RIGHT_FACTOR,
    FactorExchange,
    Factors,
    MatrixPlace,
    VectorPlace,
)
from fewbits.collectives.gather import Gather
from fewbits.collectives.owned import Sharded
from fewbits.collectives.progress import RankProgress
from fewbits.collectives.reduction import ReductionTask, guarded
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
    """The matrices of some jobs, and vectors beside them; other values are not touched."""

    def __init__(
        self,
        task: ReductionTask,
        matrices: Sequence[MatrixPlace],
        low_rank: LowRank,
        exchange: FactorExchange,
        vectors: Sequence[VectorPlace] = (),
    ) -> None:
        task = replace(task, told=self._told)
        assert task.feedback is not None
        rank, dtype = low_rank.rank, float_dtype(task.format)
        self._matrices, self._vectors = matrices, vectors
        self._threads, self._width = task.threads, products.lanes(rank)
        self._left = Factors(task, LEFT_FACTOR, matrices, low_rank, exchange, vectors)
        self._right = Factors(task, RIGHT_FACTOR, matrices, low_rank, exchange)
        self._orthonormal: list[Array] = []  # of the step
        self._bad = 0  # values of the step's gradient that are NaN or infinite
        store = task.feedback.store
        counts = [each.count for each in matrices] + [each.unit.count for each in vectors]
        names = [each.key for each in matrices] + [each.unit.name for each in vectors]
        self._kept = _row(names, counts)
        self._errors = store.bind(WORKER, self._kept, 1, sum(counts), dtype)
        counts = [each.columns * rank for each in matrices]
        self._places = _row([each.key for each in matrices], counts)
        self._bases = store.bind(BASIS, self._places, 1, sum(counts), dtype)

    def hops(
        self, jobs: Sequence[Array], rng: Rng, progress: RankProgress
    ) -> Generator[None, None, list[Array]]:
        """Replace the matrices and vectors in the jobs' values (bits) by their means.

        Returns the values as floats; pauses while bytes travel.
        """
        numbers = [values.view(self._errors.now.dtype) for values in jobs]
        silent = Silence(progress.without_inputs, progress.unused)
        draws = rng.fork(BASIS, progress.step)
        guarded(lambda: self._project(numbers, silent, draws), progress, "project")
        yield from self._left.reduction.hops(self._left.bits, rng, progress)
        if self._matrices:
            guarded(lambda: self._project_back(numbers, silent), progress, "project")
            yield from self._right.reduction.hops(self._right.bits, rng, progress)
        guarded(lambda: self._settle(numbers, silent), progress, "settle")
        return numbers

    def _project(self, numbers: Sequence[Array], silent: "Silence", draws: Rng) -> Tally:
        """Make this rank's left factors, and the messages of vectors."""
        self._bad = 0
        for number, matrix in enumerate(self._matrices):
            made = np.zeros((matrix.rows, self._width), numbers[0].dtype)
            if matrix.name not in silent:
                basis = self._padded(self._basis(number, draws.fork(matrix.name)))
                self._remembered(numbers, number).left_factor(basis, made, threads=self._threads)
                if not np.isfinite(made).all():  # rare: only then are the values looked at
                    self._bad += _nonfinite(matrix.of(numbers))
            self._left.of(number)[...] = made[:, : self._left.rank]
        for number, vector in enumerate(self._vectors):
            message = self._left.vector(number)
            message[...] = 0
            if vector.unit.parameter not in silent:
                with np.errstate(all="ignore"):  # NaN and infinity are the caller's to judge
                    np.add(vector.of(numbers), self._memory(number), out=message)
                self._bad += _nonfinite(vector.of(numbers))
        return Tally()

    def _project_back(self, numbers: Sequence[Array], silent: "Silence") -> Tally:
        """Make the means of left factors orthonormal, and this rank's right factors."""
        self._orthonormal = []
        for number, matrix in enumerate(self._matrices):
            left = self._padded(self._left.of(number))
            products.orthonormal(left)
            self._orthonormal.append(left)
            made = np.zeros((matrix.columns, self._width), numbers[0].dtype)
            if matrix.name not in silent:
                self._remembered(numbers, number).right_factor(left, made, threads=self._threads)
            self._right.of(number)[...] = made[:, : self._right.rank]
        return Tally()

    def _settle(self, numbers: Sequence[Array], silent: "Silence") -> Tally:
        """Write the means, and the memories that become current if the step ends well."""
        self._left.decode_own()
        if self._matrices:
            self._right.decode_own()
        errors, bases = self._errors, self._bases
        for number, matrix in enumerate(self._matrices):
            own, mean = self._right.own(number), self._right.of(number)
            if matrix.name in silent:  # it has told nothing, but may own what was lost on the way
                matrix.of(numbers)[...] = 0
            self._remembered(numbers, number).settle(
                self._orthonormal[number],
                own,
                mean,
                _at(errors.then, self._kept[number]).reshape(matrix.rows, matrix.columns),
                threads=self._threads,
            )
            then, now = (_at(each, self._places[number]) for each in (bases.then, bases.now))
            then[...] = mean.reshape(-1) if mean.any() else now
        for number, vector in enumerate(self._vectors):
            values, then = vector.of(numbers), _at(errors.then, self._kept_of(number))
            if vector.unit.parameter in silent:
                values[...] = 0
            with np.errstate(all="ignore"):
                np.add(values, self._memory(number), out=then)
                then -= self._left.own_vector(number)
            values[...] = self._left.vector(number)
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

    def _remembered(self, numbers: Sequence[Array], number: int) -> Remembered:
        values = self._matrices[number].of(numbers)
        return Remembered(values, _at(self._errors.now, self._kept[number]).reshape(values.shape))

    def _kept_of(self, vector: int) -> Place:
        """The place of a vector's memory, behind those of matrices."""
        return self._kept[len(self._matrices) + vector]

    def _memory(self, vector: int) -> Array:
        return _at(self._errors.now, self._kept_of(vector))

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


def _row(names: Sequence[str], counts: Sequence[int]) -> list[Place]:
    """Places one after the other."""
    ends = np.cumsum(counts).tolist()
    both = zip(names, counts, ends, strict=True)
    return [Place(name, end - count, count) for name, count, end in both]


def _at(memory: Array, place: Place) -> Array:
    """A place in a memory of one row."""
    return memory[0, place.start : place.start + place.count]


def _nonfinite(values: Array) -> int:
    return int(np.count_nonzero(~np.isfinite(values)))
