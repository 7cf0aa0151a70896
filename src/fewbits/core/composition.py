r"""Compositions `a|b`: stages, the first applied first, then an operator.

For independent unbiased maps with constants $\omega_1$ and $\omega_2$, the composition is unbiased
with
$$ 1 + \omega = (1 + \omega_1)(1 + \omega_2) . $$
Reference: Horváth et al., *Natural Compression for Distributed Deep Learning* (2022), Theorem 5.
"""

from collections import Counter
from dataclasses import dataclass, replace

from fewbits.backend.kernel import Kernel
from fewbits.backend.library import MAX_STAGES
from fewbits.core import parameters
from fewbits.core.guarantee import Guarantee
from fewbits.core.operator import Operator
from fewbits.core.stage import Stage
from fewbits.errors import SpecError
from fewbits.reference.formats import FLOAT32, Format
from fewbits.wire import frame as wire
from fewbits.wire.sections import Section


@dataclass(frozen=True, slots=True)
class Composed(Operator):
    """Stages before an operator. It has the sections of the stages in order, then the operator's.

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
        if len(self.stages) > MAX_STAGES:
            raise SpecError(f"{len(self.stages)} stages, at most {MAX_STAGES} can be composed")

    @property
    def spec(self) -> str:
        return "|".join(part.spec for part in (*self.before, self.last))

    @property
    def stages(self) -> tuple[wire.StageRecord, ...]:
        return tuple(part.stage for part in (*self.before, self.last))

    def earlier(self) -> "Composed":
        before = tuple(stage.earlier() for stage in self.before)
        return replace(self, before=before, last=self.last.earlier())

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        counts, sections = Counter[str](), []
        for stage, size in zip(self.before, self._sizes(d), strict=False):
            counts[stage.name] += 1
            number = f"-{counts[stage.name]}" if counts[stage.name] > 1 else ""
            for section in stage.layout(size, format):
                name = f"{stage.name}{number}.{section.name}"
                sections.append(replace(section, name=name))
        return *sections, *self.last.layout(self._sizes(d)[-1], format)

    def kernel(self, d: int, format: Format) -> Kernel:
        counts = self._sizes(d)
        stages = tuple(
            stage.kernel(count) for stage, count in zip(self.before, counts, strict=False)
        )
        return self.last.kernel(counts[-1], format)._replace(before=stages)

    def guarantee(self, d: int, format: Format = FLOAT32) -> Guarantee:
        counts = self._sizes(d)
        promise = self.last.guarantee(counts[-1], format)
        for stage, count in zip(self.before[::-1], counts[-2::-1], strict=True):
            promise = stage.guarantee(count, format, promise)
        return replace(promise, bits=self.max_frame_bits(d, format))

    def _sizes(self, d: int) -> list[int]:
        parameters.check_count(d)
        counts = [d]
        for stage in self.before:
            handed = stage.reduced(counts[-1])
            if handed > counts[-1]:
                raise SpecError(f"{stage} hands on {handed} of {counts[-1]} values")
            counts.append(handed)
        return counts
