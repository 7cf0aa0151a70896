"""What both ends have agreed upon: operator, memory, and which arrays travel exactly."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from fewbits import policy as policies
from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.feedback import EF21, Feedback
from fewbits.feedback import feedback as method
from fewbits.flower.arrays import FLOATS, Values, is_finite
from fewbits.operators.identity import Identity
from fewbits.policy import Exact, Policy, choose
from fewbits.registry import operator

NONE = "none"


@dataclass(frozen=True, slots=True)
class Default:
    """Compress what is large: from 4,096 values on, vectors from 65,536 on.

    Vectors of models are biases, norms and running variances: few, and some must stay positive. A
    vector that is longer than any layer is wide is a whole model. Below a few thousand values an
    array costs Flower more than its bytes.
    """

    small: int = 4_096
    vector: int = 65_536

    def __call__(self, name: str, shape: tuple[int, ...]) -> Exact | None:
        """Why the array goes exact, or None if it may be compressed."""
        least = self.vector if len(shape) <= 1 else self.small
        return Exact(f"under {least} elements") if math.prod(shape) < least else None


@dataclass(frozen=True, slots=True)
class Plan:
    """One direction: how arrays are compressed and what is remembered of them."""

    operator: Operator
    feedback: Feedback | None
    policy: Policy

    @classmethod
    def of(
        cls,
        spec: str | Operator,
        feedback: str | Feedback | None = None,
        policy: Policy | Mapping[str, str | Operator] | None = None,
    ) -> "Plan":
        """What the user has written."""
        chosen = operator(spec)
        memory = None if feedback is None else method(feedback)
        if memory is not None and memory.has_momentum:
            raise SpecError(
                f"{memory} has momentum, which is for gradients: leave it to the strategy "
                "(FedAvgM) or to the client's optimizer"
            )
        return cls(chosen, memory, policies.resolved(policy, Default()))

    def warn_of_bias(self) -> None:
        """Say that nothing corrects a biased operator, and what would."""
        if self.feedback is None and policies.is_biased(self.operator):
            warnings.warn(
                f"{self.operator} is biased and nothing corrects it: training may stall short of "
                "the optimum; pass feedback='ef14' to client_mod and CompressedGrid, or use an "
                "unbiased operator such as 'natural'",
                stacklevel=3,
            )

    @property
    def memory(self) -> str:
        """The memory by name."""
        return NONE if self.feedback is None else self.feedback.spec

    def choice(self, name: str, like: Values) -> Operator | None:
        """The operator for an array that the receiver knows as `like`; None: it travels raw.

        Integers, scalars and empty arrays do, and arrays that are not finite: a mask of infinities
        has no differences.
        """
        if like.dtype.name not in FLOATS or like.ndim == 0 or like.size == 0:
            return None
        chosen = choose(self.policy, name, like.shape, self.operator)
        if isinstance(chosen, Exact | Identity) or not is_finite(like):
            return None
        return chosen


def tracking(operator: Operator, d: int) -> float:
    """The factor with which both ends move their common model: EF21's, with it as the shift."""
    return EF21().rule(operator, d).scale
