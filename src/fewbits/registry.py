"""Finds the operators in `fewbits/operators/*.py`, by spec name and by wire code."""

import difflib
import pkgutil
from functools import cache
from importlib import import_module
from typing import NamedTuple

import fewbits.operators
from fewbits.core import parameters
from fewbits.core.operator import Operator
from fewbits.errors import DecodeError, SpecError, VersionError
from fewbits.wire.frame import Stage


class Known(NamedTuple):
    """The operator classes, by spec name and by wire code; aliases with their parameters."""

    by_name: dict[str, type[Operator]]
    by_code: dict[int, type[Operator]]
    aliases: dict[str, tuple[type[Operator], str]]


@cache
def known() -> Known:
    """All operators, found once by scanning their package."""
    found = Known({}, {}, {})
    for module in pkgutil.iter_modules(fewbits.operators.__path__):
        contents = vars(import_module(f"fewbits.operators.{module.name}"))
        for cls in contents.values():
            if (
                isinstance(cls, type)
                and issubclass(cls, Operator)
                and cls.__module__.endswith(f".{module.name}")
            ):
                names = {cls.name, *cls.aliases}
                taken = found.by_name.keys() | found.aliases.keys()
                if names & taken or cls.code in found.by_code:
                    raise ImportError(
                        f"{cls.__qualname__} repeats the name or code of another operator"
                    )
                found.by_name[cls.name] = cls
                found.by_code[cls.code] = cls
                found.aliases.update((name, (cls, own)) for name, own in cls.aliases.items())
    return found


def operator(spec: str | Operator) -> Operator:
    """The operator that a spec such as `natural:rounding=nearest` names; an operator as it is.

    The parameters that an alias stands for give way to those that the spec gives.
    """
    if isinstance(spec, Operator):
        return spec
    if not isinstance(spec, str):
        raise SpecError(f"expected a spec string or an operator, got {type(spec).__name__}")
    name, colon, text = (part.strip() for part in spec.partition(":"))
    if "|" in spec:
        raise SpecError(
            f"{spec!r} composes with '|', but there is no stage to compose with in this version"
        )
    cls, preset = known().aliases.get(name, (known().by_name.get(name), ""))
    if cls is None:
        close = difflib.get_close_matches(name, [*known().by_name, *known().aliases], n=1)
        hint = (
            f"did you mean {close[0]!r}?"
            if close
            else f"known are {', '.join(sorted(known().by_name))}"
        )
        raise SpecError(f"unknown operator {name!r}: {hint}")
    if colon and not text:
        raise SpecError(f"nothing follows the colon in {spec!r}")
    return cls(**parameters.from_text(cls, preset) | parameters.from_text(cls, text))


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
