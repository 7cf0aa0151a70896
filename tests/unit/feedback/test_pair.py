"""Senders and receivers keep nothing, and change nothing that they are given."""

import numpy as np
import pytest

import fewbits
from fewbits import Rng, SpecError
from fewbits.feedback import Receiver, Sender

METHODS = (
    ("ef14", "top-k:fraction=0.1|natural"),
    ("ef14:momentum=0.9", "natural:coder=rans"),
    ("ef14", "rand-k:fraction=0.1|natural"),
    ("ef21", "sign"),
    ("diana", "natural"),
    ("ef-bv", "rand-k:fraction=0.1|natural"),
)


@pytest.mark.parametrize(("method", "spec"), METHODS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_arguments_stay_as_they_were(method: str, spec: str, dtype: str) -> None:
    sender = Sender.of(method, spec, d=100, senders=3)
    receiver, source = Receiver(sender.rule), np.random.default_rng(1)
    memory = source.standard_normal((sender.rule.rows, 100)).astype(np.float32)
    own = source.standard_normal((1, 100)).astype(np.float32)
    g = source.standard_normal(100).astype(dtype)
    before = g.tobytes(), memory.tobytes(), own.tobytes()
    frame, after = sender.step(g, memory, Rng.from_seed(1))
    message = fewbits.decompress(frame)
    sent = message.tobytes()
    estimate, known = receiver.step(message, own)
    assert (g.tobytes(), memory.tobytes(), own.tobytes()) == before
    assert message.tobytes() == sent
    assert after.tobytes() != memory.tobytes()
    assert (known.tobytes() != own.tobytes()) == sender.rule.shifts
    assert not np.shares_memory(estimate, message)
    # The same arguments give the same bits: nothing was kept.
    again, _ = sender.step(g, memory, Rng.from_seed(1))
    assert again == frame
    other, _ = sender.step(g, after, Rng.from_seed(1))
    assert other != frame


def test_memories_begin_empty_and_have_32_bits() -> None:
    sender = Sender.of("ef14:momentum=0.5", "natural", d=7)
    assert sender.init(7).shape == (2, 7)
    assert Sender.of("ef21", "natural", d=7).init(7).shape == (1, 7)
    for memory in (sender.init(7), Receiver(sender.rule).init(7)):
        assert memory.dtype == np.float32
        assert not memory.any()


def test_a_frame_is_one_that_anybody_can_read() -> None:
    sender = Sender.of("ef21", "natural", d=3)
    g = np.float32([1.0, -2.0, 4.0])
    frame, memory = sender.step(g, sender.init(3), Rng.from_seed(1))
    assert fewbits.decompress(frame).tolist() == memory[0].tolist() == g.tolist()


def test_shapes_are_flattened_in_the_order_of_memory() -> None:
    sender = Sender.of("ef14", "top-k:fraction=0.5|natural", d=4)
    frame, memory = sender.step(np.float32([[1, 8], [16, 3]]), sender.init(4), Rng.from_seed(1))
    assert fewbits.decompress(frame).tolist() == [0, 8, 16, 0]
    assert memory.tolist() == [[1, 0, 0, 3]]


def test_pairs_refuse_what_does_not_fit() -> None:
    sender = Sender.of("ef14", "natural", d=7)
    with pytest.raises(SpecError, match="made for 7 values, got 8"):
        sender.init(8)
    with pytest.raises(SpecError, match="expected 7 values, got 3"):
        sender.step(np.zeros(3), sender.init(7), Rng.from_seed(1))
    with pytest.raises(SpecError, match="decompress the frame first"):
        Receiver(sender.rule).step(b"frame", sender.init(7))
    for wrong in ({"d": 0}, {"d": 1.5}, {"d": 7, "senders": 0}):
        with pytest.raises(SpecError, match="must be a positive whole number"):
            Sender.of("ef14", "natural", **wrong)
