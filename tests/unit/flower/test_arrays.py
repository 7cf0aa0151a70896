"""A frame in a Flower array is parsed and verified once, and its operator is compared first."""

import numpy as np
import pytest

from fewbits import DecodeError, compress, operator
from fewbits.flower.arrays import framed, unframed
from fewbits.wire import frame as wire

LIKE = np.zeros((30, 20), np.float32)
MESSAGE = np.arange(600, dtype=np.float32)


def test_a_frame_is_parsed_and_verified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for owner, name in ((wire, "read"), (wire.Parsed, "verify")):
        real = getattr(owner, name)

        def call(*given: object, _real: object = real, _name: str = name) -> object:
            calls.append(_name)
            return _real(*given)

        monkeypatch.setattr(owner, name, call)
    array = framed(bytes(compress(MESSAGE, "natural", seed=1)), LIKE)
    message, found = unframed(array, LIKE, operator("natural"))
    assert calls == ["read", "verify"]
    assert found == operator("natural")
    assert message.shape == (600,)


@pytest.mark.parametrize("damage", ["checksum", "length", "shape"])
def test_the_operator_is_compared_before_anything_else(damage: str) -> None:
    frame = bytearray(compress(MESSAGE, "natural", seed=1))
    if damage == "checksum":
        frame[-1] ^= 1
    elif damage == "length":  # a frame for fewer values than the array has
        frame = bytearray(compress(MESSAGE[:7], "natural", seed=1))
    array = framed(bytes(frame), LIKE[1:] if damage == "shape" else LIKE)
    with pytest.raises(DecodeError, match="operator natural, expected sign"):
        unframed(array, LIKE, operator("sign"))
    with pytest.raises(DecodeError, match=r"checksum|in a frame|a frame for"):
        unframed(array, LIKE, operator("natural"))
