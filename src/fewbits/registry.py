"""Finds the operators in `fewbits/operators/*.py`, by spec name and by wire code."""

import dataclasses
import difflib
import pkgutil
from functools import cache
from importlib import import_module
from typing import NamedTuple

import fewbits.operators
from fewbits.core import parameters
from fewbits.core.operator import Operator
from fewbits.errors import DecodeError, SpecError, VersionError
from fewbits.kernels.formats import FLOAT32
from fewbits.wire.frame import Stage


class Known(NamedTuple):
    """The operator classes, by spec name and by wire code."""

    by_name: dict[str, type[Operator]]
    by_code: dict[int, type[Operator]]


@cache
def known() -> Known:
    """All operators, found once by scanning their package."""
    found = Known({}, {})
    for module in pkgutil.iter_modules(fewbits.operators.__path__):
        contents = vars(import_module(f"fewbits.operators.{module.name}"))
        for cls in contents.values():
            if (
                isinstance(cls, type)
                and issubclass(cls, Operator)
                and cls.__module__.endswith(f".{module.name}")
            ):
                if cls.name in found.by_name or cls.code in found.by_code:
                    raise ImportError(
                        f"{cls.__qualname__} repeats the name or code of another operator"
                    )
                found.by_name[cls.name] = cls
                found.by_code[cls.code] = cls
    return found


def operator(spec: str | Operator) -> Operator:
    """The operator that a spec such as `natural:rounding=nearest` names; an operator as it is."""
    if isinstance(spec, Operator):
        return spec
    if not isinstance(spec, str):
        raise SpecError(f"expected a spec string or an operator, got {type(spec).__name__}")
    name, colon, text = (part.strip() for part in spec.partition(":"))
    if "|" in spec:
        raise SpecError(
            f"{spec!r} composes with '|', but there is no stage to compose with in this version"
        )
    cls = known().by_name.get(name)
    if cls is None:
        close = difflib.get_close_matches(name, known().by_name, n=1)
        hint = (
            f"did you mean {close[0]!r}?"
            if close
            else f"known are {', '.join(sorted(known().by_name))}"
        )
        raise SpecError(f"unknown operator {name!r}: {hint}")
    if colon and not text:
        raise SpecError(f"nothing follows the colon in {spec!r}")
    return cls(**parameters.from_text(cls, text))


def offered(cls: type[Operator], d: int) -> list[str]:
    """The default spec and each other choice that alone makes sense for a vector of `d` values."""
    fields = parameters.fields(cls)
    if any(field.default is dataclasses.MISSING for field in fields):
        return []
    others = (
        f"{cls.name}:{field.name}={choice}"
        for field in fields
        for choice in field.choices
        if choice != field.default
    )
    return [spec for spec in (cls.name, *others) if _suits(spec, d)]


def _suits(spec: str, d: int) -> bool:
    try:
        operator(spec).layout(d, FLOAT32)
    except SpecError:
        return False
    return True


def from_wire(stages: tuple[Stage, ...]) -> Operator:
    """The operator that a frame's header names; `DecodeError` if there is none."""
    if len(stages) > 1:
        raise VersionError(f"the frame composes {len(stages)} stages: upgrade fewbits")
    (stage,) = stages
    cls = known().by_code.get(stage.code)
    if cls is None:
        raise VersionError(f"operator code {stage.code} is unknown: upgrade fewbits")
    try:
        return cls(**parameters.from_wire(cls, stage.parameters))
    except SpecError as error:
        raise DecodeError(f"the header's parameters make no sense: {error}") from error
