"""Finds operators and stages in `fewbits/operators/*.py`, by spec name and by wire code."""

import dataclasses
import pkgutil
from functools import cache, lru_cache
from importlib import import_module
from typing import NamedTuple

import fewbits.operators
from fewbits import presets
from fewbits.core import parameters
from fewbits.core.component import Component
from fewbits.core.composition import Composed
from fewbits.core.operator import Operator
from fewbits.core.stage import Stage
from fewbits.errors import DecodeError, SpecError, VersionError
from fewbits.reference.formats import FLOAT32
from fewbits.warned import warn_user
from fewbits.wire import frame as wire

_JUDGED = 65_536  # values, as in a unit of training


class Catalogue(NamedTuple):
    """The operators' classes by spec name and by wire code, the stages' likewise, and aliases.

    No name and no code is used twice among operators and stages. An alias has the parameters that
    it stands for beside its class.
    """

    by_name: dict[str, type[Operator]]
    by_code: dict[int, type[Operator]]
    stages: dict[str, type[Stage]]
    stage_codes: dict[int, type[Stage]]
    aliases: dict[str, tuple[type[Operator] | type[Stage], str]]

    def classes(self) -> dict[str, type[Operator] | type[Stage]]:
        """All operators and stages, in the order of their names."""
        found: dict[str, type[Operator] | type[Stage]] = {**self.by_name, **self.stages}
        return dict(sorted(found.items()))


@cache
def catalogue() -> Catalogue:
    """All operators and stages, found once by scanning their package."""
    found = Catalogue({}, {}, {}, {}, {})
    for module in pkgutil.iter_modules(fewbits.operators.__path__):
        contents = vars(import_module(f"fewbits.operators.{module.name}"))
        for cls in contents.values():
            if not isinstance(cls, type) or not cls.__module__.endswith(f".{module.name}"):
                continue
            if not issubclass(cls, Operator | Stage) or cls.__name__.startswith("_"):
                continue
            taken = {*found.by_name, *found.stages, *found.aliases}
            if taken & {cls.name, *cls.aliases} or _find_code(found, cls.code):
                raise ImportError(
                    f"{cls.__qualname__} repeats the name or code of another operator"
                )
            found.aliases.update((name, (cls, own)) for name, own in cls.aliases.items())
            if issubclass(cls, Operator):
                found.by_name[cls.name] = cls
                found.by_code[cls.code] = cls
            else:
                found.stages[cls.name] = cls
                found.stage_codes[cls.code] = cls
    return found


def operator(spec: str | Operator) -> Operator:
    """The operator that a spec names, such as `natural` or `top-k|natural:rounding=nearest`.

    Stages are separated by `|`, and the first is applied first. Parameters in the spec override
    those of an alias. Two operators in a row are the one that equals them, if there is one:
    `standard-dithering:levels=8|natural` is `natural-dithering:levels=4`. An operator is returned
    unchanged.

    >>> import fewbits
    >>> fewbits.operator("natural:coder=packed").spec
    'natural'
    >>> fewbits.operator("natural").guarantee(1000).omega
    0.125
    """
    if isinstance(spec, Operator):
        return spec
    if not isinstance(spec, str):
        raise SpecError(f"expected a spec string or an operator, got {type(spec).__name__}")
    return _parsed(spec)


@lru_cache(256)
def _parsed(spec: str) -> Operator:
    parts = _joined([_from_text(text, spec) for text in spec.split("|")])
    stages, last = parts[:-1], parts[-1]
    for part in stages:
        if not isinstance(part, Stage):
            raise SpecError(
                f"{part.name} is an operator and must be last in {spec!r}: "
                f"before a '|' stand stages, {', '.join(sorted(catalogue().stages))}"
            )
    if isinstance(last, Stage):
        raise SpecError(
            f"{last.name} is a stage and needs an operator after it, for instance '{spec}|natural'"
        )
    whole = _composed(stages, last)
    _warn_of_scale(whole)
    return whole


def _warn_of_scale(whole: Operator) -> None:
    """Say so if a stage `scale` has another ω than what follows, and its result contracts nothing.

    Only here, where a spec is read: what others have sent is decoded without a word.
    """
    if not isinstance(whole, Composed) or whole.before[0].name != "scale":
        return
    inner = _composed([*whole.before[1:]], whole.last)
    try:
        error, omega = whole.guarantee(_JUDGED).error, inner.guarantee(_JUDGED).omega
    except SpecError:  # it is for other vectors
        return
    if error >= 1 and omega is not None:
        warn_user(
            f"{whole.before[0].spec!r} leaves an error of {error:.3g} times the squared norm, so "
            f"it contracts nothing: write 'scale:omega={omega:.4g}', the ω of {inner.spec} for "
            f"{_JUDGED:,} values"
        )


def _joined(parts: list[Component]) -> list[Component]:
    """The parts with two operators at the end replaced by the one that equals them."""
    *before, last = parts
    if before and isinstance(before[-1], Operator) and isinstance(last, Operator):
        spec = before[-1].joined(last)
        if spec is not None:
            return [*before[:-1], _from_text(spec, spec)]
    return parts


def example_specs(cls: type[Component], d: int) -> list[str]:
    """The default spec and each other choice that alone makes sense for a vector of `d` values.

    A stage stands before `natural`. A class with a parameter that must be given has none.
    """
    fields = parameters.fields(cls)
    if any(field.default is dataclasses.MISSING for field in fields):
        return []
    others = (
        f"{cls.name}:{field.name}={choice}"
        for field in fields
        for choice in field.choices
        if choice != field.default
    )
    after = "|natural" if issubclass(cls, Stage) else ""
    return [spec + after for spec in (cls.name, *others) if _suits(spec + after, d)]


def all_example_specs(d: int) -> list[str]:
    """The example specs of every operator and stage, by name."""
    return [spec for cls in catalogue().classes().values() for spec in example_specs(cls, d)]


def _suits(spec: str, d: int) -> bool:
    try:
        operator(spec).layout(d, FLOAT32)
    except SpecError:
        return False
    return True


def from_wire(stages: tuple[wire.StageRecord, ...]) -> Operator:
    """The operator that a frame's header names; `DecodeError` if there is none."""
    parts = [_from_stage(stage) for stage in stages]
    for part in parts[:-1]:
        if not isinstance(part, Stage):
            raise DecodeError(f"{part.name} is an operator, yet another stage follows it")
    if isinstance(parts[-1], Stage):
        raise DecodeError(f"{parts[-1].name} is a stage, yet no operator follows it")
    return _composed(parts[:-1], parts[-1])


def _composed(stages: list[Component], last: Component) -> Operator:
    assert isinstance(last, Operator)
    before = tuple(stage for stage in stages if isinstance(stage, Stage))
    return Composed(before, last) if before else last


def _from_text(text: str, spec: str) -> Component:
    name, colon, fields = (part.strip() for part in text.partition(":"))
    if not name and "|" in spec:
        raise SpecError(f"nothing stands on one side of a '|' in {spec!r}")
    cls, preset = catalogue().aliases.get(name, (_find_name(catalogue(), name), ""))
    if cls is None:
        presets.refuse_name(name, spec)
        presets.refuse_reference(text.strip())
        names = list(catalogue().classes())
        from difflib import get_close_matches  # slow to import

        close = get_close_matches(name, [*names, *catalogue().aliases], n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(names)}"
        raise SpecError(f"unknown operator {name!r}: {hint}")
    if colon and not fields:
        raise SpecError(f"nothing follows the colon in {text.strip()!r}")
    return cls(**parameters.from_text(cls, preset) | parameters.from_text(cls, fields))


def _from_stage(stage: wire.StageRecord) -> Component:
    cls = _find_code(catalogue(), stage.code)
    if cls is None:
        raise VersionError(f"operator code {stage.code} is unknown: upgrade fewbits")
    try:
        return cls(**parameters.from_wire(cls, stage.parameters))
    except SpecError as error:
        raise DecodeError(f"the header's parameters make no sense: {error}") from error


def _find_name(found: Catalogue, name: str) -> type[Operator] | type[Stage] | None:
    return found.by_name.get(name) or found.stages.get(name)


def _find_code(found: Catalogue, code: int) -> type[Operator] | type[Stage] | None:
    return found.by_code.get(code) or found.stage_codes.get(code)
