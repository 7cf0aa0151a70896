"""Runs with local steps: ranks train alone, and their models are equal again after a round."""

import warnings
from pathlib import Path

import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

import fewbits.localsgd
from fewbits.train import checkpoint, references
from fewbits.train.exchange import Exchange, measured
from fewbits.train.settings import TrainSettings


def attach(
    net: nn.Module, optimizer: Optimizer, spec: str, settings: TrainSettings, saved: Path | None
) -> Exchange:
    """Rounds with the operator that `spec` names; `none` sends floats unchanged.

    If all ranks have `saved` a state, the rounds continue from it.
    """
    assert settings.local_steps is not None
    with warnings.catch_warnings(record=True) as caught:  # they belong beside the figures
        warnings.simplefilter("always")
        rounds = fewbits.localsgd.attach(
            net,
            "identity" if spec == references.PLAIN_DDP else spec,
            None if spec == references.PLAIN_DDP else settings.downlink,
            local_steps=settings.local_steps,
            outer=settings.outer or "sgd",
            feedback=None if spec == references.PLAIN_DDP else settings.feedback,
            collective=settings.collective,
            seed=settings.seed,
            threads=settings.threads,
        )
    warned = [str(warning.message) for warning in caught]
    own = f"optimizer-of-rank-{dist.get_rank()}.safetensors"
    if saved is not None:
        rounds.load(saved)
        checkpoint.read_optimizer(saved / own, optimizer)

    def save(folder: Path) -> None:
        rounds.save(folder)
        checkpoint.write_optimizer(folder / own, optimizer)

    return Exchange(
        lambda _: measured(rounds.report(), warned), rounds.close, save, rounds.step, rounds.sync
    )
