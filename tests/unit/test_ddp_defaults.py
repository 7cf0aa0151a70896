"""What compression between ranks chooses and says before any rank is met."""

import warnings

import pytest

pytest.importorskip("torch")

from fewbits import SpecError, ddp

BIASED = (
    ("natural:rounding=nearest", "natural"),
    ("sign", "natural:coder=rans"),
    ("top-k|natural", "natural"),
    ("top-k:fraction=0.9999|natural:coder=rans", "natural:coder=rans"),
    ("hadamard|sparse-dithering", "natural:coder=rans"),
    ("sparse-dithering:coder=paper,block=512", "natural:coder=rans"),
)
UNBIASED = (
    "natural",
    "natural-dithering",
    "standard-dithering:p=2,levels=1",
    "sparse-dithering:rounding=subtractive",
    "hadamard|rand-k|natural",
)


@pytest.mark.parametrize(("uplink", "downlink"), BIASED)
def test_biased_operators_warn_and_the_mean_goes_back_without_bias(
    uplink: str, downlink: str
) -> None:
    with pytest.warns(UserWarning, match="is biased and nothing corrects it"):
        assert ddp.Compression(uplink).session.routing.downlink.spec == downlink


@pytest.mark.parametrize("uplink", UNBIASED)
def test_unbiased_operators_go_both_ways(uplink: str) -> None:
    assert ddp.Compression(uplink).session.routing.downlink.spec == uplink  # warnings are errors


def test_casts_are_not_worth_a_warning() -> None:
    with warnings.catch_warnings(action="error"):
        assert ddp.Compression("bfloat16").session.routing.downlink.spec == "bfloat16"


def test_what_no_large_tensor_can_have_is_refused_at_once() -> None:
    with pytest.raises(SpecError, match="coder=paper is for at most 4096 values"):
        ddp.Compression("sparse-dithering:coder=paper")
