"""Local steps in a run: each rank's own model and optimizer, equal again when a round ends."""

import warnings
from pathlib import Path

import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

import fewbits.localsgd
from fewbits.train import checkpoint, references
from fewbits.train.exchange import Exchange, measured
from fewbits.train.settings import Settings


def attach(
    net: nn.Module, optimizer: Optimizer, spec: str, settings: Settings, saved: Path | None
) -> Exchange:
    """Rounds with the operator that `spec` names; `none` sends floats as they are.

    Goes on from what all ranks have `saved`, if they have.
    """
    assert settings.local_steps is not None
    with warnings.catch_warnings(record=True) as caught:  # they belong beside the figures
        warnings.simplefilter("always")
        rounds = fewbits.localsgd.attach(
            net,
            "identity" if spec == references.NONE else spec,
            None if spec == references.NONE else settings.master,
            local_steps=settings.local_steps,
            outer=settings.outer or "sgd",
            feedback=None if spec == references.NONE else settings.feedback,
            scheme=settings.scheme,
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
