"""The race's PowerSGD for ranks of one process is torch's hook."""

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from fewbits.train.references import PLAIN_STEPS
from fewbits_lab.studies.race.powersgd import PowerSgd

STEPS = 6


@pytest.fixture
def alone() -> Iterator[None]:
    """A process group of one rank."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def gradients(seed: int) -> list[torch.Tensor]:
    """Of a matrix and a vector, one for each step."""
    source = torch.Generator().manual_seed(seed)
    return [torch.randn(30 * 40 + 30, generator=source) for _ in range(STEPS)]


@pytest.mark.parametrize("rank", [1, 4])
def test_one_rank_gets_what_the_hook_gives(alone: None, rank: int) -> None:
    net = nn.Linear(40, 30)
    model = DistributedDataParallel(net)
    state = powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=rank, start_powerSGD_iter=PLAIN_STEPS
    )
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    ours = PowerSgd([(30, 40), (30,)], rank, 1)
    seen = set()
    for given in gradients(1):
        weight = given[:1200].view(30, 40)
        model.zero_grad()
        (model(torch.eye(40)) * weight.T).sum().backward()  # the weights' gradient is `weight`
        found = net.weight.grad
        assert found is not None
        assert net.bias.grad is not None
        told = torch.cat([weight.reshape(-1), weight.sum(1)])
        mean = ours.mean([told])
        torch.testing.assert_close(found.reshape(-1), mean[:1200], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(net.bias.grad, mean[1200:], rtol=1e-5, atol=1e-5)
        seen.add(float((found - weight).norm() / weight.norm()) > 0.3)
    assert seen == {False, True}  # exact at first, then of low rank


def test_what_ranks_lack_is_remembered() -> None:
    ours, given = PowerSgd([(30, 40), (30,)], 2, 3), [gradients(seed) for seed in range(3)]
    sent, whole = torch.zeros(1230), torch.zeros(1230)
    for step in range(STEPS):
        own = [each[step] for each in given]
        whole += sum(own) / 3
        sent += ours.mean(own)
    left = sum(ours.errors) / 3
    torch.testing.assert_close(sent + left, whole, rtol=1e-4, atol=1e-4)
    assert left[:1200].norm() > 1
    assert left[1200:].norm() < 1e-4
