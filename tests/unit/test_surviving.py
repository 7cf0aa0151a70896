"""What `on_failure="continue"` refuses, and one rank that has nobody to lose."""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from fewbits import DisagreementError, PeerError, SpecError, ddp
from fewbits.ddp import held
from fewbits.ddp.carried import Carried


@pytest.fixture
def alone() -> Iterator[None]:
    """A process group of this rank alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Branches(torch.nn.Module):
    """One layer may be left out."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.frozen = torch.nn.Linear(4, 4).requires_grad_(False)

    def forward(self, x: torch.Tensor, *, both: bool = True) -> torch.Tensor:
        y: torch.Tensor = self.frozen(self.first(x))
        return self.second(y) if both else y


def wrapped(net: torch.nn.Module | None = None, **options: Any) -> DistributedDataParallel:
    options = {"forward_sync_buffers": False} | options
    return DistributedDataParallel(net or Branches(), **options)


def attached(model: DistributedDataParallel, uplink: str = "natural", **options: Any) -> Any:
    meeting = ddp.MeetingPlace(dist.HashStore(), state=options.pop("state", ()))
    return ddp.attach(model, uplink, **{"on_failure": "continue", "meeting": meeting} | options)


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"forward_sync_buffers": True}, {}, "broadcast_buffers=False"),
    ({"find_unused_parameters": True}, {}, "find_unused_parameters=True"),
    ({"static_graph": True}, {}, "static_graph=True"),
    ({}, {"uplink": "auto"}, "'auto' times every step"),
    ({}, {"uplink": "low-rank:rank=2|sparse-dithering"}, "factors that all ranks know"),
    ({}, {"feedback": "ef21"}, "feedback ef21 needs the shifts of all ranks"),
    ({}, {"feedback": "diana"}, "feedback diana needs the shifts of all ranks"),
    ({}, {"across": [0]}, "no across="),
    ({}, {"staged": True}, "gradients of the CPU"),
    ({}, {"device": "interpreted"}, "gradients of the CPU"),
    ({}, {"meeting": None}, "go together"),
    ({}, {"on_failure": "raise"}, "go together"),
    ({}, {"on_failure": "ignore"}, "must be raise or continue"),
    ({}, {"meeting": "host:29500"}, "meeting= is fewbits.ddp.MeetingPlace"),
    ({}, {"collective": "switch", "aggregators": ["127.0.0.1:48320"]}, "no across="),
]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(("model", "options", "why"), REFUSED, ids=[row[2] for row in REFUSED])
def test_attach_refuses_by_name_what_cannot_go_on_without_a_rank(
    model: dict[str, Any], options: dict[str, Any], why: str
) -> None:
    with pytest.raises(SpecError, match=why) as caught:
        attached(wrapped(**model), **options)
    assert "\n" not in str(caught.value)


def test_a_hook_of_ones_own_is_refused() -> None:
    with pytest.raises(SpecError, match=r"use fewbits\.ddp\.attach"):
        ddp.Compression(
            "natural", on_failure="continue", meeting=ddp.MeetingPlace(dist.HashStore())
        )


def test_ranks_need_a_store_and_states() -> None:
    with pytest.raises(SpecError, match=r"torch\.distributed\.Store"):
        ddp.MeetingPlace("host:29500")
    with pytest.raises(SpecError, match="at_least"):
        ddp.MeetingPlace(dist.HashStore(), at_least=0)
    with pytest.raises(SpecError, match="optimizers and schedulers"):
        ddp.MeetingPlace(dist.HashStore(), state=[3])


@pytest.mark.usefixtures("alone")
def test_a_single_rank_trains_as_without_compression() -> None:
    nets = []
    for compressed in (False, True):
        torch.manual_seed(0)
        model = wrapped(bucket_cap_mb=0.00005)
        compression = attached(model) if compressed else None
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            with model.no_sync():
                model(torch.ones(2, 4), both=step > 0).square().sum().backward()
            model(torch.full((2, 4), float(step))).sum().backward()
            optimizer.step()
        nets.append(torch.cat([own.detach().reshape(-1) for own in model.parameters()]))
        if compression is not None:
            assert (compression.step, compression.rank, compression.size) == (3, 0, 1)
            assert compression.members == (1,)
            compression.close()
    assert torch.equal(*nets)


@pytest.mark.usefixtures("alone")
def test_a_parameter_without_a_gradient_is_named() -> None:
    model = wrapped()
    compression = attached(model)
    model(torch.ones(2, 4)).sum().backward()
    with pytest.raises(SpecError, match=r"second\.weight, second\.bias: no gradient") as caught:
        model(torch.ones(2, 4), both=False).sum().backward()
    assert "\n" not in str(caught.value)
    compression.close()


def test_a_new_rank_gets_the_model_and_the_optimizer_bit_for_bit() -> None:
    def made(seed: int) -> tuple[Any, list[Any]]:
        torch.manual_seed(seed)
        net = torch.nn.Sequential(
            Branches(), torch.nn.BatchNorm1d(4), Branches().to(torch.bfloat16)
        )
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 5])
        return net, [optimizer, scheduler]

    (net, others), (new, its) = made(0), made(1)
    for _ in range(3):
        for own in net.parameters():
            own.grad = torch.randn(own.shape).to(own.dtype)
        others[0].step()
        others[1].step()
    Carried(new, its).take(Carried(net, others).pack())
    for name, own in net.state_dict().items():
        there = new.state_dict()[name]
        assert (there.dtype, there.shape) == (own.dtype, own.shape)
        assert torch.equal(there, own)
    assert str(its[0].state_dict()) == str(others[0].state_dict())
    assert its[1].state_dict() == others[1].state_dict()
    with pytest.raises(DisagreementError, match="the same state= on all ranks"):
        Carried(new, its[:1]).take(Carried(net, others).pack())
    with pytest.raises(DisagreementError, match="Linear is another one"):
        Carried(torch.nn.Linear(3, 3), its).take(Carried(net, others).pack())


def test_batches_are_neighbours_of_one_type_from_the_last_one_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held, "HELD_BATCH", 10)
    sizes = [4, 30, 5, 5, 6]
    trained: Any = [
        (torch.zeros(size, dtype=torch.float64 if i == 4 else torch.float32),
         held.ModelParameter(str(i), (size,)))
        for i, size in enumerate(sizes)
    ]  # fmt: skip
    found = [[own.name for own in batch.described] for batch in held.HeldStep(trained).batches]
    assert found == [["4"], ["3", "2"], ["1"], ["0"]]


@pytest.mark.usefixtures("alone")
def test_a_store_that_is_gone_is_a_lost_peer() -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    client = dist.TCPStore("127.0.0.1", store.port, is_master=False)
    model = wrapped()
    compression = ddp.attach(
        model, "natural", on_failure="continue", meeting=ddp.MeetingPlace(client), timeout=2.0
    )
    del store
    with pytest.raises(PeerError, match="the store of the members does not answer"):
        compression.close()
