"""The ranks of studies, which are threads of one process, end with the bits of real ones."""

import hashlib

import pytest
import torch
from launch import Launcher
from trained import SEED, train

from fewbits.train import data, models
from fewbits_lab.studies.local_sgd import run as study
from fewbits_lab.training import simulated

RANKS, BATCH = 2, 256
LOCAL_STEPS, LOCAL_OPERATOR = 4, "natural:coder=rans"


@pytest.mark.parametrize(
    ("operator", "memory"),
    [
        ("tiny", None),
        ("two-bit", None),
        pytest.param("top-k:fraction=0.01|natural", "ef14:momentum=0.9", marks=pytest.mark.soak),
    ],
)
def test_ranks_in_one_process_end_with_the_bits_of_ddp(
    launcher: Launcher, operator: str, memory: str | None
) -> None:
    torch.set_num_threads(1)
    dataset = data.load("digits")
    torch.manual_seed(SEED)
    net = models.build("cnn", dataset)
    momentum = 0.0 if memory else 0.9  # the feedback has it where it is given
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum)
    ranks = simulated.Ranks(net, RANKS, operator, feedback=memory, seed=SEED)
    for batch in data.order(SEED, 0, len(dataset.train.inputs), BATCH):
        shares = batch.reshape(RANKS, -1)
        mean = ranks.mean([simulated.gradient(net, dataset, own) for own in shares])
        simulated.step(net, optimizer, mean)
    ranks.close()
    state = hashlib.sha256()
    for parameter in net.parameters():
        state.update(parameter.detach().numpy().tobytes())
    given = ["--momentum", str(momentum), *(["--feedback", memory] if memory else [])]
    run = train(launcher, RANKS, "--operator", operator, *given, "--batch-size", str(BATCH))
    assert run["runs"][0]["parameters_sha256"] == state.hexdigest()


def simulated_sha256() -> str:
    """One epoch of digits on ranks that are threads; its last round is cut short."""
    torch.set_num_threads(1)
    dataset, nets = data.load("digits"), []
    for _ in range(RANKS):
        torch.manual_seed(SEED)
        nets.append(models.build("cnn", dataset))
    inner = [torch.optim.SGD(net.parameters(), 0.05, 0.9) for net in nets]
    ranks = simulated.Locals(
        nets, LOCAL_OPERATOR, local_steps=LOCAL_STEPS, outer="nesterov", seed=SEED
    )
    order = data.order(SEED, 0, len(dataset.train.inputs), BATCH)
    assert len(order) % LOCAL_STEPS
    for batch in order:
        for net, own, chosen in zip(nets, inner, batch.reshape(RANKS, -1), strict=True):
            study.local_step(net, own, dataset, chosen)
        ranks.step()
    ranks.sync()
    ranks.close()
    found: str = study.digest(nets[0])
    assert study.digest(nets[1]) == found
    return found


def test_local_ranks_in_one_process_end_with_the_bits_of_real_ones(launcher: Launcher) -> None:
    given = ["--local-steps", str(LOCAL_STEPS), "--outer", "nesterov", "--batch-size", str(BATCH)]
    (run,) = train(launcher, RANKS, "--operator", LOCAL_OPERATOR, *given)["runs"]
    assert run["replicas_agree"]
    assert run["parameters_sha256"] == simulated_sha256()
