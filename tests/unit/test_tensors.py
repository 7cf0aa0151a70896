"""What a session asks of tensors."""

import pytest

pytest.importorskip("torch")

import torch

from fewbits.transport import tensors

TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_one_value_that_is_not_finite_is_found_wherever_it_is(dtype: object, size: int) -> None:
    values = torch.randn(size, generator=torch.Generator().manual_seed(1)).to(dtype)
    assert tensors.is_finite(values)
    for place in {0, size // 2, size - 1}:
        for odd in (float("nan"), float("inf"), -float("inf")):
            spoilt = values.clone()
            spoilt[place] = odd
            assert not tensors.is_finite(spoilt)


def test_the_largest_values_are_finite_and_nothing_is() -> None:
    limit = torch.finfo(torch.float32)
    assert tensors.is_finite(torch.tensor([limit.min, 0.0, limit.max]))
    assert tensors.is_finite(torch.empty(0))
