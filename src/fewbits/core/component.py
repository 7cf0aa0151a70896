"""The common part of operators and stages: parameters as fields, as text and on the wire."""

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar, Self

from fewbits.core import parameters
from fewbits.core.spelled import Spelled
from fewbits.wire import frame as wire


@dataclass(frozen=True, slots=True)
class Component(Spelled, ABC):
    """One stage of a spec.

    Its fields are its parameters and all that reaches the wire. A subclass is one file in
    `fewbits/operators`: equal fields, equal values, equal bytes. `code` is its number on the wire,
    never reused; fields are numbered by position, so new ones go last, with a default. `aliases`
    are other names in specs, each with the parameters that it stands for. `formula` is its
    guarantee in words, for tables.
    """

    code: ClassVar[int]
    aliases: ClassVar[dict[str, str]] = {}
    formula: ClassVar[str]

    def __post_init__(self) -> None:
        parameters.check(self)

    @classmethod
    def summary(cls) -> str:
        """The first line of its class's docstring, for tables."""
        return " ".join((cls.__doc__ or "").split()).removesuffix(".")

    def earlier(self) -> Self:
        """The same as frames of wire version 1 have it."""
        return self

    @property
    def stage(self) -> wire.StageRecord:
        """Code and parameters as the frame gives them."""
        return wire.StageRecord(self.code, parameters.to_wire(self))
