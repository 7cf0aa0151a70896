"""Fields as text and on the wire."""

from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewbits import DecodeError, SpecError, VersionError
from fewbits.core import parameters
from fewbits.wire.frame import Parameter, ParameterType


@dataclass(frozen=True, slots=True)
class Example:
    """Stands for an operator with a field of every type."""

    name = "example"
    ratio: float = 0.5
    levels: int = 4
    mode: Literal["fast", "exact", "odd"] = "fast"


finite = st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0)
examples = st.builds(
    Example, finite, st.integers(-(2**63), 2**63 - 1), st.sampled_from(["fast", "exact", "odd"])
)


@given(examples)
def test_text_and_wire_come_back(example: Example) -> None:
    assert Example(**parameters.from_text(Example, parameters.to_text(example))) == example
    assert Example(**parameters.from_wire(Example, parameters.to_wire(example))) == example


def test_defaults_are_left_out_and_order_is_that_of_the_fields() -> None:
    assert parameters.to_text(Example()) == ""
    assert parameters.to_wire(Example()) == ()
    assert parameters.to_text(Example(levels=5, ratio=0.1)) == "ratio=0.1,levels=5"
    numbers = [parameter.number for parameter in parameters.to_wire(Example(0.1, 5, "odd"))]
    assert numbers == [0, 1, 2]
    assert parameters.from_text(Example, " levels = 7 , mode = odd ") == {
        "levels": 7,
        "mode": "odd",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("levels=x", "levels must be a whole number, got 'x'"),
        ("levels=1.5", "levels must be a whole number, got '1.5'"),
        ("ratio=x", "ratio must be a number, got 'x'"),
        ("ratio=nan", "ratio must be finite, got 'nan'"),
        ("ratio=inf", "ratio must be finite, got 'inf'"),
        ("mode=slow", "mode must be fast, exact or odd, got 'slow'"),
        ("speed=3", "unknown parameter 'speed': example takes ratio, levels, mode"),
        ("levels", "expected key=value, got 'levels'"),
        ("levels=1,", "expected key=value, got ''"),
        ("levels=1,levels=2", "parameter 'levels' is given twice"),
    ],
)
def test_text_that_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parameters.from_text(Example, text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("parameter", "error", "message"),
    [
        (Parameter(3, ParameterType.INTEGER, 1), VersionError, "parameter 3 is unknown"),
        (
            Parameter(1, ParameterType.FLOAT, 1.0),
            DecodeError,
            "parameter levels has type FLOAT, not INTEGER",
        ),
        (
            Parameter(0, ParameterType.FLOAT, 0.5),
            DecodeError,
            "parameter ratio spells out its default",
        ),
        (
            Parameter(2, ParameterType.CHOICE, 0),
            DecodeError,
            "parameter mode spells out its default",
        ),
        (Parameter(2, ParameterType.CHOICE, 3), VersionError, "choice 3 of mode is unknown"),
        (Parameter(2, ParameterType.KEY, bytes(16)), DecodeError, "has type KEY, not CHOICE"),
    ],
)
def test_wire_parameters_that_make_no_sense_are_refused(
    parameter: Parameter, error: type[DecodeError], message: str
) -> None:
    with pytest.raises(error, match=message):
        parameters.from_wire(Example, (parameter,))


def test_a_field_of_an_unknown_type_is_a_programming_error() -> None:
    @dataclass(frozen=True)
    class Odd:
        text: str = ""

    with pytest.raises(KeyError):
        parameters.fields(Odd)
