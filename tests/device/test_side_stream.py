"""The lines that need CUDA, with doubles in the place of streams and events."""

from contextlib import contextmanager

import pytest
import torch

from fewbits.errors import PeerError, SpecError
from fewbits.transport.side_stream import SideStream, StreamReading, refuse_group
from fewbits.transport.torch_comm import TorchComm


@pytest.mark.parametrize("backend", ["nccl", "cpu:gloo,cuda:nccl"])
def test_groups_with_nccl_carry_device_tensors(backend):
    assert refuse_group(backend) is None


@pytest.mark.parametrize("backend", ["gloo", "mpi", "ucc", "cpu:gloo,cuda:gloo", "undefined"])
def test_other_groups_are_refused_with_what_to_pass(backend, monkeypatch):
    monkeypatch.setattr("torch.distributed.get_backend", lambda group: backend)
    with pytest.raises(SpecError, match=f"uses '{backend}'") as told:
        TorchComm(timeout=1.0).box_backend("cuda:0")
    assert "init_process_group('cpu:gloo,cuda:nccl')" in str(told.value)
    assert "staged=True" in str(told.value)
    assert "\n" not in str(told.value)


class Event:
    """Passes when it was asked so often."""

    def __init__(self, asked=0):
        self.left = asked

    def query(self):
        self.left -= 1
        return self.left < 0


def test_a_reading_asks_until_its_event_has_passed():
    pinned = [torch.ones(3)]
    reading = StreamReading(pinned, Event(3), timeout=10.0)
    assert not reading.is_there()
    assert reading.tensors() is pinned


def test_a_device_that_never_ends_is_given_up_in_time():
    with pytest.raises(PeerError, match=r"not ended within 0.05 s: some rank stopped"):
        StreamReading([], Event(10**9), timeout=0.05).tensors()


class Stream:
    """Notes who waits for what."""

    def __init__(self, name, calls):
        self.name, self.calls = name, calls

    def wait_event(self, event):
        self.calls.append(f"{self.name} waits for {event}")

    def wait_stream(self, other):
        self.calls.append(f"{self.name} waits for {other.name}")


@pytest.fixture
def side(monkeypatch):
    calls = []
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream("side", calls))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream("program", calls))

    @contextmanager
    def entered(stream):
        calls.append(f"on {stream.name}")
        yield
        calls.append(f"off {stream.name}")

    monkeypatch.setattr(torch.cuda, "stream", entered)
    made = SideStream("cuda:0", 1.0)
    made.calls = calls
    return made


def test_work_beside_waits_for_its_event_on_the_side_stream(side):
    with side.beside("the bucket"):
        side.calls.append("work")
    assert side.calls == ["on side", "side waits for the bucket", "work", "off side"]


def test_streams_that_are_joined_wait_for_each_other_even_after_an_error(side):
    with pytest.raises(ZeroDivisionError), side.joined():
        side.calls.append(f"work {1 // 0}")
    assert side.calls == ["side waits for program", "program waits for side"]
