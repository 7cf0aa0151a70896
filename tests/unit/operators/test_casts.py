"""Casts and the identity: what is special about them."""

import numpy as np
import pytest

import fewbits
from fewbits import SaturationWarning
from fewbits.operators.bfloat16 import Bfloat16
from fewbits.operators.float16 import Float16
from fewbits.operators.identity import Identity
from fewbits.reference.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64


def test_float16_is_numpys_rounding() -> None:
    x = np.random.default_rng(1).standard_normal(5000).astype(np.float32)
    y = fewbits.decompress(fewbits.compress(x, "float16"))
    assert np.array_equal(y, x.astype(np.float16).astype(np.float32))
    assert not np.array_equal(y, x)


def test_bfloat16_is_torchs_rounding() -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(np.random.default_rng(2).standard_normal(5000).astype(np.float32))
    y = fewbits.decompress(fewbits.compress(x, "bfloat16"), to="torch")
    assert torch.equal(y, x.bfloat16().float())
    assert not torch.equal(y, x)


def test_float16_saturates_from_65520_on() -> None:
    x = np.float32([65519, 65520, -1e30])
    with pytest.warns(SaturationWarning, match="2 of 3 values exceed the range of float16"):
        frame = fewbits.compress(x, "float16")
    assert fewbits.decompress(frame).tolist() == [65504, 65504, -65504]


def test_infinities_survive_casts() -> None:
    x = np.float64([np.inf, -np.inf, np.nan, 1])
    for spec in ("identity", "float16", "bfloat16"):
        y = fewbits.decompress(fewbits.compress(x, spec, nonfinite="carry"))
        assert np.array_equal(y, x, equal_nan=True)


def test_the_identity_keeps_the_payloads_of_nan() -> None:
    x = np.uint32([0x7F800001, 0xFFC12345, 0x80000000, 1]).view(np.float32)
    y = fewbits.decompress(fewbits.compress(x, "identity", nonfinite="carry"))
    assert y.tobytes() == x.tobytes()


def test_small_numbers_keep_float16s_absolute_error() -> None:
    x = np.float32([2.0**-25, 2.0**-25 * 1.01, 3e-6, -1e-7])
    y = fewbits.decompress(fewbits.compress(x, "float16"))
    assert y[0] == 0
    assert y[1] == 2.0**-24
    assert (np.abs(y - x) <= 2.0**-25).all()


def test_casts_to_a_wider_format_promise_no_loss() -> None:
    for operator, format, exact in (
        (Float16(), FLOAT16, True),
        (Float16(), BFLOAT16, False),
        (Float16(), FLOAT32, False),
        (Bfloat16(), BFLOAT16, True),
        (Bfloat16(), FLOAT16, False),
        (Bfloat16(), FLOAT64, False),
        (Identity(), FLOAT64, True),
    ):
        assert (operator.guarantee(10, format).omega == 0) == exact
