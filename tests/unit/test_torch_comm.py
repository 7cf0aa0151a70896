"""Waiting for mail: whatever does not arrive is an error."""

from datetime import timedelta

import pytest

pytest.importorskip("torch")

from fewbits import PeerError
from fewbits.transport.losses import PostedMail


class Late:
    """A message that never comes; gloo gives up at once, as if its clock ran ahead of ours."""

    def wait(self, patience: timedelta) -> None:
        raise RuntimeError("[unbound_buffer.cc:81] Timed out waiting 2000ms for recv operation")


def test_giving_up_a_moment_before_the_deadline_is_an_error() -> None:
    with pytest.raises(PeerError, match="rank 1: no answer within 60 s"):
        PostedMail(60.0, [(1, Late())], {}).wait()


def test_who_is_only_waited_for_briefly_after_a_loss_is_named_apart() -> None:
    with pytest.raises(PeerError, match=r"rank 2: its end; no answer yet from ranks \[1\]"):
        PostedMail(60.0, [(1, Late())], {2: "its end"}).wait()
