"""Waiting for mail: whatever does not arrive is an error."""

from datetime import timedelta

import pytest

pytest.importorskip("torch")

import torch

from fewbits import PeerError
from fewbits.transport.losses import Parcel, PostedMail


class Late:
    """A message that never comes; gloo gives up at once, as if its clock ran ahead of ours."""

    def wait(self, patience: timedelta) -> None:
        raise RuntimeError("[unbound_buffer.cc:81] Timed out waiting 2000ms for recv operation")


def test_giving_up_a_moment_before_the_deadline_is_an_error() -> None:
    with pytest.raises(PeerError, match="rank 1: no answer within 60 s"):
        PostedMail(60.0, [(1, Late())], {}, []).wait()


def test_who_is_only_waited_for_briefly_after_a_loss_is_named_apart() -> None:
    with pytest.raises(PeerError, match=r"rank 2: its end; no answer yet from ranks \[1\]"):
        PostedMail(60.0, [(1, Late())], {2: "its end"}, []).wait()


def test_a_parcel_fills_its_buffers_with_what_has_come() -> None:
    sent = Parcel.of([torch.arange(3, dtype=torch.uint8), torch.arange(7, 12, dtype=torch.uint8)])
    sent.pack()
    assert sent.message.tolist() == [0, 1, 2, 7, 8, 9, 10, 11]
    come = Parcel.of([torch.zeros(3, dtype=torch.uint8), torch.zeros(5, dtype=torch.uint8)])
    come.message.copy_(sent.message)
    PostedMail(60.0, [], {}, [come]).wait()
    assert [own.tolist() for own in come.buffers] == [[0, 1, 2], [7, 8, 9, 10, 11]]


def test_nothing_is_unpacked_after_a_loss() -> None:
    come = Parcel.of([torch.zeros(3, dtype=torch.uint8), torch.zeros(1, dtype=torch.uint8)])
    come.message.fill_(9)
    with pytest.raises(PeerError, match="rank 2: its end"):
        PostedMail(60.0, [], {2: "its end"}, [come]).wait()
    assert not any(own.any() for own in come.buffers)
