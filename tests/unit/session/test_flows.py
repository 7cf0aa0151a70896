"""Which way values travel: all ranks the same, or an error that says what to pass."""

from types import SimpleNamespace
from typing import Any

import pytest

from fewbits.errors import DisagreementError, SpecError
from fewbits.session.adapter import AdapterParts
from fewbits.session.flows import Flow
from fewbits.session.options import Options

OVER_NCCL, OVER_GLOO = " aligned over nccl", " aligned over gloo"


def flow(lies: str | None = "cpu", **options: Any) -> Flow:
    comm: Any = SimpleNamespace(box_backend=lambda device: "gloo")
    return Flow(comm, Options(**options), AdapterParts(device=lies))


def agreed(*wanted: str) -> bool:
    chooser: Any = SimpleNamespace(
        agreed=("natural",), saved=SimpleNamespace(routing=SimpleNamespace())
    )
    own = flow()
    own._refuse = lambda _: None  # type: ignore[method-assign]
    return own.is_stream(wanted, chooser)


def test_nobody_wants_a_stream() -> None:
    assert not agreed("", "")


def test_one_rank_that_wants_a_stream_is_enough() -> None:
    assert agreed("", OVER_GLOO)


@pytest.mark.parametrize("wanted", [("", OVER_NCCL), (OVER_GLOO, OVER_NCCL)])
def test_ranks_whose_boxes_cannot_meet_are_told_what_to_pass(wanted: tuple[str, str]) -> None:
    with pytest.raises(DisagreementError, match=r"rank 1: aligned over nccl: pass staged=True"):
        agreed(*wanted)


@pytest.mark.parametrize(("device", "lies"), [("cuda", "cpu"), ("cpu", "cuda:1")])
def test_a_device_where_the_model_is_not_is_refused(device: str, lies: str) -> None:
    routing: Any = None
    with pytest.raises(SpecError, match=f"but the model is on '{lies}'"):
        flow(lies, device=device).wanted(routing)
