"""Operators by spec and by wire code."""

from dataclasses import dataclass

import pytest

import fewbits
from fewbits import DecodeError, SpecError, VersionError, registry
from fewbits.operators.identity import Identity
from fewbits.operators.natural import Natural
from fewbits.wire.frame import Parameter, ParameterType, Stage


def test_specs_name_operators() -> None:
    assert fewbits.operator("natural") == Natural()
    assert fewbits.operator("natural:rounding=nearest") == Natural("nearest")
    assert fewbits.operator(" natural : rounding = stochastic ") == Natural()
    assert fewbits.operator("natural:rounding=stochastic").spec == "natural"
    assert str(Natural("nearest")) == "natural:rounding=nearest"
    assert fewbits.operator(Identity()) == Identity()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("naturalx", "unknown operator 'naturalx': did you mean 'natural'?"),
        ("zzz", "unknown operator 'zzz': known are bfloat16, float16, identity, natural"),
        ("", "unknown operator '': known are bfloat16, float16, identity, natural"),
        ("natural:", "nothing follows the colon in 'natural:'"),
        ("natural:rounding=up", "rounding must be stochastic or nearest, got 'up'"),
        ("identity:x=1", "unknown parameter 'x': identity takes no parameters"),
        ("natural|identity", "'natural|identity' composes with '|'"),
    ],
)
def test_specs_that_make_no_sense_are_refused(spec: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        fewbits.operator(spec)
    assert str(caught.value).startswith(message)


def test_only_specs_and_operators_are_operators() -> None:
    for other in (None, 3, b"natural", Natural):
        with pytest.raises(SpecError, match="expected a spec string or an operator"):
            fewbits.operator(other)


def test_fields_outside_their_choices_are_refused() -> None:
    with pytest.raises(SpecError, match="rounding must be stochastic or nearest, got 'up'"):
        Natural("up")


def test_stages_name_operators() -> None:
    for cls in registry.known().by_name.values():
        assert registry.from_wire((cls().stage,)) == cls()
    with pytest.raises(VersionError, match="composes 2 stages"):
        registry.from_wire((Stage(1), Stage(1)))
    with pytest.raises(VersionError, match="operator code 999 is unknown"):
        registry.from_wire((Stage(999),))


def test_parameters_that_the_operator_refuses_are_the_senders_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @dataclass(frozen=True, slots=True)
    class Choosy(Identity):
        """Refuses levels below 1."""

        levels: int = 3

        def __post_init__(self) -> None:
            if self.levels < 1:
                raise SpecError(f"levels must be at least 1, got {self.levels}")

    monkeypatch.setitem(registry.known().by_code, 60_000, Choosy)
    stage = Stage(60_000, (Parameter(0, ParameterType.INTEGER, 0),))
    with pytest.raises(DecodeError, match="parameters make no sense: levels must be at least 1"):
        registry.from_wire((stage,))
    good = Stage(60_000, (Parameter(0, ParameterType.INTEGER, 2),))
    assert registry.from_wire((good,)) == Choosy(2)


def test_every_operator_is_found_once() -> None:
    known = registry.known()
    assert {cls.code for cls in known.by_name.values()} == set(known.by_code)
    assert {"identity", "float16", "bfloat16", "natural"} <= set(known.by_name)


def test_choices_are_offered_where_they_suit_the_size() -> None:
    natural = ["natural", "natural:rounding=nearest", "natural:coder=rans"]
    assert registry.offered(registry.known().by_name["natural"], 10**6) == natural
    sparse = registry.known().by_name["sparse-dithering"]
    small, large = (registry.offered(sparse, d) for d in (4096, 4097))
    assert set(small) - set(large) == {"sparse-dithering:coder=paper"}
    assert "sparse-dithering:rounding=subtractive" in large
