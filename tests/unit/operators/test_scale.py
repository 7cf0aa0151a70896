"""The stage `scale`: from unbiased to contractive."""

import math

import numpy as np
import pytest

import fewbits
from fewbits import SpecError
from fewbits.operators.scale import ScaleDown


@pytest.mark.parametrize(
    ("inner", "omega"),
    [
        ("natural", 1 / 8),
        ("rand-k:fraction=0.125|natural", 8.0),
        ("sparse-dithering:nu=1,rounding=stochastic", 1.0),
    ],
)
def test_an_unbiased_operator_becomes_contractive(inner: str, omega: float) -> None:
    guarantee = fewbits.operator(f"scale:omega={omega:g}|{inner}").guarantee(4096)
    assert guarantee.alpha == pytest.approx(omega / (1 + omega), rel=1e-6)
    assert not guarantee.sure
    assert fewbits.operator(f"scale:omega={omega:g}|{inner}").spec.endswith(inner)


def test_the_bound_is_least_at_the_operators_own_omega() -> None:
    found = {
        w: fewbits.operator(f"scale:omega={w}|natural").guarantee(9).alpha
        for w in (0.1, 0.125, 0.2)
    }
    assert min(found, key=found.__getitem__) == 0.125
    assert fewbits.operator("scale:omega=0|natural").guarantee(9).alpha == 1 / 8


def test_a_sure_error_stays_sure_and_adds_up() -> None:
    guarantee = fewbits.operator("scale:omega=1|sparse-dithering").guarantee(100)
    assert guarantee.sure
    assert guarantee.alpha == pytest.approx((0.5 * math.sqrt(0.1) + 0.5) ** 2, rel=1e-6)
    assert fewbits.operator("scale:omega=1|identity").guarantee(9).alpha == pytest.approx(
        0.25, rel=1e-6
    )


def test_natural_still_gives_powers_of_two() -> None:
    x = np.random.default_rng(3).standard_normal(500).astype(np.float32)
    y = fewbits.decompress(fewbits.compress(x, "scale|natural", seed=3))
    assert set(np.frexp(np.abs(y))[0]) == {0.5}
    assert np.mean(y * x) / np.mean(x * x) == pytest.approx(8 / 9, abs=0.05)


@pytest.mark.parametrize("omega", [-0.1, -0.0, math.inf, math.nan])
def test_a_number_that_is_no_omega_is_refused(omega: float) -> None:
    with pytest.raises(SpecError, match="omega must be"):
        ScaleDown(omega)


def test_an_omega_that_contracts_nothing_is_told_with_the_one_to_write() -> None:
    inner = "rand-k:fraction=0.11|natural"
    told = r"leaves an error of 7.3.*write 'scale:omega=9.227'"
    with pytest.warns(UserWarning, match=told) as caught:
        frame = fewbits.compress(np.ones(100, np.float32), f"scale|{inner}", seed=1)
    assert [own.filename for own in caught] == [__file__]
    fewbits.decompress(frame)  # a reader is told nothing: warnings are errors here
    assert fewbits.operator(f"scale:omega=9.227|{inner}").guarantee(65_536).error < 1
