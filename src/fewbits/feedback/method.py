r"""The methods of feedback by name, and the rule of each for an operator.

Sources: EF14 Seide et al. (2014), Karimireddy et al. (2019), its momentum Lin et al. (2018); DGC,
with its masking, Lin et al. (2018); EF21 Richtárik, Sokolov, Fatkhullin (2021); DIANA Mishchenko et
al. (2019); EF-BV Condat, Yi, Richtárik (2022), which has EF21 and DIANA as special cases.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fewbits.core.composition import Composed
from fewbits.core.guarantee import Guarantee
from fewbits.core.operator import Operator
from fewbits.core.spelled import Spelled, spelled
from fewbits.errors import SpecError
from fewbits.families.selection import Selection
from fewbits.feedback.rule import Array, Rule
from fewbits.feedback.store import WORKER
from fewbits.operators.identity import Identity


@dataclass(frozen=True, slots=True)
class Feedback(Spelled, ABC):
    """A method; its fields are its parameters."""

    shifts: ClassVar[bool] = True  # memories are shifts, not errors

    @abstractmethod
    def rule(self, operator: Operator, d: int, senders: int = 1) -> Rule:
        """The rule for vectors of `d` values, if the messages of `senders` are averaged."""

    def back(self, operator: Operator, d: int) -> Rule:
        """The rule of whoever sends means back: only senders of gradients have all options."""
        return replace(self.rule(operator, d), momentum=0.0, decay=1.0)

    def shared_out(self, ranks: Sequence[Mapping[str, Array]], number: int) -> dict[str, Array]:
        r"""The memory that each of `number` ranks gets from the memories of all `ranks`.

        Errors keep their sum over all ranks: if the learning rate grows with the number of ranks,
        they move the model as far as before. Shifts and momenta keep their mean, which is what the
        receiver knows.
        """
        merged: dict[str, Array] = {}
        for key in sorted({key for arrays in ranks for key in arrays}):
            found = [arrays[key] for arrays in ranks if key in arrays]
            merged[key] = found[0]  # of the owner, or the same on all ranks
            if key.startswith(WORKER):
                divisors = np.full((len(found[0]), 1), len(ranks))
                if not self.shifts:
                    divisors[0] = number
                total = np.sum(found, axis=0, dtype=np.float64) / divisors
                merged[key] = np.asarray(total, found[0].dtype)
        return merged

    @property
    def has_momentum(self) -> bool:
        """Whether the method has momentum, in place of the optimizer's."""
        return False


@dataclass(frozen=True, slots=True)
class EF14(Feedback):
    """Error feedback: adds the error of each message to the next gradient.

    An unbiased operator with `omega` of 1 or more does not contract, so its output is scaled by
    1 / (1 + omega). `momentum` accumulates gradients before they are compressed, in place of the
    optimizer's momentum, which then must be 0. `decay` is what is left of an error after a step.
    """

    name: ClassVar[str] = "ef14"
    shifts: ClassVar[bool] = False
    momentum: float = 0.0
    decay: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.momentum, int | float) or not 0 <= self.momentum < 1:
            raise SpecError(f"momentum must be in [0, 1), got {self.momentum!r}")
        if not isinstance(self.decay, int | float) or not 0 < self.decay <= 1:
            raise SpecError(f"decay must be in (0, 1], got {self.decay!r}")

    @property
    def has_momentum(self) -> bool:
        return self.momentum > 0

    def rule(self, operator: Operator, d: int, senders: int = 1) -> Rule:
        scale = _contracting(self, operator, d)
        return Rule(False, scale, scale, self.momentum, self.decay)


@dataclass(frozen=True, slots=True)
class DGC(Feedback):
    """EF14 with momentum that begins anew where a value was sent, for operators that send few.

    Else a value that is sent late would push on for as long as the momentum lasts. What travels
    exactly is sent in every step, and keeps its momentum.
    """

    name: ClassVar[str] = "dgc"
    shifts: ClassVar[bool] = False
    momentum: float = 0.9

    def __post_init__(self) -> None:
        if not isinstance(self.momentum, int | float) or not 0 < self.momentum < 1:
            raise SpecError(f"momentum of dgc must be in (0, 1), got {self.momentum!r}")

    @property
    def has_momentum(self) -> bool:
        return True

    def rule(self, operator: Operator, d: int, senders: int = 1) -> Rule:
        if operator == Identity():
            return Rule(False, momentum=self.momentum)
        if not _selects(operator):
            raise SpecError(
                f"dgc forgets the momentum of what is sent, and {operator} sends all: use "
                f"ef14:momentum={self.momentum:g}, or an operator such as "
                "top-k:fraction=0.01|natural"
            )
        scale = _contracting(self, operator, d)
        return Rule(False, scale, scale, self.momentum, masks=True)

    def back(self, operator: Operator, d: int) -> Rule:
        return EF14().rule(operator, d)


@dataclass(frozen=True, slots=True)
class EF21(Feedback):
    """Both sides keep the last estimate and move it by the compressed difference."""

    name: ClassVar[str] = "ef21"

    def rule(self, operator: Operator, d: int, senders: int = 1) -> Rule:
        """EF-BV with both factors 1, or 1 / (1 + omega) if the operator needs it to contract."""
        scale = _contracting(self, operator, d)
        return Rule(True, scale, scale)


@dataclass(frozen=True, slots=True)
class Diana(Feedback):
    """Moves shifts slowly and gives unbiased estimates; needs an unbiased operator."""

    name: ClassVar[str] = "diana"

    def rule(self, operator: Operator, d: int, senders: int = 1) -> Rule:
        """EF-BV with a step of 1 / (1 + omega) and a scale of 1."""
        omega = operator.guarantee(d).omega
        if omega is None:
            raise SpecError(f"diana needs an unbiased operator: with {operator} use ef21 or ef14")
        return Rule(True, 1 / (1 + omega))


@dataclass(frozen=True, slots=True)
class EFBV(Feedback):
    """Takes the best factors for the operator's bias and variance.

    For a biased operator only the sum of the two is known, and EF21 is best for it.
    """

    name: ClassVar[str] = "ef-bv"

    def rule(self, operator: Operator, d: int, senders: int = 1) -> Rule:
        omega = operator.guarantee(d).omega
        if omega is None:
            scale = _contracting(self, operator, d)
            return Rule(True, scale, scale)
        return Rule(True, 1 / (1 + omega), 1 / (1 + omega / senders))


FEEDBACKS: dict[str, type[Feedback]] = {cls.name: cls for cls in (EF14, DGC, EF21, Diana, EFBV)}


def feedback(spec: str | Feedback) -> Feedback:
    """The method that a spec names, such as `ef21` or `ef14:momentum=0.9`.

    >>> from fewbits.feedback import feedback
    >>> feedback("ef14:momentum=0.9").has_momentum
    True
    """
    return spelled(spec, Feedback, FEEDBACKS, "feedback")  # type: ignore[type-abstract]


def _selects(operator: Operator) -> bool:
    """Whether it sends some of the values only."""
    stages = operator.before if isinstance(operator, Composed) else ()
    return any(isinstance(stage, Selection) for stage in stages)


def _contracting(method: Feedback, operator: Operator, d: int) -> float:
    """The factor that makes the operator contract: 1 if it contracts without one."""
    promise: Guarantee = operator.guarantee(d)
    if promise.error < 1:
        return 1.0
    if promise.omega is None:
        raise SpecError(
            f"{method.name} needs an operator that contracts, and {operator} promises only that "
            f"at most {promise.error:.3g} of a vector's square is lost ({d} values): use one that "
            "loses less, or an unbiased one"
        )
    return 1 / (1 + promise.omega)
