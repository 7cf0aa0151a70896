"""The direction of both ends: operator, memory, and which arrays travel exactly."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from fewbits import policy as policies
from fewbits import presets
from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.feedback import EF21, Feedback
from fewbits.feedback import feedback as method
from fewbits.flower.arrays import FLOAT_DTYPES, Values, is_finite
from fewbits.operators.identity import Identity
from fewbits.policy import Exact, Policy, choose
from fewbits.registry import operator

ABSENT = "none"


@dataclass(frozen=True, slots=True)
class LargeArrays:
    """Compress arrays from 4,096 values on, vectors from 65,536 on.

    Vectors of models are biases, norms and running variances: they are few, and some must stay
    positive. A vector that is longer than a layer is wide is a whole model. Below a few thousand
    values Flower's cost of an array is more than its bytes.
    """

    small: int = 4_096
    vector: int = 65_536

    def __call__(self, name: str, shape: tuple[int, ...]) -> Exact | None:
        """The reason why the array goes exact, or None if it may be compressed."""
        least = self.vector if len(shape) <= 1 else self.small
        return Exact(f"under {least} elements") if math.prod(shape) < least else None


@dataclass(frozen=True, slots=True)
class Direction:
    """How arrays of one direction are compressed, and their memory."""

    operator: Operator
    feedback: Feedback | None
    policy: Policy

    @classmethod
    def of(
        cls,
        spec: str | Operator,
        feedback: str | Feedback | None = None,
        policy: Policy | Mapping[str, str | Operator] | None = None,
    ) -> "Direction":
        """The direction that the user named; `SpecError` for a method with momentum.

        The direction from the server has no memory, so a preset with feedback is refused.
        """
        if spec == presets.LOW_RANK:
            presets.refuse_name(presets.LOW_RANK)
        preset = presets.expand(spec, feedback=feedback)
        if preset is not None and preset.feedback is not None:
            raise SpecError(
                f"{spec!r} has feedback, which federated clients keep: name "
                f"{preset.operator!r} and feedback={preset.feedback!r}"
            )
        chosen = operator(spec if preset is None else preset.operator)
        memory = None if feedback is None else method(feedback)
        if memory is not None and memory.has_momentum:
            raise SpecError(
                f"{memory} has momentum, which is for gradients: leave it to the strategy "
                "(FedAvgM) or to the client's optimizer"
            )
        return cls(chosen, memory, policies.resolved(policy, LargeArrays()))

    def warn_of_bias(self) -> None:
        if self.feedback is None and policies.is_biased(self.operator):
            warnings.warn(
                f"{self.operator} is biased and nothing corrects it: training may stall short of "
                "the optimum; pass feedback='ef14' to client_mod and CompressedGrid, or use an "
                "unbiased operator such as 'natural'",
                stacklevel=3,
            )

    @property
    def feedback_spec(self) -> str:
        return ABSENT if self.feedback is None else self.feedback.spec

    def choice(self, name: str, like: Values) -> Operator | None:
        """The operator for an array that the receiver knows as `like`; None if it travels raw.

        Integers, scalars, empty arrays and arrays that are not finite travel raw: a mask of
        infinities has no differences.
        """
        if like.dtype.name not in FLOAT_DTYPES or like.ndim == 0 or like.size == 0:
            return None
        chosen = choose(self.policy, name, like.shape, self.operator)
        if isinstance(chosen, Exact | Identity) or not is_finite(like):
            return None
        return chosen


def tracking(operator: Operator, d: int) -> float:
    """The factor by which both ends move their common model, as EF21 moves a shift."""
    return EF21().rule(operator, d).scale
