"""Policies choose the operator of each tensor. They are values and compose.

A policy is called with a parameter's name and shape and returns an `Operator`, or `Exact` with the
reason why the tensor is not compressed. `None` gives the tensor the operator that all others get.
The string `"exact"` is short for `Exact`.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TypeVar

from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.presets import is_low_rank
from fewbits.registry import operator

__all__ = ["ByName", "Chain", "Default", "Exact"]

SMALL = 16_384
EXACT = "exact"
NEGLIGIBLE_BIAS = 1e-3  # squared relative error below which a biased operator is a mere cast
_JUDGED = 65_536  # values for which bias is judged: the fewer, the less some operators lose


@dataclass(frozen=True, slots=True)
class Exact:
    """The tensor is sent exactly, because of `reason`."""

    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str):
            raise SpecError(f"the reason of Exact is a text, got {self.reason!r}")


Choice = Operator | Exact
_Otherwise = TypeVar("_Otherwise")
Policy = Callable[[str, tuple[int, ...]], Operator | Exact | str | None]


@dataclass(frozen=True, slots=True)
class Default:
    """Compress matrices and larger; send vectors (biases, norms) and small tensors exactly.

    One-dimensional parameters are few and suffer most from noise. Below `small` elements a tensor
    is not worth the overhead.
    """

    small: int = SMALL

    def __post_init__(self) -> None:
        if isinstance(self.small, bool) or not isinstance(self.small, int) or self.small < 0:
            raise SpecError(f"small must be a number of elements from 0 on, got {self.small!r}")

    def __call__(self, name: str, shape: tuple[int, ...]) -> Exact | None:
        """The reason why the tensor goes exact, or None if it may be compressed."""
        if len(shape) <= 1:
            return Exact("one-dimensional")
        if math.prod(shape) < self.small:
            return Exact(f"under {self.small} elements")
        return None


@dataclass(frozen=True, slots=True)
class ByName:
    """The first pattern that matches the name decides; `exact` sends the tensor exactly.

    >>> rules = ByName({"*.bias": "exact", "head.*": "bfloat16"})
    >>> rules("layer.bias", (10,))
    Exact(reason='named')
    """

    rules: Mapping[str, str | Operator] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a bad rule here, not when a tensor first matches its pattern."""
        if not isinstance(self.rules, Mapping):
            kind = type(self.rules).__name__
            raise SpecError(f"expected patterns and their operators, {{pattern: spec}}, got {kind}")
        for pattern, spec in self.rules.items():
            if not isinstance(pattern, str) or not pattern:
                raise SpecError(f"a pattern is a name such as 'head.*', got {pattern!r}")
            if spec != EXACT:
                _operator(spec)

    def __call__(self, name: str, shape: tuple[int, ...]) -> Operator | Exact | None:
        for pattern, spec in self.rules.items():
            if fnmatchcase(name, pattern):
                return Exact("named") if spec == EXACT else _operator(spec)
        return None


@dataclass(frozen=True, slots=True)
class Chain:
    """The first policy that has an answer decides.

    >>> both = Chain((ByName({"head.*": "exact"}), Default(small=1024)))
    >>> both("layer.weight", (10, 10))
    Exact(reason='under 1024 elements')
    """

    policies: tuple[Policy, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.policies, tuple | list):
            kind = type(self.policies).__name__
            raise SpecError(f"expected a tuple of policies, Chain((first, second)), got {kind}")
        for policy in self.policies:
            if not callable(policy):
                raise SpecError(f"a policy is a function or a value of this module, got {policy!r}")
        object.__setattr__(self, "policies", tuple(self.policies))

    def __call__(self, name: str, shape: tuple[int, ...]) -> Operator | Exact | str | None:
        for policy in self.policies:
            choice = policy(name, shape)
            if choice is not None:
                return choice
        return None


def choose(
    policy: Policy, name: str, shape: tuple[int, ...], otherwise: _Otherwise
) -> Choice | _Otherwise:
    """The operator for one tensor: the policy's answer, or `otherwise` if it has none."""
    choice = policy(name, shape)
    if choice is None:
        return otherwise
    if isinstance(choice, str):
        return Exact("policy") if choice == EXACT else _operator(choice)
    if isinstance(choice, Operator | Exact):
        return choice
    kind = type(choice).__name__
    raise SpecError(f"the policy answered {kind} for {name!r}: expected an operator, Exact or None")


def _operator(spec: str | Operator) -> Operator:
    """The operator of a rule."""
    if is_low_rank(spec):
        raise SpecError(
            f"a policy cannot say {spec!r}, which is for all matrices that fit: pass it as the "
            "uplink of fewbits.ddp.attach, and name in policy= what goes by another operator"
        )
    return operator(spec)


def resolved(policy: Policy | Mapping[str, str | Operator] | None, default: Policy) -> Policy:
    """The user's policy; a mapping of names comes before the default."""
    if policy is None:
        return default
    if isinstance(policy, Mapping):
        return Chain((ByName(policy), default))
    if not callable(policy):
        raise SpecError(f"policy must be a mapping or a function, got {type(policy).__name__}")
    return policy


def refuse_unmatched(policy: Policy, names: Collection[str]) -> None:
    """Raise `SpecError` for a pattern that matches none of these names: it may be misspelt."""
    for pattern in _patterns(policy):
        if not any(fnmatchcase(name, pattern) for name in names):
            raise SpecError(
                f"the policy's pattern {pattern!r} matches none of the {len(names)} parameters; "
                f"near names are {', '.join(_near(pattern, names)) or 'none'}"
            )


def _patterns(policy: Policy) -> Iterator[str]:
    if isinstance(policy, ByName):
        yield from policy.rules
    elif isinstance(policy, Chain):
        for part in policy.policies:
            yield from _patterns(part)


def _near(pattern: str, names: Collection[str]) -> list[str]:
    """Up to three names that look like the pattern."""
    from difflib import SequenceMatcher

    plain = pattern.replace("*", "")

    def likeness(name: str) -> float:
        whole = SequenceMatcher(None, plain, name)
        return max(whole.ratio(), whole.find_longest_match().size / max(len(plain), 1))

    return sorted(names, key=likeness, reverse=True)[:3]


def is_biased(operator: Operator) -> bool:
    """Whether the operator has a bias large enough to matter in training."""
    guarantee = operator.guarantee(_JUDGED)
    return not guarantee.unbiased and guarantee.error > NEGLIGIBLE_BIAS
