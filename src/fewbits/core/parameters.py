"""An operator's fields as text and on the wire.

A field's annotation says its type: `Literal["a", "b"]` is a choice, also among whole numbers, `int`
and `float` are numbers.
On the wire a field is known by its position, a choice by its place in the `Literal`; a field at its
default is left out in both forms. So a new field with a default, last, changes no old frame and no
old spec. A float that `infinite()` declares may be `inf` in text; numbers on the wire are finite,
so it travels as 0, which must then mean nothing else.
"""

import dataclasses
import math
from dataclasses import dataclass
from functools import cache
from numbers import Real
from operator import index
from typing import Any, Literal, get_args, get_origin, get_type_hints

from fewbits.errors import DecodeError, SpecError, VersionError
from fewbits.wire.frame import Parameter, ParameterType, Value

MOST_VALUES = 2**56  # whose sections' lengths still fit into words of a frame


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an operator."""

    number: int
    name: str
    type: ParameterType
    choices: tuple[Any, ...]  # words or whole numbers
    default: Any
    infinite: bool = False
    once_whole: bool = False  # a choice that older frames have as a whole number

    def to_wire(self, value: Any) -> Value:
        if self.infinite and value == math.inf:
            return 0.0
        return self.choices.index(value) if self.choices else value

    def from_wire(self, value: Value) -> Any:
        if self.infinite and value == 0.0:
            return math.inf
        if not self.choices:
            return value
        if not isinstance(value, int) or value >= len(self.choices):
            raise VersionError(f"choice {value!r} of {self.name} is unknown: upgrade fewbits")
        return self.choices[value]

    def from_text(self, text: str) -> Any:
        if self.choices:
            return self._choice({str(choice): choice for choice in self.choices}.get(text), text)
        try:
            value = int(text) if self.type is ParameterType.INTEGER else float(text)
        except ValueError:
            kind = "a whole number" if self.type is ParameterType.INTEGER else "a number"
            raise SpecError(f"{self.name} must be {kind}, got {text!r}") from None
        return self.checked(value)

    def _choice(self, value: Any, given: Any) -> Any:
        if value not in self.choices:
            *others, last = map(str, self.choices)
            allowed = f"{', '.join(others)} or {last}" if others else last
            raise SpecError(f"{self.name} must be {allowed}, got {given!r}")
        return self.choices[self.choices.index(value)]

    def checked(self, value: Any) -> Any:
        """The value if it is a choice, or a number that the wire can hold, as a plain one."""
        if self.choices:
            return self._choice(value, value)
        if self.type is ParameterType.INTEGER:
            return whole_number(self.name, value)
        if isinstance(value, bool) or not isinstance(value, Real):
            raise SpecError(f"{self.name} must be a number, got {value!r}")
        try:
            number = float(value)
        except OverflowError:
            number = math.nan
        if not (math.isfinite(number) or (self.infinite and number == math.inf)):
            raise SpecError(f"{self.name} must be finite, got '{value}'")
        return number


def once_whole(default: Any) -> Any:
    """A choice among whole numbers, which older frames have as a whole number."""
    return dataclasses.field(default=default, metadata={"once_whole": True})


def infinite(default: float) -> Any:
    """A field for a number that may be infinite and is never 0."""
    return dataclasses.field(default=default, metadata={"infinite": True})


@cache
def fields(cls: type[Any]) -> tuple[Field, ...]:
    hints = get_type_hints(cls)
    return tuple(
        Field(
            number=number,
            name=field.name,
            type=_wire_type(hints[field.name]),
            choices=get_args(hints[field.name]) if get_origin(hints[field.name]) is Literal else (),
            default=field.default,
            infinite=field.metadata.get("infinite", False),
            once_whole=field.metadata.get("once_whole", False),
        )
        for number, field in enumerate(dataclasses.fields(cls))
    )


def to_text(value: object) -> str:
    """`key=value,…` of the fields that are not at their defaults."""
    cls: type = type(value)
    chosen = ((field.name, getattr(value, field.name), field.default) for field in fields(cls))
    return ",".join(f"{name}={_shortest(own)}" for name, own, default in chosen if own != default)


def _shortest(value: Any) -> str:
    """A whole number without its point and zero."""
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)


def from_text(cls: type, text: str) -> dict[str, Any]:
    """Keyword arguments for `cls` from `key=value,…`."""
    known = {field.name: field for field in fields(cls)}
    given: dict[str, Any] = {}
    for item in text.split(",") if text else ():
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise SpecError(f"expected key=value, got {item!r}")
        if name not in known:
            allowed = ", ".join(known) or "no parameters"
            raise SpecError(
                f"unknown parameter {name!r}: {getattr(cls, 'name', cls)} takes {allowed}"
            )
        if name in given:
            raise SpecError(f"parameter {name!r} is given twice")
        given[name] = known[name].from_text(value)
    return given


def check(value: object) -> None:
    """Refuse fields that are not of their type; the operator checks the ranges of numbers."""
    cls: type = type(value)
    for field in fields(cls):
        object.__setattr__(value, field.name, field.checked(getattr(value, field.name)))


def whole_number(name: str, value: Any) -> int:
    """A plain whole number; `SpecError` for what is none."""
    try:
        if not isinstance(value, bool):
            return index(value)
    except TypeError:
        pass
    raise SpecError(f"{name} must be a whole number, got {type(value).__name__}")


def whole(name: str, value: Any, least: int, most: int) -> int:
    """A whole number in a range; `SpecError` says what `name` must be."""
    number = whole_number(name, value)
    if not least <= number <= most:
        raise SpecError(f"{name} must be from {least} to {most}, got {number}")
    return number


def check_count(d: int) -> None:
    """Refuse a number of values that no frame can hold."""
    whole("d", d, 0, MOST_VALUES)


def to_wire(value: object) -> tuple[Parameter, ...]:
    """The parameters that are not at their defaults."""
    cls: type = type(value)
    return tuple(
        Parameter(field.number, field.type, field.to_wire(getattr(value, field.name)))
        for field in fields(cls)
        if getattr(value, field.name) != field.default
    )


def from_wire(cls: type, parameters: tuple[Parameter, ...]) -> dict[str, Any]:
    """Keyword arguments for `cls`; refuses what `to_wire` cannot have written."""
    known = {field.number: field for field in fields(cls)}
    given: dict[str, Any] = {}
    for parameter in parameters:
        field = known.get(parameter.number)
        if field is None:
            raise VersionError(f"parameter {parameter.number} is unknown: upgrade fewbits")
        older = field.once_whole and parameter.type is ParameterType.INTEGER
        if not older and parameter.type is not field.type:
            raise DecodeError(
                f"parameter {field.name} has type {parameter.type.name}, not {field.type.name}"
            )
        value = field.checked(parameter.value) if older else field.from_wire(parameter.value)
        if value == field.default:
            raise DecodeError(
                f"parameter {field.name} spells out its default: not the canonical header"
            )
        given[field.name] = value
    return given


def _wire_type(hint: Any) -> ParameterType:
    if get_origin(hint) is Literal:
        return ParameterType.CHOICE
    return {int: ParameterType.INTEGER, float: ParameterType.FLOAT}[hint]
