"""Which operator for which tensor."""

import re

import pytest

import fewbits
from fewbits.errors import SpecError
from fewbits.policy import SMALL, ByName, Chain, Default, Exact, choose

NATURAL, BFLOAT16 = fewbits.operator("natural"), fewbits.operator("bfloat16")


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ((), "one-dimensional"),
        ((10**6,), "one-dimensional"),
        ((128, 127), f"under {SMALL} elements"),
        ((0, 10**6), f"under {SMALL} elements"),
        ((128, 128), None),
        ((64, 64, 3, 3), None),
    ],
)
def test_the_default_compresses_what_is_large_and_has_two_dimensions(
    shape: tuple[int, ...], reason: str | None
) -> None:
    answer = Default()("w", shape)
    assert answer == (None if reason is None else Exact(reason))
    assert choose(Default(), "w", shape, NATURAL) == (NATURAL if answer is None else answer)


def test_the_limit_can_be_moved() -> None:
    assert Default(small=4)("w", (2, 2)) is None
    assert Default(small=5)("w", (2, 2)) == Exact("under 5 elements")


def test_the_first_pattern_that_matches_decides() -> None:
    rules = ByName({"head.bias": "natural", "*.bias": "exact", "head.*": BFLOAT16})
    assert rules("head.bias", (3,)) == NATURAL
    assert rules("tail.bias", (3,)) == Exact("named")
    assert rules("head.weight", (3, 3)) == BFLOAT16
    assert rules("tail.weight", (3, 3)) is None
    assert rules("HEAD.weight", (3, 3)) is None, "case matters on every system"


def test_the_first_policy_with_an_answer_decides() -> None:
    chain = Chain((ByName({"a.*": "bfloat16"}), Default()))
    assert chain("a.bias", (3,)) == BFLOAT16
    assert chain("b.bias", (3,)) == Exact("one-dimensional")
    assert chain("b.weight", (200, 200)) is None
    assert Chain(())("x", ()) is None


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, NATURAL),
        ("bfloat16", BFLOAT16),
        ("exact", Exact("policy")),
        (BFLOAT16, BFLOAT16),
        (Exact("mine"), Exact("mine")),
    ],
)
def test_whatever_a_function_answers_becomes_a_choice(answer: object, expected: object) -> None:
    assert choose(lambda name, shape: answer, "w", (1,), NATURAL) == expected


@pytest.mark.parametrize("answer", [False, 0, object(), ("natural",)])
def test_another_answer_names_the_tensor(answer: object) -> None:
    with pytest.raises(SpecError, match="for 'w'"):
        choose(lambda name, shape: answer, "w", (1,), NATURAL)


def test_a_bad_spec_in_a_rule_is_a_spec_error() -> None:
    with pytest.raises(SpecError):
        choose(ByName({"*": "unheard-of"}), "w", (1,), NATURAL)


def test_policies_are_values() -> None:
    assert Default() == Default(SMALL)
    assert ByName({"a": "exact"}) == ByName({"a": "exact"}) != ByName({"a": "natural"})
    assert Chain((Default(),)) == Chain((Default(),))


def test_a_bad_spec_is_refused_before_a_tensor_matches() -> None:
    with pytest.raises(SpecError, match="naturl"):
        ByName({"no such tensor": "naturl"})


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Default(small=-1), "small must be a number of elements from 0 on, got -1"),
        (lambda: Default(small=0.5), "got 0.5"),
        (lambda: Default(small=True), "got True"),
        (lambda: Default(small="1024"), "got '1024'"),
        (lambda: ByName([("head.*", "exact")]), "expected patterns and their operators"),
        (lambda: ByName({"": "exact"}), "a pattern is a name such as 'head.*', got ''"),
        (lambda: ByName({3: "exact"}), "got 3"),
        (lambda: ByName({"head.*": "tiny"}), "'tiny' is a preset"),
        (lambda: Exact(3), "the reason of Exact is a text, got 3"),
        (lambda: Chain(Default()), "expected a tuple of policies"),
        (lambda: Chain(("natural",)), "a policy is a function or a value of this module"),
    ],
)
def test_what_makes_no_policy_is_refused_where_it_is_written(make: object, told: str) -> None:
    with pytest.raises(SpecError, match=re.escape(told)):
        make()


def test_a_chain_of_a_list_is_a_value() -> None:
    assert Chain([Default(1), ByName()]) == Chain((Default(1), ByName()))
