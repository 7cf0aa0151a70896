r"""The outer step of LocalSGD: it moves the parameters $X$ by the mean $\Delta$.

$\Delta$ is the mean over all ranks of $X$ minus the parameters after local steps. `sgd` is
$X \leftarrow X - \eta\,\Delta$, which for $\eta = 1$ averages the ranks' parameters. `nesterov` is
the outer step of DiLoCo (Douillard et al., 2023): $v \leftarrow \mu v + \Delta$, then
$X \leftarrow X - \eta\,(\Delta + \mu v)$.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fewbits.core.spelled import Spelled, spelled
from fewbits.errors import SpecError
from fewbits.feedback import Feedback

_PIECE = 65_536  # values that stay in the cache while they are worked on
_Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Outer(Spelled):
    """A rule; its fields are its parameters."""

    lr: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.lr, int | float) or not 0 < self.lr < math.inf:
            raise SpecError(f"lr of the outer step must be positive and finite, got {self.lr!r}")

    @property
    def has_momentum(self) -> bool:
        return False

    def apply(self, start: _Array, mean: _Array, momentum: _Array | None) -> None:
        """Move `start` and `momentum` in place; `mean` is overwritten.

        One rounding for each operation, so every machine finds the same bits.
        """
        scratch = np.empty(min(_PIECE, mean.size), mean.dtype)
        with np.errstate(all="ignore"):  # NaN and infinity are the caller's to judge
            for at in range(0, mean.size, _PIECE):
                part = slice(at, at + _PIECE)
                own = None if momentum is None else momentum[part]
                self._direction(mean[part], own, scratch[: mean[part].size])
                np.multiply(mean[part], mean.dtype.type(self.lr), out=mean[part])
                np.subtract(start[part], mean[part], out=start[part])

    def apply_there(self, start: Any, mean: Any, momentum: Any) -> None:
        """`apply` for tensors, where they lie, with the same roundings."""
        self._turn(mean, momentum)
        mean *= self.lr
        start -= mean

    def _direction(self, mean: _Array, momentum: _Array | None, scratch: _Array) -> None:
        """Turn the mean into the direction that is subtracted; by default they are the same."""

    def _turn(self, mean: Any, momentum: Any) -> None:
        """`_direction` for tensors."""


@dataclass(frozen=True, slots=True)
class Sgd(Outer):
    """An outer step without momentum."""

    name: ClassVar[str] = "sgd"


@dataclass(frozen=True, slots=True)
class Nesterov(Outer):
    """An outer step with Nesterov's momentum, by default with the factors of DiLoCo."""

    name: ClassVar[str] = "nesterov"
    lr: float = 0.7
    momentum: float = 0.9

    def __post_init__(self) -> None:
        Outer.__post_init__(self)
        if not isinstance(self.momentum, int | float) or not 0 <= self.momentum < 1:
            raise SpecError(f"momentum must be in [0, 1), got {self.momentum!r}")

    @property
    def has_momentum(self) -> bool:
        """Always true, even with a momentum of 0."""
        return True

    def _direction(self, mean: _Array, momentum: _Array | None, scratch: _Array) -> None:
        assert momentum is not None
        factor = mean.dtype.type(self.momentum)
        np.multiply(momentum, factor, out=momentum)
        np.add(momentum, mean, out=momentum)
        np.multiply(momentum, factor, out=scratch)
        np.add(mean, scratch, out=mean)

    def _turn(self, mean: Any, momentum: Any) -> None:
        momentum *= self.momentum
        momentum += mean
        mean += momentum * self.momentum


RULES: dict[str, type[Outer]] = {cls.name: cls for cls in (Sgd, Nesterov)}


def refuse_two_momenta(feedback: Feedback, rule: Outer) -> None:
    """Refuse momentum in the memories beside that of the outer step."""
    if feedback.has_momentum and rule.has_momentum:
        raise SpecError(
            f"feedback {feedback} has momentum, and so has the outer step: take outer='sgd', or "
            "feedback without momentum"
        )


def outer(spec: str | Outer) -> Outer:
    """The rule that a spec names, such as `sgd` or `nesterov:lr=0.5`."""
    return spelled(spec, Outer, RULES, "the outer step")
