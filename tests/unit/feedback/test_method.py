"""Names of methods, and which rule each has for which operator."""

import pytest

import fewbits
from fewbits import SpecError
from fewbits.feedback import DGC, EF14, EF21, EFBV, Diana, Feedback, Rule, feedback

TOP = fewbits.operator("top-k:fraction=0.1|natural")
NATURAL = fewbits.operator("natural")  # omega is 1/8
SPARSE = fewbits.operator("rand-k:fraction=0.25|natural")  # omega is 4 * 9/8 - 1 = 7/2


@pytest.mark.parametrize(
    ("spec", "method"),
    [
        ("ef14", EF14()),
        ("ef14:momentum=0.9", EF14(0.9)),
        ("ef14:decay=0.95", EF14(decay=0.95)),
        ("dgc", DGC()),
        ("dgc:momentum=0.5", DGC(0.5)),
        ("ef21", EF21()),
        ("diana", Diana()),
        ("ef-bv", EFBV()),
    ],
)
def test_a_spec_names_a_method_and_a_method_its_spec(spec: str, method: Feedback) -> None:
    assert feedback(spec) == method
    assert feedback(method) is method
    assert str(method) == method.spec == spec


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("ef99", "feedback must be ef14, dgc, ef21, diana or ef-bv, got 'ef99'"),
        ("", "feedback must be ef14, dgc, ef21, diana or ef-bv, got ''"),
        ("ef14:decay=0", r"decay must be in \(0, 1\], got 0"),
        ("ef14:decay=1.5", r"decay must be in \(0, 1\], got 1.5"),
        ("dgc:momentum=0", r"momentum of dgc must be in \(0, 1\), got 0"),
        ("dgc:momentum=1", r"momentum of dgc must be in \(0, 1\), got 1"),
        ("ef14:momentum=1", r"momentum must be in \[0, 1\), got 1"),
        ("ef14:momentum=-0.1", r"momentum must be in \[0, 1\), got -0.1"),
        ("ef14:momentum=nan", "nan"),
        ("ef21:momentum=0.9", "momentum"),
        ("ef14:beta=0.9", "beta"),
        (14, "feedback is a name such as 'ef14', got int"),
    ],
)
def test_what_is_no_method_is_refused(spec: object, text: str) -> None:
    with pytest.raises(SpecError, match=text):
        feedback(spec)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "operator", "rule"),
    [
        (EF14(), TOP, Rule(False)),
        (EF14(0.5), NATURAL, Rule(False, momentum=0.5)),
        (EF14(), SPARSE, Rule(False, 2 / 9, 2 / 9)),
        (DGC(), TOP, Rule(False, momentum=0.9, masks=True)),
        (DGC(0.5), SPARSE, Rule(False, 2 / 9, 2 / 9, 0.5, masks=True)),
        (EF14(decay=0.9), TOP, Rule(False, decay=0.9)),
        (EF21(), TOP, Rule(True)),
        (EF21(), NATURAL, Rule(True)),
        (EF21(), SPARSE, Rule(True, 2 / 9, 2 / 9)),
        (Diana(), NATURAL, Rule(True, 8 / 9)),
        (Diana(), SPARSE, Rule(True, 2 / 9)),
        (EFBV(), SPARSE, Rule(True, 2 / 9, 8 / 15)),
        (EFBV(), TOP, Rule(True)),
    ],
)
def test_the_rule_has_the_factors_of_the_papers(
    method: Feedback, operator: fewbits.Operator, rule: Rule
) -> None:
    found = method.rule(operator, 64, senders=4)
    assert (found.shifts, found.momentum) == (rule.shifts, rule.momentum)
    assert (found.decay, found.masks) == (rule.decay, rule.masks)
    assert (found.step, found.scale) == pytest.approx((rule.step, rule.scale))
    assert found.rows == (2 if rule.momentum else 1)


def test_the_way_back_has_neither_momentum_nor_decay_nor_mask() -> None:
    plain = Rule(False)
    for method in (EF14(0.9, 0.5), DGC()):
        assert method.back(TOP, 64) == plain
    assert DGC().back(NATURAL, 64) == plain


def test_dgc_refuses_what_sends_all_values_and_says_what_to_use() -> None:
    with pytest.raises(SpecError, match=r"natural sends all: use ef14:momentum=0.9, or an operat"):
        DGC().rule(NATURAL, 64)


def test_diana_refuses_a_biased_operator_and_says_what_to_use() -> None:
    with pytest.raises(SpecError, match=r"diana needs an unbiased operator: with top-k.* use ef21"):
        Diana().rule(TOP, 64)


@pytest.mark.parametrize("name", ["ef14", "ef21", "ef-bv"])
def test_what_neither_contracts_nor_is_unbiased_is_refused(name: str) -> None:
    operator = fewbits.operator("rand-k:fraction=0.1|natural:rounding=nearest")
    assert operator.guarantee(64).alpha >= 1
    with pytest.raises(
        SpecError, match=r"needs an operator that contracts, and rand-k.* .64 values."
    ):
        feedback(name).rule(operator, 64)
