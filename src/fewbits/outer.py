r"""The outer step of LocalSGD: what becomes of the parameters $X$ once the mean $\Delta$ is known.

$\Delta$ is the mean over all ranks of what their local steps took away from $X$. `sgd` is
$X \leftarrow X - \eta\,\Delta$, which for $\eta = 1$ averages the ranks' parameters. `nesterov` is
the outer step of DiLoCo (Douillard et al., 2023): $v \leftarrow \mu v + \Delta$, then
$X \leftarrow X - \eta\,(\Delta + \mu v)$.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fewbits.core import parameters
from fewbits.errors import SpecError

_BLOCK = 65_536  # values that stay in the cache while they are worked on
Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Outer:
    """A rule; its fields are its parameters."""

    name: ClassVar[str]
    lr: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.lr, int | float) or not 0 < self.lr < math.inf:
            raise SpecError(f"lr of the outer step must be positive and finite, got {self.lr!r}")

    @property
    def has_momentum(self) -> bool:
        """Whether `apply` needs a momentum."""
        return False

    def apply(self, start: Array, mean: Array, momentum: Array | None) -> None:
        """Move `start` and `momentum` in place; `mean` is overwritten.

        One rounding for each operation, so every machine finds the same bits.
        """
        scratch = np.empty(min(_BLOCK, mean.size), mean.dtype)
        with np.errstate(all="ignore"):  # NaN and infinity are the caller's to judge
            for at in range(0, mean.size, _BLOCK):
                part = slice(at, at + _BLOCK)
                own = None if momentum is None else momentum[part]
                self._direction(mean[part], own, scratch[: mean[part].size])
                np.multiply(mean[part], mean.dtype.type(self.lr), out=mean[part])
                np.subtract(start[part], mean[part], out=start[part])

    def _direction(self, mean: Array, momentum: Array | None, scratch: Array) -> None:
        """Turn the mean into what is taken away from the parameters: here it is that already."""

    @property
    def spec(self) -> str:
        """The text form."""
        return self.name + (f":{given}" if (given := parameters.to_text(self)) else "")

    def __str__(self) -> str:
        return self.spec


@dataclass(frozen=True, slots=True)
class Sgd(Outer):
    """Without momentum."""

    name: ClassVar[str] = "sgd"


@dataclass(frozen=True, slots=True)
class Nesterov(Outer):
    """With Nesterov's momentum, by default with the factors of DiLoCo."""

    name: ClassVar[str] = "nesterov"
    lr: float = 0.7
    momentum: float = 0.9

    def __post_init__(self) -> None:
        Outer.__post_init__(self)
        if not isinstance(self.momentum, int | float) or not 0 <= self.momentum < 1:
            raise SpecError(f"momentum must be in [0, 1), got {self.momentum!r}")

    @property
    def has_momentum(self) -> bool:
        """Always, even a momentum of 0."""
        return True

    def _direction(self, mean: Array, momentum: Array | None, scratch: Array) -> None:
        assert momentum is not None
        factor = mean.dtype.type(self.momentum)
        np.multiply(momentum, factor, out=momentum)
        np.add(momentum, mean, out=momentum)
        np.multiply(momentum, factor, out=scratch)
        np.add(mean, scratch, out=mean)


RULES: dict[str, type[Outer]] = {cls.name: cls for cls in (Sgd, Nesterov)}


def outer(spec: str | Outer) -> Outer:
    """The rule that a spec names, such as `sgd` or `nesterov:lr=0.5`."""
    if isinstance(spec, Outer):
        return spec
    if not isinstance(spec, str):
        raise SpecError(f"the outer step is a name such as 'sgd', got {type(spec).__name__}")
    name, _, fields = (part.strip() for part in spec.partition(":"))
    if name not in RULES:
        raise SpecError(f"the outer step must be {' or '.join(RULES)}, got {spec!r}")
    return RULES[name](**parameters.from_text(RULES[name], fields))
