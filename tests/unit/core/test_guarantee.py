"""What a guarantee says of itself."""

import math

import pytest

from fewbits import Guarantee


def test_either_constant_is_the_error() -> None:
    assert Guarantee(bits=1, omega=0.125).error == 0.125
    assert Guarantee(bits=1, alpha=0.25, sure=True).error == 0.25
    assert Guarantee(bits=1, omega=0.0).unbiased
    assert not Guarantee(bits=1, alpha=0.0).unbiased
    assert Guarantee(bits=1, omega=0.0).high == math.inf


@pytest.mark.parametrize("constants", [{}, {"omega": 0.1, "alpha": 0.1}])
def test_exactly_one_constant_is_given(constants: dict[str, float]) -> None:
    with pytest.raises(AssertionError):
        Guarantee(bits=1, **constants)
