r"""Compositions `a|b`: stages, the first applied first, then an operator.

For independent unbiased maps with constants $\omega_1$ and $\omega_2$, the composition is unbiased
with
$$ 1 + \omega = (1 + \omega_1)(1 + \omega_2) . $$
Reference: Horváth et al., *Natural Compression for Distributed Deep Learning* (2022), Theorem 5.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits import _native
from fewbits.core.guarantee import Guarantee
from fewbits.core.operator import Operator, Parts, Written
from fewbits.core.stage import Stage
from fewbits.core.vector import Vector
from fewbits.errors import SpecError
from fewbits.kernels.formats import FLOAT32, Format
from fewbits.kernels.units import Kernel, Tally
from fewbits.rng import Rng, token
from fewbits.wire import frame as wire
from fewbits.wire.sections import Section


@dataclass(frozen=True, slots=True)
class Composed(Operator):
    """Stages before an operator. Its sections are theirs, in order, then the operator's.

    Stage number $i$ draws from the stream that $i$ names below the composition's, and the operator
    from the one after the last stage's: all draws are independent.
    """

    before: tuple[Stage, ...]
    last: Operator

    def __post_init__(self) -> None:
        if not self.before or not all(isinstance(stage, Stage) for stage in self.before):
            raise SpecError("a composition is made of stages and one operator after them")
        if isinstance(self.last, Composed) or not isinstance(self.last, Operator):
            raise SpecError("a composition ends with an operator that is not one itself")
        if len(self.stages) > _native.MAX_STAGES:
            raise SpecError(
                f"{len(self.stages)} stages, at most {_native.MAX_STAGES} can be composed"
            )

    @property
    def spec(self) -> str:
        return "|".join(part.spec for part in (*self.before, self.last))

    @property
    def stages(self) -> tuple[wire.Stage, ...]:
        return tuple(part.stage for part in (*self.before, self.last))

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        counts, sections = Counter[str](), []
        for stage, size in zip(self.before, self._sizes(d), strict=False):
            counts[stage.name] += 1
            number = f"-{counts[stage.name]}" if counts[stage.name] > 1 else ""
            for section in stage.layout(size, format):
                name = f"{stage.name}{number}.{section.name}"
                sections.append(replace(section, name=name))
        return *sections, *self.last.layout(self._sizes(d)[-1], format)

    def encode(self, x: Vector, rng: Rng, into: Parts, *, threads: int = 1) -> Written:
        tallies, at = [], 0
        for number, stage in enumerate(self.before):
            end = at + len(stage.layout(x.count, x.format))
            x, tally = stage.split(x, rng.fork(number), into[at:end], threads=threads)
            tallies.append(tally)
            at = end
        own = rng.fork(len(self.before))
        last, sizes = self.last.encode(x, own, into[at:], threads=threads)
        # What saturates in one stage does so again in the next: no value is to be counted twice.
        saturated = max(tally.saturated for tally in (*tallies, last))
        # Later stages see values that are not finite multiplied or dropped: the first one counts.
        met = Tally(saturated, tallies[0].nonfinite, last.escaped)
        return Written(met, (*(part.size for part in into[:at]), *sizes))

    def decode(self, parts: Parts, out: Vector, *, threads: int = 1) -> Tally:
        side, reduced, last = self._reduced(parts, out.count, out.format, threads)
        tally = self.before[0].join(side, reduced, out, threads=threads)
        return tally._replace(escaped=last.escaped)

    def accumulate(
        self, parts: Parts, format: Format, totals: npt.NDArray[Any], *, threads: int = 1
    ) -> Tally:
        side, reduced, last = self._reduced(parts, totals.size, format, threads)
        tally = self.before[0].accumulate(side, reduced, totals)
        return tally._replace(escaped=last.escaped)

    def kernel(self, d: int, format: Format) -> Kernel | None:
        kept = self.before[0].reduced(d)
        inner = self.last.kernel(kept, format)
        if inner is None or len(self.before) > 1 or not self.before[0].keeps_largest:
            return None
        # Whole vectors and complements of sets have no kernel.
        if kept > _native.MAX_KEPT or not 0 < 2 * kept <= d:
            return None
        return inner._replace(kept=kept, path=(token(1),))

    def _reduced(
        self, parts: Parts, d: int, format: Format, threads: int
    ) -> tuple[Parts, Vector, Tally]:
        """The first stage's side sections and what it handed on; what the operator met."""
        counts, starts = self._sizes(d), [0]
        for stage, count in zip(self.before, counts, strict=False):
            starts.append(starts[-1] + len(stage.layout(count, format)))
        vector = Vector(np.empty(counts[-1], format.bits), format)
        last = self.last.decode(parts[starts[-1] :], vector, threads=threads)
        for number in reversed(range(1, len(self.before))):
            joined = Vector(np.empty(counts[number], format.bits), format)
            side = parts[starts[number] : starts[number + 1]]
            self.before[number].join(side, vector, joined, threads=threads)
            vector = joined
        return parts[: starts[1]], vector, last

    def guarantee(self, d: int, format: Format = FLOAT32) -> Guarantee:
        counts = self._sizes(d)
        promise = self.last.guarantee(counts[-1], format)
        for stage, count in zip(self.before[::-1], counts[-2::-1], strict=True):
            promise = stage.guarantee(count, format, promise)
        return replace(promise, bits=self.most_bits(d, format))

    def _sizes(self, d: int) -> list[int]:
        """How many values each stage gets, and the operator."""
        counts = [d]
        for stage in self.before:
            counts.append(stage.reduced(counts[-1]))
        return counts
