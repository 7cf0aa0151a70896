"""Parameters and counts at the ends of their types: refused in one line, or they work."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest

import fewbits
from cases import CASES, Case, array, sealed, seen_by_a_check
from fewbits import DecodeError, SpecError, registry
from fewbits.core import parameters
from fewbits.core.component import Component
from fewbits.core.composition import Composed
from fewbits.core.operator import Operator
from fewbits.core.stage import Stage
from fewbits.operators.natural import Natural
from fewbits.reference.formats import FLOAT32, FORMATS
from fewbits.wire.frame import Header, Parameter, ParameterType, StageRecord

FLOATS = (5e-324, 1e-323, 2.2e-308, 1e-300, 1e-160, 1e-30, 1e-12, 0.011, 0.989, 1 - 2**-53, 1.0,
          1 + 2**-52, 1e3, 1e100, 1.4e154, 1e300, 1.7e308, 0.0, -0.0, -5e-324, -1.0)  # fmt: skip
INTEGERS = (0, 1, 2, 3, 8, 9, 1024, 1025, 65_536, 65_537, 2**31, 2**62, 2**63 - 1, -1, -(2**63))
NOT_NUMBERS = (math.nan, math.inf, -math.inf, 2**63, 10**30, 1.5, True, "7", None, [1])
CLASSES = registry.catalogue().classes()

every_class = pytest.mark.parametrize("name", list(CLASSES))


def variants(cls: type[Component], values: dict[ParameterType, tuple]) -> Iterator[dict]:
    """Every choice together with each value of each number, the others at their defaults."""
    fields = parameters.fields(cls)
    named = [field for field in fields if field.choices]
    for chosen in itertools.product(*(field.choices for field in named)):
        base = {field.name: choice for field, choice in zip(named, chosen, strict=True)}
        yield base
        for field in fields:
            for value in values.get(field.type, ()):
                yield {**base, field.name: value}


def made(cls: type[Component], given: dict) -> Operator:
    part = cls(**given)
    return Composed((part,), Natural()) if isinstance(part, Stage) else part


def one_line(error: Exception) -> None:
    assert "\n" not in str(error)


def works_or_is_refused(operator: Operator) -> None:
    for format, d in itertools.product(FORMATS, (0, 1, 40)):
        x = array(np.linspace(-1, 1, d), format)
        try:
            operator.guarantee(d, format)
            frame = fewbits.compress(x, operator, seed=1)
        except SpecError as error:
            one_line(error)
            continue
        assert fewbits.inspect(frame).operator == operator.spec
        assert fewbits.decompress(frame).shape == (d,)


@pytest.mark.filterwarnings("ignore::fewbits.SaturationWarning")
@every_class
def test_extreme_numbers_work_or_are_the_callers_fault(name: str) -> None:
    cls, refused = CLASSES[name], 0
    ends = {ParameterType.FLOAT: FLOATS, ParameterType.INTEGER: INTEGERS}
    for given in variants(cls, ends):
        try:
            operator = made(cls, given)
        except SpecError as error:
            one_line(error)
            refused += 1
            continue
        works_or_is_refused(operator)
    assert refused or not any(not field.choices for field in parameters.fields(cls))


@every_class
def test_what_is_no_number_is_the_callers_fault(name: str) -> None:
    cls = CLASSES[name]
    for field in parameters.fields(cls):
        for value in (*NOT_NUMBERS, 3) if field.choices else NOT_NUMBERS:
            whole = field.type is ParameterType.INTEGER
            if (field.infinite and value == math.inf) or (
                not whole and value in (1.5, 2**63, 10**30)
            ):
                continue
            with pytest.raises(SpecError, match=field.name):
                cls(**{field.name: value})


def headers(name: str) -> Iterator[bytes]:
    """Frames whose header has an extreme number, and sections of every plausible number."""
    cls = CLASSES[name]
    after = (StageRecord(4),) if issubclass(cls, Stage) else ()
    for field in parameters.fields(cls):
        ends = {ParameterType.FLOAT: FLOATS, ParameterType.INTEGER: INTEGERS}.get(field.type, ())
        for value, extra in itertools.product(ends, _choices(cls)):
            own = sorted(
                (*extra, Parameter(field.number, field.type, value)), key=lambda p: p.number
            )
            stages = (StageRecord(cls.code, tuple(own)), *after)
            for shape, sections in itertools.product(((), (0,), (40,)), range(1, 5)):
                header = Header(FLOAT32, shape, stages, (16,) * sections)
                yield sealed(header.encode() + bytes(16 * sections))


def _choices(cls: type[Component]) -> Iterator[tuple[Parameter, ...]]:
    yield ()
    for field in parameters.fields(cls):
        for place, choice in enumerate(field.choices):
            if choice != field.default:
                yield (Parameter(field.number, field.type, place),)


@every_class
def test_extreme_numbers_in_a_frame_are_the_senders_fault(name: str) -> None:
    for frame in headers(name):
        for read in (fewbits.inspect, fewbits.decompress):
            try:
                read(frame)
            except DecodeError as error:
                seen_by_a_check(error)


def test_a_step_that_underflows_is_refused_where_it_is_parsed() -> None:
    with pytest.raises(SpecError, match="nu="):
        fewbits.operator("sparse-dithering:nu=5e-324,rounding=subtractive")
    own = (Parameter(0, ParameterType.FLOAT, 5e-324), Parameter(1, ParameterType.CHOICE, 2))
    header = Header(FLOAT32, (1,), (StageRecord(7, own),), (4, 4, 16))
    frame = sealed(header.encode() + bytes(24))
    for read in (fewbits.inspect, fewbits.decompress):
        with pytest.raises(DecodeError, match="make no sense: nu="):
            read(frame)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@pytest.mark.parametrize("d", [-1, -(2**63), 2**63, 10**30, 1.5, "7", None])
def test_a_guarantee_is_for_a_whole_number_of_values(case: Case, d: object) -> None:
    with pytest.raises(SpecError, match="d must be") as refused:
        case.operator.guarantee(d)
    assert "\n" not in str(refused.value)
    inner = Natural().guarantee(5)
    for part in case.parts:
        if isinstance(part, Stage):
            with pytest.raises(SpecError, match="d must be"):
                part.guarantee(d, FLOAT32, inner)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_guarantee_for_very_many_values_is_a_number_or_refused(case: Case) -> None:
    try:
        promise = case.operator.guarantee(2**56)
    except SpecError as error:
        one_line(error)
    else:
        assert promise.bits > 2**56 or case.operator.spec.startswith(("rand-k", "top-k"))
