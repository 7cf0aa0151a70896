"""What operators and stages have in common: parameters as fields, as text and on the wire."""

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

from fewbits.core import parameters
from fewbits.wire import frame as wire


@dataclass(frozen=True, slots=True)
class Named(ABC):
    """One stage of a spec.

    Its fields are its parameters and all that reaches the wire. A subclass is one file in
    `fewbits/operators`: equal fields, equal values, equal bytes. `code` is its number on the wire,
    never reused; fields are numbered by position, so new ones go last, with a default. `aliases`
    are other names in specs, each with the parameters that it stands for.
    """

    name: ClassVar[str]
    code: ClassVar[int]
    aliases: ClassVar[dict[str, str]] = {}

    def __post_init__(self) -> None:
        parameters.check_choices(self)

    @property
    def spec(self) -> str:
        """The canonical text form: defaults omitted, fields in order, shortest numbers."""
        fields = parameters.to_text(self)
        return f"{self.name}:{fields}" if fields else self.name

    @property
    def stage(self) -> wire.Stage:
        """Code and parameters as the frame gives them."""
        return wire.Stage(self.code, parameters.to_wire(self))

    def __str__(self) -> str:
        return self.spec
