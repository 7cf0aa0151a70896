"""Operators by spec and by wire code."""

from dataclasses import dataclass

import pytest

import fewbits
from fewbits import DecodeError, SpecError, VersionError, registry
from fewbits.core.composition import Composed
from fewbits.operators.identity import Identity
from fewbits.operators.natural import Natural
from fewbits.operators.top_k import TopK
from fewbits.wire.frame import Parameter, ParameterType, StageRecord


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
        ("tiny", "'tiny' is a preset of attach and `fewbits train`, no operator: write 'top-k"),
        ("auto", "'auto' measures a training run and is no operator"),
        ("powersgd:rank=4", "'powersgd:rank=4' is a reference of `fewbits train`, no operator"),
        ("zzz", "unknown operator 'zzz': known are bfloat16, float16, hadamard, identity, natural"),
        ("", "unknown operator '': known are bfloat16, float16, hadamard, identity, natural"),
        ("natural:", "nothing follows the colon in 'natural:'"),
        ("natural:rounding=up", "rounding must be stochastic or nearest, got 'up'"),
        ("identity:x=1", "unknown parameter 'x': identity takes no parameters"),
        (
            "natural|identity",
            "natural is an operator and must be last in 'natural|identity': before a '|' stand st",
        ),
        ("natural|top-k", "natural is an operator and must be last"),
        (
            "top-k:fraction=0.5",
            "top-k is a stage and needs an operator after it, for instance 'top-k:fraction=0.5|nat",
        ),
        ("hadamard|top-k", "top-k is a stage and needs an operator after it"),
        ("tok-k|natural", "unknown operator 'tok-k': did you mean 'top-k'?"),
        ("top-k|natural:", "nothing follows the colon in 'natural:'"),
        ("top-k||natural", "nothing stands on one side of a '|' in 'top-k||natural'"),
        ("|natural", "nothing stands on one side of a '|'"),
        ("top-k|", "nothing stands on one side of a '|'"),
        ("top-k:fraction=0|natural", "fraction must be above 0 and at most 1, got 0.0"),
        ("rand-k:fraction=1.5|natural", "fraction must be above 0 and at most 1, got 1.5"),
        ("hadamard:block=24|natural", "block must be a power of two from 2 to 65536, got 24"),
        ("hadamard:block=1|natural", "block must be a power of two"),
        ("|".join(["hadamard"] * 8 + ["natural"]), "9 stages, at most 8 can be composed"),
    ],
)
def test_specs_that_make_no_sense_are_refused(spec: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        fewbits.operator(spec)
    assert str(caught.value).startswith(message)


def test_specs_compose() -> None:
    composed = fewbits.operator(" top-k : fraction = 0.01 | natural : rounding = stochastic ")
    assert composed == Composed((TopK(0.01),), Natural())
    assert composed.spec == "top-k:fraction=0.01|natural"
    assert hash(composed) == hash(fewbits.operator(composed.spec))
    assert composed != fewbits.operator("top-k:fraction=0.02|natural")
    assert fewbits.operator("top-k:fraction=0.1|natural").spec == "top-k|natural"


def test_only_stages_come_before_an_operator_and_only_an_operator_last() -> None:
    for before, last in (
        ((), Natural()),
        ((Natural(),), Natural()),
        ((TopK(),), TopK()),
        ((TopK(),), Composed((TopK(),), Natural())),
    ):
        with pytest.raises(SpecError, match="a composition"):
            Composed(before, last)


def test_only_specs_and_operators_are_operators() -> None:
    for other in (None, 3, b"natural", Natural):
        with pytest.raises(SpecError, match="expected a spec string or an operator"):
            fewbits.operator(other)


def test_fields_outside_their_choices_are_refused() -> None:
    with pytest.raises(SpecError, match="rounding must be stochastic or nearest, got 'up'"):
        Natural("up")


def test_stages_name_operators() -> None:
    for cls in registry.catalogue().by_name.values():
        assert registry.from_wire((cls().stage,)) == cls()
    for cls in registry.catalogue().stages.values():
        composed = registry.from_wire((cls().stage, Natural().stage))
        assert composed == Composed((cls(),), Natural())
        assert composed.spec == f"{cls.name}|natural"
        with pytest.raises(DecodeError, match=f"{cls.name} is a stage, yet no operator follows"):
            registry.from_wire((cls().stage,))
    with pytest.raises(DecodeError, match="identity is an operator, yet another stage follows it"):
        registry.from_wire((StageRecord(1), StageRecord(1)))
    with pytest.raises(VersionError, match="operator code 999 is unknown"):
        registry.from_wire((StageRecord(999),))


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

    monkeypatch.setitem(registry.catalogue().by_code, 60_000, Choosy)
    stage = StageRecord(60_000, (Parameter(0, ParameterType.INTEGER, 0),))
    with pytest.raises(DecodeError, match="parameters make no sense: levels must be at least 1"):
        registry.from_wire((stage,))
    good = StageRecord(60_000, (Parameter(0, ParameterType.INTEGER, 2),))
    assert registry.from_wire((good,)) == Choosy(2)


def test_every_operator_is_found_once() -> None:
    known = registry.catalogue()
    assert {cls.code for cls in known.stages.values()} == set(known.stage_codes)
    assert not known.by_name.keys() & known.stages.keys()
    assert not known.by_code.keys() & known.stage_codes.keys()
    assert {cls.code for cls in known.by_name.values()} == set(known.by_code)
    assert {"identity", "float16", "bfloat16", "natural"} <= set(known.by_name)


def test_choices_are_offered_where_they_suit_the_size() -> None:
    natural = ["natural", "natural:rounding=nearest", "natural:coder=rans"]
    assert registry.example_specs(registry.catalogue().by_name["natural"], 10**6) == natural
    sparse = registry.catalogue().by_name["sparse-dithering"]
    small, large = (registry.example_specs(sparse, d) for d in (4096, 4097))
    assert set(small) - set(large) == {"sparse-dithering:coder=paper"}
    assert "sparse-dithering:rounding=subtractive" in large


@pytest.mark.parametrize(
    ("spec", "equal"),
    [
        ("standard-dithering:levels=8|natural", "natural-dithering:levels=4"),
        ("terngrad|natural:coder=rans", "natural-dithering:levels=1,coder=rans"),
        (
            "hadamard|qsgd:levels=128,block=512,scale=natural|natural",
            "hadamard|natural-dithering:p=2,levels=8,block=512,scale=natural",
        ),
    ],
)
def test_natural_after_standard_dithering_is_natural_dithering(spec: str, equal: str) -> None:
    assert fewbits.operator(spec) == fewbits.operator(equal)
    assert fewbits.operator(spec).spec == equal


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "standard-dithering|natural",
            "natural after standard-dithering needs a power of two levels, got 7: take levels=4 or",
        ),
        ("standard-dithering:levels=8|natural:rounding=nearest", "standard-dithering is an operat"),
        ("standard-dithering:levels=8|identity", "standard-dithering is an operator and must be"),
    ],
)
def test_operators_without_an_equal_are_not_joined(spec: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        fewbits.operator(spec)
    assert str(caught.value).startswith(message)
